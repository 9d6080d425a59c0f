"""The operator of asynchronous calls: order, time, retries and state, with outcomes that the test decides."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from typing import Any

import pytest

from actors.protocol.elements import CheckpointOptions, LatencyMarker, StopMode, Watermark, WatermarkStatus
from flinkray.batches.batch import Batch
from flinkray.errors import TypeMismatchError, UserFunctionError
from flinkray.functions.asynchronous import AsyncRetryStrategy, empty_result_predicate, exception_type_predicate
from flinkray.types.rows import Row
from tests.support.async_calls import HeldOperator, Lookup, Strict, restored
from tests.support.operators import ManualClock, RecordedOutput, decode


def elements(held: HeldOperator) -> list[Any]:
    """What came out: rows, watermarks and statuses, in order."""
    found: list[Any] = []
    for element in held.output.elements:
        found += [element.timestamp] if isinstance(element, Watermark) else [element]
    return [row for each in found for row in (decode(each) if hasattr(each, "num_rows") else [each])]


# -- order -------------------------------------------------------------------------------------------------------


def test_ordered_results_come_in_the_order_of_their_rows_with_their_times() -> None:
    with HeldOperator() as held:
        held.push(1, 2, 3, times=[10, 20, 30])
        held.give(3)
        held.give(2, "b", "bb")
        assert held.rows == []
        held.give(1)
        assert held.rows == ["r1", "b", "bb", "r3"]
        assert held.output.timestamps == [10, 20, 20, 30]


def test_unordered_results_come_at_once_but_not_across_a_watermark() -> None:
    with HeldOperator(is_ordered=False) as held:
        held.push(1, 2)
        held.harness.watermark(5)
        held.push(3)
        held.give(3)
        held.give(2)
        assert elements(held) == ["r2"]
        held.give(1)
        assert elements(held) == ["r2", "r1", 5, "r3"]


@pytest.mark.parametrize("is_ordered", [False, True])
def test_watermarks_and_statuses_keep_their_place_and_latency_markers_pass_by(is_ordered: bool) -> None:
    marker = LatencyMarker(0, "source", 0)
    with HeldOperator(is_ordered=is_ordered, capacity=1) as held:
        held.push(1, 2)  # the second waits for a place
        held.harness.watermark(7)
        held.harness.status(is_idle=True)
        held.operator.process_latency_marker(marker)
        assert elements(held) == [marker]
        held.give(1)
        assert elements(held) == [marker, "r1"]
        held.give(2)
        assert elements(held) == [marker, "r1", "r2", 7, WatermarkStatus(True)]
        held.harness.status(is_idle=False)
        assert elements(held)[-1] == WatermarkStatus(False)


def test_a_row_may_have_no_results() -> None:
    with HeldOperator() as held:
        held.push(1, 2)
        held.calls._deliver(held.calls.made[0], [], None)
        held.give(2)
        assert held.rows == ["r2"]


def test_results_that_come_together_are_one_batch() -> None:
    with HeldOperator() as held:
        held.push(*range(5))
        for value in range(5):
            held.calls.give(value, value)
        assert len(held.context.mails) == 1
        held.context.run_mails()
        assert [batch.num_rows for batch in held.output.batches] == [5]


# -- capacity ----------------------------------------------------------------------------------------------------


def test_no_more_input_is_wanted_while_rows_wait_for_a_place() -> None:
    with HeldOperator(capacity=2) as held:
        held.push(1, 2)
        assert held.operator.is_available
        held.push(3, 4)
        assert not held.operator.is_available
        assert held.calls.values == [1, 2]
        held.give(1)
        assert held.calls.values == [1, 2, 3]
        assert not held.operator.is_available
        held.give(2)
        assert held.calls.values == [1, 2, 3, 4]
        assert held.operator.is_available


def test_rows_are_held_from_when_they_come_until_their_results_leave() -> None:
    with HeldOperator(capacity=2) as held:
        counted = held.operator.held_rows
        held.push(1, 2, 3)
        held.context.clock.advance(50)
        assert (counted.rows, counted.total_ms) == (3, 50)
        held.give(2)
        assert counted.rows == 3  # its results wait for those of the first row
        held.give(1)
        assert counted.rows == 1
        held.context.clock.advance(10)
        held.give(3)
        held.context.clock.advance(1_000)
        assert (counted.rows, counted.total_ms) == (0, 60)


class SlowOutput(RecordedOutput):
    """Of an operator before another one that takes 50 ms for a row."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()

    def emit(self, batch: Batch) -> None:
        self.clock.advance(50 * batch.num_rows)
        super().emit(batch)


