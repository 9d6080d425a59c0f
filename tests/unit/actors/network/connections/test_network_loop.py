"""Who runs what is posted to a network loop: its thread, or, where threads help, whoever posts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from actors.network.connections.network_loop import DEEPEST_HELP, STEPS_OF_HELP, NetworkLoop

DEADLINE_S = 10.0


def new_loop(is_helped: bool, *rounds: Callable[[], bool]) -> NetworkLoop:
    def fail(error: BaseException) -> None:
        raise error

    return NetworkLoop(rounds, fail, is_helped)


class Letting:
    """A lock with which something happens just before it is let go."""

    def __init__(self, happens: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._happens: Callable[[], None] | None = happens

    def acquire(self, blocking: bool) -> bool:
        return self._lock.acquire(blocking)

    def release(self) -> None:
        happens, self._happens = self._happens, None
        if happens is not None:
            happens()
        self._lock.release()


@pytest.mark.parametrize("is_helped", [False, True])
def test_whoever_posts_runs_it_where_threads_help(is_helped: bool) -> None:
    seen: list[str] = []
    loop = new_loop(is_helped, lambda: bool(seen.append("round")))
    loop.post(lambda: seen.append("posted"))
    assert seen == (["posted", "round"] if is_helped else [])
    while loop.step():
        pass
    assert seen[:2] == ["posted", "round"]


def test_what_is_added_waits_for_help() -> None:
    seen: list[int] = []
    loop = new_loop(True)
    loop.add(lambda: seen.append(1))
    assert not seen
    loop.help()
    assert seen == [1]


def test_what_comes_while_a_thread_acts_is_run_by_that_thread() -> None:
    loop, seen = new_loop(True), list[int]()
    begun, may_end = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        assert may_end.wait(DEADLINE_S)

    acting = threading.Thread(target=loop.post, args=(slow,), daemon=True)
    acting.start()
    assert begun.wait(DEADLINE_S)
    loop.post(lambda: seen.append(threading.get_ident()))
    assert not seen
    assert not loop.step(), "it is not for the loop's thread either"
    may_end.set()
    acting.join(DEADLINE_S)
    assert seen == [acting.ident]


@pytest.mark.parametrize("acts", [lambda loop: loop.post(lambda: None), lambda loop: loop.step() and loop.step()])
def test_nothing_is_lost_that_comes_just_before_a_thread_lets_go(acts: Callable[[NetworkLoop], Any]) -> None:
    seen: list[int] = []
    loop = new_loop(True)
    loop._acting = Letting(lambda: loop.post(lambda: seen.append(1)))  # type: ignore[assignment]
    acts(loop)
    assert seen == [1]


def test_a_thread_that_helps_leaves_a_flood_to_the_loops_own() -> None:
    loop, runs = new_loop(True), [0]

    def again() -> None:
        runs[0] += 1
        loop.post(again)

    loop.post(again)
    assert 0 < runs[0] <= STEPS_OF_HELP
    before = runs[0]
    loop.wait(DEADLINE_S * 1000)  # for no time: the loop's thread has been told
    assert loop.step()
    assert runs[0] > before


def test_the_end_is_not_missed_while_a_thread_helps() -> None:
    loop = new_loop(True)

    def stop() -> None:
        loop.stop()
        loop.wait(DEADLINE_S * 1000)
        assert not loop.step(), "another thread is at it, so the loop's waits again"

    loop._acting = Letting(stop)  # type: ignore[assignment]
    loop.post(lambda: None)
    assert loop._signal.is_set()
    loop.step()
    assert loop.is_done


def test_help_does_not_go_through_all_slots_one_in_the_other() -> None:
    loops, seen = [new_loop(True) for _ in range(300)], list[int]()

    def visit(number: int) -> None:
        seen.append(number)
        if number + 1 < len(loops):
            loops[number + 1].post(lambda: visit(number + 1))

    for _ in range(2):
        loops[0].post(lambda: visit(0))
        assert seen == list(range(DEEPEST_HELP))
        seen.clear()
        assert loops[DEEPEST_HELP].step(), "its thread has been told, and goes on"
        assert seen[0] == DEEPEST_HELP
        for loop in loops:
            while loop.step():
                pass
        assert seen == list(range(DEEPEST_HELP, len(loops)))
        seen.clear()
