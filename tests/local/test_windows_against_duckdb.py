"""Windows, window joins and running aggregates of random streams are what DuckDB, or a plain definition, computes.

Cases are drawn from seeds: keys of any kind, some null, values, some null, disorder, lateness, batches of 1 to 500
rows, one to three subtasks. Many go through the operators, whose watermarks are exact, so that late rows are too; some
through whole jobs. SEEDS=2000 in the environment runs more of them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from actors.operators.registry import create_operator
from flinkray import (
    Avg,
    CollectList,
    Count,
    CountDistinct,
    EventTimeSessionWindows,
    First,
    Last,
    Max,
    Min,
    OutputTag,
    SlidingEventTimeWindows,
    Sum,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flinkray.functions.interfaces import WindowContext
from flinkray.transformations.operator_factories import (
    OperatorFactory,
    RunningAggregateFactory,
    WindowCoGroupFactory,
    WindowFactory,
)
from flinkray.types.keys import ColumnKey
from flinkray.types.records import Millis
from flinkray.windows.assigners import AlignedWindows
from tests.support.jobs import environment
from tests.support.operators import code
from tests.support.rescaling import Subtasks
from tests.support.window_cases import SessionModel, WindowCase, random_case

SEEDS = int(os.environ.get("SEEDS", "120"))
TOGETHER = 20
"""Cases that one query is for."""
CHUNKS = [range(first, min(SEEDS, first + TOGETHER)) for first in range(0, SEEDS, TOGETHER)]

LATE = OutputTag("late")
BEFORE_ALL = -(2**62)
AGGREGATES = (
    ("n", Count()),
    ("n_values", Count("value")),
    ("total", Sum("value")),
    ("low", Min("value")),
    ("high", Max("value")),
    ("mean", Avg("value")),
    ("first_row", First("row")),
    ("last_row", Last("row")),
    ("first_value", First("value")),
    ("last_value", Last("value")),
    ("different", CountDistinct("value")),
    ("members", CollectList("row")),
)
OF_FIXED_SIZE = AGGREGATES[:-2]
"""The aggregates for which the slices of sliding windows are merged ahead."""
IN_SQL = """
    count(*), count(value), sum(value)::bigint, min(value), max(value), avg(value), min(row), max(row),
    arg_min(value, row), arg_max(value, row), count(distinct value), list(row order by row)
