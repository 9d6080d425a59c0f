from __future__ import annotations

import pyarrow as pa

from actors.operators.sinks.changes import accepted_changes
from flinkray.batches.batch import Batch
from flinkray.types.changelogs import ChangelogMode
from flinkray.types.records import Kind
from flinkray.types.rows import SHORT_STRINGS

Rows = list[tuple[str, object, int]]


def taken(rows: Rows, key: tuple[str, ...] = ("k",), kind: pa.DataType | None = None) -> Rows:
    """What of rows (kind, key, n) a sink gets that replaces rows by their keys."""
    kinds = pa.array([SHORT_STRINGS.index(row[0]) for row in rows], pa.int8())
    keys = pa.array([row[1] for row in rows], kind)
    data = pa.RecordBatch.from_arrays([keys, pa.array([row[2] for row in rows])], names=["k", "n"])
    batch = accepted_changes(Batch(data, Kind.ROW).with_kinds(kinds), ChangelogMode.UPSERT, key)
    assert batch.kinds is not None
    return [
        (SHORT_STRINGS[each], row["k"], row["n"])
        for each, row in zip(batch.kinds.to_pylist(), batch.data.to_pylist(), strict=True)
    ]


def test_an_update_that_has_both_rows_replaces_one() -> None:
    assert taken([("+I", 1, 1), ("-U", 1, 1), ("+U", 1, 2)]) == [("+I", 1, 1), ("+U", 1, 2)]
    assert taken([("-U", None, 1), ("+U", None, 2)], kind=pa.int64()) == [("+U", None, 2)]
    nested = pa.struct({"x": pa.int64()})
    assert taken([("-U", {"x": 1}, 1), ("+U", {"x": 1}, 2)], kind=nested) == [("+U", {"x": 1}, 2)]


def test_a_row_that_nothing_replaces_is_taken_away() -> None:
    """A filter has kept back the new row, which may have another key, or comes with the next batch."""
    assert taken([("-U", 1, 1), ("+U", 2, 1)]) == [("-D", 1, 1), ("+U", 2, 1)]
    assert taken([("-U", 1, 1), ("-U", 1, 2), ("+U", 1, 3)]) == [("-D", 1, 1), ("+U", 1, 3)]
    assert taken([("-U", 1, 1), ("-D", 1, 1)]) == [("-D", 1, 1), ("-D", 1, 1)]
    assert taken([("+I", 1, 1), ("-U", None, 1)]) == [("+I", 1, 1), ("-D", None, 1)]
    assert taken([("-U", 1, 1), ("+U", 1, 2)], ("k", "n")) == [("-D", 1, 1), ("+U", 1, 2)]
