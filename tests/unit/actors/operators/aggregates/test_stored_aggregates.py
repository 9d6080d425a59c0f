"""A program whose aggregates have changed goes on with the state that fits, and is refused any other."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from actors.operators.aggregates.stored_aggregates import facts_metadata, stored_names
from actors.operators.registry import create_operator
from actors.operators.windows.choice import create_window_operator
from flinkray import (
    Aggregate,
    ArgMax,
    ArgMin,
    Count,
    CountEvictor,
    CountTrigger,
    DataStream,
    EventTimeSessionWindows,
    Max,
    SlidingEventTimeWindows,
    Sum,
    TopN,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    col,
)
from flinkray.errors import IncompatibleStateError, InvalidProgramError
from flinkray.testing import OneInputHarness
from flinkray.transformations.operator_factories import (
    LocalWindowAggregateFactory,
    RunningAggregateFactory,
    WindowFactory,
)
from flinkray.types.keys import ColumnKey
from tests.support.operators import OperatorHarness, as_batch, code
from tests.support.rescaling import Subtasks
from tests.support.state import write_snapshot

Build = Callable[[DataStream, dict[str, Aggregate]], DataStream]
MINUTE = TumblingEventTimeWindows.of("1 min")
KINDS: dict[str, Build] = {
    "running": lambda stream, given: stream.key_by("k").aggregate(**given),
    "tumbling": lambda stream, given: stream.key_by("k").window(MINUTE).aggregate(**given),
    "sliding": lambda stream, given: (
        stream.key_by("k").window(SlidingEventTimeWindows.of("1 min", "20 s")).aggregate(**given)
    ),
    "processing time": lambda stream, given: (
        stream.key_by("k").window(TumblingProcessingTimeWindows.of("1 min")).aggregate(**given)
    ),
    "sessions": lambda stream, given: (
        stream.key_by("k").window(EventTimeSessionWindows.with_gap("1 min")).aggregate(**given)
    ),
    "numbers of rows": lambda stream, given: stream.key_by("k").count_window(4).aggregate(**given),
    "sliding numbers of rows": lambda stream, given: stream.key_by("k").count_window(4, 2).aggregate(**given),
    "a trigger": lambda stream, given: stream.key_by("k").window(MINUTE).trigger(CountTrigger.of(4)).aggregate(**given),
    "without keys": lambda stream, given: stream.window_all(MINUTE).aggregate(**given),
}
ROW = {"k": 1, "v": 10, "w": 3}
kinds = pytest.mark.parametrize("build", KINDS.values(), ids=KINDS)


def harness(build: Build, saved: bytes | None = None, **given: Aggregate) -> OneInputHarness[Any]:
    restore: Any = {} if saved is None else {"restore_from": saved}
    return OneInputHarness.of(lambda stream: build(stream, given), **restore)


def after_three_rows(build: Build, **given: Aggregate) -> bytes:
    with harness(build, **given) as before:
        for time in range(3):
            before.process(ROW, time)
        return before.snapshot()


def after_one_more(build: Build, saved: bytes, **given: Aggregate) -> tuple[dict[str, Any], bytes]:
    """The aggregates in the last result once there is one row more, and a snapshot of before it."""
    with harness(build, saved, **given) as after:
        again = after.snapshot()
        after.process(ROW, 3)
        after.watermark(1_000_000)
        after.advance_time("1 h")
        last = after.results()[-1].as_dict()
    return {name: last[name] for name in given}, again


@kinds
def test_aggregates_are_found_by_name_in_whatever_order(build: Build) -> None:
    saved = after_three_rows(build, n=Count(), total=Sum("v"), most=Max("v"))
    found, _ = after_one_more(build, saved, most=Max(col("v")), total=Sum("v"), n=Count())
    assert found == {"most": 10, "total": 40, "n": 4}


@kinds
def test_a_renamed_aggregate_is_refused_and_goes_on_where_the_program_says_so(build: Build) -> None:
    saved = after_three_rows(build, n=Count(), total=Sum("v"))
    with pytest.raises(IncompatibleStateError, match=r"no aggregate 'rows', which is Count\(\).*\.renamed_from\('n'\)"):
        harness(build, saved, rows=Count(), total=Sum("v"))
    found, _ = after_one_more(build, saved, rows=Count().renamed_from("n"), total=Sum("v"))
    assert found == {"rows": 4, "total": 40}


@kinds
def test_an_aggregate_of_another_column_is_refused_unless_it_is_said_to_be_the_same(build: Build) -> None:
    saved = after_three_rows(build, total=Sum("v"))
    with pytest.raises(IncompatibleStateError, match=r"Sum\('w'\) now.*renamed_from\('total', was=Sum\('v'\)\)"):
        harness(build, saved, total=Sum("w"))
    found, _ = after_one_more(build, saved, total=Sum("w").renamed_from("total", was=Sum("v")))
    assert found == {"total": 33}
    with pytest.raises(
        IncompatibleStateError, match=r"renamed from 'total' as Sum\('w'\), and its state has total=Sum"
    ):
        harness(build, saved, sum=Sum("w").renamed_from("total"))


@kinds
def test_an_aggregate_that_is_another_function_is_refused(build: Build) -> None:
    saved = after_three_rows(build, x=Sum("v"))
    with pytest.raises(IncompatibleStateError, match=r"'x' is Max\('v'\) now, and its state has x=Sum\('v'\)"):
        harness(build, saved, x=Max("v"))
    assert after_one_more(build, saved, x=Max("v").from_now_on())[0] == {"x": 10}


@kinds
def test_a_new_aggregate_is_refused_and_starts_empty_where_the_program_says_so(build: Build) -> None:
    saved = after_three_rows(build, n=Count())
    with pytest.raises(IncompatibleStateError, match=r"no aggregate 'total', which is Sum\('v'\).*from_now_on\(\)"):
        harness(build, saved, n=Count(), total=Sum("v"))
    new = {"total": Sum("v").from_now_on(), "values": Count("v").from_now_on(), "all": Count().from_now_on()}
    found, _ = after_one_more(build, saved, n=Count(), **new)
    assert found == {"n": 4, "total": 10, "values": 1, "all": 1}


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_program_says_of_former_names_holds_once_and_not_for_its_own_snapshots(kind: str) -> None:
    """Else each of its restarts would begin anew, or take the other's state again."""
    build = KINDS[kind]
    swapped = {"a": Sum("v").renamed_from("b"), "b": Sum("v").renamed_from("a"), "n": Count().from_now_on()}
    saved = after_three_rows(build, a=Sum("v"), b=Sum("v"))
    with harness(build, saved, **swapped) as first:
        first.process(ROW, 3)
        again = first.snapshot()
    for given in (swapped, {"a": Sum("v"), "b": Sum("v"), "n": Count()}):
        with harness(build, again, **given) as restored:
            for time in range(4, 8):
                restored.process(ROW, time)
            restored.watermark(1_000_000)
            restored.advance_time("1 h")
            counts = [row.n for row in restored.results()]
        assert max(counts) == (4 if "numbers" in kind else 5), "the row from before the restart counts"


