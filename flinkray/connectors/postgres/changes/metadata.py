"""Columns that say which table a row is of, and what its change was (Flink CDC's metadata)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flinkray.batches.numpy_arrays import from_numpy
from flinkray.connectors.postgres.changes.settings import ChangesSettings
from flinkray.types.rows import SHORT_STRINGS

OP_TS, ROW_KIND = "op_ts", "row_kind"
_OF_TABLES = ("database_name", "schema_name", "table_name")
METADATA: dict[str, pa.DataType] = {
    **dict.fromkeys(_OF_TABLES, pa.string()),
    OP_TS: pa.timestamp("ms", "UTC"),
    ROW_KIND: pa.string(),
}


def with_metadata(
    data: pa.RecordBatch,
    settings: ChangesSettings,
    times: npt.NDArray[np.int64] | None = None,
    kinds: npt.NDArray[np.int8] | None = None,
) -> pa.RecordBatch:
    """Rows of the table behind the columns that are asked for.

    Args:
        times: of their commits, in milliseconds; None: the rows are of the snapshot, whose `op_ts` is 0.
        kinds: None: all are inserted.
    """
    if not settings.metadata:
        return data

    def column(kind: str) -> pa.Array:
        if kind == OP_TS:
            return from_numpy(np.zeros(data.num_rows, np.int64) if times is None else times).cast(METADATA[OP_TS])
        if kind != ROW_KIND:
            return pa.repeat(settings.names[_OF_TABLES.index(kind)], data.num_rows)
        return (
            pa.repeat(SHORT_STRINGS[0], data.num_rows)
            if kinds is None
            else pa.array(SHORT_STRINGS).take(from_numpy(kinds))
        )

    fields = [pa.field(name, METADATA[kind]) for name, kind in settings.metadata]
    columns = [column(kind) for _, kind in settings.metadata]
    return pa.RecordBatch.from_arrays([*columns, *data.columns], schema=pa.schema([*fields, *data.schema]))