"""

Answers = dict[tuple[Any, ...], list[tuple[Any, ...]]]
"""What came out for each (seed, key, window), firing by firing."""


def key_of(case: WindowCase, row: dict[str, Any]) -> tuple[str | None, str | None]:
    """A key as text, of two parts."""
    parts = [None if part is None else str(part) for part in case.key_of(row)]
    return parts[0], parts[1] if len(parts) > 1 else None


def aligned_windows(chance: random.Random) -> AlignedWindows:
    size, slide = chance.choice(((10, 10), (25, 25), (30, 10), (25, 10), (120, 10), (5, 12)))
    if size == slide:
        return TumblingEventTimeWindows.of(size, chance.randrange(-size + 1, size))
    return SlidingEventTimeWindows.of(size, slide, chance.randrange(-slide + 1, slide))


def members(key: Any, context: WindowContext, elements: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    window, parts = context.window(), key if isinstance(key, tuple) else (key,)
    yield (*parts, window.start, window.end, [each.row for each in elements])


class Runs:
    """The operators of one case, in step."""

    def __init__(self, case: WindowCase, *factories: OperatorFactory) -> None:
        self.case = case
        selectors = [ColumnKey(case.key_names)] * (2 if isinstance(factories[0], WindowCoGroupFactory) else 1)
        self.subtasks = [
            Subtasks(
                lambda factory=factory: create_operator([code(factory, *selectors)], ["op"]),
                selectors,
                1 + case.seed % 3,
            )
            for factory in factories
        ]

    def go(self) -> None:
        for (data, times), mark in zip(self.case.batches, self.case.watermarks, strict=True):
            for subtasks in self.subtasks:
                subtasks.push(data, times)
                if mark is not None:
                    subtasks.watermark(mark)

    def rows(self, number: int = 0) -> Iterator[dict[str, Any]]:
        for harness in self.subtasks[number].harnesses:
            yield from harness.output.dicts

    def late(self, number: int = 0) -> list[int]:
        found = [row.row for harness in self.subtasks[number].harnesses for row in harness.output.side("late")]
        return sorted(found)


def as_table(cases: dict[int, WindowCase], settings: dict[int, dict[str, int]]) -> pa.Table:
    """All rows with their seed, the watermark before them (`mark`) and the settings of their case."""
    rows = []
    for seed, case in cases.items():
        mark = BEFORE_ALL
        for (data, times), after in zip(case.batches, case.watermarks, strict=True):
            for row, at in zip(data.to_pylist(), times, strict=True):
                key, other = key_of(case, row)
                fields = {"seed": seed, "key": key, "other": other, "value": row["value"], "row": row["row"]}
                rows.append(fields | {"ts": at, "mark": mark} | settings[seed])
            mark = mark if after is None else max(mark, after)
    texts = {"key": pa.string(), "other": pa.string()}
    return pa.table({name: pa.array([row[name] for row in rows], texts.get(name, pa.int64())) for name in rows[0]})


def ask(query: str, **tables: pa.Table) -> list[tuple[Any, ...]]:
    with duckdb.connect() as database:
        database.execute("set threads = 1")
        for name, table in tables.items():
            database.register(name, table)
        return database.execute(query).fetchall()


def answers_of(rows: Iterable[dict[str, Any]], case: WindowCase) -> Answers:
    answers: Answers = {}
    for row in rows:
        window = (case.seed, *key_of(case, row), row["window_start"], row["window_end"])
        answers.setdefault(window, []).append(tuple(row[name] for name, _ in AGGREGATES if name in row))
    return answers


def row_answers(runs: Runs, case: WindowCase) -> Answers:
    """What the row operator gave: members only."""
    width = len(case.key_names)
    answers: Answers = {}
    for harness in runs.subtasks[1].harnesses:
        for row in harness.output.rows:
            keys = dict(zip(case.key_names, row[:width], strict=True))
            window = (case.seed, *key_of(case, keys), row[width], row[width + 1])
            answers.setdefault(window, []).append((row[-1],))
    return answers


# -- tumbling and sliding


WINDOWS = """
    with assigned as (
        select *, ts - ((((ts - shift) % slide) + slide) % slide) - i * slide as start
        from rows, range(12) as steps(i) where i * slide < size
    ), inside as (select *, start + size - 1 + lateness > mark as is_open from assigned where start + size > ts)