@pytest.mark.parametrize("is_ordered", [True, False])
def test_between_results_that_take_the_operators_behind_long_the_mailbox_is_looked_at(is_ordered: bool) -> None:
    output = SlowOutput()
    with HeldOperator(capacity=300, is_ordered=is_ordered, output=output) as held:
        output.clock = held.context.clock
        held.push(*range(300))
        held.harness.watermark(7)
        for value in range(300):
            held.calls.give(value, f"r{value}")
        pieces = []
        while held.context.mails:
            before = len(held.rows)
            held.context.mails.popleft()()
            pieces.append(len(held.rows) - before)
            held.operator._queue.check()
        assert pieces[0] <= 64  # before anybody knows how long they take
        assert max(pieces[1:]) <= 4
        assert held.rows == [f"r{value}" for value in range(300)]
        assert held.output.watermarks == [7]


@pytest.mark.parametrize("is_ordered", [True, False])
def test_at_the_end_of_the_input_all_results_go_on_in_whatever_pieces(is_ordered: bool) -> None:
    output = SlowOutput()
    with HeldOperator(capacity=500, is_ordered=is_ordered, output=output) as held:
        output.clock = held.context.clock
        held.push(*range(500))
        held.harness.watermark(7)
        for value in range(500):
            held.calls.give(value, f"r{value}")
        held.harness.end()
        assert len(held.rows) == 500
        assert held.output.watermarks == [7]


def test_a_row_that_waits_for_its_next_attempt_keeps_its_place() -> None:
    retry = AsyncRetryStrategy.fixed_delay(1, 100, empty_result_predicate, None)
    with HeldOperator(capacity=1, retry=retry) as held:
        held.push(1, 2)
        held.calls._deliver(held.calls.made[0], [], None)
        held.context.run_mails()
        assert held.calls.values == [1]
        held.harness.advance(100)
        held.give(1)
        assert held.calls.values == [1, 1, 2]


# -- timeouts ----------------------------------------------------------------------------------------------------


def test_a_row_that_takes_too_long_is_cancelled_and_gets_the_results_of_timeout() -> None:
    with HeldOperator(timeout_ms=100) as held:
        held.push(1, 2)
        held.harness.advance(50)
        held.push(3)
        held.give(1)
        held.harness.advance(49)
        assert held.rows == ["r1"]
        held.harness.advance(1)
        assert (held.rows, held.calls.cancelled) == (["r1", "late 2"], [2])
        held.give(2)  # ignored
        held.harness.advance(49)
        assert held.rows == ["r1", "late 2"]
        held.harness.advance(1)
        assert held.rows == ["r1", "late 2", "late 3"]
        assert held.context.metrics.counters["async_timeouts"] == 2


def test_a_row_gets_its_time_when_it_is_called_with_not_when_it_comes() -> None:
    with HeldOperator(timeout_ms=100, capacity=1) as held:
        held.push(1, 2)
        held.harness.advance(90)
        held.give(1)
        held.harness.advance(99)
        assert held.rows == ["r1"]
        held.harness.advance(1)
        assert held.rows == ["r1", "late 2"]


def test_without_results_in_its_place_a_late_row_fails_the_job_by_name() -> None:
    with HeldOperator(Strict(), timeout_ms=100, subtask_index=1, parallelism=3) as held:
        held.push("key-7")
        with pytest.raises(
            UserFunctionError, match=r"'lookup' \(subtask 2 of 3\): no result within 100 ms.*timeout.*'key-7'"
        ):
            held.harness.advance(100)


