"""The results of joins: pairs, rows padded with NULLs, and rows of the left alone, with what they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from actors.operators.tables.changes import Kinds
from flinkray.tables.types.arrow import stored_schema, to_arrow
from flinkray.tables.types.logical import RowType
from flinkray.types.changelogs import Changes
from flinkray.types.rows import RowKind

_INSERT, _BEFORE, _DELETE = (each.value for each in (RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.DELETE))


class JoinResults:
    """Gathers results and emits them in batches of at least `rows`; the rest when it is flushed.

    Args:
        results: their columns.
        inputs: the columns of the left and of the right.
        gives: what results are announced to do.
        rows: how many make a batch.
        emit: takes rows and their kinds.
    """

    def __init__(
        self,
        results: RowType,
        inputs: Sequence[RowType],
        gives: Changes,
        rows: int,
        emit: Callable[[pa.RecordBatch, Kinds | None], None],
    ) -> None:
        self._schema = stored_schema(results)
        self._types = [to_arrow(each) for side in inputs for each in side.types]
        self._widths = [len(side.fields) for side in inputs]
        self._emit = emit
        self._rows = rows
        # Where no deletes are announced a row that goes is one that is not updated any more, as a filter has it.
        self._taken = _DELETE if gives.deletes or not gives.before else _BEFORE
        self._batches: list[pa.RecordBatch] = []
        self._kinds: list[Kinds | None] = []
        self._count = 0

    def beside(self, left: pa.RecordBatch, right: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of the left with those of the right."""
        return self._of_columns([*self._columns(left, 0), *self._columns(right, 1)], left.num_rows)

    def padded(self, rows: pa.RecordBatch, side: int) -> pa.RecordBatch:
        """Rows of the left (0) or the right (1) beside NULLs."""
        width = self._widths[0]
        missing = self._types[width:] if side == 0 else self._types[:width]
        nulls = [pa.nulls(rows.num_rows, each) for each in missing]
        columns = self._columns(rows, side)
        return self._of_columns([*columns, *nulls] if side == 0 else [*nulls, *columns], rows.num_rows)

    def _columns(self, rows: pa.RecordBatch, side: int) -> list[pa.Array]:
        """The columns of an input's rows: none where they only have one to be counted by."""
        columns: list[pa.Array] = rows.columns[: self._widths[side]]
        return columns

    def _of_columns(self, columns: list[pa.Array], rows: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(columns or [pa.nulls(rows)], schema=self._schema)

    def insert(self, rows: pa.RecordBatch) -> None:
        self._add(rows, None)

    def take_back(self, rows: pa.RecordBatch) -> None:
        self._add(rows, np.full(rows.num_rows, self._taken, np.int8))

    def change(self, rows: pa.RecordBatch, kinds: Kinds) -> None:
        """Rows of any kinds, -D for each that goes."""
        self._add(rows, np.where(kinds == _DELETE, self._taken, kinds).astype(np.int8))

    def _add(self, rows: pa.RecordBatch, kinds: Kinds | None) -> None:
        if not rows.num_rows:
            return
        self._batches.append(rows)
        self._kinds.append(kinds)
        self._count += rows.num_rows
        if self._count >= self._rows:
            self.flush()

    def flush(self) -> None:
        """Emits what is left."""
        batches, kinds, rows = self._batches, self._kinds, self._count
        self._batches, self._kinds, self._count = [], [], 0
        if not rows:
            return
        if len(batches) == 1:
            self._emit(batches[0], kinds[0])
            return
        filled = [
            np.full(batch.num_rows, _INSERT, np.int8) if some is None else some
            for batch, some in zip(batches, kinds, strict=True)
        ]
        has_kinds = any(some is not None for some in kinds)
        self._emit(pa.concat_batches(batches), np.concatenate(filled) if has_kinds else None)