def test_the_uid_by_which_the_state_was_found_is_named() -> None:
    def build(stream: DataStream, given: dict[str, Aggregate]) -> DataStream:
        return stream.key_by("k").aggregate(**given).uid("totals")

    saved = after_three_rows(build, n=Count())
    with pytest.raises(IncompatibleStateError, match=r"operator 'Keyed Aggregation'.*\(its uid is 'totals'\)"):
        harness(build, saved, rows=Count())


def test_two_aggregates_may_swap_their_names() -> None:
    build = KINDS["tumbling"]
    with harness(build, a=Max("v"), b=Max("w")) as before:
        before.process({"k": 1, "v": 10, "w": 3}, 0)
        saved = before.snapshot()
    swapped = {"a": Max("w").renamed_from("b"), "b": Max("v").renamed_from("a")}
    for _ in range(2):
        with harness(build, saved, **swapped) as after:
            saved = after.snapshot()
            after.watermark(1_000_000)
            assert [(row.a, row.b) for row in after.results()] == [(3, 10)]


@kinds
def test_an_aggregate_that_the_program_has_no_more_is_dropped_and_logged(
    build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    saved = after_three_rows(build, n=Count(), total=Sum("v"))
    with caplog.at_level(logging.WARNING):
        found, _ = after_one_more(build, saved, n=Count())
    assert found == {"n": 4}
    assert "drops their state: total=Sum('v')" in caplog.text


def test_windows_that_keep_their_rows_may_have_any_other_aggregates() -> None:
    def build(stream: DataStream, given: dict[str, Aggregate]) -> DataStream:
        return stream.key_by("k").window(MINUTE).evictor(CountEvictor.of(9)).aggregate(**given)

    saved = after_three_rows(build, n=Count())
    assert after_one_more(build, saved, rows=Count(), total=Sum("w"))[0] == {"rows": 4, "total": 12}


# -- subtasks, and rows on their way


@pytest.mark.parametrize("kind", ["running", "windows"])
@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 2)])
def test_renamed_and_new_aggregates_are_right_on_more_and_on_fewer_subtasks(kind: str, before: int, after: int) -> None:
    def make(**given: Aggregate) -> Callable[[], Any]:
        pairs = tuple(given.items())
        factory: Any = RunningAggregateFactory(pairs) if kind == "running" else WindowFactory(MINUTE, pairs)
        return lambda: create_operator([code(factory)], ["op"])

    keys = [ColumnKey(("k",))]
    old = Subtasks(make(n=Count(), total=Sum("v"), best=ArgMax("w", by="v")), keys, before)
    rows = [{"k": key, "v": turn, "w": -turn} for turn in range(3) for key in range(20)]
    old.push(rows, [0] * len(rows))
    written = [write_snapshot(snapshot) for snapshot in old.snapshots()]
    now = make(
        total=Sum("v"), rows=Count().renamed_from("n"), low=ArgMin("w", by="v").from_now_on(), best=ArgMax("w", by="v")
    )
    new = Subtasks(now, keys, after, written)
    new.push([{"k": key, "v": 5, "w": 1} for key in range(20)], [1] * 20)
    new.watermark(1_000_000)
    found = sorted((row.k, row.total, row.rows, row.low, row.best) for row, _ in new.take())
    assert found == [(key, 8, 4, 1, 1) for key in range(20)]


