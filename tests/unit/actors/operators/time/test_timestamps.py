"""Event time from columns and functions, generators with idleness, the operator, and several splits together."""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from actors.operators.sources.split_watermarks import SplitWatermarks
from actors.operators.time.timestamps import (
    EventTimeProgress,
    TimestampsAndWatermarksOperator,
    WatermarkTracker,
    assign_timestamps,
    with_event_time,
)
from actors.protocol.elements import Watermark, WatermarkStatus
from flinkray.batches.batch import Batch
from flinkray.errors import NullTimestampError, TypeMismatchError, UnknownColumnError, UserFunctionError
from flinkray.expressions.tree import col
from flinkray.time.watermarks import WatermarkGenerator, WatermarkStrategy
from flinkray.transformations.operator_factories import TimestampsAndWatermarksFactory
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from tests.support.operators import FakeContext, OperatorHarness, as_batch, code

WHERE = "flights (1/2)"
MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()


def times(batch: Batch, assigner: Any) -> list[int]:
    assigned = assign_timestamps(batch, assigner, WHERE)
    assert assigned.type == pa.int64()
    assert assigned.null_count == 0
    return list(assigned.to_pylist())


# -- columns


def test_integers_are_epoch_milliseconds() -> None:
    assert times(as_batch({"t": [3, -1]}), "t") == [3, -1]
    narrow = as_batch({"t": pa.array([3], pa.int32())})
    assert times(narrow, "t") == [3]


@pytest.mark.parametrize(
    ("unit", "raw", "expected"),
    [("s", [2, -2], [2000, -2000]), ("ms", [5], [5]), ("us", [1500, -1, -1000], [1, -1, -1]), ("ns", [-1], [-1])],
)
def test_arrow_timestamps_of_any_unit_become_milliseconds_rounded_down(
    unit: str, raw: list[int], expected: list[int]
) -> None:
    assert times(as_batch({"t": pa.array(raw, pa.timestamp(unit))}), "t") == expected


def test_a_naive_timestamp_is_read_as_utc_and_a_zoned_one_is_an_instant() -> None:
    noon = datetime.datetime(2024, 1, 1, 12)
    expected = [int(noon.replace(tzinfo=datetime.UTC).timestamp() * 1000)]
    assert times(as_batch({"t": pa.array([noon], pa.timestamp("us"))}), "t") == expected
    zoned = pa.array([noon.replace(tzinfo=datetime.UTC)], pa.timestamp("us", "Asia/Tokyo"))
    assert times(as_batch({"t": zoned}), "t") == expected


def test_an_expression_gives_the_time() -> None:
    assert times(as_batch({"seconds": [1, 2]}), col("seconds") * 1000) == [1000, 2000]


def test_a_column_that_is_not_there_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(UnknownColumnError, match=r"flights \(1/2\).*did you mean 'departed_ms'"):
        assign_timestamps(as_batch({"departed_ms": [1]}), "departed", WHERE)


def test_a_column_of_another_type_is_an_error_that_names_column_and_type() -> None:
    with pytest.raises(TypeMismatchError, match=r"flights \(1/2\).*'t' has type double"):
        assign_timestamps(as_batch({"t": [1.5]}), "t", WHERE)


def test_a_time_outside_the_range_of_milliseconds_is_an_error() -> None:
    with pytest.raises(TypeMismatchError, match="'t'"):
        assign_timestamps(as_batch({"t": pa.array([2**62], pa.timestamp("s"))}), "t", WHERE)


@pytest.mark.parametrize("column", [[1, None, None], pa.array([0, None, 1], pa.timestamp("us"))])
def test_a_null_timestamp_is_an_error_that_names_the_first_such_row(column: Any) -> None:
    batch = as_batch({"t": column, "name": ["a", "b", "c"]})
    with pytest.raises(NullTimestampError, match=r"flights \(1/2\).*column 't'.*row 1 of a batch of 3.*'b'"):
        assign_timestamps(batch, "t", WHERE)


def test_a_column_of_nulls_alone_is_a_null_timestamp() -> None:
    with pytest.raises(NullTimestampError, match="row 0"):
        assign_timestamps(as_batch({"t": [None]}), "t", WHERE)


# -- functions


def test_a_function_sees_the_value_and_the_time_that_the_row_has() -> None:
    assert times(as_batch([1, 2], timestamps=[10, 20]), lambda value, time: value + time) == [11, 22]
    assert times(as_batch([1]), lambda _value, time: time) == [MIN_TIMESTAMP]


