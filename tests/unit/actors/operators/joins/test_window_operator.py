"""Window joins and co-groups against nested loops, and their rules."""

from __future__ import annotations

import decimal
import random
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from actors.operators.contract.operator import Operator
from actors.operators.joins.window_operator import create_co_group_operator
from flinkray.batches.batch import Batch
from flinkray.errors import InvalidProgramError, TypeMismatchError, UserFunctionError
from flinkray.functions.interfaces import CoGroupFunction, JoinFunction, RuntimeContext
from flinkray.transformations.operator_factories import WindowCoGroupFactory
from flinkray.types.keys import ColumnKey, FunctionKey
from flinkray.types.records import MAX_TIMESTAMP, Kind, Millis, OutputTag
from flinkray.windows.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from flinkray.windows.evictors import CountEvictor, DeltaEvictor
from flinkray.windows.tagged_union import TaggedUnion
from flinkray.windows.triggers import CountTrigger, EventTimeTrigger, PurgingTrigger, Trigger
from tests.support.joins import Group, Mark, Rows, Status, Step, TwoInputs, UnionWindowModel, columns_of
from tests.support.joins import random_steps as random_joined_steps
from tests.support.operators import OperatorHarness, code
from tests.support.rescaling import Subtasks
from tests.support.state import restored_from
from tests.support.windows import Event, Firing, WindowModel, random_steps
from tests.support.windows import Event as WindowEvent

TUMBLING = TumblingEventTimeWindows.of(10)
KEYS = (ColumnKey(("key",)), ColumnKey(("id",)))


def harness_of(function: Any, is_join: bool, assigner: WindowAssigner = TUMBLING, **settings: Any) -> OperatorHarness:
    lateness = Millis(settings.pop("lateness", 0))
    late_tag, trigger, evictor = (settings.pop(name, None) for name in ("late_tag", "trigger", "evictor"))
    factory = WindowCoGroupFactory(assigner, is_join, function, lateness, late_tag, None, trigger, evictor)
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


def test_a_second_side_of_nothing_but_its_key_gives_pairs_of_the_firsts_columns() -> None:
    harness = harness_of(None, is_join=True)
    harness.push(left(("a", 1), ("b", 2)), [0, 1], 0)
    harness.push({"id": ["a", "a"]}, [3, 4], 1)
    both(harness, 9)
    assert harness.output.dicts == [{"key": "a", "value": 1}] * 2


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


@pytest.mark.parametrize("assigner", [TUMBLING, EventTimeSessionWindows.with_gap(10)])
@pytest.mark.parametrize("large", [0, 1])
def test_pairs_are_cut_into_batches_also_where_a_large_row_has_many_partners(
    assigner: WindowAssigner, large: int
) -> None:
    harness = harness_of(None, is_join=True, assigner=assigner, batch_bytes=1000)
    texts = [["x" * 100 if side == large else "x" for _ in range(5)] for side in (0, 1)]
    harness.push({"key": ["a"] * 500, "value": texts[0] * 100}, [0] * 500, 0)
    harness.push({"id": ["a"] * 5, "value": texts[1]}, [0] * 5, 1)
    both(harness, 19)
    assert sum(batch.num_rows for batch in harness.output.batches) == 2500
    # Those of a session are Python values, of which nobody knows how large they are before the first are columns.
    sizes = [batch.data.nbytes for batch in harness.output.batches]
    assert max(sizes[1:] if assigner is not TUMBLING else sizes) < 4 * 1000 + 200
    assert len(sizes) > 50


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
    assert all(not buffer.layouts for buffer in operator._buffers)
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


# -- any assigner, trigger and evictor

SESSIONS = EventTimeSessionWindows.with_gap(5)


def test_rows_of_both_inputs_make_a_session_grow_and_merge() -> None:
    harness = harness_of(groups, is_join=False, assigner=SESSIONS)
    harness.push(left(("a", 1), ("a", 2)), [0, 8], 0)
    harness.push(right(("a", 10)), [4], 1)
    both(harness, 11)
    assert harness.output.rows == []
    both(harness, 12)
    assert harness.output.rows == [([1, 2], [10])]
    assert harness.output.timestamps == [12]


def test_a_session_with_rows_of_one_input_is_a_group_and_no_pair() -> None:
    for function, is_join, expected in ((groups, False, [([1], [])]), (pair, True, []), (None, True, [])):
        harness = harness_of(function, is_join, SESSIONS)
        harness.push(left(("a", 1)), [0], 0)
        both(harness, MAX_TIMESTAMP)
        assert harness.output.rows == expected


