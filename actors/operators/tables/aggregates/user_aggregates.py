"""Aggregates of the user's: accumulators that Python code changes row by row, and functions of all values of groups."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from actors.keys.index import Ids
from actors.operators.contract.operator import OperatorContext
from actors.operators.tables.aggregates.states.arguments import Taken
from actors.operators.tables.aggregates.states.group_state import Captured, GroupState
from actors.operators.tables.aggregates.states.grouped_rows import Flags
from actors.user_code.functions import TaskRuntimeContext
from flinkray.batches.pickling import dumps
from flinkray.tables.user_functions import (
    PANDAS,
    AggregateFunction,
    FunctionContext,
    Implementation,
    argument_rows,
    column_of,
    pandas_arguments,
)

Functions = tuple[tuple[str, Implementation], ...]
"""The user's aggregates by the names that calls have for them."""
_ACCUMULATOR = "accumulator"


class OpenFunctions:
    """Opens and closes the user's aggregates of an operator."""

    def __init__(self, functions: Functions) -> None:
        self._functions = list({id(each.function): each.function for _, each in functions}.values())

    def open(self, context: OperatorContext) -> None:
        for function in self._functions:
            if isinstance(function, AggregateFunction):
                function.open(FunctionContext(TaskRuntimeContext(context)))

    def close(self) -> None:
        for function in self._functions:
            if isinstance(function, AggregateFunction):
                function.close()


class Accumulators(GroupState):
    """An accumulator of the user's for each group, which takes one row after the other."""

    def __init__(self, implementation: Implementation) -> None:
        self._implementation = implementation
        self._function: AggregateFunction = implementation.function
        self._accumulators: list[Any] = []

    def of(self, groups: Ids, has_rows: Flags, kind: pa.DataType) -> pa.Array:
        """The results of groups; NULL of one without rows, of which the user's code may know none."""
        value = self._function.get_value
        return column_of(
            [
                value(self._accumulators[group]) if is_there else None
                for group, is_there in zip(groups.tolist(), has_rows.tolist(), strict=True)
            ],
            kind,
        )

    def grow(self, size: int) -> None:
        missing = size - len(self._accumulators)
        self._accumulators += [self._function.create_accumulator() for _ in range(missing)]

    def add(self, taken: Taken) -> None:
        rows = taken.rows
        groups = rows.groups[rows.places].tolist()
        weights = [1] * len(groups) if rows.weights is None else rows.weights.tolist()
        arguments = argument_rows(self._implementation, list(taken.values), len(groups))
        for group, weight, values in zip(groups, weights, arguments, strict=True):
            change = self._function.accumulate if weight > 0 else self._function.retract
            change(self._accumulators[group], *values)

    def reset(self, groups: Ids) -> None:
        for group in groups.tolist():
            self._accumulators[group] = self._function.create_accumulator()

    def retain(self, groups: Ids) -> None:
        self._accumulators = [self._accumulators[group] for group in groups.tolist()]

    def capture(self, groups: Ids) -> Captured:
        # The user's objects change with the next row, so they are written at once.
        written = pa.array([dumps(self._accumulators[group]) for group in groups.tolist()], pa.binary())
        return Captured(groups, lambda: {_ACCUMULATOR: written})

    def restore(self, groups: Ids, columns: Mapping[str, pa.Array]) -> None:
        self.grow(int(groups.max(initial=-1)) + 1)
        for group, written in zip(groups.tolist(), columns[_ACCUMULATOR].to_pylist(), strict=True):
            self._accumulators[group] = pickle.loads(written)


def of_all_values(implementation: Implementation, kind: pa.DataType) -> Callable[[Ids, pa.RecordBatch, int], pa.Array]:
    """The results of groups of their values, which come in order with the places of their groups; NULL where a group
    has none."""

    def results(places: Ids, values: pa.RecordBatch, size: int) -> pa.Array:
        offsets = np.searchsorted(places, np.arange(size + 1)).tolist()
        found = []
        for begin, end in itertools.pairwise(offsets):
            columns = values.slice(begin, end - begin).columns
            found.append(_result(implementation, columns) if end > begin else None)
        return column_of(found, kind)

    return results


def of_frames(
    implementation: Implementation, columns: Sequence[pa.Array], begins: Ids, ends: Ids, kind: pa.DataType
) -> pa.Array:
    """The results of frames of rows, of which equal ones follow each other; NULL where a frame has no row."""
    found: list[Any] = []
    last: tuple[int, int] | None = None
    for frame in zip(begins.tolist(), ends.tolist(), strict=True):
        begin, end = frame
        if frame != last:
            rows = [column.slice(begin, end - begin) for column in columns]
            value = _result(implementation, rows) if end > begin else None
        found.append(value)
        last = frame
    return column_of(found, kind)


def _result(implementation: Implementation, columns: Sequence[pa.Array]) -> Any:
    arguments: Sequence[Any] = columns
    if implementation.kind == PANDAS:
        arguments = pandas_arguments(implementation, columns, "an aggregate of pandas")
    elif implementation.row_names is not None:
        arguments = [pa.RecordBatch.from_arrays(list(columns), names=list(implementation.row_names))]
    function = implementation.function
    if not isinstance(function, AggregateFunction):
        found = implementation.callable(*arguments)
    else:
        accumulator = function.create_accumulator()
        function.accumulate(accumulator, *arguments)
        found = function.get_value(accumulator)
    return found.as_py() if isinstance(found, pa.Scalar) else found
