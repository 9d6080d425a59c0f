"""Window joins and co-groups against nested loops, and their rules."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from actors.operators.window_join import create_co_group_operator
from flinkray.batch import Batch
from flinkray.errors import InvalidProgramError
from flinkray.functions import CoGroupFunction, JoinFunction
from flinkray.keys import ColumnKey, FunctionKey
from flinkray.operator_factories import WindowCoGroupFactory
from flinkray.types import MAX_TIMESTAMP, Kind, Millis, OutputTag
from flinkray.windowing import SlidingEventTimeWindows, TumblingEventTimeWindows, WindowAssigner
from tests.support.operators import OperatorHarness, code
from tests.support.state import restored_from
from tests.support.windows import Event, WindowModel, random_steps

TUMBLING = TumblingEventTimeWindows.of(10)
KEYS = (ColumnKey(("key",)), ColumnKey(("id",)))


def harness_of(function: Any, is_join: bool, assigner: WindowAssigner = TUMBLING, **settings: Any) -> OperatorHarness:
    lateness = Millis(settings.pop("lateness", 0))
    factory = WindowCoGroupFactory(assigner, is_join, function, lateness, settings.pop("late_tag", None))
    keys = settings.pop("keys", KEYS)
    return OperatorHarness(create_co_group_operator(code(factory, *keys)), keys=keys, **settings)


def both(harness: OperatorHarness, watermark: int) -> None:
    harness.watermark(watermark, 0)
    harness.watermark(watermark, 1)


def left(*rows: tuple[Any, int]) -> dict[str, Any]:
    return {"key": pa.array([key for key, _ in rows], pa.string()), "value": [value for _, value in rows]}


def right(*rows: tuple[Any, int]) -> dict[str, Any]:
    return {"value": [value for _, value in rows], "id": pa.array([key for key, _ in rows], pa.string())}


def pair(first: Any, second: Any) -> tuple[Any, Any, Any]:
    return first.key, first.value, second.value


def groups(first: Any, second: Any) -> list[tuple[list[int], list[int]]]:
    return [([row.value for row in first], [row.value for row in second])]


def test_a_join_gives_every_pair_of_the_same_key_and_window_with_the_windows_last_millisecond() -> None:
    harness = harness_of(pair, is_join=True)
    harness.push(left(("a", 1), ("b", 2), ("a", 3)), [0, 1, 12], 0)
    harness.push(right(("a", 10), ("a", 20), ("c", 30)), [9, 3, 3], 1)
    both(harness, MAX_TIMESTAMP)
    assert harness.output.rows == [("a", 1, 10), ("a", 1, 20)]
    assert harness.output.timestamps == [9, 9]


def test_a_window_fires_when_both_inputs_have_passed_it() -> None:
    harness = harness_of(pair, is_join=True)
    harness.push(left(("a", 1)), [0], 0)
    harness.watermark(50, 0)
    harness.push(right(("a", 2)), [0], 1)  # the operator's watermark is the lower of both: this is in time
    assert harness.output.elements == []
    harness.watermark(9, 1)
    assert harness.output.rows == [("a", 1, 2)]
    assert harness.output.watermarks == [9]


def test_a_co_group_is_called_for_keys_that_only_one_side_has() -> None:
    harness = harness_of(groups, is_join=False)
    harness.push(left(("a", 1), ("b", 2)), [0, 1], 0)
    harness.push(right(("c", 10), ("a", 20), ("a", 30)), [9, 3, 4], 1)
    both(harness, 9)
    assert harness.output.rows == [([1], [20, 30]), ([2], []), ([], [10])]


def test_function_objects_are_opened_called_by_their_method_and_closed() -> None:
    calls = []

    class Group(CoGroupFunction):
        def open(self, runtime_context: Any) -> None:
            calls.append("open")

        def close(self) -> None:
            calls.append("close")

        def co_group(self, first: Any, second: Any) -> Any:
            yield len(list(first)) + len(list(second))

    class Join(JoinFunction):
        def join(self, first: Any, second: Any) -> Any:
            return first.value * second.value

    for function, expected in ((Group(), [2]), (Join(), [6])):
        with harness_of(function, isinstance(function, Join)) as harness:
            harness.push(left(("a", 2)), [0], 0)
            harness.push(right(("a", 3)), [0], 1)
            both(harness, 9)
            assert harness.output.rows == expected
    assert calls == ["open", "close"]


def test_the_columnar_join_has_the_firsts_columns_then_the_seconds_without_its_key() -> None:
    harness = harness_of(None, is_join=True)
    harness.push(left(("a", 1), ("b", 2), (None, 3)), [0, 1, 2], 0)
    harness.push(right(("a", 10), ("a", 20), (None, 30)), [9, 3, 4], 1)
    both(harness, 9)
    assert harness.output.dicts == [
        {"key": "a", "value": 1, "value_right": 10},
        {"key": "a", "value": 1, "value_right": 20},
        {"key": None, "value": 3, "value_right": 30},
    ]
    assert harness.output.timestamps == [9, 9, 9]


def test_the_columnar_join_refuses_columns_that_would_collide() -> None:
    harness = harness_of(None, is_join=True)
    harness.push({"key": ["a"], "value": [1], "value_right": [2]}, [0], 0)
    harness.push(right(("a", 10)), [0], 1)
    with pytest.raises(InvalidProgramError, match="two columns 'value_right'; rename"):
        both(harness, 9)


def test_pairs_are_cut_into_batches_also_where_one_row_has_many_partners() -> None:
    harness = harness_of(None, is_join=True, batch_rows=10)
    harness.push(left(*[("a", number) for number in range(7)]), [0] * 7, 0)
    harness.push(right(*[("a", number) for number in range(13)]), [0] * 13, 1)
    both(harness, 9)
    assert max(batch.num_rows for batch in harness.output.batches) <= 10
    assert [(row["value"], row["value_right"]) for row in harness.output.dicts] == [
        (one, other) for one in range(7) for other in range(13)
    ]


def test_keys_of_functions_join_too() -> None:
    keys = (FunctionKey(lambda row: row.value % 10), FunctionKey(lambda row: row.value % 10))
    harness = harness_of(None, is_join=True, keys=keys)
    harness.push({"value": [1, 2]}, [0, 0], 0)
    harness.push({"value": [11, 13]}, [0, 0], 1)
    both(harness, 9)
    assert harness.output.dicts == [{"value": 1, "value_right": 11}]


def test_a_late_row_of_either_input_goes_to_the_late_output_or_is_counted() -> None:
    for tag in (None, OutputTag("late")):
        harness = harness_of(pair, is_join=True, late_tag=tag)
        both(harness, 9)
        harness.push(left(("a", 1)), [3], 0)
        harness.push(right(("a", 2)), [4], 1)
        late = [row.value for row in harness.output.side("late")]
        assert late == ([] if tag is None else [1, 2])
        assert harness.context.metrics.counters == ({"late_records_dropped": 2} if tag is None else {})


def test_an_allowed_late_row_makes_its_window_fire_again_for_its_key() -> None:
    harness = harness_of(pair, is_join=True, lateness=20)
    harness.push(left(("a", 1), ("b", 2)), [0, 0], 0)
    harness.push(right(("a", 10), ("b", 20)), [0, 0], 1)
    both(harness, 9)
    harness.output.clear()
    harness.push(right(("a", 11)), [5], 1)
    assert harness.output.rows == [("a", 1, 10), ("a", 1, 11)]
    both(harness, 29)
    harness.push(right(("a", 12)), [5], 1)
    assert harness.context.metrics.counters == {"late_records_dropped": 1}


def test_both_inputs_need_keys() -> None:
    with pytest.raises(InvalidProgramError, match="keys for both inputs"):
        harness_of(pair, is_join=True, keys=(None, None))


def test_a_co_group_needs_a_function() -> None:
    with pytest.raises(InvalidProgramError, match="needs a function"):
        harness_of(None, is_join=False)


def test_what_is_kept_does_not_hold_on_to_the_received_batch() -> None:
    harness = harness_of(None, is_join=True)
    before = pa.total_allocated_bytes()
    wide = pa.record_batch({"key": ["a"] * 100_000, "value": list(range(100_000))})
    batch = Batch(wide.slice(5, 2), Kind.ROW, pa.array([1, 1], pa.int64()))
    harness.push(batch, None, 0)
    del wide, batch
    assert pa.total_allocated_bytes() - before < 100_000


def test_state_is_given_back_when_windows_are_over() -> None:
    harness = harness_of(None, is_join=True)
    operator: Any = harness.operator
    for start in range(0, 200, 10):
        rows = [(f"{start}-{number}", number) for number in range(1000)]
        harness.push(left(*rows), [start] * 1000, 0)
        harness.push(right(*rows), [start] * 1000, 1)
        both(harness, start + 9)
    assert len(harness.output.rows) == 20_000
    assert all(not buffer._slices for buffer in operator._buffers)
    assert len(operator._keys) < 10_000


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("shape", ["join", "columnar", "co-group"])
def test_joins_agree_with_nested_loops_also_across_a_restore(seed: int, shape: str) -> None:
    chance = random.Random(seed)
    assigner = [TUMBLING, SlidingEventTimeWindows.of(12, 5, 2), TumblingEventTimeWindows.of(15, -4)][seed % 3]
    lateness = chance.choice((0, 25))
    steps = random_steps(chance, ["a", "b", None], list(range(50)), most_rows=12)
    function = {"join": pair, "columnar": None, "co-group": groups}[shape]
    model = WindowModel(assigner, lateness)
    harness = harness_of(function, shape != "co-group", assigner, lateness=lateness)
    crash_at = chance.randrange(len(steps))
    for number, step in enumerate(steps):
        if number == crash_at:
            saved = restored_from([harness.snapshot()], range(128))
            harness = harness_of(function, shape != "co-group", assigner, lateness=lateness, restored=saved)
            if model.watermark > -(2**63):
                both(harness, model.watermark)
        harness.output.clear()
        if isinstance(step, int):
            fired = model.advance(step)
            both(harness, step)
        else:
            side = chance.randrange(2)
            fired = model.batch([event._replace(value=(side, event.value)) for event in step])
            push(harness, step, side)
        expected: list[Any] = []
        for firing in fired:
            sides = [[value for index, value in firing.values if index == wanted] for wanted in (0, 1)]
            if shape == "co-group":
                expected.append((sides[0], sides[1]))
            else:
                expected += [(firing.key, one, other) for one in sides[0] for other in sides[1]]
        if shape == "columnar":
            actual = [(row["key"], row["value"], row["value_right"]) for row in harness.output.dicts]
        else:
            actual = harness.output.rows
        assert Counter(map(repr, actual)) == Counter(map(repr, expected))


def push(harness: OperatorHarness, events: list[Event], side: int) -> None:
    rows = [(event.key, event.value) for event in events]
    harness.push((left, right)[side](*rows), [event.time for event in events], side)
