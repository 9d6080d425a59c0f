"""Columnar operators without state: select, with_columns, drop, rename, where; and what evaluates their expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from actors.columns.take import take_rows
from actors.operators.contract.operator import Operator, label_of
from actors.operators.expressions.kernels import KERNELS, Unsuited, nanosecond_type
from actors.operators.expressions.number_kernels import Datum
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.errors import InvalidProgramError, RecordError, TypeMismatchError, UnknownColumnError
from flinkray.expressions.tree import Alias, Call, Column, Expression, Literal
from flinkray.transformations.operator_factories import DropFactory, ProjectFactory, RenameFactory, WhereFactory
from flinkray.types.records import Kind

_SIMPLE = (bool, int, float, str, bytes, type(None))
"""Types whose values are the same where they are written the same."""
_NUMBERS: dict[type, type[np.generic]] = {bool: np.bool_, int: np.int64, float: np.float64}
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
    return Evaluator([expression], where).arrays(data)[0]


class Evaluator:
    """Expressions made ready for many batches; a part that several have in common is computed once."""

    def __init__(self, expressions: Sequence[Expression], where: str) -> None:
        """`where` as for `evaluate`."""
        self._where = where
        self._places: dict[object, int] = {}
        self._nodes: list[Expression] = []
        """By place. They are kept: some are known by their identity."""
        self._columns: list[tuple[int, str]] = []
        self._literals: list[int] = []
        self._steps: list[_Step] = []
        self._results = [self._place(expression) for expression in expressions]
        self._constants: list[Datum] | None = None
        self._forget()

    def arrays(self, data: pa.RecordBatch) -> list[pa.Array]:
        """The value of each expression in each row; errors as of `evaluate`."""
        if self._constants is None:
            self._constants = [None] * len(self._nodes)
            for place in self._literals:
                self._constants[place] = self._literal(self._nodes[place])
        values = self._constants.copy()
        for place, name in self._columns:
            position = data.schema.get_field_index(name)
            if position < 0:
                raise UnknownColumnError(name, data.schema.names, self._where)
            values[place] = data.column(position)
        for step in self._steps:
            arguments = [values[place] for place in step.arguments]
            values[step.place] = self._call(step, arguments)
            for place in step.last_used:  # so that what follows finds memory that is in the cache
                values[place] = None
        return [_as_array(values[place], data.num_rows) for place in self._results]

    def _place(self, expression: Expression) -> int:
        """Where the expression's value stands; the same for equal ones."""
        match expression:
            case Alias(named, _):
                return self._place(named)
            case Column(name):
                key: object = name
            case Literal(value):
                key = (type(value), repr(value)) if type(value) in _SIMPLE else id(expression)
            case Call(function, arguments, options):
                places = tuple(self._place(argument) for argument in arguments)
                is_simple = all(type(value) in _SIMPLE for _, value in options)
                key = (function, places, repr(options) if is_simple else id(expression))
            case _:
                raise TypeError(f"{self._where}: {expression!r} is no expression")
        if key in self._places:
            return self._places[key]
        place = self._places[key] = len(self._nodes)
        self._nodes.append(expression)
        match expression:
            case Column(name):
                self._columns.append((place, name))
            case Call(function, _, options):
                self._steps.append(_Step(place, places, KERNELS[function], dict(options)))
            case _:
                self._literals.append(place)
        return place

    def _forget(self) -> None:
        """Tells each step which values nobody needs behind it."""
        needed = {*self._results, *self._literals}
        for step in reversed(self._steps):
            step.last_used = tuple(set(step.arguments) - needed)
            needed.update(step.arguments)

    def _literal(self, expression: Expression) -> Datum:
        value = expression.value if isinstance(expression, Literal) else None
        try:
            is_large = type(value) is int and value >= 2**63
            dtype = np.uint64 if is_large else _NUMBERS.get(type(value))
            if dtype is not None:  # as `pa.scalar`, which would import pandas
                return from_numpy(np.array([value], dtype))[0]
            return value if isinstance(value, pa.Scalar) else pa.scalar(value, nanosecond_type(value))
        except (pa.ArrowException, OverflowError) as error:
            raise RecordError(f"{self._where}: {expression!r} has no Arrow type: {error}") from error

    def _call(self, step: _Step, arguments: list[Datum]) -> Datum:
        try:
            return step.kernel(*arguments, **step.options)
        except (pa.ArrowNotImplementedError, pa.ArrowTypeError, Unsuited) as error:
            types = ", ".join(str(argument.type) for argument in arguments)
            call = self._nodes[step.place]
            raise TypeMismatchError(f"{self._where}: {call!r} cannot be computed on {types}: {error}") from error
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise RecordError(f"{self._where}: {self._nodes[step.place]!r}: {error}") from error


