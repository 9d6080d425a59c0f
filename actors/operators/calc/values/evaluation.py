"""A call of a function of SQL with its columns, and the kernel that computes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from flinkray.tables.types.arrow import to_arrow
from flinkray.tables.types.logical import LogicalType

Datum = Any
"""A pa.Array or, for a constant, a pa.Scalar."""


class EvaluationContext(Struct, frozen=True):
    """What a call may depend on beside its arguments.

    Args:
        now_micros: the time of the batch, as microseconds since 1970 UTC.
        query_start_micros: the time of the statement; where it is None, CURRENT_TIMESTAMP is that of the batch.
        time_zone: by which instants are dates and times of day, for calls that name none.
        watermark: of the operator, as milliseconds since 1970; None: there was none.
        database: the current one.
    """

    now_micros: int = 0
    query_start_micros: int | None = None
    time_zone: str = "UTC"
    watermark: int | None = None
    database: str = "default_database"


class KernelCall(Struct, frozen=True):
    """What a kernel may ask for beside its arguments.

    Args:
        types: of the arguments, which come in their Arrow types.
        rows: how many rows the result has.
        raw_json: places of arguments that are JSON, which JSON_OBJECT and JSON_ARRAY take as it is.
    """

    name: str
    types: tuple[LogicalType, ...]
    result_type: LogicalType
    rows: int
    context: EvaluationContext
    raw_json: frozenset[int] = frozenset()

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of the result."""
        return to_arrow(self.result_type)


class Kernel(Struct, frozen=True):
    """What a function computes.

    Args:
        compute: is given the call, and its arguments, of which one is an array if there are any but constants.
        constants: the places of arguments that it takes as Python values. Where they are columns, it is called for
            each combination of their values with the rows that have it.
        is_strict: whether NULL in one of the constants gives NULL, so that it is never called with None.
    """

    compute: Callable[..., Datum]
    constants: frozenset[int] = frozenset()
    is_strict: bool = True

    def run(self, call: KernelCall, arguments: Sequence[Datum]) -> Datum:
        """The result, as an array, or as a scalar if all arguments are."""
        varying = [place for place, _ in enumerate(arguments) if place not in self.constants]
        if all(isinstance(argument, pa.Scalar) for argument in arguments):
            if not varying:
                return self._with_constants(call, arguments)
            inputs = list(arguments)
            inputs[varying[0]] = pa.repeat(inputs[varying[0]], 1)
            result = self._with_constants(_with_rows(call, 1), inputs)
            return result if isinstance(result, pa.Scalar) else result[0]
        columns = [
            place
            for place, argument in enumerate(arguments)
            if place in self.constants and not isinstance(argument, pa.Scalar)
        ]
        return self._by_value(call, arguments, columns) if columns else self._with_constants(call, arguments)

    def _with_constants(self, call: KernelCall, arguments: Sequence[Datum]) -> Datum:
        inputs = [argument.as_py() if place in self.constants else argument for place, argument in enumerate(arguments)]
        if self.is_strict and any(inputs[place] is None for place in self.constants if place < len(inputs)):
            return pa.nulls(call.rows, call.arrow_type)
        return self.compute(call, *inputs)

    def _by_value(self, call: KernelCall, arguments: Sequence[Datum], places: Sequence[int]) -> pa.Array:
        """Computes the rows of each combination of values apart, and puts the results in order."""
        codes = np.zeros(call.rows, np.int64)
        for place in places:
            encoded = arguments[place].dictionary_encode(null_encoding="encode")
            codes = codes * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy(zero_copy_only=False)
            codes = np.unique(codes, return_inverse=True)[1]
        order = np.argsort(codes, kind="stable")
        borders = np.flatnonzero(np.diff(codes[order])) + 1
        parts = []
        for rows in np.split(order, borders):
            inputs = [
                argument
                if isinstance(argument, pa.Scalar)
                else argument[int(rows[0])]
                if place in places
                else argument.take(pa.array(rows))
                for place, argument in enumerate(arguments)
            ]
            part = self.run(_with_rows(call, len(rows)), inputs)
            parts.append(as_array(part, len(rows)).cast(call.arrow_type))
        if not parts:
            return pa.nulls(0, call.arrow_type)
        back = np.empty(call.rows, np.int64)
        back[order] = np.arange(call.rows)
        return pa.concat_arrays(parts).take(pa.array(back))


def plain(compute: Callable[..., Datum], *constants: int) -> Kernel:
    """A kernel that needs nothing but its arguments."""
    return Kernel(lambda _, *arguments: compute(*arguments), frozenset(constants))


def with_call(compute: Callable[..., Datum], *constants: int) -> Kernel:
    """A kernel that asks for more than its arguments."""
    return Kernel(compute, frozenset(constants))


def as_array(value: Datum, rows: int) -> pa.Array:
    """The value as a column."""
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value


def _with_rows(call: KernelCall, rows: int) -> KernelCall:
    return replace(call, rows=rows)


def by_distinct(
    compute: Callable[..., object], arrow_type: pa.DataType, values: pa.Array, *constants: object
) -> pa.Array:
    """A function that Arrow lacks, called once for each distinct value that is not NULL."""
    distinct = values.dictionary_encode()
    if not len(distinct.dictionary):
        return pa.nulls(len(values), arrow_type)
    results = [compute(one, *constants) for one in distinct.dictionary.to_pylist()]
    return pa.array(results, arrow_type).take(distinct.indices)


def nulls_where(mask: Datum, values: pa.Array) -> pa.Array:
    """The values, and NULL where the mask is true."""
    return pc.if_else(mask, pa.scalar(None, values.type), whole(values))


def kept_where(mask: Datum, values: pa.Array) -> pa.Array:
    """The values where the mask is true, and NULL elsewhere."""
    return pc.if_else(mask, whole(values), pa.scalar(None, values.type))


def whole(values: Datum) -> Datum:
    """The values, which are no slice of others if they are texts or bytes: beside a NULL, Arrow 19 takes those that
    the slice is of."""
    has_bytes = pa.types.is_string(values.type) or pa.types.is_binary(values.type)
    return pa.concat_arrays([values]) if has_bytes and isinstance(values, pa.Array) and values.offset else values
