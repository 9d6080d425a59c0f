"""Rows with the bounds of their sessions, against a loop over the rows of each key: random rows, some late, random
watermarks, and subtasks that are stopped and go on as more or fewer."""

from __future__ import annotations

import datetime
import random
from typing import Any

import pytest

from actors.operators.tables.windows.session import SessionOperator
from flinkray.batches.batch import Batch
from flinkray.execution import LATE_RECORDS_DROPPED
from flinkray.tables.types.arrow import stored_schema
from flinkray.tables.types.logical import INT, ROW, STRING, TIMESTAMP, RowType
from flinkray.transformations.table_window_factories import SessionFactory
from flinkray.types.changelogs import INSERTS, Changes
from flinkray.types.keys import ColumnKey
from flinkray.types.records import Millis
from tests.support.rescaling import Subtasks
from tests.support.tables import changes_as_batch

BOUND = TIMESTAMP(3)
ROWS = ROW(("k", STRING), ("ts", BOUND), ("n", INT))
RESULTS = RowType((*ROWS.fields, *ROW(("start", BOUND), ("end", BOUND), ("time", BOUND)).fields))
GAP = 6
Row = tuple[Any, ...]
EPOCH = datetime.datetime(1970, 1, 1)


def with_sessions(rows: list[Row]) -> list[Row]:
    """Rows with the start and the end of their sessions."""
    found: list[Row] = []
    for key in {row[0] for row in rows}:
        session: list[Row] = []
        for row in [*sorted((row for row in rows if row[0] == key), key=lambda row: row[1]), None]:
            if session and (row is None or row[1] - session[-1][1] > GAP):
                found += [(*each, session[0][1], session[-1][1] + GAP, session[-1][1] + GAP - 1) for each in session]
                session = []
            if row is not None:
                session.append(row)
    return found


def in_numbers(value: Any) -> Any:
    """Times as milliseconds."""
    return (value - EPOCH) // datetime.timedelta(milliseconds=1) if isinstance(value, datetime.datetime) else value


def kind_of(row: Row, takes: Changes) -> int:
    return 0 if takes.is_insert_only else int(row[2]) * 7 % 4


def kinds_of(batch: Batch) -> list[int]:
    kinds: list[int] = [0] * batch.num_rows if batch.kinds is None else batch.kinds.to_pylist()
    return kinds


@pytest.mark.parametrize(("seed", "takes"), [(0, INSERTS), (1, INSERTS), (2, Changes(True, True)), (3, Changes(True))])
def test_rows_come_with_the_bounds_of_their_session_once_it_has_ended(seed: int, takes: Changes) -> None:
    """Changes are rows like others: each keeps what it does, which the number here says."""
    made = SessionFactory(input_rows=(ROWS,), rows=RESULTS, takes=(takes,), time=1, gap_ms=Millis(GAP))
    generator, numbers = random.Random(seed), iter(range(1000))
    subtasks = Subtasks(lambda: SessionOperator(made), [ColumnKey(("k",))], 2)
    waiting: list[Row] = []
    watermark, late, dropped = 0, 0, 0
    for step in range(40):
        rows = [
            (generator.choice(["a", "b", None]), max(0, watermark + generator.randint(-12, 25)), next(numbers))
            for _ in range(4)
        ]
        subtasks.push(changes_as_batch([(kind_of(row, takes), row) for row in rows], stored_schema(ROWS)))
        all_rows = with_sessions(waiting + rows)
        late += sum(row[4] - 1 <= watermark for row in all_rows)
        waiting = [row[:3] for row in all_rows if row[4] - 1 > watermark]
        watermark += generator.choice([0, 5, 9])
        subtasks.watermark(watermark)
        ended = [row for row in with_sessions(waiting) if row[5] <= watermark]
        waiting = [row for row in waiting if row not in [each[:3] for each in ended]]
        for harness in subtasks.harnesses:
            dropped += int(harness.context.metrics.counters.pop(LATE_RECORDS_DROPPED, 0))
        kinds = [kind for harness in subtasks.harnesses for each in harness.output.batches for kind in kinds_of(each)]
        taken = subtasks.take()
        assert kinds == [kind_of(row, takes) for row, _ in taken]
        found = [tuple(map(in_numbers, row)) for row, _ in taken]
        assert sorted(map(repr, found)) == sorted(map(repr, ended))
        assert [time for _, time in taken] == [row[5] for row in found]
        if step % 7 == 6:
            subtasks = subtasks.rescaled(generator.randint(1, 3))
    assert late == dropped > 0
