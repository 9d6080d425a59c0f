"""Result batches of built-in aggregates: the key, the window and its aggregates, with the window's event time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from msgspec import Struct

from actors.columns.large_columns import Column, batches_of, batches_with_times
from actors.operators.contract.operator import OperatorContext, Output
from actors.operators.windows.base.times import Times
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.errors import InvalidProgramError, operator_label
from flinkray.types.records import MAX_TIMESTAMP


class WindowBounds(Struct, frozen=True):
    """The windows of some result rows."""

    starts: pa.Array
    ends: pa.Array
    times: pa.Array | int
    """The last milliseconds of the windows; one number where that of all rows is the same."""

    @staticmethod
    def of(starts: Times, ends: Times) -> WindowBounds:
        return WindowBounds(from_numpy(starts), from_numpy(ends), from_numpy(ends - 1))

    @staticmethod
    def of_one(start: int, end: int, rows: int) -> WindowBounds:
        """The same window for all rows."""
        starts, ends = (from_numpy(np.full(rows, time, np.int64)) for time in (start, end))
        return WindowBounds(starts, ends, end - 1)

    @staticmethod
    def of_no_time(rows: int) -> WindowBounds:
        """Windows that are not of time, and thus end with it."""
        nothing = pa.nulls(rows, pa.int64())
        return WindowBounds(nothing, nothing, int(MAX_TIMESTAMP))

    def slice(self, offset: int, rows: int) -> WindowBounds:
        """The windows of some of the rows."""
        times = self.times if isinstance(self.times, int) else self.times.slice(offset, rows)
        return WindowBounds(self.starts.slice(offset, rows), self.ends.slice(offset, rows), times)


def emit_windows(
    context: OperatorContext,
    output: Output,
    keys: Sequence[tuple[str, Column]],
    bounds: WindowBounds,
    aggregates: Sequence[tuple[str, Column]],
    bounds_type: pa.DataType | None = None,
) -> None:
    """Emits a row per (key, window) in batches of the size that the job wants.

    Args:
        bounds_type: as `WindowFactory` has it.
    Raises:
        InvalidProgramError: two columns have the same name.
    """
    starts, ends = (times if bounds_type is None else times.cast(bounds_type) for times in (bounds.starts, bounds.ends))
    columns = [*keys, ("window_start", starts), ("window_end", ends), *aggregates]
    names = [name for name, _ in columns]
    check_names(names, operator_label(context.operator_name))
    for rows in batches_with_times(batches_of([column for _, column in columns], names), bounds.times):
        for offset in range(0, rows.num_rows, context.batch_rows):
            output.emit(rows.slice(offset, context.batch_rows))


def check_names(names: Sequence[str], operator: str) -> None:
    """Raises InvalidProgramError where two columns of an operator's result have the same name.

    Args:
        operator: what the error calls the operator, for example "operator 'counts'".
    """
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidProgramError(
            f"{operator}: its result has two columns named {twice!r} (of the key, window_start, window_end, and the "
            "aggregates); give the aggregate another name, or rename the key column before key_by"
        )
