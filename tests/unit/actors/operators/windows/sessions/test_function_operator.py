"""The rules of session windows with the user's own functions."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from actors.operators.contract.cancellation import TaskCanceled
from actors.operators.joins.window_operator import CoGroupOperator
from actors.operators.windows.aligned.aggregate_operator import ColumnarWindowOperator
from actors.operators.windows.aligned.function_operator import RowWindowOperator
from actors.operators.windows.aligned.process_operator import ProcessWindowOperator
from actors.operators.windows.general.operator import GeneralWindowOperator
from actors.operators.windows.sessions import end_queue, store
from actors.operators.windows.sessions.aggregate_operator import ColumnarSessionOperator
from actors.operators.windows.sessions.contents import FoldedSessions, FrozenContents
from actors.operators.windows.sessions.function_operator import RowSessionOperator
from actors.operators.windows.user_functions.contents import fold_of
from actors.state.keyed.options import StateOptions
from flinkray.errors import IncompatibleStateError, InvalidProgramError, TypeMismatchError, UserFunctionError
from flinkray.functions.interfaces import AggregateFunction, ProcessWindowFunction, WindowContext
from flinkray.persistence import loads
from flinkray.state.descriptors import ValueStateDescriptor
from flinkray.time.windows import Window
from flinkray.transformations.operator_factories import WindowCoGroupFactory, WindowFactory
from flinkray.types.keys import ColumnKey, FunctionKey, KeySelector
from flinkray.types.records import MAX_TIMESTAMP, Millis, OutputTag
from flinkray.windows.aggregates import Count
from flinkray.windows.assigners import (
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SessionWindows,
    TumblingEventTimeWindows,
)
from tests.support.operators import FakeContext, ManualClock, OperatorHarness, as_batch
from tests.support.rescaling import Subtasks
from tests.support.state import restored_from
from tests.support.window_cases import SessionModel, assert_updates_then_results, random_case

KEY = (ColumnKey(("key",)),)
LATE = OutputTag("late")
GAP = EventTimeSessionWindows.with_gap(10)
COUNT = ValueStateDescriptor("count")


def listed(key: Any, context: WindowContext, rows: Iterable[Any]) -> list[Any]:
    window = context.window()
    return [(key, window.start, window.end, [row.value for row in rows])]


class JoinedValues(AggregateFunction):
    """Whose accumulator is changed in place, also by `merge` and when it is read."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        accumulator.append(value.value)
        return accumulator

    def get_result(self, accumulator: list[Any]) -> str:
        shown = ",".join(map(str, accumulator))
        accumulator.append("shown")
        return shown

    def merge(self, accumulator_a: list[Any], accumulator_b: list[Any]) -> list[Any]:
        accumulator_a += accumulator_b
        accumulator_b.append("merged")
        return accumulator_a


def sessions(assigner: SessionWindows = GAP, lateness: int = 0, is_keyed: bool = True, **more: Any) -> OperatorHarness:
    settings = {name: more.pop(name) for name in ("context", "restored", "state_options") if name in more}
    if not {"process", "reduce", "aggregate"} & set(more):
        more["process"] = listed
    factory = WindowFactory(assigner, allowed_lateness_ms=Millis(lateness), late_tag=LATE, **more)
    return OperatorHarness(RowSessionOperator(factory), keys=KEY if is_keyed else (None,), **settings)


def push(harness: OperatorHarness, *rows: tuple[str, int, Any]) -> list[Any]:
    """(key, time, value); gives what came out at once."""
    keys, times, values = zip(*rows, strict=True)
    harness.output.clear()
    harness.push({"key": list(keys), "value": list(values)}, list(times))
    return harness.output.rows


def at(harness: OperatorHarness, watermark: int) -> list[Any]:
    harness.output.clear()
    harness.watermark(watermark)
    return harness.output.rows


