"""The rules of finding the open sessions that rows touch: few of a key by its chain, many by the index."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.operators.windows.sessions import lookup, store, time_index
from actors.operators.windows.sessions.aggregate_operator import ColumnarSessionOperator
from actors.operators.windows.sessions.session_table import SessionIds
from actors.operators.windows.sessions.time_index import SessionIndex
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.types.keys import ColumnKey
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP, Millis, OutputTag
from flinkray.windows.aggregates import CollectList, Count, Sum
from flinkray.windows.assigners import EventTimeSessionWindows
from tests.support.operators import OperatorHarness
from tests.support.rescaling import Subtasks
from tests.support.window_cases import Session, SessionModel, assert_updates_then_results

KEY = (ColumnKey(("key",)),)
LATE = OutputTag("late")
GAPS = EventTimeSessionWindows.with_dynamic_gap(lambda row: row.gap)

Event = tuple[int, int, int, int]
"""(time, key, gap, number)"""


def factory_of(lateness: int = 0) -> WindowFactory:
    return WindowFactory(GAPS, (("rows", CollectList("row")),), allowed_lateness_ms=Millis(lateness), late_tag=LATE)


def columns_of(events: list[Event]) -> dict[str, Any]:
    return {name: [event[place] for event in events] for name, place in (("key", 1), ("gap", 2), ("row", 3))}


class CheckedSessions:
    """The operator; after each batch and watermark its store is checked."""

    def __init__(self, lateness: int = 0) -> None:
        self.operator = ColumnarSessionOperator(factory_of(lateness))
        self.harness = OperatorHarness(self.operator, keys=KEY)
        self.store = self.operator._store
        self.by_key = self.store._by_key
        self.index = self.by_key._index
        self._row = 0

    def push(self, *rows: tuple[int, int, int]) -> None:
        """(time, key, gap)"""
        self.push_events([(*row, self._row + number) for number, row in enumerate(rows)])
        self._row += len(rows)

    def push_events(self, events: list[Event]) -> None:
        self.harness.push(columns_of(events), [event[0] for event in events])
        self.store.check()

    def watermark(self, timestamp: int) -> None:
        self.harness.watermark(timestamp)
        self.store.check()

    def take(self) -> list[tuple[int, int, int, list[int]]]:
        """(key, start, end, rows), in order."""
        absorbed = [
            (row["key"], row["window_start"], row["window_end"], row["rows"]) for row in self.harness.output.dicts
        ]
        self.late = [row.row for row in self.harness.output.side("late")]
        self.harness.output.clear()
        return absorbed


@pytest.fixture
def all_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "_MOST_CHAINED", 0)


# -- against the model


def sparse_case(chance: random.Random) -> list[tuple[list[Event], int]]:
    """Batches with the watermark after each: many sessions per key, some of which rows join, come to late, or span."""
    keys, step = chance.choice((1, 2, 8)), chance.choice((3, 20))
    disorder = chance.choice((0, 10, 200, 2000)) * step // 3
    bound = chance.choice((disorder // 10, disorder, 10**9))
    wide = chance.choice((0.0, 0.01, 0.1))
    base = chance.choice((-2000, 0, 1_700_000_000_000))
    batches, number, highest = [], 0, MIN_TIMESTAMP
    most = chance.choice((3, 40, 150))
    while number < 400:
        events = []
        for _ in range(chance.randint(1, most)):
            at = base + number * step - chance.randrange(disorder + 1)
            gap = chance.randrange(1, 60 * step) if chance.random() < wide else chance.randint(1, step)
            events.append((at, chance.randrange(keys), gap, number))
            number += 1
        highest = max(highest, *(event[0] for event in events))
        batches.append((events, highest - bound if chance.random() < 0.5 else int(MIN_TIMESTAMP)))
    return batches


def as_rows(sessions: list[Session]) -> list[tuple[Any, ...]]:
    return [(s.key, s.start, s.end, [number for _, (_, number) in s.values]) for s in sessions]


@pytest.mark.parametrize("most_chained", [0, 2, 16])
@pytest.mark.seeds(5)
def test_sparse_sessions_are_those_of_the_model(seed: int, most_chained: int, monkeypatch: pytest.MonkeyPatch) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    monkeypatch.setattr(lookup, "_MOST_CHAINED", most_chained)
    monkeypatch.setattr(time_index, "_FAN_IN", chance.choice((2, 4)))
    monkeypatch.setattr(time_index, "_MOST_CODES", chance.choice((0, 1 << 62)))
    monkeypatch.setattr(time_index, "_FEWEST_ABSORBED", chance.choice((0, 1024)))
    monkeypatch.setattr(store, "_FEWEST_COMPACTED", chance.choice((0, 4096)))
    lateness = chance.choice((0, 0, 100, 10**9))
    sessions, model = CheckedSessions(lateness), SessionModel(lambda event: event[2][0], lateness)
    for events, mark in [*sparse_case(chance), ([], int(MAX_TIMESTAMP))]:
        updates, results = [], []
        if events:
            sessions.push_events(events)
            updates = model.batch([(at, key, (gap, number)) for at, key, gap, number in events])
        if mark > model.watermark:
            sessions.watermark(mark)
            results = model.advance(mark)
        assert_updates_then_results(sessions.take(), as_rows(updates), as_rows(results))
        assert sessions.late == [number for _, _, (_, number) in model.late]
        model.late.clear()
    assert sessions.store.session_count == 0


@pytest.mark.seeds(5)
def test_sparse_sessions_go_on_at_any_parallelism(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    monkeypatch.setattr(lookup, "_MOST_CHAINED", chance.choice((0, 3, 16)))
    monkeypatch.setattr(store, "_FEWEST_COMPACTED", chance.choice((0, 4096)))
    factory = factory_of(chance.choice((0, 300)))
    undisturbed = Subtasks(lambda: ColumnarSessionOperator(factory), KEY)
    moved = Subtasks(lambda: ColumnarSessionOperator(factory), KEY, chance.randint(1, 4))
    for events, mark in [*sparse_case(chance), ([], int(MAX_TIMESTAMP))]:
        for subtasks in (undisturbed, moved):
            if events:
                subtasks.push(columns_of(events), [event[0] for event in events])
            subtasks.watermark(mark)
        assert sorted(map(repr, moved.take())) == sorted(map(repr, undisturbed.take()))
        if chance.random() < 0.3:
            moved = moved.rescaled(chance.randint(1, 4))


def test_floats_are_summed_in_the_same_order_from_a_chain_and_from_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    factory = WindowFactory(GAPS, (("total", Sum("value")),))
    totals = []
    for most_chained in (0, 1000):
        monkeypatch.setattr(lookup, "_MOST_CHAINED", most_chained)
        harness = OperatorHarness(ColumnarSessionOperator(factory), keys=KEY)
        values = np.random.default_rng(7).random(400) * 10.0 ** np.arange(400)[::-1].clip(0, 300)
        harness.push({"key": [0] * 400, "gap": [1] * 400, "value": values}, list(range(0, 4000, 10)))
        harness.push({"key": [0], "gap": [3900], "value": [1.0]}, [15])
        harness.watermark(MAX_TIMESTAMP)
        totals.append([row["total"] for row in harness.output.dicts])
    assert totals[0] == totals[1]


@pytest.mark.usefixtures("all_indexed")
def test_times_at_both_ends_of_all_time_and_keys_that_come_later_are_told_apart() -> None:
    sessions = CheckedSessions()
    first, last = int(MIN_TIMESTAMP) + 1, int(MAX_TIMESTAMP) - 2
    sessions.push((first, 0, 1), (last, 0, 1), (0, 1, 5))
    sessions.push((first, 1, 1), (3, 1, 1), (first + 1, 0, 1), (last, 1, 1), (last - 9, 0, 5))
    sessions.push(*[(first + 2, key, 1) for key in range(9)])
    sessions.watermark(MAX_TIMESTAMP)
    assert sessions.take() == [
        (1, first, first + 1, [3]),
        (0, first, first + 3, [0, 5, 8]),
        *[(key, first + 2, first + 3, [8 + key]) for key in range(1, 9)],
        (1, 0, 5, [2, 4]),
        (0, last - 9, last - 4, [7]),
        (0, last, last + 1, [1]),
        (1, last, last + 1, [6]),
    ]


# -- what was there before


@pytest.mark.usefixtures("all_indexed")
def test_a_session_that_begins_before_one_that_is_over_is_found_by_later_rows() -> None:
    sessions = CheckedSessions()
    sessions.push((6, 0, 2), (20, 0, 5))
    sessions.push((4, 0, 2))  # [4, 8), which had begun at 6
    sessions.watermark(10)
    sessions.push((2, 0, 30))  # [2, 25) is not late, and reaches over what is
    for at in (7, 3, 9):
        sessions.push((at, 0, 1))  # late alone, and saved by it
    sessions.watermark(MAX_TIMESTAMP)
    assert sessions.take() == [(0, 4, 8, [0, 2]), (0, 2, 32, [1, 3, 4, 5, 6])]
    assert sessions.late == []


@pytest.mark.usefixtures("all_indexed")
def test_a_row_finds_the_session_that_those_in_the_index_have_become_part_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_index, "_FAN_IN", 1000)
    sessions = CheckedSessions()
    sessions.push(*[(at, key, 1) for at in range(0, 2000, 10) for key in (0, 1)])
    for at in reversed(range(0, 1990, 10)):
        sessions.push((at, 0, 10), (at, 1, 10))  # joins the session after it, whose session is newer
    for at in (995, 1985, 1975, 1985):
        sessions.push((at, 0, 1), (at, 1, 1))
    sessions.watermark(MAX_TIMESTAMP)
    assert [(key, start, end, len(rows)) for key, start, end, rows in sessions.take()] == [
        (0, 0, 1991, 403),
        (1, 0, 1991, 403),
    ]


@pytest.mark.usefixtures("all_indexed")
def test_a_key_whose_sessions_are_all_over_begins_anew_even_with_earlier_ones() -> None:
    sessions = CheckedSessions()
    sessions.push((50, 0, 10), (100, 0, 10))
    sessions.operator.end_keys()
    assert len(sessions.take()) == 2
    sessions.push((40, 0, 5), (42, 0, 13))  # in batch mode nothing is late
    sessions.push((52, 0, 1))
    sessions.operator.end_keys()
    assert sessions.take() == [(0, 40, 55, [2, 3, 4])]


def test_a_key_is_in_the_index_while_it_has_many_and_in_a_chain_again_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store, "_FEWEST_COMPACTED", 0)
    monkeypatch.setattr(lookup, "_MOST_CHAINED", 16)
    sessions = CheckedSessions()
    sessions.push(*[(at, 0, 1) for at in range(0, 170, 10)], (165, 1, 1))
    assert sessions.by_key._is_indexed[:2].tolist() == [True, False]
    sessions.watermark(120)
    assert sessions.by_key._is_indexed[:2].tolist() == [False, False]
    assert len(sessions.index) == 0
    sessions.push((131, 0, 1), (145, 0, 1))
    sessions.watermark(MAX_TIMESTAMP)
    assert [row[1:3] for row in sessions.take() if row[0] == 0][-5:] == [
        (130, 132),
        (140, 141),
        (145, 146),
        (150, 151),
        (160, 161),
    ]


# -- what it takes


@contextmanager
def entries_looked_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many, call by call."""
    counts: list[int] = []
    current = SessionIndex._current_sessions

    def counted(self: SessionIndex, sessions: SessionIds) -> SessionIds:
        counts.append(len(sessions))
        return current(self, sessions)

    with monkeypatch.context() as patched:
        patched.setattr(SessionIndex, "_current_sessions", counted)
        yield counts