"""


LOST = f"""{WINDOWS}
    select seed, row from rows where case
        when exists (from inside where inside.seed = rows.seed and inside.row = rows.row)
        then not exists (from inside where inside.seed = rows.seed and inside.row = rows.row and is_open)
        else ts + lateness <= mark
    end order by all"""
"""Rows of which all windows are over, or that are in none and late by their own time."""


@pytest.mark.parametrize("seeds", CHUNKS, ids=str)
def test_tumbling_and_sliding_windows(seeds: range) -> None:
    """For each seed one of either kind: late rows, and the last result of each window, are DuckDB's; windows that
    nothing is allowed late for fire once. The row path gives the same."""
    cases: dict[int, WindowCase] = {}
    settings, late, answers = {}, [], {}
    for seed in [each + kind * 10_000_000 for each in seeds for kind in range(2)]:
        chance = random.Random(seed)
        case = cases[seed] = random_case(seed, 32)
        windows = aligned_windows(chance)
        lateness = chance.choice((0, 0, 15, 500))
        common: dict[str, Any] = {"allowed_lateness_ms": Millis(lateness), "late_tag": LATE}
        settings[seed] = {
            "size": windows.size_ms,
            "slide": windows.slide_ms,
            "shift": windows.offset_ms,
            "lateness": lateness,
        }
        aggregates = AGGREGATES if seed in seeds else OF_FIXED_SIZE
        runs = Runs(
            case, WindowFactory(windows, aggregates, **common), WindowFactory(windows, process=members, **common)
        )
        runs.go()
        found = answers_of(runs.rows(), case)
        if not lateness:
            assert all(len(firings) == 1 for firings in found.values()), f"seed {seed}: a window fired twice"
        by_row = row_answers(runs, case)
        counts = {w: [f[0] for f in firings] for w, firings in found.items()}
        assert counts == {w: [len(f[0]) for f in fs] for w, fs in by_row.items()}, f"seed {seed}: paths differ"
        if aggregates is AGGREGATES:
            lists = {w: [(f[-1],) for f in firings] for w, firings in found.items()}
            assert lists == by_row, f"seed {seed}: paths differ"
        assert runs.late() == runs.late(1), f"seed {seed}: paths differ about late rows"
        answers |= {window: firings[-1] for window, firings in found.items()}
        late += [(seed, row) for row in runs.late()]
    table = as_table(cases, settings)
    query = f"{WINDOWS} select seed, key, other, start, start + size, {IN_SQL} from inside where is_open group by all"
    computed = {row[:5]: row[5:] for row in ask(query, rows=table)}
    assert answers == {window: row[: len(answers.get(window, row))] for window, row in computed.items()}
    assert sorted(late) == ask(LOST, rows=table)


# -- sessions


@pytest.mark.parametrize("seeds", CHUNKS, ids=str)
def test_sessions(seeds: range) -> None:
    """Sessions and late rows are those of the definition; their aggregates are DuckDB's over the same rows; the row
    path comes to the same sessions."""
    cases, answers, of_definition = {}, {}, []
    for seed in seeds:
        chance = random.Random(seed)
        case = cases[seed] = random_case(seed, 32)
        gap, lateness = chance.choice((1, 4, 15, 40)), chance.choice((0, 0, 15, 500))
        windows = EventTimeSessionWindows.with_gap(gap)
        common: dict[str, Any] = {"allowed_lateness_ms": Millis(lateness), "late_tag": LATE}
        factories = (WindowFactory(windows, AGGREGATES, **common), WindowFactory(windows, process=members, **common))
        runs = Runs(case, *factories)
        runs.go()
        model = SessionModel(lambda _, gap=gap: gap, lateness)
        sessions: Answers = {}
        for fired in _definition(case, model):
            window = (seed, *fired.key, fired.start, fired.end)
            sessions.setdefault(window, []).append(([row for _, row in fired.values],))
        found = answers_of(runs.rows(), case)
        assert {w: [(f[-1],) for f in firings] for w, firings in found.items()} == sessions, f"seed {seed}"
        assert runs.late() == runs.late(1) == sorted(row for _, _, row in model.late), f"seed {seed}: late rows"
        # A state that merges holds the rows of one session, then those of the other.
        by_row = {w: [(sorted(f[0]),) for f in firings] for w, firings in row_answers(runs, case).items()}
        assert by_row == sessions, f"seed {seed}: paths differ"
        for window, firings in found.items():
            answers[window] = firings[-1]
            of_definition += [(*window, row) for row in firings[-1][-1]]
    names = ["seed", "key", "other", "start", "stop", "row"]
    columns = zip(*of_definition, strict=True)
    member_of = pa.table(dict(zip(names, map(list, columns), strict=True)))
    query = (
        f"select seed, m.key, m.other, start, stop, {IN_SQL} from rows join member_of m using (seed, row) group by all"
    )
    table = as_table(cases, {seed: {} for seed in cases})
    assert answers == {row[:5]: row[5:] for row in ask(query, rows=table, member_of=member_of)}


def _definition(case: WindowCase, model: SessionModel) -> Iterator[Any]:
    for (data, times), mark in zip(case.batches, case.watermarks, strict=True):
        rows = zip(data.to_pylist(), times, strict=True)
        yield from model.batch([(at, key_of(case, row), row["row"]) for row, at in rows])
        if mark is not None and mark > model.watermark:
            yield from model.advance(mark)


# -- joins


@pytest.mark.parametrize("seeds", CHUNKS, ids=str)
def test_window_joins(seeds: range) -> None:
    """Every pair of rows of one key and window, once, without late rows; columns and a function give the same."""
    cases, settings, pairs, late = {}, {}, [], []
    for seed in seeds:
        chance = random.Random(seed)
        case = cases[seed] = random_case(seed, 32)
        windows = aligned_windows(chance)
        settings[seed] = {"size": windows.size_ms, "slide": windows.slide_ms, "shift": windows.offset_ms, "lateness": 0}
        columnar = WindowCoGroupFactory(windows, True, late_tag=LATE)
        runs = Runs(case, columnar, WindowCoGroupFactory(windows, True, lambda left, right: (left.row, right.row)))
        for number, ((data, times), mark) in enumerate(zip(case.batches, case.watermarks, strict=True)):
            for subtasks in runs.subtasks:
                subtasks.push(data, times, number % 2)
                if mark is not None:
                    subtasks.watermark(mark, 2)
        found = sorted((row["row"], row["row_right"]) for row in runs.rows())
        by_function = sorted(tuple(row) for harness in runs.subtasks[1].harnesses for row in harness.output.rows)
        assert found == by_function, f"seed {seed}: paths differ"
        pairs += [(seed, *pair) for pair in found]
        late += [(seed, row) for row in runs.late()]
    table = as_table(cases, settings)
    side = [
        number % 2 for case in cases.values() for number, (data, _) in enumerate(case.batches) for _ in range(len(data))
    ]
    table = table.append_column("side", pa.array(side, pa.int64()))
    query = f"""{WINDOWS}, live as (from inside where is_open)
        select seed, l.row, r.row from live l join live r using (seed, start)
        where l.side = 0 and r.side = 1 and l.key is not distinct from r.key and l.other is not distinct from r.other
        order by all"""
    assert pairs == ask(query, rows=table)
    assert late == ask(LOST, rows=table)


# -- running aggregates


@pytest.mark.parametrize("seeds", CHUNKS, ids=str)
def test_running_aggregates(seeds: range) -> None:
    """One result per row: the aggregates of its key up to it."""
    cases, found = {}, []
    running = tuple((name, aggregate) for name, aggregate in AGGREGATES if name != "members")
    for seed in seeds:
        case = cases[seed] = random_case(seed, 32)
        runs = Runs(case, RunningAggregateFactory(running))
        runs.go()
        found += [(seed, *key_of(case, row), *(row[name] for name, _ in running)) for row in runs.rows()]
    query = """
        select seed, key, other, count(*) over w, count(value) over w, (sum(value) over w)::bigint, min(value) over w,
            max(value) over w, avg(value) over w, min(row) over w, max(row) over w,
            first_value(value ignore nulls) over w, last_value(value ignore nulls) over w, count(distinct value) over w
        from rows window w as (partition by seed, key, other order by row)"""
    table = as_table(cases, {seed: {} for seed in cases})
    assert sorted(found, key=repr) == sorted(ask(query, rows=table), key=repr)


# -- whole jobs


RUNNING = """
    select key, other, count(*) over w, (sum(value) over w)::bigint
    from rows window w as (partition by key, other order by row)"""
SESSIONS = """
    with begun as (
        select *, ts - lag(ts) over w <= size as goes_on
        from rows window w as (partition by key, other order by ts, row)
    ), numbered as (
        select *, count(*) filter (where goes_on is not true) over w as number
        from begun window w as (partition by key, other order by ts, row)
    )
    select key, other, min(ts), max(ts) + any_value(size), count(*), sum(value)::bigint
    from numbered group by key, other, number"""
IN_ALL = f"{WINDOWS} select key, other, start, start + size, count(*), sum(value)::bigint from inside group by all"
QUERIES = {"windows": IN_ALL, "sessions": SESSIONS, "running": RUNNING}


@pytest.mark.parametrize("seed", range(20))
def test_whole_jobs(seed: int) -> None:
    """The same through the API, with watermarks that no row is behind."""
    chance = random.Random(seed)
    case = random_case(seed, 150)
    kind = list(QUERIES)[seed % 3]
    rows = [row for data, _ in case.batches for row in data.to_pylist()]
    times = [time for _, times in case.batches for time in times]
    data = pa.Table.from_batches([data for data, _ in case.batches]).append_column("ts", pa.array(times, pa.int64()))
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Millis(121)).with_timestamp_assigner("ts")
    options = {"flinkray.batch.target-rows": chance.choice((1, 20, 500)) if len(rows) < 60 else 50}
    env = environment(options, parallelism=1 + seed % 3)
    keyed = env.from_arrow(data, strategy).set_parallelism(1).key_by(*case.key_names)
    windows, gap = aligned_windows(chance), chance.choice((3, 10, 40))
    if kind == "running":
        stream = keyed.aggregate(n=Count(), total=Sum("value"))
    else:
        assigner = EventTimeSessionWindows.with_gap(gap) if kind == "sessions" else windows
        stream = keyed.window(assigner).aggregate(n=Count(), total=Sum("value"))
    width = len(case.key_names)
    found = [
        (*key_of(case, dict(zip(case.key_names, row, strict=False))), *tuple(row)[width:])
        for row in stream.execute_and_collect()
    ]
    size = gap if kind == "sessions" else windows.size_ms
    settings = {"size": size, "slide": windows.slide_ms, "shift": windows.offset_ms, "lateness": 0}
    table = as_table({seed: case}, {seed: settings})
    assert sorted(found, key=repr) == sorted(ask(QUERIES[kind], rows=table), key=repr)
