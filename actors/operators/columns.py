"""Columnar operators without state: select, with_columns, drop, rename, where; and what evaluates their expressions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from actors.operators.base import Operator, OperatorContext
from actors.operators.expression_kernels import KERNELS, Datum, Unsuited
from flinkray.batch import Batch
from flinkray.errors import InvalidProgramError, RecordError, TypeMismatchError, UnknownColumnError
from flinkray.expressions import Alias, Call, Column, Expression, Literal
from flinkray.operator_factories import DropFactory, ProjectFactory, RenameFactory, WhereFactory
from flinkray.types import Kind


def evaluate(expression: Expression, data: pa.RecordBatch, where: str) -> pa.Array:
    """The expression's value in each row, shape (rows,).

    Args:
        where: names the operator in errors, for example "operator 'fares' (subtask 1 of 2)".
    Raises:
        UnknownColumnError: it reads a column that the data does not have.
        TypeMismatchError: a function cannot take its arguments' types; names both.
        RecordError: a value overflows, is divided by zero, or cannot be cast.
    """
    result = _Evaluation(data, where).value(expression)
    if isinstance(result, pa.Scalar):
        return pa.nulls(data.num_rows) if pa.types.is_null(result.type) else pa.repeat(result, data.num_rows)
    return result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result


def operator_label(context: OperatorContext) -> str:
    """How errors name an operator: `operator 'fares' (subtask 1 of 2)`."""
    return f"operator {context.operator_name!r} (subtask {context.subtask})"


class _Evaluation:
    """One expression over one batch; a part that occurs twice as the same object is computed once."""

    def __init__(self, data: pa.RecordBatch, where: str) -> None:
        self._data = data
        self._where = where
        self._known: dict[int, Datum] = {}

    def value(self, expression: Expression) -> Datum:
        match expression:
            case Column(name):
                return self._column(name)
            case Literal(value):
                return self._literal(value, expression)
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
        self._factory = factory

    def transform(self, batch: Batch) -> Batch:
        data, keep = batch.data, self._factory.keep
        columns = {name: data.column(name) for name in data.schema.names if keep is None or name in keep}
        for name in keep or ():
            if name not in columns:
                raise UnknownColumnError(name, data.schema.names, operator_label(self.context))
        for name, expression in self._factory.columns:
            columns[name] = evaluate(expression, data, operator_label(self.context))
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

    def transform(self, batch: Batch) -> Batch:
        mask = evaluate(self._predicate, batch.data, operator_label(self.context))
        if pa.types.is_null(mask.type):
            return batch.slice(0, 0)
        if not pa.types.is_boolean(mask.type):
            raise TypeMismatchError(
                f"{operator_label(self.context)}: where needs true or false, but {self._predicate!r} is {mask.type}"
            )
        if mask.null_count == 0 and mask.true_count == len(mask):
            return batch.without_keys()
        return batch.without_keys().filter(mask)
