"""Timer queue and service, with the queue against a plain set."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.operators.time.timers import InternalTimerService, Timer, TimerQueue
from actors.state.snapshots.snapshot import OperatorSnapshot
from flinkray.types.records import MIN_TIMESTAMP, Timestamp
from tests.support.operators import FakeContext
from tests.support.state import restored_from


def drain(queue: TimerQueue, now: int) -> list[Timer]:
    return list(queue.due(now))


def test_timers_fire_by_timestamp_then_by_registration() -> None:
    queue = TimerQueue()
    for key, timestamp in (("b", 5), ("a", 5), ("c", 3), ("d", 9)):
        queue.register(key, timestamp)
    assert drain(queue, 5) == [Timer(3, "c"), Timer(5, "b"), Timer(5, "a")]
    assert queue.earliest() == 9


def test_a_timer_registered_twice_fires_once() -> None:
    queue = TimerQueue()
    assert queue.register("a", 5)
    assert not queue.register("a", 5)
    assert drain(queue, 5) == [Timer(5, "a")]


def test_a_deleted_timer_does_not_fire_and_can_be_registered_again() -> None:
    queue = TimerQueue()
    queue.register("a", 5)
    queue.register("b", 5)
    queue.delete("a", 5)
    queue.delete("a", 6)
    queue.register("a", 5)
    queue.check()
    assert drain(queue, 5) == [Timer(5, "b"), Timer(5, "a")]


def test_keys_need_no_order_among_each_other() -> None:
    queue = TimerQueue()
    for key in (None, "a", 1, (1, None)):
        queue.register(key, 5)
    assert [timer.key for timer in drain(queue, 5)] == [None, "a", 1, (1, None)]


def test_deleting_gives_memory_back() -> None:
    queue = TimerQueue()
    for number in range(10_000):
        queue.register(number, 5)
        queue.delete(number, 5)
    assert len(queue._heap) < 2_000
    queue.check()


@given(st.lists(st.tuples(st.sampled_from("rdp"), st.integers(0, 3), st.integers(0, 8)), max_size=80))
@settings(max_examples=200, deadline=None)
def test_the_queue_agrees_with_a_list(steps: list[tuple[str, int, int]]) -> None:
    queue, model = TimerQueue(), list[Timer]()
    for step, key, timestamp in steps:
        if step == "r" and Timer(timestamp, key) not in model:
            model.append(Timer(timestamp, key))
        if step == "r":
            queue.register(key, timestamp)
        elif step == "d":
            queue.delete(key, timestamp)
            model = [timer for timer in model if timer != Timer(timestamp, key)]
        else:
            due = sorted((timer for timer in model if timer.timestamp <= timestamp), key=lambda timer: timer.timestamp)
            assert drain(queue, timestamp) == due
            model = [timer for timer in model if timer.timestamp > timestamp]
        queue.check()
        assert sorted(queue.timers()) == sorted(model)


class Fired:
    """A service whose processing-time timers are written down."""

    def __init__(self) -> None:
        self.context = FakeContext()
        self.timers: list[Timer] = []
        self.then: Callable[[Timer], None] = lambda _timer: None
        self.service = InternalTimerService(self.context, self.fire)

    def fire(self) -> None:
        for timer in self.service.due_processing_timers():
            self.timers.append(timer)
            self.then(timer)

    def waiting(self) -> list[float]:
        return [timer.due_ms for timer in self.context.timers if not timer.is_cancelled]


@pytest.fixture
def fired() -> Fired:
    return Fired()


def test_event_time_timers_fire_when_the_watermark_reaches_them(fired: Fired) -> None:
    service = fired.service
    assert service.current_watermark == MIN_TIMESTAMP
    service.register_event_time_timer("a", 10)
    assert list(service.advance_watermark(Timestamp(9))) == []
    assert list(service.advance_watermark(Timestamp(10))) == [Timer(10, "a")]
    assert service.current_watermark == 10


def test_an_event_time_timer_for_the_past_fires_at_the_next_advance(fired: Fired) -> None:
    list(fired.service.advance_watermark(Timestamp(10)))
    fired.service.register_event_time_timer("a", 3)
    assert list(fired.service.advance_watermark(Timestamp(11))) == [Timer(3, "a")]


def test_a_timer_registered_by_a_timer_for_a_time_already_reached_fires_in_the_same_round(fired: Fired) -> None:
    fired.service.register_event_time_timer("a", 3)
    seen = []
    for timer in fired.service.advance_watermark(Timestamp(10)):
        seen.append(timer.timestamp)
        if timer.timestamp < 20:
            fired.service.register_event_time_timer("a", timer.timestamp + 3)
    assert seen == [3, 6, 9]


def test_processing_time_timers_fire_at_their_time_with_one_timer_of_the_host(fired: Fired) -> None:
    for timestamp in (50, 20, 30):
        fired.service.register_processing_time_timer("a", timestamp)
        fired.service.check()
    assert fired.waiting() == [20]
    fired.context.advance(19)
    assert fired.timers == []
    fired.context.advance(1)
    assert fired.timers == [Timer(20, "a")]
    assert fired.waiting() == [30]
    fired.context.advance(100)
    assert [timer.timestamp for timer in fired.timers] == [20, 30, 50]
    fired.service.check()


def test_deleting_the_earliest_processing_time_timer_sets_the_host_for_the_next(fired: Fired) -> None:
    fired.service.register_processing_time_timer("a", 20)
    fired.service.register_processing_time_timer("a", 30)
    fired.service.delete_processing_time_timer("a", 20)
    assert fired.waiting() == [30]
    fired.service.delete_processing_time_timer("a", 30)
    assert fired.waiting() == []


def test_a_processing_time_timer_for_the_past_fires_soon_but_not_inside_the_registration(fired: Fired) -> None:
    fired.context.clock.now = 100
    fired.service.register_processing_time_timer("a", 50)
    assert fired.timers == []
    fired.context.advance(0)
    assert fired.timers == [Timer(50, "a")]


def test_a_processing_time_timer_may_register_the_next_one(fired: Fired) -> None:
    fired.then = lambda timer: fired.service.register_processing_time_timer(timer.key, timer.timestamp + 10)
    fired.service.register_processing_time_timer("a", 10)
    fired.context.advance(35)
    assert [timer.timestamp for timer in fired.timers] == [10, 20, 30]
    fired.service.check()


def test_after_close_nothing_fires(fired: Fired) -> None:
    fired.service.register_processing_time_timer("a", 10)
    fired.service.close()
    fired.context.advance(100)
    assert fired.timers == []


def snapshot_of(fired: Fired) -> OperatorSnapshot:
    return OperatorSnapshot(fired.service.snapshot(range(128)))


def test_a_snapshot_restores_all_timers_in_order() -> None:
    first, second = Fired(), Fired()
    for timestamp in (7, 5):
        first.service.register_event_time_timer("a", timestamp, 3)
        first.service.register_processing_time_timer("b", timestamp, 4)
    second.service.restore(restored_from([snapshot_of(first)], range(128)))
    assert list(second.service.advance_watermark(Timestamp(9))) == [Timer(5, "a", 3), Timer(7, "a", 3)]
    second.context.advance(9)
    assert second.timers == [Timer(5, "b", 4), Timer(7, "b", 4)]
    second.service.check()


def test_a_snapshot_has_the_timers_of_its_moment_whenever_it_is_written() -> None:
    first, second = Fired(), Fired()
    first.service.register_event_time_timer("kept", 5)
    first.service.register_event_time_timer("deleted later", 6)
    snapshot = snapshot_of(first)
    first.service.delete_event_time_timer("deleted later", 6)
    first.service.register_event_time_timer("registered later", 7)
    second.service.restore(restored_from([snapshot], range(128)))
    fired = [timer.key for timer in second.service.advance_watermark(Timestamp(9))]
    assert fired == ["kept", "deleted later"]


def test_timers_go_to_the_subtask_that_owns_their_key_group() -> None:
    first = Fired()
    for group in range(128):
        first.service.register_processing_time_timer(("key", group), 5, group)
    snapshots = [snapshot_of(first)]
    for owned in (range(50), range(50, 128)):
        part = Fired()
        part.service.restore(restored_from(snapshots, owned, parallelism=2))
        part.context.advance(5)
        assert [timer.key_group for timer in part.timers] == list(owned)