def test_a_result_that_came_before_the_timeout_was_noticed_counts() -> None:
    with HeldOperator(timeout_ms=100) as held:
        held.push(1)
        held.context.clock.now += 500
        held.calls.give(1, "in time")
        (timer,) = held.context.timers
        timer.mail()
        assert held.rows == ["in time"]


def test_no_timeout_is_no_limit() -> None:
    with HeldOperator(timeout_ms=0) as held:
        held.push(1)
        held.harness.advance(10**9)
        assert held.context.timers == []
        held.give(1)
        assert held.rows == ["r1"]


class Wrong(Lookup):
    def timeout(self, value: Any) -> Any:
        return "no list"


class Raising(Lookup):
    def timeout(self, value: Any) -> Any:
        raise KeyError(value)


def test_timeout_must_give_a_list() -> None:
    with HeldOperator(Wrong(), timeout_ms=1) as held:
        held.push(1)
        with pytest.raises(TypeMismatchError, match=r"operator 'lookup' .*must return a list"):
            held.harness.advance(1)


def test_an_error_of_timeout_is_the_users_own() -> None:
    with HeldOperator(Raising(), timeout_ms=1) as held:
        held.push(1)
        with pytest.raises(UserFunctionError, match="KeyError: 1"):
            held.harness.advance(1)


# -- errors and retries ------------------------------------------------------------------------------------------


def test_an_error_fails_the_job_with_the_users_traceback() -> None:
    with HeldOperator() as held:
        held.push(1)
        with pytest.raises(
            UserFunctionError, match=r"'lookup' \(subtask 1 of 1\): OSError: gone; the value was 1"
        ) as caught:
            held.fail(1, OSError("gone"))
        assert isinstance(caught.value.__cause__, OSError)


def test_what_ends_an_interpreter_ends_the_task_only() -> None:
    with HeldOperator() as held:
        held.push(1)
        with pytest.raises(UserFunctionError, match="SystemExit: 3"):
            held.fail(1, SystemExit(3))


def test_an_error_that_is_to_be_retried_is_until_the_attempts_are_over() -> None:
    is_os_error = partial(exception_type_predicate, expected_error_type=OSError)
    with HeldOperator(retry=AsyncRetryStrategy.fixed_delay(2, 10, None, is_os_error)) as held:
        held.push(1)
        held.fail(1, OSError())
        held.harness.advance(9)
        assert held.calls.values == [1]
        held.harness.advance(1)
        assert held.calls.values == [1, 1]
        held.fail(1, OSError())
        held.harness.advance(10)
        assert held.calls.values == [1, 1, 1]
        with pytest.raises(UserFunctionError, match=r"(?s)OSError: the last.*attempt 3, the last one"):
            held.fail(1, OSError("the last"))
        assert held.context.metrics.counters["async_retries"] == 2


def test_an_error_of_another_kind_is_not_retried() -> None:
    is_os_error = partial(exception_type_predicate, expected_error_type=OSError)
    with HeldOperator(retry=AsyncRetryStrategy.fixed_delay(2, 10, None, is_os_error)) as held:
        held.push(1)
        with pytest.raises(UserFunctionError, match="ValueError"):
            held.fail(1, ValueError())


def test_results_that_are_not_accepted_after_the_last_attempt_are_taken_as_they_are() -> None:
    retry = AsyncRetryStrategy.exponential_backoff(2, 10, 1_000, 3.0, lambda results: results == ["stale"], None)
    with HeldOperator(retry=retry) as held:
        held.push(1)
        held.give(1, "stale")
        held.harness.advance(10)
        held.give(1, "stale")
        held.harness.advance(29)
        assert len(held.calls.made) == 2
        held.harness.advance(1)
        held.give(1, "stale")
        assert held.rows == ["stale"]


def test_the_timeout_is_for_all_attempts_together() -> None:
    retry = AsyncRetryStrategy.fixed_delay(1_000, 30, empty_result_predicate, None)
    with HeldOperator(retry=retry, timeout_ms=100) as held:
        held.push(1)
        for _ in range(4):
            held.calls._deliver(held.calls.made[-1], [], None)
            held.harness.advance(30)
        assert held.rows == ["late 1"]
        made = len(held.calls.made)
        held.harness.advance(1_000)
        assert (len(held.calls.made), held.rows) == (made, ["late 1"])