def test_a_session_fires_at_its_last_millisecond_with_key_window_and_rows_by_arrival() -> None:
    with sessions() as harness:
        assert push(harness, ("b", 3, 1), ("a", 7, 2), ("a", 0, 3), ("b", 40, 4)) == []
        assert at(harness, 11) == []
        assert at(harness, 16) == [("b", 3, 13, [1]), ("a", 0, 17, [2, 3])]
        assert harness.output.timestamps == [12, 16]
        assert at(harness, MAX_TIMESTAMP) == [("b", 40, 50, [4])]


def test_sessions_that_become_one_are_put_together_by_their_first_rows_before_the_new_ones() -> None:
    rows = (("a", 40, 1), ("a", 0, 2), ("a", 20, 3)), (("a", 10, 4), ("b", 0, 5), ("a", 30, 6))
    for more, expected in (
        ({}, [("b", 0, 10, [5]), ("a", 0, 50, [1, 2, 3, 4, 6])]),
        ({"aggregate": JoinedValues()}, ["5", "1,2,3,4,6"]),
        ({"reduce": lambda one, other: {"value": one["value"] * 10 + other["value"]}}, [5, 12346]),
    ):
        with sessions(**more) as harness:
            for some in rows:
                push(harness, *some)
            found = at(harness, MAX_TIMESTAMP)
            assert [getattr(row, "value", row) for row in found] == expected


def test_a_reduced_row_of_one_session_is_the_row_itself() -> None:
    with sessions(reduce=fail) as harness:
        push(harness, ("a", 5, 7))
        (row,) = at(harness, MAX_TIMESTAMP)
        assert (row.key, row.value) == ("a", 7)


def test_each_late_row_fires_its_session_again_or_goes_to_its_output() -> None:
    with sessions(lateness=20) as harness:
        push(harness, ("a", 0, 1), ("b", 0, 2))
        at(harness, 9)
        assert push(harness, ("a", 0, 3), ("a", 1, 4), ("a", 0, 5)) == [("a", 0, 10, [1, 3])], "it ends at 11 now"
        assert at(harness, 10) == [("a", 0, 11, [1, 3, 4, 5])]
        assert push(harness, ("b", 0, 6), ("b", 0, 7)) == [("b", 0, 10, [2, 6]), ("b", 0, 10, [2, 6, 7])]
        at(harness, 29)
        assert push(harness, ("b", 0, 8), ("a", 1, 9)) == [("a", 0, 11, [1, 3, 4, 5, 9])]
        assert [row.value for row in harness.output.side("late")] == [8]


def test_all_rows_of_a_stream_without_keys_are_of_one() -> None:
    with sessions(is_keyed=False) as harness:
        push(harness, ("a", 0, 1), ("b", 7, 2), ("c", 30, 3))
        assert at(harness, MAX_TIMESTAMP) == [(None, 0, 17, [1, 2]), (None, 30, 40, [3])]


def test_each_row_may_bring_its_own_gap() -> None:
    with sessions(EventTimeSessionWindows.with_dynamic_gap(lambda row: row.value)) as harness:
        push(harness, ("a", 0, 50), ("a", 10, 5), ("a", 51, 9))
        assert at(harness, MAX_TIMESTAMP) == [("a", 0, 50, [50, 5]), ("a", 51, 60, [9])]


def test_processing_time_sessions_end_when_no_row_has_come_for_the_gap() -> None:
    context = FakeContext(keys=KEY, clock=ManualClock(1000))
    with sessions(ProcessingTimeSessionWindows.with_gap(10), context=context, lateness=500) as harness:
        for value in range(3):
            push(harness, ("a", 7, value))
            harness.advance(9)
        assert at(harness, MAX_TIMESTAMP) == [], "watermarks do not matter"
        harness.advance(1)
        assert harness.output.rows == [("a", 1000, 1028, [0, 1, 2])]
        assert not harness.context.timers, "nothing waits"


# -- functions