def test_assigners_triggers_and_evictors_get_rows_with_the_input_that_they_are_of() -> None:
    seen: list[Any] = []

    def gap(element: TaggedUnion) -> int:
        seen.append((element.is_one(), element.get_one() and element.get_one().value))
        return 3 if element.is_two() else 9

    harness = harness_of(groups, is_join=False, assigner=EventTimeSessionWindows.with_dynamic_gap(gap))
    harness.push(left(("a", 1)), [0], 0)
    harness.push(right(("a", 2)), [8], 1)
    both(harness, MAX_TIMESTAMP)
    assert seen == [(True, 1), (False, None)]
    assert harness.output.timestamps == [10]

    difference = DeltaEvictor.of(5, lambda each, last: abs(each.value.value - last.value.value))
    harness = harness_of(groups, is_join=False, evictor=difference)
    harness.push(left(("a", 1), ("a", 7)), [0, 1], 0)
    harness.push(right(("a", 2), ("a", 6)), [2, 3], 1)
    both(harness, 9)
    assert harness.output.rows == [([7], [2, 6])]


def test_a_trigger_that_cannot_merge_is_refused_for_sessions() -> None:
    class OwnTrigger(EventTimeTrigger):
        def can_merge(self) -> bool:
            return False

    with pytest.raises(InvalidProgramError, match="EventTimeSessionWindows merges windows, and OwnTrigger cannot"):
        harness_of(pair, is_join=True, assigner=SESSIONS, trigger=OwnTrigger())


