"""Which pairs of rows the condition of a join lets pass."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from actors.operators.calc.calculation import calculate, prepared
from actors.operators.calc.values.evaluation import EvaluationContext
from actors.operators.tables.changes import Flags
from flinkray.batches.numpy_arrays import as_numpy
from flinkray.errors import RecordError
from flinkray.tables.plans.explain import expression_text
from flinkray.tables.plans.expressions import BoundExpression, columns_of
from flinkray.tables.types.logical import RowType

Taken = Callable[[list[int]], pa.RecordBatch]
"""Gives columns of the rows of one side, a row for each pair, by the columns' numbers."""


class JoinCondition:
    """Computes a condition on pairs; reads only the columns that it names.

    Args:
        inputs: the columns of the left and of the right.
        where: names the operator in errors.
    """

    def __init__(self, condition: BoundExpression, inputs: tuple[RowType, ...], where: str) -> None:
        left, right = inputs
        self._width = len(left.fields)
        self._condition = prepared(condition, EvaluationContext())
        read = sorted(columns_of(condition))
        self._lefts = [each for each in read if each < self._width]
        self._rights = [each - self._width for each in read if each >= self._width]
        self._text = expression_text(condition, [*left.names, *right.names])
        self._where = where

    def holds(self, left: Taken, right: Taken, pairs: int, now_ms: int) -> Flags:
        """Whether it is true for each pair; where it is NULL it is not.

        Raises:
            RecordError: it cannot be computed for a pair; shows the condition.
        """
        columns = dict(zip(self._lefts, left(self._lefts).columns, strict=True)) if self._lefts else {}
        if self._rights:
            rights = right(self._rights).columns
            columns |= {place + self._width: each for place, each in zip(self._rights, rights, strict=True)}
        context = EvaluationContext(now_micros=now_ms * 1000)
        try:
            found = calculate(self._condition, columns, pairs, context)
        except RecordError as error:
            raise RecordError(f"{self._where}: {self._text}: {error}") from error
        return np.asarray(as_numpy(found.fill_null(False)), np.bool_)
