"""Partial aggregates: rows that stand for several rows of one key and slice, on their way to the window they go into.

They are told apart from plain rows, and from partial rows of other types, by the name of their first column, which
says all that the columns do not: whatever keeps batches of different schemas apart keeps these apart too.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.columns.large_columns import Columns, batches_of
from actors.keys.state_tables import StateRows
from actors.operators.aggregates.accumulators import Accumulators
from actors.operators.aggregates.aggregate_columns import AggregateColumns
from flinkray.batches.numpy_arrays import INT64, fixed_width, from_numpy
from flinkray.windows.aggregates import Aggregate, Count

_MARK = "flinkray.partial:"
"""Begins the names of all columns but the keys'. The first column counts the rows that each row stands for."""

COUNTED: tuple[str, Aggregate] = ("", Count())
"""The aggregate that counts the rows. No aggregate of the user's has this name."""
_ROWS = ":count"


class _Header(NamedTuple):
    """What the name of the first column says."""

    metadata: Mapping[str, bytes]
    """The metadata of the aggregates."""
    all_true: tuple[str, ...]
    """Columns of the aggregates that are left out, being true in every row."""
    all_rows: tuple[str, ...]
    """Columns of the aggregates that are left out, being the numbers of rows."""


def write_partial(
    aggregates: AggregateColumns, accumulators: Accumulators, keys: Columns | None, written_columns: set[str]
) -> list[pa.RecordBatch]:
    """A row for each of these distinct accumulators; in several batches where one has no room for the keys.

    Args:
        aggregates: `COUNTED`, then the window's.
        keys: the key columns of each accumulator; None: there is no key.
        written_columns: of one writer, empty at first: columns that could not be left out once. They are written from
            then on, so that the layout does not change to and fro.
    """
    columns = aggregates.columns(accumulators)
    rows = columns.pop(_ROWS)
    counts = fixed_width(rows, INT64)
    all_true = tuple(name for name, column in columns.items() if name not in written_columns and _is_all_true(column))
    all_rows = tuple(
        name for name, column in columns.items() if name not in written_columns and _is_equal(column, counts)
    )
    for name in (*all_true, *all_rows):
        del columns[name]
    written_columns.update(columns)
    header = _header_name(tuple(aggregates.metadata().items()), all_true, all_rows)
    key_names, key_columns = ([], []) if keys is None else (keys.schema.names, keys.columns)
    names = [header, *key_names, *(_MARK + name for name in columns)]
    return batches_of([rows, *key_columns, *columns.values()], names)


def is_partial(data: pa.RecordBatch) -> bool:
    """Whether the rows are partial aggregates."""
    return bool(data.num_columns and data.schema.field(0).name.startswith(_MARK))


def rows_behind(data: pa.RecordBatch) -> int:
    """How many rows these partial aggregates stand for."""
    return int(fixed_width(data.column(0), INT64).sum())


def state_of(data: pa.RecordBatch) -> StateRows:
    """The aggregates' columns, as a snapshot has them; the keys are columns of `data`."""
    header = _header(data.schema.field(0).name)
    columns = {
        name.removeprefix(_MARK): column
        for name, column in zip(data.schema.names[1:], data.columns[1:], strict=True)
        if name.startswith(_MARK)
    }
    if header.all_true:
        columns |= dict.fromkeys(header.all_true, from_numpy(np.ones(data.num_rows, np.bool_)))
    columns |= dict.fromkeys(header.all_rows, data.column(0))
    return StateRows(None, columns, header.metadata, data.num_rows)


@functools.lru_cache(maxsize=64)
def _header_name(metadata: tuple[tuple[str, bytes], ...], all_true: tuple[str, ...], all_rows: tuple[str, ...]) -> str:
    return _MARK + json.dumps([{name: value.hex() for name, value in metadata}, all_true, all_rows])


@functools.lru_cache(maxsize=64)
def _header(name: str) -> _Header:
    written, all_true, all_rows = json.loads(name.removeprefix(_MARK))
    metadata = {key: bytes.fromhex(value) for key, value in written.items()}
    return _Header(metadata, tuple(all_true), tuple(all_rows))


def _is_all_true(column: pa.Array) -> bool:
    return bool(pa.types.is_boolean(column.type) and column.true_count == len(column))


def _is_equal(column: pa.Array, rows: npt.NDArray[np.int64]) -> bool:
    return bool(pa.types.is_int64(column.type) and np.array_equal(fixed_width(column, INT64), rows))