def test_functions_in_general_windows_are_opened_and_closed_and_their_errors_name_the_pair() -> None:
    calls = []

    class Join(JoinFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            calls.append(runtime_context.get_task_name())

        def close(self) -> None:
            calls.append("close")

        def join(self, first: Any, second: Any) -> Any:
            return first.value // second.value

    with harness_of(Join(), is_join=True, assigner=SESSIONS) as harness:
        harness.push(left(("a", 6)), [0], 0)
        harness.push(right(("a", 3), ("b", 0)), [0, 0], 1)
        both(harness, 4)
        assert harness.output.rows == [2]
        harness.push(left(("a", 17)), [20], 0)
        harness.push(right(("a", 0)), [20], 1)
        with pytest.raises(UserFunctionError, match=r"operator 'op'.*ZeroDivisionError.*17.*value=0"):
            both(harness, 30)
    assert calls == ["op", "close"]


def test_columns_of_a_session_join_keep_their_types_also_across_a_restore() -> None:
    first = pa.record_batch(
        {
            "key": pa.array([1], pa.int16()),
            "small": pa.array([None], pa.int8()),
            "when": pa.array([5], pa.timestamp("s", "UTC")),
            "price": pa.array([decimal.Decimal("1.50")], pa.decimal128(9, 2)),
        }
    )
    second = pa.record_batch({"id": pa.array([1], pa.int16()), "tags": pa.array([["x", None]], pa.list_(pa.string()))})
    harness = harness_of(None, is_join=True, assigner=SESSIONS)
    harness.push(first, [0], 0)
    saved = restored_from([harness.snapshot()], range(128))
    harness = harness_of(None, is_join=True, assigner=SESSIONS, restored=saved)
    harness.push(second, [1], 1)
    both(harness, 9)
    (batch,) = harness.output.batches
    kept = pa.record_batch([*first.columns, second.column("tags")], names=[*first.schema.names, "tags"])
    assert batch.data == kept
    assert batch.data.schema == kept.schema


def test_a_column_that_becomes_wider_is_wide_for_the_rows_before_it_too() -> None:
    harness = harness_of(None, is_join=True, assigner=SESSIONS)
    for number, arrow_type in enumerate((pa.null(), pa.int32(), pa.float64())):
        value = pa.array([None if number == 0 else number], arrow_type)
        harness.push({"key": pa.array(["a"]), "value": value}, [0], 0)
    harness.push({"id": pa.array(["a"])}, [0], 1)
    both(harness, 9)
    (batch,) = harness.output.batches
    assert batch.data.column("value").equals(pa.array([None, 1.0, 2.0]))


def test_rows_that_are_objects_have_no_columns_to_join() -> None:
    keys = (FunctionKey(len), FunctionKey(len))
    for assigner in (TUMBLING, SESSIONS):
        harness = harness_of(None, is_join=True, assigner=assigner, keys=keys)
        with pytest.raises(InvalidProgramError, match="objects that Arrow cannot hold"):
            harness.push([{1, 2}], [0], 0)


@pytest.mark.parametrize("mixed", [0, 1])
def test_rows_of_two_kinds_have_no_columns_to_join(mixed: int) -> None:
    same = FunctionKey(lambda _value: 1)
    harness = harness_of(None, is_join=True, keys=(same, same))
    harness.push([None, None], [1, 2], mixed)
    harness.push([(1, "x")], [3], mixed)
    harness.push([("other",)], [3], 1 - mixed)
    with pytest.raises(InvalidProgramError, match="no columns to join"):
        both(harness, MAX_TIMESTAMP)


def test_a_group_from_which_everything_was_evicted_is_empty() -> None:
    harness = harness_of(groups, is_join=False, evictor=CountEvictor.of(0))
    harness.push(left(("a", 1)), [0], 0)
    both(harness, 9)
    assert harness.output.rows == [([], [])]


# -- any assigner, trigger and evictor, against what Flink does with each row


class JoinCase(NamedTuple):
    """How the windows are, for the operator and for the model."""

    assigner: WindowAssigner
    settings: dict[str, Any]
    model: UnionWindowModel


def random_case(chance: random.Random) -> JoinCase:
    size = chance.choice((5, 20, 100))
    slide = chance.choice((size, max(1, size // 2), size // 3))
    lateness = chance.choice((0, 0, 15, 60))
    assigner, model = chance.choice(
        [
            (EventTimeSessionWindows.with_gap(size), UnionWindowModel(gap=size, lateness=lateness)),
            (EventTimeSessionWindows.with_gap(size), UnionWindowModel(gap=size, lateness=lateness)),
            (ProcessingTimeSessionWindows.with_gap(size), UnionWindowModel(gap=size, is_event_time=False)),
            (
                SlidingProcessingTimeWindows.of(size, slide),
                UnionWindowModel(size=size, slide=slide, is_event_time=False),
            ),
            (TumblingProcessingTimeWindows.of(size), UnionWindowModel(size=size, slide=size, is_event_time=False)),
            (GlobalWindows.create(), UnionWindowModel(is_event_time=False)),
            (SlidingEventTimeWindows.of(size, slide), UnionWindowModel(size=size, slide=slide, lateness=lateness)),
        ]
    )
    settings: dict[str, Any] = {"lateness": lateness, "late_tag": OutputTag("late")}
    default = assigner.get_default_trigger()
    is_aligned = isinstance(assigner, SlidingEventTimeWindows)
    kind = chance.choice(["count", "purging count", "purging"] if is_aligned else ["", "", "count", "purging"])
    if isinstance(assigner, GlobalWindows):
        kind = chance.choice(["count", "purging count"])
    if kind:
        model.count = chance.randint(1, 6) if "count" in kind else 0
        model.is_purging = "purging" in kind
        trigger: Trigger = CountTrigger.of(model.count) if model.count else default
        settings["trigger"] = PurgingTrigger.of(trigger) if model.is_purging else trigger
    if chance.random() < 0.3:
        model.kept = chance.randint(1, 5)
        settings["evictor"] = CountEvictor.of(model.kept)
    return JoinCase(assigner, settings, model)


def groups_with_key(first: Any, second: Any) -> list[tuple[str, str, str]]:
    first, second = list(first), list(second)
    key = first[0].key if first else second[0].id
    return [(repr(key), values_of(row.value for row in first), values_of(row.value for row in second))]


def values_of(values: Iterable[int]) -> str:
    return " ".join(map(str, values))


def expected_groups(fired: list[Group]) -> Counter[Any]:
    return Counter((g.key, values_of(g.first), values_of(g.second), g.timestamp) for g in fired)


def random_input(chance: random.Random) -> tuple[pa.DataType, list[Step]]:
    """The type of the keys, and steps: few keys with small batches, or many with batches of up to 500 rows."""
    key_type, keys, most_rows = chance.choice(
        [
            (pa.string(), ["a", "b", None], chance.choice((1, 12))),
            (pa.float64(), [0.5, None, 2.5], chance.choice((1, 12))),
            (pa.int32(), [None, *range(300)], chance.choice((40, 40, 500))),
        ]
    )
    return key_type, random_joined_steps(chance, keys, most_rows, batches=5 if most_rows > 100 else 9)


def expected_pairs(fired: list[Group]) -> Counter[Any]:
    return Counter((g.key, one, other, g.timestamp) for g in fired for one in g.first for other in g.second)


@pytest.mark.parametrize("seed", range(110))
def test_all_kinds_of_windows_agree_with_a_loop_over_each_row(seed: int) -> None:
    chance = random.Random(seed)
    case = random_case(chance)
    key_type, steps = random_input(chance)
    batch_rows = chance.choice((5, 65_536))
    harnesses = {
        name: harness_of(function, name != "co-group", case.assigner, batch_rows=batch_rows, **case.settings)
        for name, function in {"columns": None, "pairs": pair, "co-group": groups_with_key}.items()
    }
    inputs, model = TwoInputs(), case.model
    if not model.is_event_time:
        model.now = 0
    for step in steps:
        model.late.clear()
        fired: list[Group] = []
        wait = chance.choice((0, 1, 3, chance.randrange(150)))
        if isinstance(step, Rows):
            fired = [group for event in step.events for group in model.row(event, step.side)]
        elif inputs.apply(step) and model.is_event_time:
            fired = model.advance(inputs.watermark)
        if not model.is_event_time:
            for time in range(model.now + 1, model.now + wait + 1):
                fired += model.advance(time)
        for name, harness in harnesses.items():
            harness.output.clear()
            apply_step(harness, step, key_type)
            harness.advance(wait)
            assert sorted(row.value for row in harness.output.side("late")) == sorted(e.value for e in model.late)
            assert all(batch.num_rows <= batch_rows for batch in harness.output.batches)
            rows = zip(harness.output.rows, harness.output.timestamps, strict=True)
            if name == "co-group":
                assert Counter((*row, time) for row, time in rows) == expected_groups(fired)
            elif name == "pairs":
                assert Counter((repr(k), a, b, time) for (k, a, b), time in rows) == expected_pairs(fired)
            else:
                found = Counter((repr(row.key), row.value, row.value_right, time) for row, time in rows)
                assert found == expected_pairs(fired)


@pytest.mark.parametrize("seed", range(40))
def test_windows_of_both_inputs_go_on_from_a_snapshot_at_any_parallelism(seed: int) -> None:
    chance = random.Random(seed)
    name, function = chance.choice([("columns", None), ("pairs", pair), ("co-group", groups_with_key)])
    case = random_case(chance)
    while not case.model.is_event_time and not isinstance(case.assigner, GlobalWindows):
        case = random_case(chance)
    selectors = [*KEYS] if seed % 2 else [FunctionKey(lambda row: row.key), FunctionKey(lambda row: row.id)]

    def make() -> Operator:
        lateness, tag = Millis(case.settings["lateness"]), case.settings["late_tag"]
        trigger, evictor = case.settings.get("trigger"), case.settings.get("evictor")
        is_join = name != "co-group"
        factory = WindowCoGroupFactory(case.assigner, is_join, function, lateness, tag, None, trigger, evictor)
        return create_co_group_operator(code(factory))

    undisturbed, moved = Subtasks(make, selectors), Subtasks(make, selectors, chance.randint(1, 4))
    key_type, steps = random_input(chance)
    barriers = {chance.randrange(len(steps)) for _ in range(3)}
    for number, step in enumerate(steps):

        def do(subtasks: Subtasks) -> None:
            if isinstance(step, Rows):  # noqa: B023
                side, events = step  # noqa: B023
                subtasks.push(columns_of(events, side, key_type), [event.time for event in events], side)
            else:
                for harness in subtasks.harnesses:
                    apply_step(harness, step, key_type)  # noqa: B023

        if number in barriers:
            moved = moved.rescaled(chance.randint(1, 4), do)
            for before in steps[:number]:
                for harness in moved.harnesses if not isinstance(before, Rows) else ():
                    apply_step(harness, before, key_type)  # as the channels of a restored task say again
        do(undisturbed)
        do(moved)
        assert Counter(map(repr, moved.take())) == Counter(map(repr, undisturbed.take()))


@pytest.mark.parametrize("seed", range(90))
def test_aligned_windows_agree_with_a_nested_loop_with_inputs_that_go_on_independently(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns, pairs and co-groups; each late row fires its window."""
    chance = random.Random(seed)
    monkeypatch.setattr("actors.columns.large_columns._MOST_BYTES", (1 << 30, 30)[seed % 2])
    size = chance.choice((5, 20, 100))
    slide = chance.choice((size, max(1, size // 2), size // 3))
    offset, lateness = chance.randrange(-slide + 1, slide), chance.choice((0, 0, 25))
    assigner = SlidingEventTimeWindows.of(size, slide, offset)
    if size == slide and chance.random() < 0.5:
        assigner = TumblingEventTimeWindows.of(size, offset)
    key_type, steps = random_input(chance)
    model, inputs = WindowModel(assigner, lateness), TwoInputs()
    batch_rows = chance.choice((5, 65_536))
    tag = OutputTag("late")
    harnesses = {
        name: harness_of(function, name != "co-group", assigner, batch_rows=batch_rows, lateness=lateness, late_tag=tag)
        for name, function in {"columns": None, "pairs": pair, "co-group": groups_with_key}.items()
    }
    for step in steps:
        model.late.clear()
        fired: list[Firing] = []
        if isinstance(step, Rows):
            side, events = step
            fired = model.batch([WindowEvent(each.time, each.key, (side, each.value)) for each in events])
        elif inputs.apply(step):
            fired = model.advance(inputs.watermark)
        expected = [
            Group(repr(f.key), f.start + size - 1, *(tuple(v for s, v in f.values if s == side) for side in (0, 1)))
            for f in fired
        ]
        for name, harness in harnesses.items():
            harness.output.clear()
            apply_step(harness, step, key_type)
            late = sorted(row.value for row in harness.output.side("late"))
            assert late == sorted(event.value[1] for event in model.late)
            assert all(batch.num_rows <= batch_rows for batch in harness.output.batches)
            rows = zip(harness.output.rows, harness.output.timestamps, strict=True)
            if name == "co-group":
                assert Counter((*row, time) for row, time in rows) == expected_groups(expected)
            elif name == "pairs":
                assert Counter((repr(k), a, b, time) for (k, a, b), time in rows) == expected_pairs(expected)
            else:
                found = Counter((repr(row.key), row.value, row.value_right, time) for row, time in rows)
                assert found == expected_pairs(expected)


def apply_step(harness: OperatorHarness, step: Step, key_type: pa.DataType) -> None:
    match step:
        case Rows(side, events):
            harness.push(columns_of(events, side, key_type), [event.time for event in events], side)
        case Mark(side, watermark):
            harness.watermark(watermark, side)
        case Status(side, is_idle):
            harness.status(is_idle, side)


# -- columns of several types on one side


def typed(values: pa.Array, keys: pa.Array) -> dict[str, Any]:
    return {"key": keys, "value": values}


@pytest.mark.parametrize("assigner", [TUMBLING, EventTimeSessionWindows.with_gap(100)])
@pytest.mark.parametrize("function", [None, groups])
def test_a_side_may_have_plain_and_dictionary_columns_in_different_batches(
    assigner: WindowAssigner, function: Any
) -> None:
    harness = harness_of(function, is_join=function is None, assigner=assigner)
    texts = pa.array(["a"])
    harness.push(typed(texts, texts), [0], 0)
    harness.push(typed(texts.dictionary_encode(), texts.dictionary_encode()), [1], 0)
    harness.push(right(("a", 1)), [2], 1)
    both(harness, MAX_TIMESTAMP)
    pairs = [("a", "a", 1), ("a", "a", 1)]
    assert [tuple(row) for row in harness.output.rows] == (pairs if function is None else [(["a", "a"], [1])])


def test_a_side_may_have_decimals_and_integers_in_different_batches() -> None:
    harness = harness_of(None, is_join=True)
    exact, keys = decimal.Decimal("1.25"), pa.array(["a"])
    harness.push(typed(pa.array([exact], pa.decimal128(5, 2)), keys), [0], 0)
    harness.push(typed(pa.array([7]), keys), [1], 0)
    harness.push(right(("a", 1)), [2], 1)
    both(harness, MAX_TIMESTAMP)
    assert [tuple(row) for row in harness.output.rows] == [("a", exact, 1), ("a", decimal.Decimal(7), 1)]


def test_rows_of_a_side_that_no_type_holds_are_an_error_that_names_operator_and_column() -> None:
    harness = harness_of(None, is_join=True)
    harness.push(typed(pa.array([1]), pa.array(["a"])), [0], 0)
    harness.push(typed(pa.array(["x"]), pa.array(["a"])), [1], 0)
    harness.push(right(("a", 1)), [2], 1)
    with pytest.raises(TypeMismatchError, match=r"operator '.+': column 'value' is int64 in some .* string in others"):
        both(harness, MAX_TIMESTAMP)


def test_keys_of_the_inputs_that_cannot_be_compared_are_an_error_that_names_both_inputs_columns() -> None:
    harness = harness_of(None, is_join=True)
    harness.push(left(("a", 1)), [0], 0)
    text = r"key \(key\) of its first input with key \(id\) of its second: in the second that is int64, and .* string;"
    with pytest.raises(TypeMismatchError, match=text):
        harness.push({"value": [1], "id": [7]}, [0], 1)
