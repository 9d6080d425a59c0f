"""What can happen to endpoints in a simulation, and what they are told of it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from actors.hosts.simulation.confinement import ThreadInSimulationError
from actors.hosts.simulation.faults import Faults
from actors.hosts.simulation.host import SimulationError, SimulationHost
from actors.mailbox.processor import MailboxProcessor
from actors.protocol.ports import Address, Endpoint, EndpointSpec, Payloads
from tests.support.endpoints import Recorder, recorder

SEEDS = range(20)


def address(name: str) -> Address:
    return Address(name)


def seen(host: SimulationHost, name: str) -> list[Any]:
    return list(host.ask(address(name), "seen", 10_000))


class Counter(Recorder):
    """Says how often it was started, by what its argument has become."""

    def __init__(self, context: Any, lives: list[int]) -> None:
        super().__init__(context)
        lives.append(1)
        self._lives = lives

    def on_request(self, request: Any) -> Any:
        return len(self._lives) if request == "lives" else super().on_request(request)


class Watcher(Recorder):
    def on_start(self) -> None:
        super().on_start()
        self.context.spawn(EndpointSpec(address("child"), Counter, ([],), restarts=True))


def watched(seed: int, faults: Faults | None = None) -> SimulationHost:
    host = SimulationHost(seed, faults or Faults())
    host.spawn(EndpointSpec(address("watcher"), Watcher))
    host.run_until(lambda: bool(host.alive("Counter")))
    return host


@pytest.mark.parametrize("seed", SEEDS)
def test_one_that_restarts_begins_anew_under_its_address_and_is_watched_on(seed: int) -> None:
    host = watched(seed)
    for death in (1, 2):
        host.crash(address("child"))
        host.run_until(lambda: bool(host.alive("Counter")))
        host.run_for(1_000)
        assert seen(host, "watcher") == [("died", "child")] * death
        assert host.ask(address("child"), "lives", 1_000) == 1, "its arguments are those of its spec, not used ones"


def test_one_that_is_killed_does_not_restart_and_its_killer_hears_nothing() -> None:
    host = watched(1)
    host.tell(address("watcher"), ("kill", "child"))
    host.run_for(10_000)
    assert host.addresses() == {"watcher"}
    assert seen(host, "watcher") == []


@pytest.mark.parametrize("seed", SEEDS)
def test_of_one_that_dies_a_beginning_of_what_it_sent_arrives_and_then_the_notice(seed: int) -> None:
    host = SimulationHost(seed)
    for name in ("a", "b"):
        host.spawn(recorder(name))
    host.run_until(lambda: len(host.alive("Recorder")) == 2)
    host.tell(address("b"), ("watch", "a"))
    host.run_for(1_000)
    host.tell(address("a"), ("send numbers", "b", 12))
    host.run_until(lambda: host.delivered["tuple"] >= 1 + seed % 8)
    host.crash(address("a"))
    host.run_for(5_000)
    got = seen(host, "b")
    assert got[-1] == ("died", "a")
    assert got[:-1] == [("number", number) for number in range(len(got) - 1)]


def test_messages_between_pairs_overtake_each_other_and_within_a_pair_do_not() -> None:
    orders = set()
    for seed in SEEDS:
        host = SimulationHost(seed)
        for name in ("a", "b", "c"):
            host.spawn(recorder(name))
        host.run_until(lambda host=host: len(host.alive("Recorder")) == 3)
        for name in ("a", "b"):
            for number in range(20):
                host.tell(address(name), ("forward", "c", (name, number)))
        host.run_for(5_000)
        got = seen(host, "c")
        assert [number for name, number in got if name == "a"] == list(range(20))
        assert [number for name, number in got if name == "b"] == list(range(20))
        orders.add(tuple(name for name, _ in got))
    assert len(orders) > len(SEEDS) / 2


def test_a_message_to_one_that_died_comes_back() -> None:
    host = SimulationHost(3)
    for name in ("a", "b"):
        host.spawn(recorder(name))
    host.run_until(lambda: len(host.alive("Recorder")) == 2)
    host.tell(address("a"), ("forward", "b", "lost"))
    host.crash(address("b"))
    host.run_for(2_000)
    assert seen(host, "a") == [("undelivered", "b", "lost")]


def test_a_message_whose_payload_is_lost_comes_back_and_the_next_arrives() -> None:
    host = SimulationHost(3, Faults(payload_loss=1.0, limit=1))
    for name in ("a", "b"):
        host.spawn(recorder(name))
    for rows in (10, 20):
        host.tell(address("a"), ("send rows", "b", rows))
    host.run_for(2_000)
    assert seen(host, "b") == [("rows", 20, 19)]
    assert [failed[2] for failed in seen(host, "a")] == [("rows", 10)]
    assert len(host.plan.happened) == 1


def test_one_that_pauses_does_nothing_and_then_goes_on() -> None:
    host = SimulationHost(4)
    host.spawn(recorder("a"))
    host.tell(address("a"), ("later", 50, "timer"))
    host.run_for(20)
    host.run_until(lambda: bool(host.alive("Recorder")))
    host.pause(address("a"), 3_000)
    host.tell(address("a"), "meanwhile")
    recorded = host.endpoint(address("a")).seen
    host.run_for(2_900)
    assert recorded == []
    host.run_for(300)
    assert sorted(recorded) == ["meanwhile", "timer"]


@pytest.mark.parametrize("seed", SEEDS)
def test_one_that_dies_with_its_spawner_does_a_little_later(seed: int) -> None:
    host = SimulationHost(seed)
    host.spawn(recorder("a"))
    host.tell(address("a"), ("spawn", recorder("child", dies_with_spawner=True, node_of="a")))
    host.run_until(lambda: len(host.alive("Recorder")) == 2)
    host.crash(address("a"))
    host.run_for(1_000)
    assert host.addresses() == frozenset()


def test_a_node_dies_as_one() -> None:
    host = SimulationHost(5)
    host.spawn(recorder("a"))
    host.tell(address("a"), ("spawn", recorder("child", node_of="a")))
    host.tell(address("a"), ("spawn", recorder("elsewhere")))
    host.run_until(lambda: len(host.alive("Recorder")) == 3)
    host.crash_node(address("a"))
    assert host.addresses() == {"elsewhere"}


def test_an_endpoint_that_raises_stops_the_simulation_with_its_last_steps() -> None:
    host = SimulationHost(6)
    host.spawn(recorder("a"))
    host.tell(address("a"), ("fail",))
    with pytest.raises(SimulationError, match=r"seed 6: a raised RuntimeError(.|\n)*client -> a: tuple"):
        host.run_for(1_000)
    with pytest.raises(SimulationError):
        host.step()


class Inconsistent(Recorder):
    def check(self) -> None:
        assert len(self.seen) < 3, "too much seen"


def test_every_step_of_an_endpoint_is_checked() -> None:
    host = SimulationHost(7)
    host.spawn(EndpointSpec(address("a"), Inconsistent))
    for number in range(3):
        host.tell(address("a"), number)
    with pytest.raises(SimulationError, match="a is not as it must be: too much seen"):
        host.run_for(1_000)


def test_a_wait_for_what_never_comes_fails_with_a_picture_of_who_waits() -> None:
    host = SimulationHost(8)
    host.spawn(recorder("a"))
    with pytest.raises(SimulationError, match=r"nothing can happen any more(.|\n)*a \(Recorder\): running"):
        host.run_until(lambda: False)


class Threading(Endpoint):
    def on_message(self, message: Any, payloads: Payloads) -> None:
        threading.Thread(target=print, name="reader").start()


def test_a_thread_is_refused_with_a_way_out() -> None:
    host = SimulationHost(9)
    host.spawn(EndpointSpec(address("a"), Threading))
    host.tell(address("a"), "go")
    with pytest.raises(SimulationError, match="'reader' cannot be started in a simulation") as caught:
        host.run_for(1_000)
    assert isinstance(caught.value.__cause__, ThreadInSimulationError)
    assert threading.Thread.start.__qualname__ == "Thread.start"


class Yielding(Recorder):
    """A loop whose default action waits for a mail that a timer brings."""

    def on_start(self) -> None:
        super().on_start()
        self.processor = MailboxProcessor(self._act, self.seen.append)
        self.context.start_loop("task", self.processor)

    def _act(self) -> None:
        executor = self.processor.main_executor
        self.context.timers.call_later(500, lambda: executor.execute(lambda: self.seen.append("mail"), "a mail"))
        executor.yield_()
        self.seen.append("after it")
        self.processor.all_actions_completed()


@pytest.mark.parametrize("seed", SEEDS)
def test_others_act_while_a_task_waits_in_the_middle_of_a_mail(seed: int) -> None:
    host = SimulationHost(seed)
    host.spawn(EndpointSpec(address("a"), Yielding))
    host.tell(address("a"), "meanwhile")
    host.run_for(2_000)
    assert seen(host, "a") == ["meanwhile", "mail", "after it"]


def test_a_task_whose_process_dies_while_it_waits_is_unwound() -> None:
    host = SimulationHost(10)
    host.spawn(EndpointSpec(address("a"), Yielding))
    host.run_until(lambda: bool(host.alive("Yielding")))
    recorded = host.endpoint(address("a")).seen
    host.tell(address("a"), ("kill", "a"))
    host.run_for(2_000)
    assert "after it" not in recorded
    assert host.addresses() == frozenset()
