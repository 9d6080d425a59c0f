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
"""Types of literals that are equal if their text is equal, so that they can be computed once."""
_NUMBERS: dict[type, type[np.generic]] = {bool: np.bool_, int: np.int64, float: np.float64}
_LARGE = 32_768
"""From so many rows on, finding the indices of the rows that a mask keeps before columns are read costs less."""


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
    """Evaluates expressions on many batches; a part that several of them have in common is computed once per batch.

    The parts are nodes, numbered from the leaves up: first columns and literals, then the calls that use them.
    """

    def __init__(self, expressions: Sequence[Expression], where: str) -> None:
        """`where` as for `evaluate`."""
        self._where = where
        self._node_of: dict[object, int] = {}
        self._nodes: list[Expression] = []
        """The part of each node. They must stay alive: some are known by their identity."""
        self._columns: list[tuple[int, str]] = []
        self._literals: list[int] = []
        self._steps: list[_Step] = []
        self._results = [self._add(expression) for expression in expressions]
        self._constants: list[Datum] | None = None
        self._find_last_uses()

    def arrays(self, data: pa.RecordBatch) -> list[pa.Array]:
        """The value of each expression in each row; errors as of `evaluate`."""
        if self._constants is None:
            self._constants = [None] * len(self._nodes)
            for node in self._literals:
                self._constants[node] = self._literal(self._nodes[node])
        values = self._constants.copy()
        for node, name in self._columns:
            position = data.schema.get_field_index(name)
            if position < 0:
                raise UnknownColumnError(name, data.schema.names, self._where)
            values[node] = data.column(position)
        for step in self._steps:
            arguments = [values[node] for node in step.arguments]
            values[step.node] = self._call(step, arguments)
            for node in step.last_used:  # freed, so that the next steps get memory that is in the cache
                values[node] = None
        return [_as_array(values[node], data.num_rows) for node in self._results]

    def _add(self, expression: Expression) -> int:
        """The index of the expression's node, which is added if it is new; equal expressions have one node."""
        match expression:
            case Alias(named, _):
                return self._add(named)
            case Column(name):
                key: object = name
            case Literal(value):
                key = (type(value), repr(value)) if type(value) in _SIMPLE else id(expression)
            case Call(function, arguments, options):
                nodes = tuple(self._add(argument) for argument in arguments)
                is_simple = all(type(value) in _SIMPLE for _, value in options)
                key = (function, nodes, repr(options) if is_simple else id(expression))
            case _:
                raise TypeError(f"{self._where}: {expression!r} is no expression")
        if key in self._node_of:
            return self._node_of[key]
        node = self._node_of[key] = len(self._nodes)
        self._nodes.append(expression)
        match expression:
            case Column(name):
                self._columns.append((node, name))
            case Call(function, _, options):
                self._steps.append(_Step(node, nodes, KERNELS[function], dict(options)))
            case _:
                self._literals.append(node)
        return node

    def _find_last_uses(self) -> None:
        """Notes at each step which values no later step needs, nor any result."""
        needed = {*self._results, *self._literals}
        for step in reversed(self._steps):
            step.last_used = tuple(set(step.arguments) - needed)
            needed.update(step.arguments)

    def _literal(self, expression: Expression) -> Datum:
        value = expression.value if isinstance(expression, Literal) else None
        try:
            is_large = type(value) is int and value >= 2**63
            dtype = np.uint64 if is_large else _NUMBERS.get(type(value))
            if dtype is not None:  # gives what `pa.scalar` would, which imports pandas
                return from_numpy(np.array([value], dtype))[0]
            return value if isinstance(value, pa.Scalar) else pa.scalar(value, nanosecond_type(value))
        except (pa.ArrowException, OverflowError) as error:
            raise RecordError(f"{self._where}: {expression!r} has no Arrow type: {error}") from error

    def _call(self, step: _Step, arguments: list[Datum]) -> Datum:
        try:
            return step.kernel(*arguments, **step.options)
        except (pa.ArrowNotImplementedError, pa.ArrowTypeError, Unsuited) as error:
            types = ", ".join(str(argument.type) for argument in arguments)
            call = self._nodes[step.node]
            raise TypeMismatchError(f"{self._where}: {call!r} cannot be computed on {types}: {error}") from error
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise RecordError(f"{self._where}: {self._nodes[step.node]!r}: {error}") from error


class _Step(Struct):
    """One call: the node that it computes, from the nodes of its arguments."""

    node: int
    arguments: tuple[int, ...]
    kernel: Callable[..., Datum]
    options: dict[str, Any]
    last_used: tuple[int, ...] = ()
    """Nodes whose values are not needed after this step."""


def _as_array(result: Datum, rows: int) -> pa.Array:
    if isinstance(result, pa.Scalar):
        return pa.nulls(rows) if pa.types.is_null(result.type) else pa.repeat(result, rows)
    return result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result


class ColumnOperator(Operator):
    """Base of the operators that make one batch of each batch and keep no state."""

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
        """The batch that is emitted for this one."""
        raise TypeError(f"{type(self).__name__} transforms nothing")


class ProjectOperator(ColumnOperator):
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
        return batch.with_data(pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)))


class DropOperator(ColumnOperator):
    """Drops columns; the others stay as they are."""

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
        return batch.with_data(batch.data.select(kept))


class RenameOperator(ColumnOperator):
    """Gives columns other names."""

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
        return batch.with_data(batch.data.rename_columns(renamed))


class WhereOperator(ColumnOperator):
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
        return filtered(batch.without_keys(), mask)


def filtered(batch: Batch, mask: pa.Array) -> Batch:
    """The rows where `mask` is true."""
    rows, kept = batch.num_rows, mask.true_count
    if kept == rows:
        return batch
    if rows < _LARGE or mask.null_count or mask.offset or not 0.1 < kept / rows < 0.6:
        return batch.filter(mask)
    # Arrow goes through a mask bit by bit if it is neither sparse nor dense, which takes twice as long as taking rows.
    bits = np.unpackbits(np.frombuffer(mask.buffers()[1], np.uint8), count=rows, bitorder="little")
    return take_rows(batch, np.flatnonzero(bits.view(np.bool_)))