class CountingSession(ProcessWindowFunction):
    """Counts the firings of each key."""

    def __init__(self) -> None:
        self.cleared: list[Any] = []

    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> list[Any]:
        count = context.global_state().get_state(COUNT)
        count.update((count.value() or 0) + 1)
        return [(key, count.value(), context.current_watermark(), context.current_processing_time())]

    def clear(self, context: WindowContext) -> None:
        self.cleared.append((context.window(), context.global_state().get_state(COUNT).value()))


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_window_function_has_state_of_its_key_and_is_told_when_a_session_is_over(backend: str, tmp_path: Any) -> None:
    function = CountingSession()
    options = StateOptions(backend, local_directory=str(tmp_path))
    with sessions(process=function, lateness=5, state_options=options) as harness:
        harness.context.clock.now = 77
        push(harness, ("a", 0, 1), ("b", 0, 2), ("a", 30, 3))
        assert at(harness, 14) == [("a", 1, 14, 77), ("b", 1, 14, 77)]
        assert function.cleared == [(Window(0, 10), 1), (Window(0, 10), 1)]
        assert at(harness, 40) == [("a", 2, 40, 77)]
        restored = restored_from([harness.snapshot()], range(128))
    with sessions(process=(again := CountingSession()), restored=restored, state_options=options) as harness:
        push(harness, ("a", 60, 4))
        assert at(harness, MAX_TIMESTAMP) == [("a", 3, MAX_TIMESTAMP, 0)]
        assert again.cleared == [(Window(30, 40), 2), (Window(60, 70), 3)]


def test_state_per_window_is_refused() -> None:
    def per_window(_key: Any, context: WindowContext, _rows: Any) -> list[Any]:
        return [context.window_state().get_state(COUNT).value()]

    with sessions(process=per_window) as harness:
        push(harness, ("a", 0, 1))
        with pytest.raises(InvalidProgramError, match=r"state per window .* is not there for windows that merge"):
            at(harness, 10)


def fail(*_: Any) -> Any:
    raise ValueError("no")


class FailingSession(JoinedValues):
    def __init__(self, method: str) -> None:
        setattr(self, method, fail)


class Clearing(ProcessWindowFunction):
    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> list[Any]:
        return []

    def clear(self, context: WindowContext) -> None:
        fail()


@pytest.mark.parametrize(
    ("more", "value"),
    [
        ({"reduce": fail}, r"\(Row\(key='a', value=1\), Row\(key='a', value=2\)\)"),
        ({"aggregate": FailingSession("add")}, r"Row\(key='a', value=1\)"),
        ({"aggregate": FailingSession("merge")}, r"\(\[1\], \[2\]\)"),
        ({"aggregate": FailingSession("get_result")}, r"Window\(start=0, end=30\) of key 'a'"),
        ({"process": fail}, r"Window\(start=0, end=30\) of key 'a'"),
        ({"process": Clearing()}, r"Window\(start=0, end=30\) of key 'a'"),
    ],
)
def test_an_error_of_the_users_function_names_operator_subtask_and_what_it_was_about(more: Any, value: str) -> None:
    def run() -> None:
        with sessions(**more) as harness:
            push(harness, ("a", 0, 1), ("a", 20, 2))
            push(harness, ("a", 10, 3))
            at(harness, MAX_TIMESTAMP)

    with pytest.raises(UserFunctionError, match=rf"'op' .*: no; the value was {value}"):
        run()


