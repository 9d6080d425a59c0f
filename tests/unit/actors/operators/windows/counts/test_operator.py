"""The rules of count windows with built-in aggregates; and that they give what the general operator gives."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.operators.contract.operator import Operator
from actors.operators.windows.aligned.aggregate_operator import ColumnarWindowOperator
from actors.operators.windows.choice import create_window_operator
from actors.operators.windows.counts import operator as count_columnar
from actors.operators.windows.counts import store as count_store
from actors.operators.windows.counts.arithmetic import CountWindowPanes, count_windows_of
from actors.operators.windows.counts.operator import ColumnarCountOperator
from actors.operators.windows.general.operator import GeneralWindowOperator
from flinkray.errors import CheckpointError, IncompatibleStateError, InvalidProgramError, UnknownColumnError
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.types.keys import ColumnKey, FunctionKey
from flinkray.types.records import MAX_TIMESTAMP, Millis, OutputTag
from flinkray.windows.aggregates import (
    Aggregate,
    ArgMax,
    ArgMin,
    Avg,
    CollectList,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Min,
    Sum,
    TopN,
)
from flinkray.windows.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    GlobalWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from flinkray.windows.evictors import CountEvictor, Evictor
from flinkray.windows.triggers import CountTrigger, EventTimeTrigger, PurgingTrigger, Trigger
from tests.support.operators import OperatorHarness, RecordedOutput, code
from tests.support.rescaling import Subtasks
from tests.support.state import restored_from, write_snapshot
from tests.support.window_cases import WindowCase, random_case

KEY = (ColumnKey(("key",)),)
LIST = (("values", CollectList("value")),)
GLOBAL = GlobalWindows.create()


def of_rows(size: int, slide: int | None = None) -> WindowAssigner:
    """As `count_window` makes it."""
    return CountSlidingWindowAssigner.of(size, slide) if slide else CountTumblingWindowAssigner.of(size)


def last_rows(size: int, slide: int, aggregates: Any = LIST) -> WindowFactory:
    """Every so-manieth row gives the last ones."""
    trigger, evictor = CountTrigger.of(slide), CountEvictor.of(size)
    return WindowFactory(GLOBAL, aggregates, trigger=trigger, evictor=evictor)


def purged(size: int, aggregates: Any = LIST) -> WindowFactory:
    return WindowFactory(GLOBAL, aggregates, trigger=PurgingTrigger.of(CountTrigger.of(size)))


def counted(factory: WindowFactory, is_keyed: bool = True, **settings: Any) -> OperatorHarness:
    return OperatorHarness(ColumnarCountOperator(factory), keys=KEY if is_keyed else (None,), **settings)


def push(harness: OperatorHarness, keys: str, first: int = 0) -> list[tuple[Any, ...]]:
    """A row per letter, whose values count on; gives the windows that are full then, as (key, values)."""
    harness.output.clear()
    harness.push({"key": list(keys), "value": list(range(first, first + len(keys)))})
    harness.operator._store.check()  # type: ignore[attr-defined]
    return [(row.get("key"), row["values"]) for row in harness.output.dicts]


# -- firing


def test_a_window_fires_with_its_last_row_and_windows_come_in_the_order_of_these_rows() -> None:
    harness = counted(WindowFactory(of_rows(2), LIST))
    assert push(harness, "abbcca") == [("b", [1, 2]), ("c", [3, 4]), ("a", [0, 5])]


def test_windows_are_filled_over_batches_and_several_of_a_key_by_one() -> None:
    harness = counted(WindowFactory(of_rows(3), LIST))
    assert push(harness, "aa") == []
    assert push(harness, "aaaaab", 2) == [("a", [0, 1, 2]), ("a", [3, 4, 5])]
    assert push(harness, "ba", 8) == []
    assert push(harness, "ba", 10) == [("b", [7, 8, 10]), ("a", [6, 9, 11])]


def test_windows_slide_by_rows() -> None:
    harness = counted(WindowFactory(of_rows(3, 2), LIST))
    assert push(harness, "aa") == []
    assert push(harness, "aaaa", 2) == [("a", [0, 1, 2]), ("a", [2, 3, 4])]
    assert push(harness, "aba", 6) == [("a", [4, 5, 6])]


def test_rows_between_windows_are_in_none() -> None:
    harness = counted(WindowFactory(of_rows(2, 5), LIST))
    assert push(harness, "aaa") == [("a", [0, 1])]
    assert push(harness, "aaa", 3) == []
    assert push(harness, "aa", 6) == [("a", [5, 6])]


def test_a_global_window_that_every_so_manieth_row_purges_is_a_count_window() -> None:
    assert push(counted(purged(2)), "aabaa") == [("a", [0, 1]), ("a", [3, 4])]


def test_every_so_manieth_row_gives_the_last_ones_from_the_beginning() -> None:
    harness = counted(last_rows(5, 2))
    assert push(harness, "aaa") == [("a", [0, 1])]
    assert push(harness, "aaaaa", 3) == [("a", [0, 1, 2, 3]), ("a", [1, 2, 3, 4, 5]), ("a", [3, 4, 5, 6, 7])]


def test_results_have_no_window_bounds_and_the_end_of_time_as_event_time() -> None:
    harness = counted(WindowFactory(of_rows(1), (("n", Count()),)))
    harness.push({"key": ["a"], "value": [1]}, [77])
    assert harness.output.dicts == [{"key": "a", "window_start": None, "window_end": None, "n": 1}]
    assert harness.output.timestamps == [MAX_TIMESTAMP]
    assert harness.output.batches[0].data.schema.field("window_start").type == pa.int64()


def test_floats_are_added_up_in_the_order_of_their_rows() -> None:
    harness = counted(WindowFactory(of_rows(3, 1), (("total", Sum("value")),)))
    harness.push({"key": ["a"] * 4, "value": [1e16, -1e16, 1.0, 2.0]})
    assert [row["total"] for row in harness.output.dicts] == [1e16 - 1e16 + 1.0, -1e16 + 1.0 + 2.0]


@pytest.mark.parametrize("is_batch", [False, True])
def test_what_is_not_full_at_the_end_does_not_fire(is_batch: bool) -> None:
    harness = counted(WindowFactory(of_rows(2), LIST), is_batch=is_batch)
    push(harness, "a")
    harness.watermark(MAX_TIMESTAMP)
    harness.end()
    assert harness.output.rows == []
    assert harness.output.watermarks == [MAX_TIMESTAMP]


def test_in_batch_mode_state_goes_with_its_keys() -> None:
    harness = counted(WindowFactory(of_rows(2), LIST), is_batch=True)
    push(harness, "ab")
    harness.operator.end_keys()
    assert len(harness.operator._store._keys) == 0  # type: ignore[attr-defined]
    assert push(harness, "cc", 2) == [("c", [2, 3])]


def test_windows_of_all_rows_need_no_key() -> None:
    assert push(counted(WindowFactory(of_rows(2), LIST), is_keyed=False), "abc") == [(None, [0, 1])]


def test_keys_that_a_function_gives_are_columns_of_the_result() -> None:
    harness = OperatorHarness(
        ColumnarCountOperator(WindowFactory(of_rows(2), LIST)), keys=(FunctionKey(lambda row: row.value % 2),)
    )
    harness.push({"value": [1, 2, 3, 4]})
    assert [(row["key"], row["values"]) for row in harness.output.dicts] == [(1, [1, 3]), (0, [2, 4])]


def test_a_column_that_is_missing_and_one_that_is_there_twice_name_the_operator() -> None:
    with pytest.raises(UnknownColumnError, match=r"'op \(1/1\)': no column 'absent'"):
        counted(WindowFactory(of_rows(1), (("n", Sum("absent")),))).push({"key": [1]})
    with pytest.raises(InvalidProgramError, match="two columns named 'key'"):
        counted(WindowFactory(of_rows(1), (("key", Count()),))).push({"key": [1]})


# -- as the general operator

VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [None, -3, 0, 1, 2, 10**12]),
    (pa.float64(), [None, -1.5, 0.0, 0.25, 7.75]),  # whose sums are exact in whatever order
    (pa.string(), [None, "", "a", "b", "zebra"]),
    (pa.decimal128(10, 2), [None, Decimal("-1.50"), Decimal("0.25"), Decimal("3.00")]),
    (pa.timestamp("ms"), [None, 0, 5, 1_700_000_000_000]),
    (pa.bool_(), [None, True, False]),
]


def every_aggregate(value_type: pa.DataType) -> tuple[tuple[str, Aggregate], ...]:
    aggregates: dict[str, Aggregate] = {
        "rows": Count(),
        "values": Count("drawn"),
        "low": Min("drawn"),
        "high": Max("drawn"),
        "first": First("drawn"),
        "last": Last("drawn"),
        "distinct": CountDistinct("drawn"),
        "top": TopN("drawn", 2),
        "all": CollectList("drawn"),
        "at_low": ArgMin("row", by="drawn"),
        "at_high": ArgMax("row", by="drawn"),
        "numbers": CollectList("row"),
        "whole": Sum("value"),
    }
    if not pa.types.is_string(value_type) and not pa.types.is_timestamp(value_type):
        aggregates |= {"total": Sum("drawn"), "mean": Avg("drawn")}
    return tuple(aggregates.items())


def with_values(case: WindowCase, chance: random.Random) -> tuple[pa.DataType, list[pa.RecordBatch]]:
    value_type, values = chance.choice(VALUES)
    batches = []
    for data, _ in case.batches:
        drawn = pa.array(chance.choices(values, k=data.num_rows), value_type)
        batches.append(pa.RecordBatch.from_arrays([*data.columns, drawn], names=[*data.schema.names, "drawn"]))
    return value_type, batches


def some_windows(chance: random.Random, aggregates: Any) -> WindowFactory:
    size, slide = chance.choice((1, 2, 3, 7, 20)), chance.choice((1, 2, 3, 5, 9))
    kind = chance.randrange(4)
    if kind == 0:
        return WindowFactory(of_rows(size), aggregates, allowed_lateness_ms=Millis(5), late_tag=OutputTag("late"))
    if kind == 1:
        return WindowFactory(of_rows(size, slide), aggregates)
    return purged(size, aggregates) if kind == 2 else last_rows(max(size, slide), slide, aggregates)


def check_same_types(ours: RecordedOutput, general: RecordedOutput) -> None:
    """The general operator, which looks at a window at a time, may not know a type yet that the batch has."""
    for our, other in zip(ours.batches[:1], general.batches[:1], strict=True):
        assert our.data.schema.names == other.data.schema.names
        pairs = zip(our.data.schema.types, other.data.schema.types, strict=True)
        assert all(type_ == expected or pa.types.is_null(expected) for type_, expected in pairs)


@pytest.mark.seeds(7)
def test_the_result_is_that_of_the_general_operator(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    case = random_case(seed, 300)
    if seed % 2:
        monkeypatch.setattr(count_store, "_FEWEST_COMPACTED", 0)
        monkeypatch.setattr(count_store, "_FEWEST_COMPACTED_ENTRIES", 0)
        monkeypatch.setattr(count_columnar, "_PANES_AT_ONCE", chance.choice((1, 8)))
    value_type, batches = with_values(case, chance)
    factory = some_windows(chance, every_aggregate(value_type))
    keys = (ColumnKey(case.key_names),) if seed % 8 else (None,)
    batch_rows = chance.choice((3, 65_536))
    ours, general = (
        OperatorHarness(make(factory), keys=keys, batch_rows=batch_rows)
        for make in (ColumnarCountOperator, GeneralWindowOperator)
    )
    for data, (_, times), watermark in zip(batches, case.batches, case.watermarks, strict=True):
        for harness in (ours, general):
            harness.output.clear()
            harness.push(data, times)
            if watermark is not None:
                harness.watermark(watermark)
        assert ours.output.dicts == general.output.dicts, f"seed {seed}"
        assert ours.output.timestamps == general.output.timestamps
        check_same_types(ours.output, general.output)
        assert all(batch.num_rows <= batch_rows for batch in ours.output.batches)
        assert ours.output.watermarks == general.output.watermarks
        ours.operator._store.check()  # type: ignore[attr-defined]


@pytest.mark.seeds(4)
def test_stopped_subtasks_go_on_as_more_or_fewer_of_them(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(1000 + seed)
    case = random_case(seed, 300)
    if seed % 2:
        monkeypatch.setattr(count_store, "_FEWEST_COMPACTED", 0)
        monkeypatch.setattr(count_store, "_FEWEST_COMPACTED_ENTRIES", 0)
    value_type, batches = with_values(case, chance)
    factory = some_windows(chance, every_aggregate(value_type))
    keys = (ColumnKey(case.key_names),)
    subtasks = Subtasks(lambda: ColumnarCountOperator(factory), keys)
    undisturbed = Subtasks(lambda: GeneralWindowOperator(factory), keys)
    found, expected = [], []
    for data in batches:
        if chance.random() < 0.4:
            subtasks = subtasks.rescaled(chance.choice((1, 2, 3)), lambda former, data=data: former.push(data))  # type: ignore[misc]
        for each in (subtasks, undisturbed):
            each.push(data)
        found += subtasks.take()
        expected += undisturbed.take()
    assert Counter(map(repr, found)) == Counter(map(repr, expected)), f"seed {seed}"
    assert found or not expected


@pytest.mark.seeds(20)
def test_panes_are_those_of_the_windows_that_a_loop_over_rows_finds(seed: int) -> None:
    chance = random.Random(seed)
    size, slide = chance.randint(1, 12), chance.randint(1, 12)
    windows = CountWindowPanes(size, slide, chance.choice((0, max(0, size - slide))))
    numbers = np.arange(windows.first, 100)
    members = [[n for n in range(number // slide + 1) if n * slide + size > number] for number in range(100)]
    assert windows.are_in_window(numbers).tolist() == [bool(members[number]) for number in numbers]
    assert windows.are_last(numbers).tolist() == [
        any(n * slide + size - 1 == number for n in members[number]) for number in numbers
    ]
    panes = windows.panes(numbers).tolist()
    assert set(range(panes[0], panes[-1] + 1)) == set(panes)
    of_number = dict(zip(numbers.tolist(), panes, strict=True))
    if size >= slide:
        later = [number for number in numbers[:-1].tolist() if number >= size]  # before, windows of no rows end too
        assert [of_number[number] == of_number[number + 1] for number in later] == [
            members[number] == members[number + 1] for number in later
        ]
    for coming in numbers[: 100 - 2 * (size + slide) - windows.first].tolist():
        last = next(n * slide + size - 1 for n in range(100) if n * slide + size - 1 >= coming)
        if size >= slide:
            assert windows.oldest_needed(np.array([coming])).tolist() == [
                of_number.get(last, 0) - windows.panes_per_window + 1
            ]
            first = max(windows.first, last - size + 1)
            assert len({of_number[number] for number in range(first, last + 1)}) <= windows.panes_per_window


# -- state


def test_state_does_not_grow_with_keys_whose_windows_are_full() -> None:
    for factory in (WindowFactory(of_rows(2), LIST), WindowFactory(of_rows(1, 2), LIST)):
        harness = counted(factory)
        for number in range(40):
            keys = [number * 500 + row // 2 for row in range(1000)]
            harness.push({"key": keys, "value": keys})
        store = harness.operator._store  # type: ignore[attr-defined]
        assert len(store._needed()) == 0
        assert store._accumulator_count < 10_000
        assert len(store._keys) < 10_000
        assert [part.name for part in write_snapshot(harness.snapshot()).parts] == ["subtask"], "nothing by key"


def test_state_does_not_grow_with_the_rows_of_a_key() -> None:
    for factory in (WindowFactory(of_rows(7), LIST), WindowFactory(of_rows(7, 3), LIST), last_rows(7, 1)):
        harness = counted(factory)
        for _ in range(60):
            harness.push({"key": [0] * 1000, "value": [0] * 1000})
        assert harness.operator._store._accumulator_count < 10_000  # type: ignore[attr-defined]
        assert len(harness.operator._store._needed()) <= 7  # type: ignore[attr-defined]


def test_values_of_windows_that_are_full_are_let_go_of_soon() -> None:
    harness = counted(WindowFactory(of_rows(4), LIST))
    for _ in range(60):
        harness.push({"key": [0] * 40, "value": ["x" * 10_000] * 40})
        harness.output.clear()
    (accumulator,) = (aggregation._accumulators for aggregation in harness.operator._store._aggregates._aggregations)  # type: ignore[attr-defined]
    assert sum(chunk.nbytes for chunk in accumulator._chunks) < 10 * 10_000 * 40


def test_keys_that_stay_have_their_rows_when_others_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count_store, "_FEWEST_COMPACTED", 0)
    monkeypatch.setattr(count_store, "_FEWEST_COMPACTED_ENTRIES", 0)
    harness = counted(WindowFactory(of_rows(3), LIST))
    push(harness, "bcdefgaazz" * 3 + "xyy")
    assert len(harness.operator._store._keys) == 2  # type: ignore[attr-defined]
    assert push(harness, "xyxb", 33) == [("y", [31, 32, 34]), ("x", [30, 33, 35])]
    assert push(harness, "bb", 37) == [("b", [36, 37, 38])]


def test_subtasks_whose_columns_had_other_types_go_on_as_one() -> None:
    factory = WindowFactory(of_rows(3, 2), LIST)
    subtasks = Subtasks(lambda: ColumnarCountOperator(factory), KEY, 2)
    first, second = (5, 8, 9), (0, 1, 2)
    for key in (*first, *second):
        subtasks.push({"key": [key] * 2, "value": [1, 2] if key in first else [1.5, 2.5]})
    assert [harness.operator._store._accumulator_count for harness in subtasks.harnesses] == [6, 6]  # type: ignore[attr-defined]
    subtasks = subtasks.rescaled(1)
    subtasks.push({"key": [*first, *second], "value": [3.0] * 6})
    assert [(row.key, row.values) for row, _ in subtasks.take()] == [
        (key, [1.0, 2.0, 3.0] if key in first else [1.5, 2.5, 3.0]) for key in (*first, *second)
    ]


def restored(before: OperatorHarness, factory: WindowFactory) -> OperatorHarness:
    return counted(factory, restored=restored_from([before.snapshot()], range(128)))


@pytest.mark.parametrize(
    "now", [WindowFactory(of_rows(4), LIST), WindowFactory(of_rows(3, 2), LIST), last_rows(3, 2), purged(30)]
)
def test_other_windows_than_those_of_the_snapshot_are_refused_by_name(now: WindowFactory) -> None:
    before = counted(WindowFactory(of_rows(3), LIST))
    push(before, "ab")
    with pytest.raises(IncompatibleStateError, match=r"op.*written for windows counts of 3 rows every 3 rows from 0"):
        restored(before, now)


def test_windows_of_rows_and_windows_of_time_do_not_take_each_others_state() -> None:
    timed = WindowFactory(TumblingEventTimeWindows.of(10), LIST)
    before = OperatorHarness(ColumnarWindowOperator(timed), keys=KEY)
    before.push({"key": ["a"], "value": [1]}, [1])
    with pytest.raises(IncompatibleStateError, match="slices of 10 ms from 0, and the program has counts of 3 rows"):
        restored(before, WindowFactory(of_rows(3), LIST))
    before = counted(WindowFactory(of_rows(3), LIST))
    push(before, "a")
    with pytest.raises(IncompatibleStateError, match="counts of 3 rows"):
        OperatorHarness(
            ColumnarWindowOperator(timed), keys=KEY, restored=restored_from([before.snapshot()], range(128))
        )


def test_the_same_windows_said_in_another_way_go_on() -> None:
    before = counted(WindowFactory(of_rows(3), LIST))
    push(before, "aa")
    assert push(restored(before, purged(3)), "a", 2) == [("a", [0, 1, 2])]


def test_an_aggregate_that_computes_something_else_is_refused_and_a_new_one_begins_empty() -> None:
    before = counted(WindowFactory(of_rows(3), (("n", Count()),)))
    before.push({"key": ["a", "a"], "value": [1, 2]})
    with pytest.raises(CheckpointError, match=r"'n' is Sum\('value'\) now, and its state has n=Count\(\)"):
        restored(before, WindowFactory(of_rows(3), (("n", Sum("value")),)))
    after = restored(before, WindowFactory(of_rows(3), (("n", Count()), ("total", Sum("value").from_now_on()))))
    after.push({"key": ["a"], "value": [4]})
    assert [(row["n"], row["total"]) for row in after.output.dicts] == [(3, 4)]


# -- no row by itself


def calls_of(action: Callable[[], object]) -> int:
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    "factory",
    [
        WindowFactory(of_rows(5), every_aggregate(pa.int64())),
        WindowFactory(of_rows(7, 3), every_aggregate(pa.int64())),
        WindowFactory(of_rows(2, 5), every_aggregate(pa.int64())),
        last_rows(6, 2, every_aggregate(pa.int64())),
    ],
)
def test_ten_times_the_rows_keys_and_windows_take_no_more_calls(factory: WindowFactory) -> None:
    def calls(rows: int) -> int:
        harness = counted(factory)
        batch = pa.record_batch({name: pa.array(np.arange(rows)) for name in ("value", "row", "drawn")})
        batch = batch.append_column("key", pa.array(np.arange(rows) % (rows // 40)))
        harness.push(batch)
        assert harness.output.rows
        harness.output.clear()
        return calls_of(lambda: harness.push(batch))

    calls(2000)
    few, many = calls(2000), calls(20_000)
    assert many < 2 * few, "a sort of large numbers takes a few more"


# -- which operator


class _OwnTrigger(PurgingTrigger):
    pass


class _OwnEvictor(CountEvictor):
    pass


class _OwnWindows(CountTumblingWindowAssigner):
    pass


def test_programs_that_count_rows_in_whatever_words_are_told_from_those_that_do_more() -> None:
    every_third, keep = CountTrigger.of(3), CountEvictor.of(5)
    cases: list[tuple[WindowAssigner, Trigger | None, Evictor | None, CountWindowPanes | None]] = [
        (of_rows(3), None, None, CountWindowPanes(3, 3)),
        (of_rows(3), PurgingTrigger.of(every_third), None, CountWindowPanes(3, 3)),
        (of_rows(3), every_third, None, None),
        (of_rows(3), None, keep, None),
        (of_rows(5, 3), None, None, CountWindowPanes(5, 3)),
        (of_rows(3, 5), None, None, CountWindowPanes(3, 5)),
        (of_rows(1 << 62), None, None, None),
        (_OwnWindows(3), None, None, None),
        (GLOBAL, None, None, None),
        (GLOBAL, every_third, None, None),  # all rows so far
        (GLOBAL, PurgingTrigger.of(every_third), None, CountWindowPanes(3, 3)),
        (GLOBAL, PurgingTrigger.of(every_third), keep, None),
        (GLOBAL, PurgingTrigger.of(EventTimeTrigger.create()), None, None),
        (GLOBAL, _OwnTrigger(every_third), None, None),
        (GLOBAL, every_third, keep, CountWindowPanes(5, 3, 2)),
        (GLOBAL, every_third, CountEvictor.of(3), CountWindowPanes(3, 3)),
        (GLOBAL, every_third, CountEvictor.of(2), None),
        (GLOBAL, every_third, CountEvictor.of(5, True), None),
        (GLOBAL, every_third, _OwnEvictor(5), None),
    ]
    for assigner, trigger, evictor, expected in cases:
        factory = WindowFactory(assigner, LIST, trigger=trigger, evictor=evictor)
        assert count_windows_of(factory) == expected, factory


def test_the_columnar_operator_runs_what_counts_rows_with_built_in_aggregates() -> None:
    def runs(factory: WindowFactory) -> type[Operator]:
        return type(create_window_operator(code(factory, "key")))

    assert runs(WindowFactory(of_rows(3), LIST)) is ColumnarCountOperator
    assert runs(last_rows(3, 2)) is ColumnarCountOperator
    assert runs(WindowFactory(of_rows(3), process=lambda *_: [])) is GeneralWindowOperator
    assert runs(WindowFactory(GLOBAL, LIST, trigger=CountTrigger.of(3))) is GeneralWindowOperator