def test_partial_aggregates_that_were_on_their_way_are_matched_like_state() -> None:
    def window(**given: Aggregate) -> WindowFactory:
        return WindowFactory(MINUTE, tuple(given.items()))

    key = ColumnKey(("k",))
    local = OperatorHarness(
        create_operator([code(LocalWindowAggregateFactory(window(n=Count(), total=Sum("v")), key))], ["local"])
    )
    for _ in range(2):
        local.operator.process_batch(as_batch([{"k": 1, "v": 10}] * 3, [0, 1, 2]))
    local.operator.prepare_barrier(1)
    partial = local.output.batches
    assert sum(batch.num_rows for batch in partial) == 1
    renamed = window(total=Sum("v"), rows=Count().renamed_from("n"))
    after = OperatorHarness(create_window_operator(code(renamed)), keys=(key,))
    for batch in partial:
        after.operator.process_batch(batch)
    after.watermark(1_000_000)
    assert [(row.rows, row.total) for row in after.output.rows] == [(6, 60)]
    refused = OperatorHarness(create_window_operator(code(window(total=Sum("v"), rows=Count()))), keys=(key,))
    with pytest.raises(IncompatibleStateError, match=r"renamed_from\('n'\)"):
        refused.operator.process_batch(partial[0])


# -- the rules, one by one


def names(now: dict[str, Aggregate], then: dict[str, Aggregate]) -> dict[str, str | None]:
    return stored_names(tuple(now.items()), facts_metadata(tuple(then.items())), "op")


def test_expressions_are_the_same_where_they_are_written_the_same() -> None:
    then = {"x": Sum(col("a") * 2)}
    assert names({"x": Sum(col("a") * 2)}, then) == {"x": "x"}
    with pytest.raises(IncompatibleStateError, match="'x' is Sum"):
        names({"x": Sum(col("a") * 3)}, then)


@pytest.mark.parametrize(
    ("now", "then"),
    [
        (ArgMin("a", by="b"), ArgMin("a", by="c")),
        (ArgMin("a", by="b"), ArgMax("a", by="b")),
        (TopN("a", 10), TopN("a", 3)),
        (Count("a"), Count()),
    ],
)
def test_all_that_the_state_depends_on_counts(now: Aggregate, then: Aggregate) -> None:
    with pytest.raises(IncompatibleStateError):
        names({"x": now}, {"x": then})


def test_a_former_name_that_the_state_does_not_have_is_an_error_with_the_nearest_one() -> None:
    with pytest.raises(IncompatibleStateError, match=r"renamed from 'totl'.*did you mean 'total'"):
        names({"x": Sum("v").renamed_from("totl")}, {"total": Sum("v")})


def test_another_column_under_another_name_is_offered_as_the_former_one() -> None:
    with pytest.raises(IncompatibleStateError, match=r"\.renamed_from\('c', was=Sum\('c'\)\) behind it to go on"):
        names({"cents": Sum("cents")}, {"c": Sum("c"), "n": Count()})


def test_only_the_same_function_can_be_said_to_be_the_former_one() -> None:
    with pytest.raises(InvalidProgramError, match="must be the same function"):
        Sum("v").renamed_from("x", was=Max("v"))
    with pytest.raises(InvalidProgramError, match="must be the same function"):
        TopN("v", 5).renamed_from("x", was=TopN("v", 3))
    with pytest.raises(InvalidProgramError, match="takes the name"):
        Sum("v").renamed_from("")


@pytest.mark.parametrize(
    "aggregate",
    [
        Sum("v"),
        ArgMin("v", "w"),
        TopN("v", 3).from_now_on(),
        ArgMax("v", by="w").renamed_from("x", was=ArgMax("v", by="y")),
    ],
)
def test_an_aggregate_is_pickled_with_its_former_name_and_nothing_of_other_packages(aggregate: Aggregate) -> None:
    pickled = pickle.dumps(aggregate)
    assert pickle.loads(pickled) == aggregate
    assert b"msgspec" not in pickled


def test_snapshots_that_name_functions_alone_are_read_by_name_and_function() -> None:
    then = {"aggregate 'n'": b"Count", "aggregate 'total'": b"Sum"}
    now = (("rows", Count().renamed_from("n")), ("total", Sum("v")), ("low", Max("v").from_now_on()), ("new", Max("v")))
    assert stored_names(now, then, "op") == {"rows": "n", "total": "total", "low": None, "new": None}
    with pytest.raises(IncompatibleStateError, match=r"aggregate 'total' Sum, and the program has Max now"):
        stored_names((("total", Max("v")),), then, "op")
