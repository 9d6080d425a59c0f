"""Turns: how many act at a time, in which order, and who does not wait for whom."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

import pytest

from actors.hosts.local import LocalHost
from actors.hosts.turns import Turns, usable_cores
from actors.protocol.ports import Address, Endpoint, EndpointContext, EndpointSpec
from tests.support.waiting import eventually

DEADLINE_S = 20.0


class Crowd:
    """Threads that take turns, and how many of them act."""

    def __init__(self, count: int) -> None:
        self.turns = Turns(count)
        self.together = threading.Barrier(count)
        self.lock = threading.Lock()
        self.acting = 0
        self.most = 0
        self.order: list[int] = []

    def act(self, number: int, together: threading.Barrier | None) -> None:
        with self.lock:
            self.acting += 1
            self.most = max(self.most, self.acting)
            self.order.append(number)
        if together is not None:
            together.wait(DEADLINE_S)
        threading.Event().wait(0.0005)
        with self.lock:
            self.acting -= 1

    def take_turns(self, number: int, pieces: int) -> None:
        """The first piece is at its end when as many act as may."""
        for piece in range(pieces):
            with self.turns:
                self.act(number, self.together if piece == 0 else None)


def together(*works: Callable[[], object]) -> None:
    """Runs each in a thread of its own; all must end."""
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + DEADLINE_S
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_no_more_act_than_have_a_turn_and_everybody_gets_one(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.hosts.turns._PATIENCE_S", DEADLINE_S)  # whatever else the machine does
    crowd = Crowd(count)
    together(*(lambda number=number: crowd.take_turns(number, 30) for number in range(6)))  # type: ignore[misc]
    assert crowd.most == count
    assert sorted(crowd.order) == sorted(list(range(6)) * 30)


def test_who_waits_is_not_overtaken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.hosts.turns._PATIENCE_S", DEADLINE_S)
    crowd = Crowd(1)

    def begin_in_order() -> None:
        with crowd.turns:
            for number in range(4):
                threading.Thread(target=crowd.take_turns, args=(number, 1), daemon=True).start()
                eventually(lambda: len(crowd.turns._waiting), lambda waiting, number=number: waiting == number + 1)  # type: ignore[misc]

    together(begin_in_order)
    eventually(lambda: len(crowd.order), lambda acted: acted == 4)
    assert crowd.order == [0, 1, 2, 3]


def test_who_waits_for_others_in_his_turn_does_not_hold_them_up() -> None:
    turns, has_acted = Turns(1), threading.Event()
    went_on: list[bool] = []

    def wait() -> None:
        with turns:
            assert has_acted.wait(DEADLINE_S)
            went_on.append(turns.may_go_on())  # another has it now

    def act() -> None:
        eventually(lambda: bool(turns._acting))
        with turns:
            has_acted.set()

    together(wait, act)
    assert went_on == [False]
    with turns:  # nothing was given back twice, or not at all
        assert len(turns._acting) == 1
    assert not turns._acting


def test_of_those_that_wait_only_one_looks_after_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.hosts.turns._PATIENCE_S", 0.001)
    turns, looked = Turns(1), []
    monkeypatch.setattr(turns, "_pass_over_waiting", lambda: looked.append(threading.get_ident()))

    def act() -> None:
        with turns:
            pass

    def hold() -> None:
        with turns:
            eventually(lambda: len(turns._waiting), lambda waiting: waiting == 8)
            looked.clear()
            eventually(lambda: len(looked), lambda looks: looks >= 20)
            assert len(set(looked)) == 1

    def begin() -> None:
        eventually(lambda: bool(turns._acting))
        act()

    together(hold, *[begin] * 8)


def test_somebody_looks_after_the_others_as_long_as_any_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.hosts.turns._PATIENCE_S", DEADLINE_S)  # until all wait
    turns, numbers = Turns(1), itertools.count()
    has_acted = [threading.Event() for _ in range(6)]

    def hold() -> None:
        with turns:
            eventually(lambda: len(turns._waiting), lambda waiting: waiting == 6)
            monkeypatch.setattr("actors.hosts.turns._PATIENCE_S", 0.01)

    def act() -> None:
        eventually(lambda: bool(turns._acting))
        with turns:
            number = next(numbers)
            assert has_acted[number + 1].wait(DEADLINE_S) if number < 5 else True
            has_acted[number].set()

    together(hold, *[act] * 6)


def test_a_turn_goes_on_while_nobody_waits_and_ends_soon_when_somebody_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.hosts.turns._PATIENCE_S", DEADLINE_S)
    turns = Turns(1)
    with turns:
        began = time.monotonic()
        while time.monotonic() - began < 0.05:
            assert turns.may_go_on()
        second = threading.Thread(target=lambda: turns.__enter__(), daemon=True)
        second.start()
        eventually(lambda: bool(turns._waiting))
        assert not turns.may_go_on()
    second.join(DEADLINE_S)
    assert list(turns._acting) == [second.ident]


def test_a_turn_ends_with_an_error() -> None:
    turns = Turns(1)
    with pytest.raises(ValueError, match="in a turn"), turns:
        raise ValueError("in a turn")
    assert not turns._acting


class Pair(Endpoint):
    """Two loops, of which the first has nothing to do before the second has acted, and waits for it within a step."""

    def __init__(self, context: EndpointContext, steps: list[str]) -> None:
        super().__init__(context)
        self.steps = steps

    def on_start(self) -> None:
        has_acted = threading.Event()
        for name, act in (("first", lambda: has_acted.wait(DEADLINE_S)), ("second", has_acted.set)):
            self.context.start_loop(name, Once(lambda name=name, act=act: self.run(name, act)), takes_turns=True)  # type: ignore[misc]

    def run(self, name: str, act: Callable[[], object]) -> None:
        act()
        self.steps.append(name)

    def on_message(self, message: object, payloads: object) -> None: ...


class Once:
    def __init__(self, act: Callable[[], None]) -> None:
        self.act = act
        self.is_done = False

    def step(self) -> bool:
        self.act()
        self.is_done = True
        return True

    def wait(self, timeout_ms: float | None) -> None:
        raise AssertionError("there is nothing to wait for")


def test_loops_in_one_process_take_turns_and_none_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.hosts.local.usable_cores", lambda: 1)
    host, steps = LocalHost(), []
    try:
        host.start(EndpointSpec(Address("pair"), Pair, (steps,)), spawner=None)
        eventually(lambda: len(steps), lambda ended: ended == 2)
    finally:
        host.shutdown()
    assert sorted(steps) == ["first", "second"]


def test_there_is_a_core() -> None:
    assert usable_cores() >= 1
