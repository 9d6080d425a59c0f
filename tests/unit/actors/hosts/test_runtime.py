"""Rules of an endpoint's end, on threads: nothing waits for what is gone, and nothing is left of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from actors.hosts import runtime
from actors.hosts.local import LocalHost
from actors.hosts.runtime import ThreadTimers
from actors.protocol.ports import (
    Address,
    Endpoint,
    EndpointContext,
    EndpointDied,
    EndpointGone,
    EndpointSpec,
    Payloads,
)
from tests.support.waiting import eventually

DEADLINE_S = 10.0


class Scripted(Endpoint):
    """Does what a message says, where it is a function of itself; answers with the messages that are not."""

    def on_start(self) -> None:
        self.heard: list[Any] = []

    def on_message(self, message: Any, payloads: Payloads) -> None:
        if callable(message):
            message(self)
        else:
            self.heard.append(message)

    def on_request(self, request: Any) -> Any:
        return list(self.heard)


def scripted(address: str, **options: Any) -> EndpointSpec:
    return EndpointSpec(Address(address), Scripted, **options)


@pytest.fixture
def host() -> Iterator[LocalHost]:
    before = set(threading.enumerate())
    host = LocalHost()
    yield host
    host.shutdown()
    assert host.addresses() == frozenset()
    assert set(threading.enumerate()) <= before


class Held:
    """An endpoint that is in the middle of a message until it is let go."""

    def __init__(self, host: LocalHost, address: str, then: Callable[[Scripted], None] = lambda _: None) -> None:
        self._entered = threading.Event()
        self._go = threading.Event()

        def hold(endpoint: Scripted) -> None:
            self._entered.set()
            assert self._go.wait(DEADLINE_S)
            then(endpoint)

        host.spawn(scripted(address))
        host.tell(Address(address), hold)
        assert self._entered.wait(DEADLINE_S)

    def let_go(self) -> None:
        self._go.set()


@contextmanager
def later(act: Callable[[], None]) -> Iterator[None]:
    """Has something happen while the block is under way; its thread has ended after it."""
    timer = threading.Timer(0.05, act)
    timer.start()
    yield
    timer.join(DEADLINE_S)


def test_a_request_that_waits_when_its_endpoint_ends_is_told_so_at_once(host: LocalHost) -> None:
    held = Held(host, "a")
    answers: list[BaseException | Any] = []

    def ask() -> None:
        try:
            answers.append(host.ask(Address("a"), "who", DEADLINE_S * 1000))
        except BaseException as error:
            answers.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    runtime = host._runtime(Address("a"))
    eventually(lambda: runtime._inbox.qsize(), lambda waiting: waiting == 1)
    host.kill(Address("a"))
    held.let_go()
    asking.join(DEADLINE_S / 2)
    assert isinstance(answers[0], EndpointGone)


def test_an_endpoint_that_was_ended_in_the_middle_of_a_message_starts_no_other(host: LocalHost) -> None:
    spec = scripted("child", dies_with_spawner=True, node_of=Address("parent"))
    held = Held(host, "parent", lambda endpoint: endpoint.context.spawn(spec))
    host.kill(Address("parent"))
    held.let_go()
    host.shutdown()
    assert host.addresses() == frozenset(), "nobody is left who could end the child"


def test_nothing_comes_from_an_endpoint_after_the_notice_of_its_death(host: LocalHost) -> None:
    watcher = Address("watcher")
    host.spawn(scripted(watcher))
    host.spawn(scripted("a"))
    host.tell(watcher, lambda endpoint: endpoint.context.watch(Address("a")))
    entered, go, left = threading.Event(), threading.Event(), threading.Event()

    def say(endpoint: Scripted) -> None:
        endpoint.context.tell(watcher, "before")
        entered.set()
        assert go.wait(DEADLINE_S)
        endpoint.context.tell(watcher, "after")
        left.set()

    host.ask(watcher, "heard", DEADLINE_S * 1000)  # it watches from here on
    host.tell(Address("a"), say)
    assert entered.wait(DEADLINE_S)
    host.kill(Address("a"))
    go.set()
    assert left.wait(DEADLINE_S)
    heard = host.ask(watcher, "heard", DEADLINE_S * 1000)
    assert heard == ["before", EndpointDied(Address("a"), "killed by the client")]


def test_shutdown_waits_for_endpoints_that_had_ended_before(host: LocalHost) -> None:
    held = Held(host, "a")
    host.kill(Address("a"))
    with later(held.let_go):
        host.shutdown()
    assert not [thread for thread in threading.enumerate() if thread.name == "a"]


def test_blocking_work_is_over_after_shutdown_and_may_begin_while_its_endpoint_ends(host: LocalHost) -> None:
    finished = threading.Event()

    def work() -> None:
        assert begun.wait(DEADLINE_S)
        finished.set()

    begun = threading.Event()
    held = Held(host, "a", lambda endpoint: endpoint.context.run_blocking(work, lambda _result, _error: "done"))
    host.kill(Address("a"))
    held.let_go()
    with later(begun.set):
        host.shutdown()
    assert finished.is_set()


def test_a_second_endpoint_of_one_address_is_refused_and_leaves_no_thread(host: LocalHost) -> None:
    host.spawn(scripted("a"))
    threads = set(threading.enumerate())
    with pytest.raises(ValueError, match="exists already"):
        host.spawn(scripted("a"))
    assert set(threading.enumerate()) <= threads


def test_loops_of_several_threads_are_all_waited_for(host: LocalHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "LOOP_GRACE_S", 0.1)  # these loops do not end by themselves
    contexts: list[EndpointContext] = []
    host.spawn(scripted("a"))
    host.tell(Address("a"), lambda endpoint: contexts.append(endpoint.context))
    context = eventually(lambda: contexts)[0]
    starters = [threading.Thread(target=lambda: context.start_loop("loop", Waiting())) for _ in range(20)]
    for starter in starters:
        starter.start()
    for starter in starters:
        starter.join()
    host.shutdown()
    assert not [thread for thread in threading.enumerate() if thread.name == "a loop"]


class Waiting:
    """A loop without work."""

    is_done = False

    def step(self) -> bool:
        return False

    def wait(self, timeout_ms: float | None) -> None:
        threading.Event().wait(0.01)


def test_a_timer_for_the_end_of_time_leaves_the_others_to_fire() -> None:
    timers = ThreadTimers("test")
    fired = threading.Event()
    timers.call_later(2.0**63, fired.clear)
    timers.call_later(20, fired.set)
    assert fired.wait(10)
    timers.close()


def test_timers_that_are_closed_neither_fire_nor_hold_what_they_were_given() -> None:
    import weakref

    timers = ThreadTimers("test")
    fired = threading.Event()
    timers.call_later(0, fired.set)
    assert fired.wait(DEADLINE_S)
    timers.call_later(60_000, lambda: None)
    timers.close()

    class Callback:
        def __call__(self) -> None:
            raise AssertionError("fired after the end")

    callback = Callback()
    held = weakref.ref(callback)
    timer = timers.call_later(0, callback)
    del callback, timer
    assert held() is None


class Taking(Scripted):
    """Takes numbers where they arrive, and tells `b` of each after that. Starts when it is let."""

    def __init__(self, context: EndpointContext, may_start: threading.Event) -> None:
        super().__init__(context)
        self.may_start = may_start

    def on_start(self) -> None:
        super().on_start()
        assert self.may_start.wait(DEADLINE_S)
        self.taken: list[tuple[int, str]] = []

    def on_arrival(self, message: Any, payloads: Payloads) -> bool:
        if not isinstance(message, int):
            return False
        self.taken.append((message, threading.current_thread().name))
        return True

    def after_arrival(self) -> None:
        self.context.tell(Address("b"), ("after", len(self.taken), threading.current_thread().name))

    def on_request(self, request: Any) -> Any:
        return list(self.heard), list(self.taken)


def test_what_an_endpoint_takes_where_it_arrives_keeps_its_order_from_before_the_start_on(host: LocalHost) -> None:
    may_start = threading.Event()
    host.spawn(scripted("b"))  # or "a" would hear that there is none, sooner or later
    host.spawn(EndpointSpec(Address("a"), Taking, (may_start,)))
    for message in (1, "x", 2, "y"):
        host.tell(Address("a"), message)
    may_start.set()
    for message in (3, "z", 4):
        host.tell(Address("a"), message)
    heard, taken = host.ask(Address("a"), "seen", 10_000.0)
    assert heard == ["x", "y", "z"]
    assert [message for message, _ in taken] == [1, 2, 3, 4]


def test_who_brings_what_an_endpoint_takes_goes_on_there_holding_no_lock_of_the_hosts(host: LocalHost) -> None:
    may_start, was_told = threading.Event(), threading.Event()
    host.spawn(scripted("b"))
    host.spawn(EndpointSpec(Address("a"), Taking, (may_start,)))

    def tell(number: int) -> Callable[[Scripted], None]:
        def act(endpoint: Scripted) -> None:
            endpoint.context.tell(Address("a"), number)
            was_told.set()

        return act

    host.spawn(scripted("c"))
    host.tell(Address("c"), tell(1))
    assert was_told.wait(DEADLINE_S)
    may_start.set()  # what came before the start it takes itself
    host.ask(Address("a"), "seen", 10_000.0)
    host.tell(Address("c"), tell(2))
    eventually(lambda: len(host.ask(Address("b"), "seen", 10_000.0)) == 2)
    assert host.ask(Address("b"), "seen", 10_000.0) == [("after", 1, "a"), ("after", 2, "c")]


def test_what_an_endpoint_takes_where_it_arrives_waits_for_nothing_of_its_thread(host: LocalHost) -> None:
    may_start = threading.Event()
    may_start.set()
    host.spawn(EndpointSpec(Address("a"), Taking, (may_start,)))
    host.ask(Address("a"), "seen", 10_000.0)
    taken: list[tuple[int, str]] = []
    done, go_on = threading.Event(), threading.Event()

    def hold(endpoint: Any) -> None:
        done.set()
        assert go_on.wait(DEADLINE_S)
        taken.extend(endpoint.taken)

    host.tell(Address("a"), hold)
    assert done.wait(DEADLINE_S)
    host.tell(Address("a"), 7)
    go_on.set()
    host.ask(Address("a"), "seen", 10_000.0)
    assert taken == [(7, threading.current_thread().name)]


def test_who_has_ended_is_not_kept_by_those_that_it_watched(host: LocalHost) -> None:
    host.spawn(scripted("watched"))
    for number in range(3):
        watcher = Address(f"watcher-{number}")
        host.spawn(scripted(watcher))
        host.tell(watcher, lambda endpoint: endpoint.context.watch(Address("watched")))
        host.ask(watcher, "what it has heard", DEADLINE_S * 1000)
        assert len(host._endpoints[Address("watched")].watchers) == 1
        host.kill(watcher)
    assert not host._endpoints[Address("watched")].watchers


def test_an_endpoint_that_cannot_go_on_ends_whatever_the_log_does_with_its_error(host: LocalHost) -> None:
    class Refusing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("no more room")

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def fail(_: Scripted) -> None:
        raise Mute

    refusing = Refusing()
    runtime.log.addHandler(refusing)
    try:
        host.spawn(scripted("a"))
        host.tell(Address("a"), fail)
        eventually(host.addresses, lambda living: not living, DEADLINE_S)
    finally:
        runtime.log.removeHandler(refusing)