def test_an_outcome_of_an_attempt_that_is_over_is_ignored() -> None:
    retry = AsyncRetryStrategy.fixed_delay(5, 10, empty_result_predicate, None)
    with HeldOperator(retry=retry) as held:
        held.push(1)
        (first,) = held.calls.made
        held.calls._deliver(first, [], None)
        held.calls._deliver(first, ["twice"], None)
        held.harness.advance(10)
        held.calls._deliver(first, ["thrice"], None)
        held.give(1, "right")
        assert held.rows == ["right"]


def test_an_error_of_a_predicate_is_the_users_own() -> None:
    retry = AsyncRetryStrategy.fixed_delay(5, 10, lambda results: results[7], None)
    with HeldOperator(retry=retry) as held:
        held.push(1)
        with pytest.raises(UserFunctionError, match="IndexError"):
            held.give(1)


def test_the_function_gets_a_copy_so_that_the_next_attempt_sees_the_row_as_it_came() -> None:
    retry = AsyncRetryStrategy.fixed_delay(1, 10, None, lambda _: True)
    with HeldOperator(retry=retry) as held:
        held.push(Row(n=1, tags=["a"]))
        (call,) = held.calls.made
        call.value.tags.append("b")
        held.calls._deliver(call, None, OSError())
        held.harness.advance(10)
        assert held.calls.made[1].value.tags == ["a"]
        assert rows_of(held) == [Row(n=1, tags=["a"])]


# -- the end -----------------------------------------------------------------------------------------------------


def test_the_input_has_ended_once_all_results_are_there_and_the_last_watermark_behind_them() -> None:
    with HeldOperator(capacity=1) as held:
        held.push(1, 2)
        held.harness.watermark(9)
        held.calls.give(1, "a")
        held.context.mails.append(lambda: held.calls.give(2, "b"))
        held.harness.end()
        assert elements(held) == ["a", "b", 9]


def test_timeouts_end_what_would_never_come_while_the_input_ends() -> None:
    with HeldOperator(timeout_ms=50) as held:
        held.push(1)
        held.context.mails.append(lambda: held.harness.advance(50))
        held.harness.end()
        assert held.rows == ["late 1"]


def test_retries_keep_their_number_and_their_delays_when_the_input_has_ended() -> None:
    """As in PyFlink. Flink's operator in Java makes those that wait at once, and none after them."""
    retry = AsyncRetryStrategy.fixed_delay(2, 100, None, lambda _: True)
    with HeldOperator(retry=retry) as held:
        held.push(1)
        held.fail(1, OSError())  # it waits for its first retry, and then for its second
        made = []

        def go_on() -> None:
            for milliseconds in (99, 1, 99, 1):
                held.harness.advance(milliseconds)
                made.append(len(held.calls.made))
                if made == [1, 2]:
                    held.fail(1, OSError())
            held.calls.give(1, "found")

        held.context.mails.append(go_on)
        held.harness.end()
        assert (made, held.rows) == ([1, 2, 2, 3], ["found"])


def test_what_comes_after_the_end_is_dropped() -> None:
    held = HeldOperator()
    held.push(1)
    held.operator.close()
    held.calls.give(1, "too late")
    assert (held.calls.ended, list(held.context.mails)) == (["calls", "all"], [])
    held.operator.close()


# -- checkpoints -------------------------------------------------------------------------------------------------


def rows_of(held: HeldOperator) -> list[Any]:
    """What a checkpoint has now."""
    state = restored([held.harness.snapshot()])
    rows = [value for item in state.items("in flight") for value, _ in item]
    return rows + [row for batch in state.items("waiting") for row in decode(batch)]


def test_rows_without_emitted_results_are_saved_as_they_came_and_called_with_again() -> None:
    with HeldOperator(capacity=3) as held:
        held.push(1, 2, 3, 4, 5, times=[10, 20, 30, 40, 50])
        held.give(1)
        held.give(3)  # waits for 2
        saved = held.harness.snapshot()
        assert held.rows == ["r1"]
    with HeldOperator(capacity=2, restored=restored([saved])) as held:
        assert held.calls.values == [2, 3]
        assert not held.operator.is_available
        held.push(6, times=[60])
        for value in (2, 3, 4, 5, 6):
            held.give(value)
        assert held.rows == ["r2", "r3", "r4", "r5", "r6"]
        assert held.output.timestamps == [20, 30, 40, 50, 60]
        assert rows_of(held) == []