class Restarting(ProcessWindowFunction):
    """Counts the windows of a key since one was over."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> list[Any]:
        count = context.global_state().get_state(COUNT)
        count.update((count.value() or 0) + 1)
        self.calls.append((key, context.window().start, count.value()))
        return []

    def clear(self, context: WindowContext) -> None:
        self.calls.append(("over", context.window().start))
        context.global_state().get_state(COUNT).clear()


@pytest.mark.parametrize("make", [RowSessionOperator, GeneralWindowOperator])
@pytest.mark.parametrize("lateness", [0, 5, 41])
def test_sessions_are_over_before_later_ones_fire(make: Any, lateness: int) -> None:
    function = Restarting()
    factory = WindowFactory(GAP, process=function, allowed_lateness_ms=Millis(lateness))
    with OperatorHarness(make(factory), keys=KEY) as harness:
        push(harness, ("a", 0, 1), ("a", 20, 2))
        at(harness, 12)
        push(harness, ("a", 60, 3))
        at(harness, 200)
    assert (
        function.calls
        == {
            0: [("a", 0, 1), ("over", 0), ("a", 20, 1), ("over", 20), ("a", 60, 1), ("over", 60)],
            5: [("a", 0, 1), ("over", 0), ("a", 20, 1), ("over", 20), ("a", 60, 1), ("over", 60)],
            41: [("a", 0, 1), ("a", 20, 2), ("over", 0), ("a", 60, 1), ("over", 20), ("over", 60)],
        }[lateness]
    )


def test_a_function_in_processing_time_is_told_the_watermark_and_not_the_clock() -> None:
    def watermark(_key: Any, context: WindowContext, _rows: Any) -> list[Any]:
        return [(context.current_watermark(), context.current_processing_time())]

    context = FakeContext(keys=KEY, clock=ManualClock(1000))
    with sessions(ProcessingTimeSessionWindows.with_gap(10), context=context, process=watermark) as harness:
        harness.watermark(5)
        push(harness, ("a", 7, 1))
        harness.advance(10)
        assert harness.output.rows == [(5, 1010)]


def test_a_key_that_cannot_be_one_is_told_with_its_row() -> None:
    with sessions() as harness, pytest.raises(TypeMismatchError, match="has a list or dict in it"):
        harness.push({"key": [["a"]], "value": [1]}, [0])


def test_a_task_that_is_cancelled_calls_no_more_functions() -> None:
    called: list[Any] = []

    def call(key: Any, *_: Any) -> list[Any]:
        called.append(key)
        harness.context.cancellation.set()
        return []

    with sessions(process=call) as harness:
        push(harness, ("a", 0, 1), ("b", 0, 1))
        with pytest.raises(TaskCanceled):
            at(harness, 100)
    assert called == ["a"]


# -- what is kept


def test_nothing_is_kept_of_sessions_that_are_over_or_part_of_others() -> None:
    with sessions() as harness:
        push(harness, ("a", 0, 1), ("a", 20, 2), ("b", 0, 3))
        push(harness, ("a", 10, 4))
        contents = harness.operator._contents._contents  # type: ignore[attr-defined]
        assert sum(isinstance(held, list) for held in contents) == 2
        at(harness, 10)
        assert sum(isinstance(held, list) for held in contents) == 1
        for number in range(30):
            harness.push({"key": [f"{number} {row}" for row in range(500)], "value": [1] * 500}, [number * 100] * 500)
            at(harness, number * 100 + 50)
        assert len(harness.operator._contents._contents) < 6000  # type: ignore[attr-defined]


def test_batch_mode_ends_keys_with_their_state() -> None:
    with sessions(process=(function := CountingSession())) as harness:
        for _ in range(2):
            push(harness, ("a", 0, 1), ("a", 50, 2))
            harness.output.clear()
            harness.operator.end_keys()
            assert [row[:2] for row in harness.output.rows] == [("a", 1), ("a", 2)]
        assert len(function.cleared) == 4


# -- against a model, and at any parallelism

SHAPES: dict[str, dict[str, Any]] = {
    "process": {"process": lambda key, context, rows: [shown(key, context, [row.row for row in rows])]},
    "reduce": {
        "reduce": lambda one, other: {"row": f"{one['row']},{other['row']}"},
        "process": lambda key, context, rows: [shown(key, context, numbers(rows[0]["row"]))],
    },
    "aggregate": {
        "aggregate": JoinedValues(),
        "process": lambda key, context, rows: [shown(key, context, numbers(rows[0]))],
    },
}


def shown(key: Any, context: WindowContext, rows: list[int]) -> str:
    window = context.window()
    return repr((key if isinstance(key, tuple) else (key,), window.start, window.end, sorted(rows)))


def numbers(text: Any) -> list[int]:
    return [int(number) for number in str(text).split(",") if number.isdigit()]


@pytest.mark.seeds(40)
def test_sessions_are_those_of_the_model(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    shape = list(SHAPES)[seed % 3]
    case = random_case(seed, 100)
    if seed % 2:
        monkeypatch.setattr(store, "_FEWEST_COMPACTED", 0)
        monkeypatch.setattr(end_queue, "_FAN_IN", 2)
    gap, lateness = chance.randrange(1, 40), chance.choice((0, 0, 20, 1000))
    model = SessionModel(lambda _: gap, lateness)
    assigner = EventTimeSessionWindows.with_gap(gap)
    factory = WindowFactory(assigner, allowed_lateness_ms=Millis(lateness), late_tag=LATE, **SHAPES[shape])
    operator = RowSessionOperator(factory)
    selectors: list[KeySelector] = [
        ColumnKey(case.key_names),
        FunctionKey(lambda row: case.key_of({name: row[name] for name in case.key_names})),
    ]
    with OperatorHarness(operator, keys=[chance.choice(selectors)], batch_rows=chance.choice((3, 1000))) as harness:
        for (data, times), mark in zip(case.batches, case.watermarks, strict=True):
            values = data.column("row").to_pylist()
            keys = [case.key_of(row) for row in data.to_pylist()]
            harness.push(data.set_column(data.num_columns - 2, "value", data.column("row")), times)
            updates, results = model.batch(list(zip(times, keys, values, strict=True))), []
            if mark is not None and mark > model.watermark:
                harness.watermark(mark)
                results = model.advance(mark)
            operator._store.check()
            expected = [
                [repr((each.key, each.start, each.end, sorted(row for _, row in each.values))) for each in fired]
                for fired in (updates, results)
            ]
            assert_updates_then_results(harness.output.rows, *expected)
            assert [row.row for row in harness.output.side("late")] == [row for _, _, row in model.late]
            harness.output.clear()
            model.late.clear()


class Spoiling(ProcessWindowFunction):
    """Changes the rows that it is given; state per key goes along."""

    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> list[Any]:
        count = context.global_state().get_state(COUNT)
        count.update((count.value() or 0) + 1)
        found = (key, context.window().start, count.value(), [list(row["values"]) for row in elements])
        for row in elements:
            row["values"].append(-1)
        return [found]


MOVED: dict[str, dict[str, Any]] = {
    "process": {"process": Spoiling()},
    "reduce": {"reduce": lambda one, other: {"key": one["key"], "value": 0, "values": one["values"] + other["values"]}},
    "aggregate": {
        "aggregate": JoinedValues(),
        "process": lambda key, context, rows: [(key, context.window().start, list(rows))],
    },
}


@pytest.mark.seeds(15)
def test_sessions_go_on_at_any_parallelism_from_snapshots_that_are_written_later(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What happens between the barrier and the writing does not show: values are copied before they change."""
    chance = random.Random(seed)
    shape = list(MOVED)[seed % 3]
    monkeypatch.setattr(store, "_FEWEST_COMPACTED", chance.choice((0, 4096)))
    lateness, gap = chance.choice((0, 30)), chance.randrange(2, 30)
    factory = WindowFactory(
        EventTimeSessionWindows.with_gap(gap), allowed_lateness_ms=Millis(lateness), late_tag=LATE, **MOVED[shape]
    )
    selectors = [FunctionKey(lambda row: row["key"])]
    undisturbed, moved = (Subtasks(lambda: RowSessionOperator(factory), selectors, chance.randint(1, 3)) for _ in "12")
    now = 0
    for number in range(25):
        times = [now + chance.randrange(-20, 20) for _ in range(chance.randint(1, 12))]
        rows = [{"key": chance.randrange(5), "value": number, "values": [number, place]} for place in range(len(times))]
        mark = now - chance.randrange(30)

        def step(them: Subtasks, rows: Any = rows, times: Any = times, mark: int = mark) -> None:
            them.push([{**row, "values": list(row["values"])} for row in rows], times)
            them.watermark(mark)

        if chance.random() < 0.4:
            moved = moved.rescaled(chance.randint(1, 3), step)
        step(undisturbed)
        step(moved)
        assert sorted(map(repr, moved.take())) == sorted(map(repr, undisturbed.take()))
        now += chance.randrange(25)