def many_open(count: int, batch: int = 1000) -> CheckedSessions:
    """A session each 10 ms, of one key, in random order."""
    factory = WindowFactory(EventTimeSessionWindows.with_gap(1), (("rows", Count()),))
    sessions = CheckedSessions()
    sessions.operator = ColumnarSessionOperator(factory)
    sessions.harness = OperatorHarness(sessions.operator, keys=KEY)
    sessions.store = sessions.operator._store
    sessions.by_key, sessions.index = sessions.store._by_key, sessions.store._by_key._index
    times = np.random.default_rng(count).permutation(count) * 10
    for offset in range(0, count, batch):
        some = times[offset : offset + batch]
        data = pa.RecordBatch.from_pydict({"key": np.zeros(len(some), np.int64)})
        sessions.harness.push(data, some.tolist())
    return sessions


def test_a_row_looks_at_a_few_of_very_many_sessions_of_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = many_open(50_000)
    with entries_looked_at(monkeypatch) as looked_at:
        sessions.harness.push({"key": [0]}, [250_000])
    runs = len(sessions.index._runs)
    assert sum(looked_at) <= 3 * runs
    assert sessions.store.session_count == 50_000


def test_rows_after_all_sessions_of_their_key_look_at_none(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = many_open(5_000)
    with entries_looked_at(monkeypatch) as looked_at:
        sessions.harness.push({"key": [0, 0]}, [50_000, 50_010])
    assert looked_at == []


@pytest.mark.parametrize("batch", [10, 1000])
def test_runs_are_few_and_entries_go_through_few_of_them(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sorted_entries: list[int] = []
    made = time_index._SessionRun.of

    def counted(key_ids: Any, times: Any, sessions: Any) -> Any:
        sorted_entries.append(len(sessions))
        return made(key_ids, times, sessions)

    monkeypatch.setattr(time_index._SessionRun, "of", counted)
    sessions = many_open(20_000, batch)
    levels = math.log(20_000 / batch, time_index._FAN_IN) + 1
    assert len(sessions.index._runs) <= time_index._FAN_IN * levels
    assert sum(sorted_entries) <= 20_000 * (levels + 1)


@pytest.mark.usefixtures("all_indexed")
def test_sessions_that_have_become_one_do_not_stay_in_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_index, "_FEWEST_ABSORBED", 100)
    sessions = CheckedSessions()
    sessions.push(*[(at, 0, 1) for at in range(0, 5000, 10)])
    sessions.push((0, 0, 5000))
    with entries_looked_at(monkeypatch) as looked_at:
        sessions.push((3, 0, 4900))
    assert sessions.store.session_count == 1
    assert max(looked_at) < 10


# -- a sorted run


@pytest.mark.parametrize("most_codes", [0, 1 << 62])
@pytest.mark.seeds(5)
def test_a_run_counts_the_entries_up_to_a_time_of_any_key_and_has_each_once(
    seed: int, most_codes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    monkeypatch.setattr(time_index, "_MOST_CODES", most_codes)
    base, width = chance.choice((0, int(MIN_TIMESTAMP), int(MAX_TIMESTAMP) - 30)), chance.choice((5, 30))
    pairs = list({(chance.randrange(4), base + chance.randrange(width)) for _ in range(20)})
    entries = [(*pair, session) for session, pair in enumerate(pairs)]
    entries += chance.sample(entries, 3)
    run = time_index._SessionRun.of(*(np.array(column, np.int64) for column in zip(*entries, strict=True)))
    assert [pairs[session] for session in run.sessions] == sorted(pairs)
    times = [int(MIN_TIMESTAMP), *range(max(base - 2, int(MIN_TIMESTAMP)), base + width), int(MAX_TIMESTAMP)]
    asked = [(key, time) for key in (0, 1, 2, 3, 4, 1 << 40) for time in times]
    keys, at = (np.array(column, np.int64) for column in zip(*asked, strict=True))
    assert run.until(keys, at).tolist() == [sum(pair <= each for pair in pairs) for each in asked]


def test_a_run_over_more_times_than_codes_have_room_for_numbers_those_that_occur() -> None:
    keys, times = np.array([0, 1 << 30]), np.array([MIN_TIMESTAMP, MAX_TIMESTAMP])
    run = time_index._SessionRun.of(keys, times, np.array([7, 8]))
    assert run.until(np.array([0, 0, 1 << 30, 1 << 62]), np.array([0, MAX_TIMESTAMP, 0, 0])).tolist() == [1, 1, 1, 2]
