"""What joins share: how many pairs are made at a time, the keys of both inputs, and the columns of a pair."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from actors.columns.ranges import Indices
from actors.columns.row_sizes import Sizes
from actors.operators.contract.operator import OperatorContext
from flinkray.batches.batch import LARGEST_OVER_TARGET
from flinkray.errors import InvalidProgramError, operator_label
from flinkray.transformations.operator_factories import RIGHT_SUFFIX
from flinkray.types.keys import ColumnKey, KeySelector
from flinkray.types.records import Kind


class PairLimit:
    """Limits how many pairs are made at a time, so that a batch of them is not many times larger than a batch aims at:
    rows that match many others are there as often.

    Args:
        context: of the operator that joins.
        lefts: the size of each row of the left side, in bytes.
        rights: the size of each row of the right side.
    """

    def __init__(self, context: OperatorContext, lefts: Sizes, rights: Sizes) -> None:
        self._bytes = LARGEST_OVER_TARGET * context.batch_bytes
        self._lefts, self._rights = lefts, rights
        self.rows = context.batch_rows
        if isinstance(lefts, int) and isinstance(rights, int):
            self.rows = max(1, min(self.rows, self._bytes // max(1, lefts + rights)))

    def split(self, lefts: Indices, rights: Indices) -> Iterator[tuple[Indices, Indices]]:
        """Splits at most `rows` pairs (row `lefts[i]` with row `rights[i]`) into parts that are small enough."""
        if isinstance(self._lefts, int) and isinstance(self._rights, int):
            yield lefts, rights
            return
        ends = np.cumsum(_at(self._lefts, lefts) + _at(self._rights, rights))
        cuts = np.flatnonzero(np.diff((ends - 1) // self._bytes)) + 1
        for begin, end in itertools.pairwise([0, *cuts.tolist(), len(ends)]):
            yield lefts[begin:end], rights[begin:end]


def _at(sizes: Sizes, rows: Indices) -> Sizes:
    return sizes if isinstance(sizes, int) else sizes[rows]


def both_keys(context: OperatorContext, where: str) -> tuple[KeySelector, KeySelector]:
    """The key selectors of both inputs. Raises InvalidProgramError where one has none."""
    first, second = context.keys[:2] if len(context.keys) >= 2 else (None, None)
    if first is None or second is None:
        raise InvalidProgramError(f"{operator_label(where)}: a join needs keys for both inputs")
    return first, second


class PairLayout:
    """The columns of a pair: the left's, then the right's without its key columns; those whose names the left has too
    get the suffix `_right`."""

    def __init__(self, right_key: KeySelector, where: str) -> None:
        self._left_out = right_key.columns if isinstance(right_key, ColumnKey) else ()
        self._where = where
        self._named_for: tuple[Sequence[str], Sequence[str]] = ((), ())
        self._right_columns: list[str] = []
        self._names: list[str] = []

    def check_kind(self, kind: Kind) -> None:
        """Raises InvalidProgramError where rows of that kind have no columns."""
        if kind is Kind.OBJECT:
            raise InvalidProgramError(
                f"{operator_label(self._where)}: these rows are objects that Arrow cannot hold, so they have no "
                "columns to join; map them to tuples or rows first, or give the join a function"
            )

    def right_columns(self, left: Sequence[str], right: Sequence[str]) -> list[str]:
        """The names of the right columns that a pair has.

        Raises:
            InvalidProgramError: two columns of a pair would have the same name.
        """
        if (left, right) != self._named_for:
            self._right_columns = [name for name in right if name not in self._left_out]
            self._names = [*left, *(name + RIGHT_SUFFIX if name in left else name for name in self._right_columns)]
            if len(set(self._names)) != len(self._names):
                twice = next(name for name in self._names if self._names.count(name) > 1)
                raise InvalidProgramError(
                    f"{operator_label(self._where)}: the join would have two columns {twice!r}; rename one "
                    "before the join"
                )
            self._named_for = (left, right)
        return self._right_columns

    def pairs(self, left: pa.RecordBatch, right: pa.RecordBatch) -> pa.RecordBatch:
        """The pairs of row i of the left with row i of the right."""
        right_columns = self.right_columns(left.schema.names, right.schema.names)
        return pa.RecordBatch.from_arrays(
            [*left.columns, *(right.column(name) for name in right_columns)], names=self._names
        )