def spoil(contents: FoldedSessions, session: int) -> None:
    for row in contents.exposed(np.array([session]))[0]:
        row.append("spoilt")


def held(frozen: FrozenContents, session: int) -> Any:
    return loads(frozen.columns(np.array([session]))["contents"][0].as_py())


@pytest.fixture
def contents() -> FoldedSessions:
    """With the rows ["a"], ["b"] and ["c"] in sessions of their own."""
    contents = FoldedSessions(fold_of(WindowFactory(GAP, process=listed)), FakeContext(keys=KEY))
    contents.grow(3)
    contents.add(as_batch([["a"], ["b"], ["c"]]), np.arange(3), 0)
    return contents


def test_rows_that_move_to_another_session_are_still_the_snapshots(contents: FoldedSessions) -> None:
    frozen = contents.freeze(3)
    contents.grow(4)
    contents.add(as_batch([["d"]]), np.array([3]), 3)
    contents.merge(np.array([1]), np.array([3]))
    spoil(contents, 3)
    assert held(frozen, 1) == [["b"]]
    assert contents.exposed(np.array([3])) == [[["d", "spoilt"], ["b", "spoilt"]]]


def test_rows_whose_sessions_are_numbered_anew_are_still_the_snapshots(contents: FoldedSessions) -> None:
    frozen = contents.freeze(3)
    contents.renumber(np.array([2]), np.array([0]), 1)
    contents.add(as_batch([["d"]]), np.array([0]), 3)
    spoil(contents, 0)
    assert held(frozen, 2) == [["c"]]
    assert contents.exposed(np.array([0])) == [[["c", "spoilt"], ["d", "spoilt"]]]


