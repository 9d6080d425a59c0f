"""Pairs of rows of the same key and window, once it has ended (Flink's WindowJoin)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from actors.columns.ordering import partners_of
from actors.columns.ranges import pairs_of
from actors.columns.take import take
from actors.keys.index import Ids, KeyIndex
from actors.operators.calc.calculation import calculate, prepared
from actors.operators.calc.values.evaluation import EvaluationContext
from actors.operators.tables.windows.window_rows import WindowRowsOperator, numbered_keys
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.tables.plans.expressions import columns_of
from flinkray.transformations.table_window_factories import WindowJoinFactory

_PAIRS_AT_ONCE = 1 << 16
Flags = npt.NDArray[np.bool_]


class WindowJoinOperator(WindowRowsOperator[WindowJoinFactory]):
    """Both bounds of the window are among the columns of the key, so that all windows that have ended are joined in one
    go. NULL in a key equals nothing."""

    def __init__(self, factory: WindowJoinFactory) -> None:
        super().__init__(factory)
        self._condition = None if factory.condition is None else prepared(factory.condition, EvaluationContext())
        self._read = [] if factory.condition is None else sorted(columns_of(factory.condition))
        self._gives_pairs = factory.kind not in ("SEMI", "ANTI")
        self._pads_left = factory.kind in ("LEFT", "FULL")
        self._pads_right = factory.kind in ("RIGHT", "FULL")

    def ended(self, rows: Sequence[pa.RecordBatch]) -> None:
        left, right = rows
        has_partner = [np.zeros(each.num_rows, np.bool_) for each in rows]
        order, begins, counts = self._partners(left, right)
        for places, partners in pairs_of(begins, counts, _PAIRS_AT_ONCE):
            numbers = (places, order[partners])
            if self._condition is not None:
                holds = self._holds(rows, numbers)
                numbers = (numbers[0][holds], numbers[1][holds])
            for flags, found in zip(has_partner, numbers, strict=True):
                flags[found] = True
            if self._gives_pairs:
                self._emit(rows, numbers)
        if not self._gives_pairs:
            wanted = has_partner[0] if self.factory.kind == "SEMI" else ~has_partner[0]
            self._emit(rows, (np.flatnonzero(wanted), None))
        if self._pads_left:
            self._emit(rows, (np.flatnonzero(~has_partner[0]), None))
        if self._pads_right:
            self._emit(rows, (None, np.flatnonzero(~has_partner[1])))

    def _partners(self, left: pa.RecordBatch, right: pa.RecordBatch) -> tuple[Ids, Ids, Ids]:
        index = KeyIndex()
        ids = []
        has_null = []
        for rows, columns in zip((left, right), self.factory.keys, strict=True):
            ids.append(numbered_keys(rows, columns, index))
            has_null.append(_has_null([rows.column(each) for each in columns], rows.num_rows))
        right_numbers = np.flatnonzero(~has_null[1])
        order, begins, counts = partners_of(ids[0], ids[1][right_numbers], max(len(index), 1))
        return right_numbers[order], begins, np.where(has_null[0], 0, counts)

    def _holds(self, rows: Sequence[pa.RecordBatch], numbers: tuple[Ids, Ids]) -> Flags:
        """Whether the condition is true of each pair."""
        assert self._condition is not None
        width = rows[0].num_columns
        columns = {}
        for each in self._read:
            side = int(each >= width)
            columns[each] = take(rows[side].column(each - width * side), from_numpy(numbers[side]))
        context = EvaluationContext(now_micros=int(self.context.clock.now_ms()) * 1000)
        found = calculate(self._condition, columns, len(numbers[0]), context)
        flags: Flags = as_numpy(pc.fill_null(found, False)).astype(np.bool_)
        return flags

    def _emit(self, rows: Sequence[pa.RecordBatch], numbers: tuple[Ids | None, Ids | None]) -> None:
        """Rows of both sides side by side; None: NULLs, or of SEMI and ANTI nothing, in the place of a side."""
        sides = rows if self._gives_pairs else rows[:1]
        side = 0 if numbers[0] is not None else 1
        known = numbers[side]
        assert known is not None
        columns: list[pa.Array] = []
        for each, found in zip(sides, numbers, strict=False):
            if found is None:
                columns += [pa.nulls(len(known), column.type) for column in each.columns]
            else:
                columns += take(each, from_numpy(found)).columns
        ends = self.ends_of(rows[side], side)[known]
        self.emit(columns, ends)


def _has_null(columns: Sequence[pa.Array], rows: int) -> Flags:
    found = np.zeros(rows, np.bool_)
    for column in columns:
        if column.null_count:
            found |= as_numpy(column.is_null())
    return found
