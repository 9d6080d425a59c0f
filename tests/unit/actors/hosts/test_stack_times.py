"""The times of a thread by its stacks, and the stacks themselves."""

from __future__ import annotations

from actors.hosts.stack_times import (
    MOST_FRAMES,
    MOST_STACKS,
    OTHERS,
    WINDOWS,
    StackTimes,
    shortened,
)
from actors.protocol.client_requests import StackTime


def test_times_of_equal_stacks_add_up_until_their_window_is_forgotten() -> None:
    times = StackTimes()
    times.add(("a", "b"), 20, 5)
    times.next_window()
    times.add(("a", "b"), 10, 10)
    times.add(("a",), 1, 30)
    assert times.total() == (StackTime(("a", "b"), 30, 15), StackTime(("a",), 1, 1)), (
        "no more on the processor than all"
    )
    for _ in range(WINDOWS - 1):
        times.next_window()
    assert times.total() == (StackTime(("a", "b"), 10, 10), StackTime(("a",), 1, 1))
    times.next_window()
    assert times.total() == ()


def test_a_thread_with_ever_new_stacks_takes_bounded_memory() -> None:
    times = StackTimes()
    for number in range(MOST_STACKS + 50):
        times.add((str(number),), 2, 1)
    assert len(times.total()) == MOST_STACKS + 1
    assert times.total()[-1] == StackTime((OTHERS,), 100, 50)


def test_of_a_deep_stack_both_ends_are_kept() -> None:
    frames = tuple(map(str, range(1_000)))
    short = shortened(frames)
    assert (short[0], short[-1], len(short)) == ("0", "999", MOST_FRAMES + 1)
    assert short[MOST_FRAMES // 2] == "(800 frames left out)"
    assert shortened(frames[:MOST_FRAMES]) == frames[:MOST_FRAMES]