def test_a_restored_operator_saves_what_it_has_not_called_with_yet() -> None:
    with HeldOperator(capacity=4) as held:
        held.push(*range(10))
        saved = held.harness.snapshot()
    with HeldOperator(capacity=1, restored=restored([saved])) as held:
        assert rows_of(held) == list(range(10))


def test_results_that_are_there_are_emitted_before_the_barrier() -> None:
    with HeldOperator() as held:
        held.push(1, 2)
        held.calls.give(1, "a")
        held.operator.prepare_barrier(1)
        assert held.rows == ["a"]
        assert rows_of(held) == [2]


def test_subtasks_share_the_saved_rows_when_there_are_more_or_fewer() -> None:
    saved = []
    for first in (0, 1_000):
        with HeldOperator(capacity=700) as held:
            held.push(*range(first, first + 1_000))
            saved.append(held.harness.snapshot())
    for parallelism in (1, 3, 5):
        called: list[Any] = []
        for subtask in range(parallelism):
            state = restored(saved, subtask, parallelism)
            with HeldOperator(capacity=5_000, restored=state, subtask_index=subtask, parallelism=parallelism) as held:
                assert held.calls.values, "each gets some"
                called += held.calls.values
        assert sorted(called) == sorted([*range(1_000), *range(1_000, 2_000)])


def test_nothing_is_emitted_behind_a_savepoint_that_stops_the_job() -> None:
    retry = AsyncRetryStrategy.fixed_delay(1, 10, empty_result_predicate, None)
    with HeldOperator(capacity=2, retry=retry, timeout_ms=100) as held:
        held.push(1, 2, 3)
        held.calls._deliver(held.calls.made[0], [], None)
        held.context.run_mails()
        saved = held.harness.snapshot(options=CheckpointOptions(is_savepoint=True, stop=StopMode.SUSPEND))
        held.give(2)
        held.harness.advance(1_000)
        assert (held.rows, held.calls.values) == ([], [1, 2])
        assert held.operator.is_available  # for the end of the input
        held.harness.end()
    with HeldOperator(restored=restored([saved])) as held:
        assert held.calls.values == [1, 2, 3]


@pytest.mark.parametrize("seed", range(120))
def test_each_row_is_emitted_once_whatever_checkpoint_the_job_goes_on_from(seed: int) -> None:
    """Two lives: what the first emitted before its last checkpoint, and what the second one emits."""
    chance = random.Random(seed)
    settings: dict[str, Any] = {"capacity": chance.choice([1, 2, 7]), "is_ordered": chance.random() < 0.5}
    number, saved, before = 0, None, 0
    with HeldOperator(**settings) as held:
        for _ in range(chance.randrange(1, 30)):
            open_calls = [call for call in held.calls.made if call.entry.results is None]
            if held.operator.is_available and chance.random() < 0.4:
                size = chance.randrange(1, 6)
                held.push(*range(number, number + size))
                number += size
            elif open_calls:
                held.give(chance.choice(open_calls).value)
            if chance.random() < 0.3:
                saved, before, came = held.harness.snapshot(), len(held.rows), number
        emitted = held.rows
    if saved is None:
        return
    parallelism = chance.choice([1, 2, 3])
    again: list[str] = []
    for subtask in range(parallelism):
        state = restored([saved], subtask, parallelism)
        with HeldOperator(**settings, restored=state, subtask_index=subtask, parallelism=parallelism) as held:
            while open_calls := [call for call in held.calls.made if call.entry.results is None]:
                held.give(chance.choice(open_calls).value)
            again += held.rows
    assert Counter(emitted[:before] + again) == Counter(f"r{value}" for value in range(came))
    if settings["is_ordered"] and parallelism == 1:
        assert emitted[:before] + again == [f"r{value}" for value in range(came)]