def test_an_object_with_extract_timestamp_is_an_assigner() -> None:
    class Assigner:
        def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
            return int(value.t) * 2

    assert times(as_batch({"t": [4]}), Assigner()) == [8]


def test_an_assigner_that_gives_none_is_a_null_timestamp() -> None:
    with pytest.raises(NullTimestampError, match="the timestamp assigner gives no event time for row 1"):
        assign_timestamps(as_batch([1, 2]), lambda value, _time: None if value == 2 else 1, WHERE)


def test_an_assigner_that_gives_no_integer_is_an_error_with_value_and_type() -> None:
    with pytest.raises(TypeMismatchError, match=r"1\.5 \(float\); return int\(\.\.\.\) of it; the value was 7"):
        assign_timestamps(as_batch([7]), lambda _value, _time: 1.5, WHERE)


def test_an_assigner_that_raises_is_the_users_error() -> None:
    with pytest.raises(UserFunctionError, match=r"flights \(1/2\).*ZeroDivisionError.*the value was 7"):
        assign_timestamps(as_batch([7]), lambda value, _time: value // 0, WHERE)


def test_without_an_assigner_rows_keep_the_time_they_have_and_need_one() -> None:
    assert times(as_batch([1], timestamps=[5]), None) == [5]
    with pytest.raises(NullTimestampError, match="with_timestamp_assigner"):
        assign_timestamps(as_batch([1]), None, WHERE)


def test_a_strategy_without_watermarks_and_assigner_leaves_rows_as_they_are() -> None:
    batch = as_batch([1])
    assert with_event_time(batch, WatermarkStrategy.no_watermarks(), WHERE) is batch


# -- one generator


def rows(*timestamps: int) -> tuple[Batch, pa.Array]:
    batch = as_batch(list(timestamps), timestamps)
    return batch, batch.timestamps


def test_bounded_out_of_orderness_is_the_highest_time_minus_bound_minus_one() -> None:
    tracker = WatermarkTracker(WatermarkStrategy.for_bounded_out_of_orderness(10))
    assert tracker.on_batch(*rows(100, 50)) == EventTimeProgress(None, None)
    assert tracker.on_periodic(0) == EventTimeProgress(Timestamp(89), None)


def test_without_rows_the_watermark_stays_at_the_minimum() -> None:
    tracker = WatermarkTracker(WatermarkStrategy.for_bounded_out_of_orderness(10))
    assert tracker.on_periodic(0) == EventTimeProgress(None, None)
    assert tracker.watermark == MIN_TIMESTAMP


def test_bounded_out_of_orderness_does_not_wrap_around_below_the_minimum() -> None:
    tracker = WatermarkTracker(WatermarkStrategy.for_bounded_out_of_orderness(10))
    tracker.on_batch(*rows(MIN_TIMESTAMP + 1))
    assert tracker.on_periodic(0) == EventTimeProgress(None, None)


def test_a_watermark_comes_once_and_never_goes_back() -> None:
    tracker = WatermarkTracker(MONOTONOUS)
    tracker.on_batch(*rows(100))
    assert tracker.on_periodic(0).watermark == 99
    tracker.on_batch(*rows(50))
    assert tracker.on_periodic(0).watermark is None
    assert tracker.watermark == 99


class EveryBatch(WatermarkGenerator):
    """A punctuated generator: what the last row says, also when that goes back."""

    def on_batch(self, batch: Batch, timestamps: pa.Array) -> Timestamp | None:
        return Timestamp(timestamps[-1].as_py())

    def on_periodic_emit(self) -> Timestamp | None:
        return None


def test_a_generator_may_emit_after_each_batch_but_not_backwards() -> None:
    tracker = WatermarkTracker(WatermarkStrategy.for_generator(EveryBatch))
    assert tracker.on_batch(*rows(5, 9)).watermark == 9
    assert tracker.on_batch(*rows(3)).watermark is None


@pytest.mark.parametrize(
    ("watermark", "shown"), [(2**63, f"{2**63} (int)"), (1.5, "1.5 (float)"), ("now", "'now' (str)")]
)
def test_a_watermark_that_is_no_int64_is_an_error_with_value_and_type(watermark: Any, shown: str) -> None:
    class Wrong(WatermarkGenerator):
        def on_batch(self, batch: Batch, timestamps: pa.Array) -> Timestamp | None:
            return watermark  # type: ignore[no-any-return]

        def on_periodic_emit(self) -> Timestamp | None:
            return watermark  # type: ignore[no-any-return]

    tracker = WatermarkTracker(WatermarkStrategy.for_generator(Wrong), WHERE)
    message = re.escape(f"'{WHERE}': a watermark is an int of epoch milliseconds that fits 64 bits, not {shown}")
    with pytest.raises(TypeMismatchError, match=message):
        tracker.on_batch(*rows(5))
    with pytest.raises(TypeMismatchError, match=message):
        tracker.on_periodic(0)


def test_the_idleness_timer_starts_at_the_first_periodic_check_not_at_construction() -> None:
    tracker = WatermarkTracker(MONOTONOUS.with_idleness(100))
    assert tracker.on_periodic(1_000_000).is_idle is None
    assert tracker.on_periodic(1_000_100).is_idle is None  # exactly the timeout is not longer than it
    assert tracker.on_periodic(1_000_101).is_idle is True
    assert tracker.on_periodic(1_000_200).is_idle is None


def test_a_row_ends_idleness_at_once_and_restarts_the_timer() -> None:
    tracker = WatermarkTracker(MONOTONOUS.with_idleness(100))
    tracker.on_periodic(0)
    tracker.on_periodic(101)
    assert tracker.is_idle
    assert tracker.on_batch(*rows(5)) == EventTimeProgress(None, False)
    assert tracker.on_periodic(300).watermark == 4
    assert tracker.on_periodic(350).is_idle is None
    assert tracker.on_periodic(450).is_idle is None
    assert tracker.on_periodic(451).is_idle is True


# -- the operator


@pytest.fixture
def harness() -> Iterator[OperatorHarness]:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(10).with_timestamp_assigner("t").with_idleness(1000)
    factory = TimestampsAndWatermarksFactory(strategy)
    with OperatorHarness(TimestampsAndWatermarksOperator(code(factory)), operator_name="assign") as harness:
        yield harness


def test_the_operator_gives_rows_their_time_and_emits_watermarks_periodically(harness: OperatorHarness) -> None:
    harness.push({"t": [100, 90]})
    assert harness.output.timestamps == [100, 90]
    harness.advance(199)
    assert harness.output.watermarks == []
    harness.advance(1)
    assert harness.output.watermarks == [89]
    harness.push({"t": [200]})
    harness.advance(200)
    assert harness.output.watermarks == [89, 189]


def test_the_operator_ignores_upstream_watermarks_and_statuses_but_for_the_last_watermark(
    harness: OperatorHarness,
) -> None:
    harness.watermark(500)
    harness.status(True)
    assert harness.output.elements == []
    harness.watermark(MAX_TIMESTAMP)
    harness.end()
    assert harness.output.elements == [Watermark(MAX_TIMESTAMP)]


def test_the_operator_emits_its_watermark_at_the_end_also_without_a_last_watermark(harness: OperatorHarness) -> None:
    harness.push({"t": [100]})
    harness.end()
    assert harness.output.watermarks == [89]


def test_the_operator_turns_idle_and_active_around_the_rows(harness: OperatorHarness) -> None:
    harness.advance(1400)
    assert harness.output.elements == [WatermarkStatus(True)]
    harness.push({"t": [100]})
    assert harness.output.elements[1] == WatermarkStatus(False)
    assert isinstance(harness.output.elements[2], Batch)


def test_an_idle_operator_is_active_again_for_the_last_watermark(harness: OperatorHarness) -> None:
    harness.advance(1400)
    harness.watermark(MAX_TIMESTAMP)
    assert harness.output.elements[1:] == [WatermarkStatus(False), Watermark(MAX_TIMESTAMP)]


def test_the_operator_has_no_timer_left_after_close() -> None:
    factory = TimestampsAndWatermarksFactory(MONOTONOUS)
    context = FakeContext()
    with OperatorHarness(TimestampsAndWatermarksOperator(code(factory)), context=context):
        pass
    assert all(timer.is_cancelled for timer in context.timers)


def test_a_punctuated_watermark_follows_its_batch() -> None:
    factory = TimestampsAndWatermarksFactory(WatermarkStrategy.for_generator(EveryBatch).with_timestamp_assigner("t"))
    with OperatorHarness(TimestampsAndWatermarksOperator(code(factory))) as harness:
        harness.push({"t": [7]})
        assert isinstance(harness.output.elements[0], Batch)
        assert harness.output.elements[1] == Watermark(Timestamp(7))


# -- several splits


@pytest.fixture
def splits() -> Iterator[SplitWatermarks]:
    splits = SplitWatermarks(MONOTONOUS.with_idleness(100))
    yield splits
    splits.check()


def test_the_slowest_split_holds_the_watermark(splits: SplitWatermarks) -> None:
    splits.add_split("a")
    splits.add_split("b")
    splits.on_batch("a", *rows(100))
    assert splits.on_periodic(0) == EventTimeProgress(None, None)
    splits.on_batch("b", *rows(50))
    assert splits.on_periodic(0) == EventTimeProgress(Timestamp(49), None)
    assert (splits.split_watermark("a"), splits.split_watermark("b")) == (99, 49)


def test_a_finished_split_holds_it_no_longer(splits: SplitWatermarks) -> None:
    splits.add_split("a")
    splits.add_split("b")
    splits.on_batch("a", *rows(100))
    splits.on_batch("b", *rows(50))
    splits.on_periodic(0)
    assert splits.remove_split("b") == EventTimeProgress(Timestamp(99), None)


def test_a_later_split_does_not_make_the_watermark_go_back(splits: SplitWatermarks) -> None:
    splits.add_split("a")
    splits.on_batch("a", *rows(100))
    splits.on_periodic(0)
    assert splits.add_split("b") == EventTimeProgress(None, None)
    splits.on_batch("b", *rows(10))
    assert splits.on_periodic(0) == EventTimeProgress(None, None)
    assert splits.watermark == 99


def test_an_idle_split_is_left_out_and_all_idle_splits_make_the_subtask_idle(splits: SplitWatermarks) -> None:
    splits.add_split("a")
    splits.add_split("b")
    splits.on_batch("a", *rows(100))
    splits.on_periodic(0)
    assert splits.on_periodic(50) == EventTimeProgress(None, None)
    assert splits.on_periodic(101) == EventTimeProgress(Timestamp(99), None)  # b saw nothing since 0, a since 50
    assert splits.on_periodic(151) == EventTimeProgress(None, True)
    assert splits.on_periodic(200) == EventTimeProgress(None, None)
    assert splits.on_batch("b", *rows(120)) == EventTimeProgress(None, False)


def test_a_new_split_makes_an_idle_subtask_active(splits: SplitWatermarks) -> None:
    splits.add_split("a")
    splits.on_periodic(0)
    splits.on_periodic(101)
    assert splits.is_idle
    assert splits.add_split("b") == EventTimeProgress(None, False)


def test_a_subtask_without_splits_turns_idle_after_the_timeout(splits: SplitWatermarks) -> None:
    assert splits.on_periodic(0) == EventTimeProgress(None, None)
    assert splits.on_periodic(101) == EventTimeProgress(None, True)
    splits.add_split("a")
    splits.on_batch("a", *rows(5))
    assert splits.remove_split("a") == EventTimeProgress(None, None)
    assert splits.on_periodic(500) == EventTimeProgress(None, None)
    assert splits.on_periodic(601) == EventTimeProgress(Timestamp(4), True)


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_when_all_splits_turn_idle_the_watermark_is_the_highest_of_them_whatever_the_order(order: str) -> None:
    splits = SplitWatermarks(MONOTONOUS.with_idleness(100))
    for split, time in (("a", 5_000), ("b", 2_000)):
        splits.add_split(split)
        splits.on_batch(split, *rows(time))
    assert splits.on_periodic(0) == EventTimeProgress(Timestamp(1_999), None)
    splits.on_source(order[0], None, True)
    assert splits.on_source(order[1], None, True).is_idle
    assert splits.watermark == 4_999
    splits.check()


def test_a_subtask_whose_splits_have_finished_turns_idle_when_none_has_come_for_an_interval() -> None:
    splits = SplitWatermarks(MONOTONOUS)
    splits.add_split("a")
    splits.on_batch("a", *rows(5))
    splits.on_periodic(0)
    splits.remove_split("a")
    assert splits.on_periodic(200) == EventTimeProgress(None, None)
    assert splits.on_periodic(400) == EventTimeProgress(None, True)
    assert splits.add_split("b") == EventTimeProgress(None, False)
    splits.remove_split("b")
    assert splits.on_periodic(600) == EventTimeProgress(None, None)


def test_splits_that_are_read_within_an_interval_make_a_watermark_all_the_same() -> None:
    splits = SplitWatermarks(MONOTONOUS)
    for name, time in (("a", 100), ("b", 50)):
        splits.add_split(name)
        splits.on_batch(name, *rows(time))
        assert splits.remove_split(name) == EventTimeProgress(None, None)
    assert splits.on_periodic(200) == EventTimeProgress(None, None), "the next split may be on its way"
    assert splits.on_periodic(400) == EventTimeProgress(Timestamp(99), True)
    splits.add_split("c")
    splits.on_batch("c", *rows(300))
    splits.add_split("d")
    assert splits.on_source("d", None, True) == EventTimeProgress(None, None)
    assert splits.remove_split("c") == EventTimeProgress(Timestamp(299), True), "the other split is idle"
    splits.check()


def test_a_finished_split_counts_as_far_as_it_came_together_with_those_beside_it() -> None:
    splits = SplitWatermarks(MONOTONOUS)
    for name, time in (("a", 100), ("b", 50)):
        splits.add_split(name)
        splits.on_batch(name, *rows(time))
    assert splits.remove_split("a").watermark is None, "b has made none so far"
    splits.remove_split("b")
    splits.on_periodic(200)
    assert splits.on_periodic(400) == EventTimeProgress(Timestamp(49), True)
    splits.check()


def test_a_subtask_of_a_bounded_source_waits_for_its_next_split_however_long_that_takes() -> None:
    splits = SplitWatermarks(MONOTONOUS, is_bounded=True)
    splits.add_split("a")
    splits.on_batch("a", *rows(100))
    splits.remove_split("a")
    assert [splits.on_periodic(now) for now in (200, 400, 10**9)] == [EventTimeProgress(None, None)] * 3


def test_no_idleness_of_no_time_is_taken() -> None:
    with pytest.raises(ValueError, match="idle_timeout of a watermark strategy must be positive, got 0"):
        MONOTONOUS.with_idleness(0)


def test_without_idleness_no_split_ever_turns_idle() -> None:
    splits = SplitWatermarks(MONOTONOUS)
    splits.on_periodic(0)
    splits.on_periodic(10**9)
    assert not splits.is_idle


def test_a_batch_of_one_of_many_splits_does_not_look_at_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    splits, looks = SplitWatermarks(MONOTONOUS), 0
    read = WatermarkTracker.is_idle.fget
    assert read is not None

    def counted(tracker: WatermarkTracker) -> bool:
        nonlocal looks
        looks += 1
        return bool(read(tracker))

    monkeypatch.setattr(WatermarkTracker, "is_idle", property(counted))
    names = range(500)
    for name in names:
        splits.add_split(name)
    for time in range(2_000):
        splits.on_batch(names[time % len(names)], *rows(time))
    for name in names:
        splits.remove_split(name)
    assert looks < 10_000


@pytest.mark.parametrize("seed", range(10))
def test_the_watermark_is_the_lowest_of_the_active_splits_and_the_highest_when_all_turn_idle(seed: int) -> None:
    chance = random.Random(seed)
    splits, known, highest = SplitWatermarks(MONOTONOUS), dict[int, int | None](), MIN_TIMESTAMP
    was_idle, finished = False, MIN_TIMESTAMP
    for _ in range(400):
        split, watermark = chance.randrange(12), chance.randrange(1_000)
        match chance.choice(["add", "remove", "watermark", "watermark", "watermark", "idle"]):
            case "add":
                splits.add_split(split)
                known.setdefault(split, MIN_TIMESTAMP)
            case "remove":
                if split in known:
                    together = min((each for each in known.values() if each is not None), default=None)
                    finished = max(finished, splits.split_watermark(split) if together is None else Timestamp(together))
                splits.remove_split(split)
                known.pop(split, None)
            case "watermark" if split in known:
                splits.on_source(split, Timestamp(watermark), None)
                known[split] = splits.split_watermark(split)
            case "idle" if split in known:
                splits.on_source(split, None, True)
                known[split] = None
        active = [each for each in known.values() if each is not None]
        promised = min(active, default=MIN_TIMESTAMP)
        if known and not active and not was_idle:
            promised = max(finished, *(splits.split_watermark(each) for each in known))
        highest, was_idle = max(highest, Timestamp(promised)), bool(known) and not active
        assert splits.watermark == highest
        splits.check()