class _Step(Struct):
    """A call: from the values at some places to the value at another one."""

    place: int
    arguments: tuple[int, ...]
    kernel: Callable[..., Datum]
    options: dict[str, Any]
    last_used: tuple[int, ...] = ()


def _as_array(result: Datum, rows: int) -> pa.Array:
    if isinstance(result, pa.Scalar):
        return pa.nulls(rows) if pa.types.is_null(result.type) else pa.repeat(result, rows)
    return result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result


class _ColumnOperator(Operator):
    """A batch in, a batch out, no state."""

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if batch.kind is Kind.OBJECT:
            raise InvalidProgramError(
                f"{label_of(self.context)}: these rows are objects that Arrow cannot hold, so they have no "
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
        self._evaluator = Evaluator(self._expressions, label_of(self.context))

    def transform(self, batch: Batch) -> Batch:
        data, keep = batch.data, self._keep
        columns: dict[str, pa.Array] = {}
        if keep is None:
            columns = dict(zip(data.schema.names, data.columns, strict=True))
        elif keep:
            columns = {name: data.column(name) for name in data.schema.names if name in keep}
            for name in keep:
                if name not in columns:
                    raise UnknownColumnError(name, data.schema.names, label_of(self.context))
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
                raise UnknownColumnError(name, names, label_of(self.context))
        kept = [name for name in names if name not in self._columns]
        if not kept:
            raise InvalidProgramError(f"{label_of(self.context)}: drop would leave no column of {', '.join(names)}")
        return Batch(batch.data.select(kept), Kind.ROW, batch.times)


class RenameOperator(_ColumnOperator):
    """The same columns under other names."""

    def __init__(self, factory: RenameFactory) -> None:
        self._renames = dict(factory.renames)

    def transform(self, batch: Batch) -> Batch:
        names = batch.data.schema.names
        for old in self._renames:
            if old not in names:
                raise UnknownColumnError(old, names, label_of(self.context))
        renamed = [self._renames.get(name, name) for name in names]
        if len(set(renamed)) != len(renamed):
            twice = next(name for name in renamed if renamed.count(name) > 1)
            raise InvalidProgramError(f"{label_of(self.context)}: rename would make two columns named {twice!r}")
        return Batch(batch.data.rename_columns(renamed), Kind.ROW, batch.times)


class WhereOperator(_ColumnOperator):
    """The rows where a predicate is true; null counts as false."""

    def __init__(self, factory: WhereFactory) -> None:
        self._predicate = factory.predicate

    def open(self) -> None:
        self._evaluator = Evaluator([self._predicate], label_of(self.context))

    def transform(self, batch: Batch) -> Batch:
        mask = self._evaluator.arrays(batch.data)[0]
        if pa.types.is_null(mask.type):
            return batch.slice(0, 0)
        if not pa.types.is_boolean(mask.type):
            raise TypeMismatchError(
                f"{label_of(self.context)}: where needs true or false, but {self._predicate!r} is {mask.type}"
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
    return take_rows(batch, np.flatnonzero(bits.view(np.bool_)))
