"""Interval joins against nested loops and DuckDB, and their rules."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from actors.operators.joins import interval_operator, interval_partners
from actors.operators.joins.interval_operator import IntervalJoinOperator
from flinkray.batches.batch import Batch
from flinkray.errors import InvalidProgramError, NullTimestampError, TypeMismatchError, UserFunctionError
from flinkray.functions.interfaces import ProcessJoinContext, ProcessJoinFunction, RuntimeContext
from flinkray.transformations.operator_factories import IntervalJoinFactory
from flinkray.types.keys import ColumnKey, FunctionKey, KeySelector
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP, Kind, Millis, OutputTag
from tests.support.joins import Event, IntervalJoinModel, Mark, Pair, Rows, Status, Step, columns_of, random_steps
from tests.support.operators import OperatorHarness, code
from tests.support.rescaling import Subtasks

KEYS: tuple[KeySelector, KeySelector] = (ColumnKey(("key",)), ColumnKey(("id",)))
LEFT_LATE, RIGHT_LATE = OutputTag("left late"), OutputTag("right late")


def operator_of(lower: int, upper: int, function: Any = None, has_late_tags: bool = False) -> IntervalJoinOperator:
    tags = (LEFT_LATE, RIGHT_LATE) if has_late_tags else (None, None)
    return IntervalJoinOperator(code(IntervalJoinFactory(Millis(lower), Millis(upper), function, tags)))


def harness_of(lower: int, upper: int, function: Any = None, **settings: Any) -> OperatorHarness:
    keys = settings.pop("keys", KEYS)
    operator = operator_of(lower, upper, function, settings.pop("has_late_tags", False))
    return OperatorHarness(operator, keys=keys, **settings)


def both(harness: OperatorHarness, watermark: int) -> None:
    harness.watermark(watermark, 0)
    harness.watermark(watermark, 1)


def push(harness: OperatorHarness, side: int, *events: tuple[Any, int, int]) -> None:
    made = [Event(*event) for event in events]
    harness.push(columns_of(made, side, pa.string()), [event.time for event in made], side)


def as_tuple(left: Any, right: Any, ctx: ProcessJoinContext) -> Iterator[tuple[Any, ...]]:
    yield left.key, left.value, right.value, ctx.get_left_timestamp(), ctx.get_right_timestamp()


# -- the rules


def test_rows_of_a_key_join_where_the_right_lies_within_the_bounds_from_the_left() -> None:
    harness = harness_of(-2, 3)
    push(harness, 0, ("a", 1, 10), ("b", 2, 10))
    push(harness, 1, *[("a", time, time) for time in range(5, 16)])
    assert [row["value_right"] for row in harness.output.dicts] == [8, 9, 10, 11, 12, 13]
    assert {row["key"] for row in harness.output.dicts} == {"a"}


def test_a_pair_is_there_as_soon_as_both_rows_are_and_has_the_later_ones_time() -> None:
    for first in (0, 1):
        harness = harness_of(-5, 5)
        push(harness, first, ("a", 1, 10))
        assert harness.output.elements == []
        push(harness, 1 - first, ("a", 2, 12))
        assert harness.output.timestamps == [12]
        push(harness, first, ("a", 3, 13))
        assert harness.output.timestamps == [12, 13]


def test_rows_of_the_columnar_join_are_the_lefts_columns_then_the_rights_without_its_key() -> None:
    harness = harness_of(0, 5)
    push(harness, 0, ("a", 1, 10))
    push(harness, 1, ("a", 7, 12), ("a", 10, 13))
    assert harness.output.dicts == [
        {"key": "a", "value": 1, "at": 10, "value_right": 7, "note": "note 7"},
        {"key": "a", "value": 1, "at": 10, "value_right": 10, "note": None},
    ]


def test_a_right_side_of_nothing_but_its_key_gives_pairs_of_the_lefts_columns() -> None:
    harness = harness_of(0, 5)
    harness.push({"id": ["a", "b"]}, [12, 12], 1)
    push(harness, 0, ("a", 1, 10), ("a", 2, 11))
    harness.push({"id": ["a"]}, [13], 1)
    assert [row["value"] for row in harness.output.dicts] == [1, 2, 1, 2]
    assert set(harness.output.dicts[0]) == {"key", "value", "at"}
    assert harness.output.timestamps == [12, 12, 13, 13]


def test_partners_of_a_row_come_by_time_and_then_by_arrival() -> None:
    harness = harness_of(-50, 50)
    push(harness, 0, ("a", 1, 12), ("a", 2, 10), ("a", 3, 12), ("a", 4, 11))
    push(harness, 1, ("a", 5, 10))
    assert [row["value"] for row in harness.output.dicts] == [2, 4, 1, 3]


def test_a_row_below_the_watermark_is_late_and_one_at_the_watermark_is_not() -> None:
    harness = harness_of(-5, 5)
    push(harness, 1, ("a", 1, 12))
    both(harness, 10)
    push(harness, 0, ("a", 2, 9), ("a", 3, 10))
    assert [row["value"] for row in harness.output.dicts] == [3]
    assert harness.context.metrics.counters == {"late_records_dropped": 1}


def test_late_rows_go_to_the_side_output_of_their_input_with_their_times() -> None:
    harness = harness_of(-5, 5, has_late_tags=True)
    both(harness, 10)
    push(harness, 0, ("a", 2, 9))
    push(harness, 1, ("a", 3, 8), ("a", 4, 10))
    assert [row.value for row in harness.output.side("left late")] == [2]
    assert [row.value for row in harness.output.side("right late")] == [3]
    assert [batch.timestamps.to_pylist() for _, batch in harness.output.elements[1:]] == [[9], [8]]
    assert harness.context.metrics.counters == {}


def test_only_one_side_may_have_a_late_output() -> None:
    factory = IntervalJoinFactory(Millis(0), Millis(0), None, (None, RIGHT_LATE))
    harness = OperatorHarness(IntervalJoinOperator(code(factory)), keys=KEYS)
    both(harness, 10)
    push(harness, 0, ("a", 2, 9))
    push(harness, 1, ("a", 3, 8))
    assert harness.context.metrics.counters == {"late_records_dropped": 1}
    assert len(harness.output.side("right late")) == 1


def test_a_row_is_kept_until_the_watermark_reaches_the_last_time_of_its_partners() -> None:
    harness = harness_of(-2, 5)
    operator: Any = harness.operator
    push(harness, 0, ("a", 1, 10))  # finds up to 15
    push(harness, 1, ("b", 2, 10))  # finds up to 12
    kept = []
    for watermark in (11, 12, 14, 15):
        both(harness, watermark)
        kept.append(tuple(len(buffer._runs) for buffer in operator._buffers))
    assert kept == [(1, 1), (1, 0), (1, 0), (0, 0)]


def test_a_row_that_is_over_joins_nothing_even_where_its_partner_is_not_late() -> None:
    """As in Flink: the watermark 15 ends the left row, and a right row at 15 is still in time."""
    harness = harness_of(0, 5)
    push(harness, 0, ("a", 1, 10), ("a", 2, 40))
    both(harness, 15)
    push(harness, 1, ("a", 3, 15))
    assert harness.output.rows == []


def test_a_row_at_the_watermark_stays_until_the_next_one_though_its_partners_are_over() -> None:
    harness = harness_of(-5, 0)
    both(harness, 10)
    push(harness, 0, ("a", 1, 10))
    push(harness, 1, ("a", 2, 10))
    assert len(harness.output.rows) == 1
    both(harness, 11)
    operator: Any = harness.operator
    assert not operator._buffers[0]._runs


def test_the_watermark_is_passed_on_after_pairs_and_idle_inputs_hold_nothing_back() -> None:
    harness = harness_of(0, 5)
    push(harness, 0, ("a", 1, 10))
    harness.watermark(20, 0)
    assert harness.output.watermarks == []
    harness.status(True, 1)
    assert harness.output.watermarks == [20]


def test_null_is_a_key_like_any_other() -> None:
    harness = harness_of(0, 0)
    push(harness, 0, (None, 1, 10), ("a", 2, 10))
    push(harness, 1, (None, 3, 10))
    assert [(row["key"], row["value"], row["value_right"]) for row in harness.output.dicts] == [(None, 1, 3)]


def test_bounds_may_reach_beyond_all_times() -> None:
    for far in (2**62, MAX_TIMESTAMP - 1):
        harness = harness_of(-far, far)
        push(harness, 0, ("a", 1, -(2**62)), ("a", 2, 2**62))
        push(harness, 1, ("a", 3, 2**62), ("a", 4, MAX_TIMESTAMP - 1), ("a", 5, 0))
        pairs = [(row["value"], row["value_right"]) for row in harness.output.dicts]
        assert sorted(pairs) == [(1, 5), (2, 3), (2, 4), (2, 5)]
        both(harness, MAX_TIMESTAMP)
        operator: Any = harness.operator
        assert [buffer._runs for buffer in operator._buffers] == [[], []]


def test_bounds_between_which_nothing_lies_join_nothing() -> None:
    harness = harness_of(6, 4)  # 5 to 5, both exclusive
    push(harness, 0, ("a", 1, 10))
    push(harness, 1, *[("a", time, time) for time in range(12, 19)])
    assert harness.output.rows == []


@pytest.mark.parametrize("times", [None, [MIN_TIMESTAMP]])
def test_a_row_without_event_time_is_an_error_that_says_what_to_do(times: Any) -> None:
    harness = harness_of(0, 5)
    with pytest.raises(NullTimestampError, match=r"'op \(1/1\)'.*within an interval.*assign_timestamps_and_watermarks"):
        harness.push(columns_of([Event("a", 1, 0)], 0, pa.string()), times, 0)


def test_both_inputs_need_keys() -> None:
    with pytest.raises(InvalidProgramError, match="keys for both inputs"):
        harness_of(0, 5, keys=(None, None))


def test_columns_that_would_collide_are_refused() -> None:
    harness = harness_of(0, 5)
    harness.push({"key": ["a"], "value": [1], "value_right": [2]}, [0], 0)
    with pytest.raises(InvalidProgramError, match="two columns 'value_right'; rename"):
        push(harness, 1, ("a", 10, 0))


def test_a_key_with_many_rows_is_emitted_in_bounded_batches() -> None:
    for function in (None, as_tuple):
        harness = harness_of(0, 1000, function, batch_rows=100)
        push(harness, 0, *[("a", number, 10) for number in range(70)])
        push(harness, 1, *[("a", number, 20) for number in range(30)], ("b", 0, 20))
        assert len(harness.output.rows) == 2100
        sizes = [batch.num_rows for batch in harness.output.batches]
        assert sizes == [100] * 21 if function is None else [64, *[100] * 20, 36]


@pytest.mark.parametrize("large", [0, 1])
def test_pairs_are_emitted_in_bounded_batches_also_where_a_large_row_has_many_partners(large: int) -> None:
    harness = harness_of(0, 1000, batch_bytes=1000)
    for side, count, time in ((0, 500, 10), (1, 5, 20)):
        rows = {("key", "id")[side]: ["a"] * count, "value": ["x" * 100 if side == large else "x"] * count}
        for _ in range(2):
            harness.push(rows, [time] * count, side)
    assert len(harness.output.rows) == 10_000
    assert max(batch.data.nbytes for batch in harness.output.batches) < 5 * 1000 + 200


def test_what_is_kept_does_not_hold_on_to_the_received_batch() -> None:
    harness = harness_of(0, 5)
    before = pa.total_allocated_bytes()
    wide = pa.record_batch({"key": ["a"] * 100_000, "value": list(range(100_000))})
    batch = Batch(wide.slice(5, 2), Kind.ROW, pa.array([1, 1], pa.int64()))
    harness.push(batch, None, 0)
    del wide, batch
    assert pa.total_allocated_bytes() - before < 100_000


def test_rows_and_keys_that_are_over_are_given_back() -> None:
    harness = harness_of(-20, 20)
    operator: Any = harness.operator
    for start in range(0, 400, 10):
        for side in (0, 1):
            push(harness, side, *[(f"{start}-{number}", number, start) for number in range(500)])
        both(harness, start)
        kept = [sum(len(run.times) for run in buffer._runs) for buffer in operator._buffers]
        assert max(kept) <= 2 * 3 * 500
    assert len(harness.output.rows) == 20_000
    assert len(operator._keys) <= 8192


def test_keys_that_are_still_there_stay_the_same_when_others_are_forgotten() -> None:
    harness = harness_of(0, 5)
    operator: Any = harness.operator
    staying = [(f"stays {number}", number, 100) for number in range(50)]
    push(harness, 0, ("over", 1, 10), *staying)
    push(harness, 1, *[(f"goes {number}", number, 0) for number in range(5000)])
    both(harness, 15)
    assert len(operator._keys) == 51
    push(harness, 1, ("over", 2, 15), *staying)
    assert [row["value"] for row in harness.output.dicts] == list(range(50))


def test_rows_that_are_over_leave_though_one_that_came_with_them_stays_and_no_other_comes() -> None:
    harness = harness_of(0, 5)
    operator: Any = harness.operator
    push(harness, 0, *[("a", number, 10) for number in range(100)], ("a", 100, 10_000))
    both(harness, 15)
    assert [len(run.times) for run in operator._buffers[0]._runs] == [1]


def test_a_row_far_ahead_does_not_keep_the_rows_that_came_with_it() -> None:
    harness = harness_of(-5, 5)
    operator: Any = harness.operator
    for start in range(0, 1000, 10):
        rows = [("a", number, start + number % 10) for number in range(50)]
        push(harness, 0, *rows, ("a", 50, 10_000_000))
        both(harness, start)
    assert sum(len(run.times) for run in operator._buffers[0]._runs) < 500


def test_few_runs_are_looked_into_however_many_batches_came() -> None:
    harness = harness_of(-10_000, 10_000)
    operator: Any = harness.operator
    for number in range(300):
        push(harness, 0, ("a", number, number))
    assert len(operator._buffers[0]._runs) <= 8


# -- functions


def test_a_function_gets_the_times_of_the_pair_and_may_yield_to_side_outputs() -> None:
    odd = OutputTag("odd")

    def function(_left: Any, right: Any, ctx: ProcessJoinContext) -> Iterator[Any]:
        if right.value % 2:
            yield odd, right.value
        yield ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.get_timestamp()

    harness = harness_of(-5, 5, function)
    push(harness, 0, ("a", 1, 10))
    push(harness, 1, ("a", 2, 8), ("a", 3, 12))
    assert harness.output.rows == [(10, 8, 10), (10, 12, 12)]
    assert harness.output.timestamps == [10, 12]
    assert harness.output.side("odd") == [3]


def test_function_objects_are_opened_called_by_their_method_and_closed() -> None:
    calls = []

    class Join(ProcessJoinFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            calls.append(runtime_context.get_task_name())

        def close(self) -> None:
            calls.append("close")

        def process_element(self, left: Any, right: Any, ctx: ProcessJoinContext) -> Any:
            return None if right.value == 9 else [left.value + right.value]

    with harness_of(0, 5, Join()) as harness:
        push(harness, 0, ("a", 1, 10))
        push(harness, 1, ("a", 2, 11), ("a", 9, 12))
        assert harness.output.rows == [3]
    assert calls == ["op", "close"]


def test_an_error_of_the_function_names_the_operator_and_the_pair() -> None:
    harness = harness_of(0, 5, lambda *_: [1 // 0])
    push(harness, 0, ("a", 17, 10))
    with pytest.raises(UserFunctionError, match=r"operator 'op' \(subtask 1 of 1\): ZeroDivisionError.*17.*23"):
        push(harness, 1, ("a", 23, 10))


def test_only_rows_that_match_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    real = interval_operator.decode
    monkeypatch.setattr(interval_operator, "decode", lambda batch: decoded.append(batch.num_rows) or real(batch))
    harness = harness_of(0, 0, as_tuple)
    push(harness, 0, *[(f"{number}", number, 10) for number in range(1000)])
    push(harness, 1, ("5", 1, 10), ("7", 2, 10), ("7", 3, 10), ("none", 4, 10), ("8", 5, 11))
    assert len(harness.output.rows) == 3
    assert decoded == [2, 3]


def test_rows_of_any_kind_join() -> None:
    def function(left: Any, right: Any, _ctx: ProcessJoinContext) -> Iterator[Any]:
        yield left, right

    keys = (FunctionKey(lambda value: value % 10), FunctionKey(lambda value: value[0]))
    harness = harness_of(0, 5, function, keys=keys)
    harness.push([11, 12], [0, 0], 0)
    harness.push([(1, "x"), (3, "y")], [1, 1], 1)
    assert harness.output.rows == [(11, (1, "x"))]


def test_rows_that_are_objects_have_no_columns_to_join() -> None:
    keys = (FunctionKey(lambda value: 1), FunctionKey(lambda value: 1))  # noqa: ARG005
    harness = harness_of(0, 5, keys=keys)
    harness.push([1], [0], 0)
    with pytest.raises(InvalidProgramError, match="objects that Arrow cannot hold"):
        harness.push([{1, 2}], [0], 1)


@pytest.mark.parametrize("mixed", [0, 1])
def test_rows_of_two_kinds_have_no_columns_to_join(mixed: int) -> None:
    same = FunctionKey(lambda _value: 1)
    harness = harness_of(-10, 10, keys=(same, same))
    harness.push([None, None], [1, 2], mixed)
    harness.push([(1, "x")], [3], mixed)
    with pytest.raises(InvalidProgramError, match="no columns to join"):
        harness.push([("other",)], [3], 1 - mixed)


# -- against other ways of computing it

KEY_SETS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["a", "b", None]),
    (pa.int32(), list(range(40))),
    (pa.int64(), [7]),
    (pa.float64(), [0.0, -0.0, float("nan"), 2.5, None]),
    (pa.string(), [f"key {number}" for number in range(500)]),
]
BOUNDS = [(0, 0), (-5, 5), (0, 30), (-30, 0), (3, 20), (-20, -3), (-200, 200), (1, 1), (-1000, 10)]


def apply(harness: OperatorHarness, step: Step, key_type: pa.DataType) -> None:
    match step:
        case Rows(side, events):
            harness.push(columns_of(events, side, key_type), [event.time for event in events], side)
        case Mark(side, watermark):
            harness.watermark(watermark, side)
        case Status(side, is_idle):
            harness.status(is_idle, side)


def pairs_of_columns(rows: list[dict[str, Any]], timestamps: list[int | None], times: dict[int, int]) -> list[Any]:
    pairs = [Pair(row["key"], row["value"], row["value_right"], row["at"], times[row["value_right"]]) for row in rows]
    assert [max(pair.left_time, pair.right_time) for pair in pairs] == timestamps
    return pairs


def counted(values: Any) -> Counter[str]:
    return Counter(map(repr, map(tuple, values)))


def late_values(harness: OperatorHarness) -> list[list[int]]:
    return [sorted(row.value for row in harness.output.side(tag.name)) for tag in (LEFT_LATE, RIGHT_LATE)]


@pytest.mark.parametrize("seed", range(200))
def test_the_columns_and_the_function_agree_with_a_nested_loop(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    if seed % 3 == 0:  # as if the times of a run were too far apart for their distance to be a rank
        monkeypatch.setattr(interval_partners, "_MOST_CODES", 0)
    if seed % 4 == 0:  # as if the text of a run had no room in one array
        monkeypatch.setattr("actors.columns.large_columns._MOST_BYTES", 30)
    key_type, keys = chance.choice(KEY_SETS)
    lower, upper = chance.choice(BOUNDS)
    steps = random_steps(chance, keys, chance.choice((3, 40, 500)) if len(keys) > 10 else 30)
    times = {event.value: event.time for step in steps if isinstance(step, Rows) for event in step.events}
    model = IntervalJoinModel(lower, upper)
    batch_rows = chance.choice((7, 64, 65_536))
    columnar = harness_of(lower, upper, batch_rows=batch_rows, has_late_tags=True)
    function = harness_of(lower, upper, as_tuple, batch_rows=batch_rows, has_late_tags=True)
    for step in steps:
        model.late[0].clear()
        model.late[1].clear()
        expected = counted(model.apply(step))
        for harness in (columnar, function):
            harness.output.clear()
            apply(harness, step, key_type)
            assert late_values(harness) == [sorted(event.value for event in late) for late in model.late]
            assert all(batch.num_rows <= batch_rows for batch in harness.output.batches)
        pairs = pairs_of_columns(columnar.output.dicts, columnar.output.timestamps, times)
        assert counted(pairs) == expected
        assert list(map(repr, function.output.rows)) == [repr(tuple(pair)) for pair in pairs]
        assert function.output.timestamps == columnar.output.timestamps
        assert columnar.output.watermarks == function.output.watermarks


@pytest.mark.parametrize("seed", range(40))
def test_the_join_goes_on_from_a_snapshot_at_any_parallelism(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr("actors.columns.large_columns._MOST_BYTES", (1 << 30, 30)[seed % 2])
    key_type, keys = chance.choice(KEY_SETS)
    lower, upper = chance.choice(BOUNDS)
    function = chance.choice((None, as_tuple))
    steps = random_steps(chance, keys, 40)
    selectors = [*KEYS] if seed % 3 else [FunctionKey(lambda row: row.key), FunctionKey(lambda row: row.id)]

    def make() -> IntervalJoinOperator:
        return operator_of(lower, upper, function, has_late_tags=True)

    undisturbed, moved = Subtasks(make, selectors), Subtasks(make, selectors, chance.randint(1, 4))
    barriers = {chance.randrange(len(steps)) for _ in range(4)}
    for number, step in enumerate(steps):

        def do(subtasks: Subtasks) -> None:
            if isinstance(step, Rows):  # noqa: B023
                side, events = step  # noqa: B023
                subtasks.push(columns_of(events, side, key_type), [event.time for event in events], side)
            else:
                for harness in subtasks.harnesses:
                    apply(harness, step, key_type)  # noqa: B023

        if number in barriers:
            moved = moved.rescaled(chance.randint(1, 4), do)
            replay_watermarks(moved, steps[:number])
        do(undisturbed)
        do(moved)
        assert counted(moved.take()) == counted(undisturbed.take())


def replay_watermarks(subtasks: Subtasks, steps: list[Step]) -> None:
    """What the channels of a restored task say again."""
    for step in steps:
        for harness in subtasks.harnesses if not isinstance(step, Rows) else ():
            apply(harness, step, pa.null())


def test_a_snapshot_is_not_changed_by_what_comes_after_it() -> None:
    make = lambda: operator_of(-5, 5)  # noqa: E731
    subtasks = Subtasks(make, KEYS)
    subtasks.push(columns_of([Event("a", 1, 10), Event("b", 2, 30)], 0, pa.string()), [10, 30], 0)
    restored = subtasks.rescaled(2, lambda former: former.watermark(29, 2))
    restored.push(columns_of([Event("a", 3, 10)], 1, pa.string()), [10], 1)
    assert [row[0].value for row in restored.take()] == [1]


def test_what_was_late_stays_late_after_a_restore() -> None:
    subtasks = Subtasks(lambda: operator_of(-5, 5), KEYS)
    subtasks.watermark(20, 2)
    restored = subtasks.rescaled(1)
    restored.push(columns_of([Event("a", 1, 19)], 0, pa.string()), [19], 0)
    assert restored.harnesses[0].context.metrics.counters == {"late_records_dropped": 1}


def test_restored_rows_come_before_later_ones_also_after_two_restores() -> None:
    subtasks = Subtasks(lambda: operator_of(-5, 5), KEYS)
    for value in (0, 3, 6):
        events = [Event("a", value + more, 10) for more in range(3)]
        subtasks.push(columns_of(events, 0, pa.string()), [10] * 3, 0)
        subtasks = subtasks.rescaled(value % 2 + 1)
    subtasks.push(columns_of([Event("a", 9, 10)], 1, pa.string()), [10], 1)
    assert [row[0].value for row in subtasks.take()] == list(range(9))


@pytest.mark.parametrize(("lower", "upper"), [(-50, 50), (0, 200), (-300, -100)])
def test_a_long_stream_agrees_with_a_database(lower: int, upper: int) -> None:
    chance = np.random.default_rng(upper - lower)
    rows = 6000
    harness = harness_of(lower, upper)
    tables, marks = [], []
    for side in (0, 1):
        times = np.sort(chance.integers(0, 20_000, rows)) + chance.integers(-40, 1, rows)
        keys = pa.array([f"k{key}" for key in chance.integers(0, 50, rows)], pa.string())
        name = ("key", "id")[side]
        tables.append(pa.table({name: keys, "value": np.arange(rows), "at": times}))
        marks.append(times)
    for start in range(0, rows, 500):
        for side in (0, 1):
            batch = tables[side].slice(start, 500).combine_chunks().to_batches()[0]
            harness.push(batch, marks[side][start : start + 500].tolist(), side)
        for side in (0, 1):
            harness.watermark(int(marks[side][: start + 500].max()) - 41, side)
    expected = database_pairs(tables[0], tables[1], lower, upper)
    assert sorted((row["value"], row["value_right"]) for row in harness.output.dicts) == expected
    assert harness.context.metrics.counters == {}


def database_pairs(left: pa.Table, right: pa.Table, lower: int, upper: int) -> list[tuple[int, int]]:
    with duckdb.connect() as connection:
        connection.register("l", left)
        connection.register("r", right)
        query = "select l.value, r.value from l join r on l.key = r.id where r.at - l.at between ? and ? order by 1, 2"
        return connection.execute(query, [lower, upper]).fetchall()


# -- columns of several types on one side


def push_typed(harness: OperatorHarness, values: pa.Array, keys: pa.Array) -> None:
    harness.push({"key": keys, "value": values}, [1], 0)


def test_a_side_may_have_plain_and_dictionary_columns_in_different_batches() -> None:
    harness = harness_of(-2, 3)
    texts = pa.array(["a"])
    push_typed(harness, texts, texts)
    push_typed(harness, texts.dictionary_encode(), texts.dictionary_encode())
    harness.push({"id": ["a"], "other": [1]}, [2], 1)
    assert [tuple(row) for row in harness.output.rows] == [("a", "a", 1), ("a", "a", 1)]


def test_a_side_may_have_times_of_several_zones_in_different_batches() -> None:
    harness = harness_of(-2, 3)
    for zone in ("UTC", "Europe/Berlin"):
        push_typed(harness, pa.array([7], pa.timestamp("us", zone)), pa.array(["a"]))
    harness.push({"id": ["a"], "other": [1]}, [2], 1)
    assert len(set(harness.output.rows)) == 1
    assert len(harness.output.rows) == 2


def test_rows_of_a_side_that_no_type_holds_are_an_error_that_names_operator_and_column() -> None:
    harness = harness_of(-2, 3)
    push_typed(harness, pa.array([1]), pa.array(["a"]))
    with pytest.raises(TypeMismatchError, match=r"operator '.+': column 'value' is int64 in some .* string in others"):
        push_typed(harness, pa.array(["x"]), pa.array(["a"]))
