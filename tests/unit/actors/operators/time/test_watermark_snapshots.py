"""Watermarks after a restore are not behind what they were at the barrier, and promise no more than they did."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest

from actors.operators.sources.split_watermarks import SplitWatermarks
from actors.operators.time.timestamps import TimestampsAndWatermarksOperator, WatermarkTracker
from actors.protocol.elements import Watermark
from flinkray.batches.batch import Batch
from flinkray.errors import UserFunctionError
from flinkray.time.watermarks import WatermarkGenerator, WatermarkStrategy
from flinkray.transformations.operator_factories import TimestampsAndWatermarksFactory
from flinkray.types.records import MIN_TIMESTAMP, Timestamp
from tests.support.operators import OperatorHarness, as_batch, code
from tests.support.state import restored_from

BOUNDED = WatermarkStrategy.for_bounded_out_of_orderness(10).with_timestamp_assigner("t")


def harness(strategy: WatermarkStrategy = BOUNDED, restored: Any = None, **settings: Any) -> OperatorHarness:
    operator = TimestampsAndWatermarksOperator(code(TimestampsAndWatermarksFactory(strategy)))
    return OperatorHarness(operator, restored=restored, **settings)


def advanced(time: int | None, strategy: WatermarkStrategy = BOUNDED, **settings: Any) -> OperatorHarness:
    """A subtask that saw that time, and one periodic check; or one that never saw a row, and is idle if it may be."""
    driven = harness(strategy, **settings)
    if time is not None:
        driven.push({"t": [time]})
        driven.advance(200)
    else:
        driven.advance(2000)
    return driven


def rows(*timestamps: int) -> tuple[Batch, pa.Array]:
    batch = as_batch(list(timestamps), timestamps)
    return batch, batch.timestamps


# -- the operator


def test_a_restored_subtask_tells_its_watermark_before_any_row_and_does_not_go_back() -> None:
    before = advanced(100)
    after = harness(restored=restored_from([before.snapshot()], range(128)))
    assert after.output.elements == [Watermark(Timestamp(89))]
    after.push({"t": [50]})
    after.advance(400)
    assert after.output.watermarks == [89]
    after.push({"t": [200]})
    after.advance(200)
    assert after.output.watermarks == [89, 189]


def test_rows_that_no_watermark_was_made_of_yet_count_too() -> None:
    before = harness()
    before.push({"t": [100]})
    after = harness(restored=restored_from([before.snapshot()], range(128)))
    assert after.output.watermarks == []
    after.advance(200)
    assert after.output.watermarks == [89]


def test_a_subtask_that_saw_no_row_starts_over() -> None:
    after = harness(restored=restored_from([harness().snapshot()], range(128)))
    after.advance(400)
    assert after.output.elements == []


def test_each_subtask_goes_on_from_its_own_watermark_and_a_new_one_from_the_lowest() -> None:
    saved = [advanced(time, subtask_index=index).snapshot() for index, time in enumerate((100, 300, 200))]

    def restored(index: int, parallelism: int) -> list[int]:
        state = restored_from(saved, range(128), index, parallelism)
        return harness(restored=state, subtask_index=index, parallelism=parallelism).output.watermarks

    assert [restored(index, 3) for index in range(3)] == [[89], [289], [189]]
    assert [restored(index, 2) for index in range(2)] == [[89], [89]]


def test_an_idle_subtask_held_no_one_back_and_does_not_after_rescaling() -> None:
    strategy = BOUNDED.with_idleness(1000)
    saved = [advanced(time, strategy, subtask_index=index).snapshot() for index, time in enumerate((100, None))]
    after = harness(strategy, restored=restored_from(saved, range(128), 0, 1))
    assert after.output.elements == [Watermark(Timestamp(89))], "and it is active, until it has been idle for itself"


def test_the_bound_is_the_programs_also_after_a_restore() -> None:
    saved = advanced(100).snapshot()
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(2).with_timestamp_assigner("t")
    after = harness(strategy, restored=restored_from([saved], range(128)))
    after.advance(200)
    assert after.output.watermarks == [89, 97]


# -- generators of users


class Highest(WatermarkGenerator):
    """Emits after each batch the highest time so far, and nothing in between."""

    def __init__(self) -> None:
        self.highest = 0
        self.batches = 0

    def on_batch(self, batch: Batch, timestamps: pa.Array) -> Timestamp | None:
        self.highest = max(self.highest, *timestamps.to_pylist())
        self.batches += 1
        return Timestamp(self.highest - self.batches)

    def on_periodic_emit(self) -> Timestamp | None:
        return None


def test_a_users_generator_keeps_its_attributes() -> None:
    tracker = WatermarkTracker(WatermarkStrategy.for_generator(Highest))
    tracker.on_batch(*rows(100))
    after = WatermarkTracker(WatermarkStrategy.for_generator(Highest))
    after.restore(cloudpickle.loads(cloudpickle.dumps(tracker.snapshot())))
    assert after.watermark == 99
    assert after.on_batch(*rows(90)).watermark is None
    assert after.on_batch(*rows(200)).watermark == 197


class Forgetful(Highest):
    def restore_state(self, state: Any) -> None:
        raise KeyError("highest")


def test_a_generator_that_cannot_be_restored_names_the_operator() -> None:
    tracker = WatermarkTracker(WatermarkStrategy.for_generator(Highest))
    tracker.on_batch(*rows(100))
    after = WatermarkTracker(WatermarkStrategy.for_generator(Forgetful), "assign (1/2)")
    with pytest.raises(UserFunctionError, match=r"operator 'assign \(1/2\)': KeyError: 'highest'"):
        after.restore(tracker.snapshot())


class WithLock(Highest):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


def test_a_generator_that_cannot_be_pickled_starts_over_behind_its_watermark_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tracker = WatermarkTracker(WatermarkStrategy.for_generator(WithLock))
    tracker.on_batch(*rows(100))
    with caplog.at_level(logging.WARNING):
        states = [tracker.snapshot() for _ in range(3)]
    assert len([record for record in caplog.records if "WithLock" in record.getMessage()]) == 1
    after = WatermarkTracker(WatermarkStrategy.for_generator(WithLock))
    after.restore(states[-1])
    assert after.watermark == 99
    assert after.on_batch(*rows(50)).watermark is None
    assert after.on_batch(*rows(150)).watermark == 148


# -- splits


def split_watermarks() -> SplitWatermarks:
    return SplitWatermarks(WatermarkStrategy.for_monotonous_timestamps().with_idleness(100))


def restored_splits(states: dict[Any, Any]) -> SplitWatermarks:
    splits = split_watermarks()
    for split_id, state in states.items():
        splits.restore(split_id, cloudpickle.loads(cloudpickle.dumps(state)))
    return splits


def test_restored_splits_hold_the_watermark_as_they_did() -> None:
    splits = split_watermarks()
    for split_id, time in (("a", 100), ("b", 50)):
        splits.add_split(split_id)
        splits.on_batch(split_id, *rows(time))
    splits.on_periodic(0)
    after = restored_splits(splits.snapshot())
    assert (after.split_watermark("a"), after.split_watermark("b")) == (99, 49)
    assert after.on_periodic(0).watermark == 49
    assert after.remove_split("b").watermark == 99
    after.check()


def test_a_split_that_came_late_or_was_idle_does_not_take_the_watermark_back() -> None:
    splits = split_watermarks()
    splits.add_split("a")
    splits.add_split("idle")
    splits.on_batch("a", *rows(100))
    splits.on_periodic(0)
    splits.on_periodic(101)
    splits.add_split("late")
    assert splits.watermark == 99
    after = restored_splits(splits.snapshot())
    assert after.on_periodic(0).watermark == 99
    assert after.split_watermark("late") == MIN_TIMESTAMP
    after.check()


def test_a_new_split_beside_restored_ones_holds_the_watermark_where_it_was() -> None:
    splits = split_watermarks()
    splits.add_split("a")
    splits.on_batch("a", *rows(100))
    splits.on_periodic(0)
    after = restored_splits(splits.snapshot())
    assert after.add_split("b").watermark == 99
    after.on_batch("a", *rows(200))
    assert after.on_periodic(0).watermark is None
    after.check()


@pytest.mark.parametrize("seed", range(20))
def test_splits_that_move_promise_what_they_did_in_the_lowest_of_the_subtasks_that_they_come_from(seed: int) -> None:
    chance = random.Random(seed)
    former = [split_watermarks() for _ in range(chance.randint(1, 3))]
    clock = 0
    for split_id in range(chance.randint(5, 60)):
        clock += chance.randrange(60)
        action = chance.choice(ACTIONS)
        action(chance.choice(former), chance, split_id, clock)
    promised = {split_id: splits.watermark for splits in former for split_id in splits.snapshot()}
    states = {split_id: state for splits in former for split_id, state in splits.snapshot().items()}
    parts: list[dict[Any, Any]] = [{} for _ in range(chance.randint(1, 4))]
    for split_id, state in states.items():
        chance.choice(parts)[split_id] = state
    for part in parts:
        after = restored_splits(part)
        after.on_periodic(clock)
        after.check()
        lowest = min((after.split_watermark(split_id) for split_id in part), default=MIN_TIMESTAMP)
        assert after.watermark == max(lowest, min((promised[split_id] for split_id in part), default=MIN_TIMESTAMP))
        assert all(after.split_watermark(split_id) >= states[split_id].tracker.watermark for split_id in part)


def _add(splits: SplitWatermarks, _chance: random.Random, split_id: int, _clock: int) -> None:
    splits.add_split(split_id)


def _push(splits: SplitWatermarks, chance: random.Random, _split_id: int, clock: int) -> None:
    present = list(splits.snapshot())
    if present:
        splits.on_batch(chance.choice(present), *rows(clock + chance.randrange(100)))


def _check(splits: SplitWatermarks, _chance: random.Random, _split_id: int, clock: int) -> None:
    splits.on_periodic(clock)


def _remove(splits: SplitWatermarks, chance: random.Random, _split_id: int, _clock: int) -> None:
    present = list(splits.snapshot())
    if present:
        splits.remove_split(chance.choice(present))


ACTIONS: list[Callable[[SplitWatermarks, random.Random, int, int], None]] = [_add, _push, _push, _check, _remove]
