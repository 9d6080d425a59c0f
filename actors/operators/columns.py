"""Columnar operators without state: select, with_columns, drop, rename, where; and what evaluates their expressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from actors.operators.base import Operator, OperatorContext
from actors.operators.expression_kernels import KERNELS, Datum, Unsuited
from flinkray.batch import Batch
from flinkray.errors import InvalidProgramError, RecordError, TypeMismatchError, UnknownColumnError
from flinkray.expressions import Alias, Call, Column, Expression, Literal
from flinkray.operator_factories import DropFactory, ProjectFactory, RenameFactory, WhereFactory
from flinkray.types import Kind

_SIMPLE = (bool, int, float, str, bytes, type(None))
"""Types whose values are the same where they are written the same."""
_LARGE = 32_768
"""Rows from which it pays to look for the rows that a mask keeps before any column is read."""


def evaluate(expression: Expression, data: pa.RecordBatch, where: str) -> pa.Array:
    """The expression's value in each row, shape (rows,).

    Args:
        where: names the operator in errors, for example "operator 'fares' (subtask 1 of 2)".
    Raises:
        UnknownColumnError: it reads a column that the data does not have.
        TypeMismatchError: a function cannot take its arguments' types; names both.
        RecordError: a value overflows, is divided by zero, or cannot be cast.
    """
    return _as_array(_Evaluation(data, where, {}).value(expression), data.num_rows)


class Evaluator:
    """Expressions that are evaluated on many batches; a part that several have in common is computed once."""

    def __init__(self, expressions: Sequence[Expression], where: str) -> None:
        """`where` as for `evaluate`."""
        self._where = where
        same: dict[Any, Expression] = {}
        self._expressions = [_shared(expression, same) for expression in expressions]
        self._literals: dict[int, Datum] = {}

    def arrays(self, data: pa.RecordBatch) -> list[pa.Array]:
        """The value of each expression in each row; errors as of `evaluate`."""
        evaluation = _Evaluation(data, self._where, self._literals)
        return [_as_array(evaluation.value(expression), data.num_rows) for expression in self._expressions]


def _as_array(result: Datum, rows: int) -> pa.Array:
    if isinstance(result, pa.Scalar):
        return pa.nulls(rows) if pa.types.is_null(result.type) else pa.repeat(result, rows)
    return result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result


def _shared(expression: Expression, same: dict[Any, Expression]) -> Expression:
    """The expression with one object for all of its calls that are equal; `same` holds those found so far."""
    if isinstance(expression, Alias):
        return _shared(expression.expression, same)
    if not isinstance(expression, Call):
        return expression
    call = replace(expression, arguments=tuple(_shared(argument, same) for argument in expression.arguments))
    simple = all(type(value) in _SIMPLE for _, value in call.options)
    options = repr(call.options) if simple else id(call.options)
    return same.setdefault((call.function, *map(_identity, call.arguments), options), call)


def _identity(argument: Expression) -> object:
    match argument:
        case Column(name):
            return (name,)
        case Literal(value) if type(value) in _SIMPLE:
            return type(value), repr(value)
    return id(argument)


def operator_label(context: OperatorContext) -> str:
    """How errors name an operator: `operator 'fares' (subtask 1 of 2)`."""
    return f"operator {context.operator_name!r} (subtask {context.subtask})"


class _Evaluation:
    """Expressions over one batch; a part that occurs twice as the same object is computed once."""

    def __init__(self, data: pa.RecordBatch, where: str, literals: dict[int, Datum]) -> None:
        """`literals` are those made for earlier batches, by the identity of their expression."""
        self._data = data
        self._where = where
        self._known: dict[int, Datum] = {}
        self._literals = literals

    def value(self, expression: Expression) -> Datum:
        match expression:
            case Column(name):
                return self._column(name)
            case Literal(value):
                if id(expression) not in self._literals:
                    self._literals[id(expression)] = self._literal(value, expression)
                return self._literals[id(expression)]
            case Alias(named, _):
                return self.value(named)
            case Call():
                if id(expression) not in self._known:
                    self._known[id(expression)] = self._call(expression)
                return self._known[id(expression)]
        raise TypeError(f"{self._where}: {expression!r} is no expression")

    def _column(self, name: str) -> Datum:
        position = self._data.schema.get_field_index(name)
        if position < 0:
            raise UnknownColumnError(name, self._data.schema.names, self._where)
        return self._data.column(position)

    def _literal(self, value: Any, expression: Expression) -> Datum:
        try:
            return value if isinstance(value, pa.Scalar) else pa.scalar(value)
        except (pa.ArrowException, OverflowError) as error:
            raise RecordError(f"{self._where}: {expression!r} has no Arrow type: {error}") from error

    def _call(self, call: Call) -> Datum:
        arguments = [self.value(argument) for argument in call.arguments]
        try:
            return KERNELS[call.function](*arguments, **dict(call.options))
        except (pa.ArrowNotImplementedError, pa.ArrowTypeError, Unsuited) as error:
            types = ", ".join(str(argument.type) for argument in arguments)
            raise TypeMismatchError(f"{self._where}: {call!r} cannot be computed on {types}: {error}") from error
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise RecordError(f"{self._where}: {call!r}: {error}") from error


class _ColumnOperator(Operator):
    """A batch in, a batch out, no state."""

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if batch.kind is Kind.OBJECT:
            raise InvalidProgramError(
                f"{operator_label(self.context)}: these rows are objects that Arrow cannot hold, so they have no "
                "columns; map them to tuples or rows first"
            )
        changed = self.transform(batch)
        if changed.num_rows:
            self.output.emit(changed)

    def transform(self, batch: Batch) -> Batch:
        raise TypeError(f"{type(self).__name__} transforms nothing")


class ProjectOperator(_ColumnOperator):
    """New columns from expressions; all of them read the input's columns."""

    def __init__(self, factory: ProjectFactory) -> None:
        self._keep = factory.keep
        self._names = [name for name, _ in factory.columns]
        self._expressions = [expression for _, expression in factory.columns]

    def open(self) -> None:
        self._evaluator = Evaluator(self._expressions, operator_label(self.context))

    def transform(self, batch: Batch) -> Batch:
        data, keep = batch.data, self._keep
        columns: dict[str, pa.Array] = {}
        if keep is None:
            columns = dict(zip(data.schema.names, data.columns, strict=True))
        elif keep:
            columns = {name: data.column(name) for name in data.schema.names if name in keep}
            for name in keep:
                if name not in columns:
                    raise UnknownColumnError(name, data.schema.names, operator_label(self.context))
        columns.update(zip(self._names, self._evaluator.arrays(data), strict=True))
        return Batch(
            pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)), Kind.ROW, batch.timestamps
        )