def test_what_no_unwritten_snapshot_has_is_not_copied(contents: FoldedSessions) -> None:
    frozen = contents.freeze(3)
    (shared,) = contents.exposed(np.array([0]))
    assert contents.exposed(np.array([0]))[0] is shared, "it was copied when it was shown first"
    del frozen
    contents.add(as_batch([["d"]]), np.array([1]), 3)
    assert contents.exposed(np.array([1]))[0] is contents._contents[1]


# -- state of other windows


def test_state_of_windows_that_were_kept_in_another_way_is_refused_not_lost() -> None:
    reduce = {"reduce": lambda one, _other: one}
    tumbling = TumblingEventTimeWindows.of(10)
    operators = {
        "general": lambda: GeneralWindowOperator(WindowFactory(GAP, **reduce)),
        "rows": lambda: RowWindowOperator(WindowFactory(tumbling, **reduce)),
        "all rows": lambda: ProcessWindowOperator(WindowFactory(tumbling, process=listed)),
        "joins": lambda: CoGroupOperator(WindowCoGroupFactory(tumbling, False, lambda *_: [])),
        "columns": lambda: ColumnarWindowOperator(WindowFactory(tumbling, (("n", Count()),))),
        "session rows": lambda: RowSessionOperator(WindowFactory(GAP, **reduce)),
        "session columns": lambda: ColumnarSessionOperator(WindowFactory(GAP, (("n", Count()),))),
    }
    for before, make_before in operators.items():
        with OperatorHarness(make_before(), keys=KEY * 2) as harness:
            push(harness, ("a", 0, 1))
            snapshot = harness.snapshot()
            for after, make_after in operators.items():
                restored = restored_from([snapshot], range(128))
                if after == before:
                    OperatorHarness(make_after(), keys=KEY * 2, restored=restored).operator.close()
                else:
                    with pytest.raises(IncompatibleStateError, match="another uid"):
                        OperatorHarness(make_after(), keys=KEY * 2, restored=restored)