class DropOperator(_ColumnOperator):
    """The other columns."""

    def __init__(self, factory: DropFactory) -> None:
        self._columns = factory.columns

    def transform(self, batch: Batch) -> Batch:
        names = batch.data.schema.names
        for name in self._columns:
            if name not in names:
                raise UnknownColumnError(name, names, operator_label(self.context))
        kept = [name for name in names if name not in self._columns]
        if not kept:
            raise InvalidProgramError(
                f"{operator_label(self.context)}: drop would leave no column of {', '.join(names)}"
            )
        return Batch(batch.data.select(kept), Kind.ROW, batch.timestamps)


class RenameOperator(_ColumnOperator):
    """The same columns under other names."""

    def __init__(self, factory: RenameFactory) -> None:
        self._renames = dict(factory.renames)

    def transform(self, batch: Batch) -> Batch:
        names = batch.data.schema.names
        for old in self._renames:
            if old not in names:
                raise UnknownColumnError(old, names, operator_label(self.context))
        renamed = [self._renames.get(name, name) for name in names]
        if len(set(renamed)) != len(renamed):
            twice = next(name for name in renamed if renamed.count(name) > 1)
            raise InvalidProgramError(f"{operator_label(self.context)}: rename would make two columns named {twice!r}")
        return Batch(batch.data.rename_columns(renamed), Kind.ROW, batch.timestamps)


class WhereOperator(_ColumnOperator):
    """The rows where a predicate is true; null counts as false."""

    def __init__(self, factory: WhereFactory) -> None:
        self._predicate = factory.predicate

    def open(self) -> None:
        self._evaluator = Evaluator([self._predicate], operator_label(self.context))

    def transform(self, batch: Batch) -> Batch:
        mask = self._evaluator.arrays(batch.data)[0]
        if pa.types.is_null(mask.type):
            return batch.slice(0, 0)
        if not pa.types.is_boolean(mask.type):
            raise TypeMismatchError(
                f"{operator_label(self.context)}: where needs true or false, but {self._predicate!r} is {mask.type}"
            )
        return _kept(batch.without_keys(), mask)


def _kept(batch: Batch, mask: pa.Array) -> Batch:
    """The rows where `mask` is true."""
    rows, kept = batch.num_rows, mask.true_count
    if kept == rows:
        return batch
    if rows < _LARGE or mask.null_count or mask.offset or not 0.1 < kept / rows < 0.6:
        return batch.filter(mask)
    # Arrow goes through a mask bit by bit where it is neither sparse nor dense, which takes twice as long.
    bits = np.unpackbits(np.frombuffer(mask.buffers()[1], np.uint8), count=rows, bitorder="little")
    return batch.take(pa.array(np.flatnonzero(bits.view(np.bool_))))
