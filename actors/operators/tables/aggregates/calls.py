"""Which aggregate is which state, and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from actors.keys.index import Ids
from actors.operators.aggregates.value_rules import is_fixed_width
from actors.operators.calc.values.decimals import divide
from actors.operators.tables.aggregates.lists import LIST_RESULTS, collected, percentiles
from actors.operators.tables.aggregates.states.arguments import Source
from actors.operators.tables.aggregates.states.extremes import (
    Extremes,
    FirstOrLast,
    NumericExtremes,
    RetractableExtremes,
)
from actors.operators.tables.aggregates.states.group_state import GroupState
from actors.operators.tables.aggregates.states.linear import Counts, DecimalSums, FloatSums, IntegerSums
from actors.operators.tables.aggregates.states.moments import Moments
from actors.operators.tables.aggregates.states.value_lists import ValueLists
from actors.operators.tables.aggregates.states.value_sets import ValueSets
from actors.operators.tables.aggregates.user_aggregates import Accumulators, of_all_values
from flinkray.batches.numpy_arrays import from_numpy, numpy_dtype
from flinkray.tables.plans.expressions import AggregateCall, Constant
from flinkray.tables.types.arrow import to_arrow
from flinkray.tables.types.logical import DecimalType
from flinkray.tables.user_functions import GENERAL, Implementation

Result = Callable[[Ids], pa.Array]
"""The results of an aggregate for groups."""
State = TypeVar("State", bound=GroupState)
SPREADS = ("STDDEV_POP", "STDDEV_SAMP", "VAR_POP", "VAR_SAMP")
_TAKE_NULL = ("ARRAY_AGG", "SINGLE_VALUE")


class States(Protocol):
    """Holds the states of all aggregates."""

    @property
    def is_insert_only(self) -> bool:
        """Whether nothing is ever taken back."""

    @property
    def functions(self) -> Mapping[str, Implementation]:
        """The user's aggregates by name."""

    def state(self, source: Source, kind: str, make: Callable[[], State]) -> State:
        """The state of that kind over a source: aggregates share it."""


def result_of(call: AggregateCall, states: States) -> Result:
    """The results of an aggregate, whose state is among `states` then."""
    source = source_of(call)
    if call.function in states.functions:
        return _of_users(call, replace(source, takes_null=True), states, states.functions[call.function])
    match call.function:
        case "COUNT" | "APPROX_COUNT_DISTINCT":
            counts = states.state(source, "count", Counts)
            return lambda groups: from_numpy(counts.of(groups))
        case "SUM":
            return _sum(call, source, states)
        case "AVG":
            return _mean(call, source, states)
        case "MIN" | "MAX":
            return _extreme(call, replace(source, is_distinct=False), states)
        case "FIRST_VALUE" | "LAST_VALUE" if states.is_insert_only and not source.takes_null:
            is_last, kind = call.function == "LAST_VALUE", source.types[0]
            return states.state(source, call.function, lambda: FirstOrLast(kind, is_last)).of
        case "COLLECT":
            sets = states.state(source, "values with counts", lambda: ValueSets(source.types))
            return lambda groups: collected(groups, sets, call)
        case "PERCENTILE":
            sets = states.state(source, "values with counts", lambda: ValueSets(source.types))
            return lambda groups: percentiles(groups, sets)
    if call.function in SPREADS:
        return _spread(call, source, states)
    lists = states.state(source, "values in order", lambda: ValueLists(source.types))
    make = LIST_RESULTS[call.function]
    return lambda groups: make(*lists.of(groups), len(groups), call)


def _of_users(call: AggregateCall, source: Source, states: States, implementation: Implementation) -> Result:
    kind = to_arrow(call.type)
    if implementation.kind == GENERAL:
        rows = states.state(Source(()), "count", Counts)
        accumulators = states.state(source, call.function, lambda: Accumulators(implementation))
        return lambda groups: accumulators.of(groups, rows.of(groups) != 0, kind)
    lists = states.state(source, "values in order", lambda: ValueLists(source.types))
    results = of_all_values(implementation, kind)
    return lambda groups: results(*lists.of(groups), len(groups))


def source_of(call: AggregateCall) -> Source:
    """What an aggregate is over."""
    arguments, takes_null = call.arguments, call.function in _TAKE_NULL
    if call.function == "COUNT" and all(isinstance(each, Constant) and each.value is not None for each in arguments):
        arguments = () if not call.distinct else arguments
    if call.function in ("ARRAY_AGG", "FIRST_VALUE", "LAST_VALUE") and call.ignore_nulls is not None:
        takes_null = not call.ignore_nulls
    if call.function in ("JSON_ARRAYAGG", "JSON_OBJECTAGG"):
        on_null = arguments[0]
        assert isinstance(on_null, Constant)
        # What may be left out for being NULL comes first.
        arguments, takes_null = arguments[:0:-1], on_null.value == "NULL"
    is_distinct = call.distinct or call.function == "APPROX_COUNT_DISTINCT"
    return Source(arguments, call.filter, is_distinct, takes_null)


def _nothing(counts: Counts, groups: Ids) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = counts.of(groups) == 0
    return found


def _numbers(values: npt.NDArray[Any], is_null: npt.NDArray[np.bool_], arrow_type: pa.DataType) -> pa.Array:
    """Numbers as a column of the type of a result; integers wrap, and what no decimal holds is NULL."""
    if pa.types.is_null(arrow_type):
        return pa.nulls(len(values))
    if pa.types.is_decimal(arrow_type):
        fits = np.abs(values) < 10.0 ** (arrow_type.precision - arrow_type.scale)
        return from_numpy(values, is_null=is_null | ~fits).cast(arrow_type, safe=False)
    with np.errstate(over="ignore", invalid="ignore"):
        return from_numpy(values.astype(numpy_dtype(arrow_type)), is_null=is_null)


def _sum(call: AggregateCall, source: Source, states: States) -> Result:
    counts = states.state(source, "count", Counts)
    arrow_type = source.types[0]
    if pa.types.is_decimal(arrow_type):
        decimals = states.state(source, "decimal sum", lambda: DecimalSums(arrow_type.scale))
        result = to_arrow(call.type)

        def exact(groups: Ids) -> pa.Array:
            has_none = from_numpy(_nothing(counts, groups))
            return pc.if_else(has_none, pa.scalar(None, result), decimals.of(groups).cast(result))

        return exact
    make: Any = FloatSums if pa.types.is_floating(arrow_type) else IntegerSums
    sums = states.state(source, "sum", make)
    return lambda groups: _numbers(sums.of(groups), _nothing(counts, groups), to_arrow(call.type))


def _mean(call: AggregateCall, source: Source, states: States) -> Result:
    counts = states.state(source, "count", Counts)
    arrow_type, result = source.types[0], to_arrow(call.type)
    if pa.types.is_decimal(arrow_type):
        decimals = states.state(source, "decimal sum", lambda: DecimalSums(arrow_type.scale))
        kind = call.type
        assert isinstance(kind, DecimalType)

        def exact(groups: Ids) -> pa.Array:
            numbers = from_numpy(counts.of(groups), is_null=_nothing(counts, groups))
            return divide(decimals.of(groups), numbers.cast(pa.decimal128(19, 0)), kind).cast(result)

        return exact
    if pa.types.is_floating(arrow_type):
        floats = states.state(source, "sum", FloatSums)

        def mean(groups: Ids) -> pa.Array:
            number = counts.of(groups)
            with np.errstate(invalid="ignore", divide="ignore"):
                return _numbers(floats.of(groups) / number, number == 0, result)

        return mean
    sums = states.state(source, "sum", IntegerSums)

    def truncated(groups: Ids) -> pa.Array:
        number = counts.of(groups)
        return _numbers(_quotients(sums.of(groups), number), number == 0, result)

    return truncated


def _quotients(numbers: Ids, divisors: Ids) -> Ids:
    """Truncated towards zero, as in Java; something where the divisor is 0."""
    divisors = np.where(divisors == 0, 1, divisors)
    found = numbers // divisors
    found += (numbers % divisors != 0) & ((numbers < 0) != (divisors < 0))
    return found


def _extreme(call: AggregateCall, source: Source, states: States) -> Result:
    is_max, arrow_type = call.function == "MAX", source.types[0]
    if not states.is_insert_only:
        return states.state(source, call.function, lambda: RetractableExtremes(arrow_type, is_max)).of
    if not is_fixed_width(arrow_type):
        return states.state(source, call.function, lambda: Extremes(arrow_type, is_max)).of
    counts = states.state(source, "count", Counts)
    extremes = states.state(source, call.function, lambda: NumericExtremes(arrow_type, is_max))
    return lambda groups: extremes.of(groups, _nothing(counts, groups))


def _spread(call: AggregateCall, source: Source, states: States) -> Result:
    """Variances and their roots, of all numbers in doubles; those of integers are cut to whole numbers, as in
    Flink 2.3."""
    counts = states.state(source, "count", Counts)
    # Only what former versions kept is read by this sum; it stays, as snapshots number what is kept.
    kind = "sum" if pa.types.is_floating(source.types[0]) else "double sum"
    sums = states.state(source, kind, FloatSums)
    moments = states.state(source, "moments", lambda: Moments(counts, sums))
    is_sample, is_root, result = call.function.endswith("SAMP"), call.function.startswith("STDDEV"), to_arrow(call.type)

    def spread(groups: Ids) -> pa.Array:
        number = counts.of(groups)
        divisors = number - 1 if is_sample else number
        with np.errstate(all="ignore"):
            found = moments.of(groups) / divisors
            found = np.sqrt(found) if is_root else found
        values = _whole(found, result) if pa.types.is_integer(result) else found
        return _numbers(values, (number == 0) | (divisors == 0), result)

    return spread


def _whole(doubles: npt.NDArray[np.float64], arrow_type: pa.DataType) -> Ids:
    """Doubles as Java casts them to integers: those out of range are the nearest there is, of four bytes at least."""
    bits = max(32, arrow_type.bit_width)
    most = 2.0 ** (bits - 1)
    found = np.where(np.isnan(doubles), 0.0, doubles).clip(-most, np.nextafter(most, 0)).astype(np.int64)
    found[doubles >= most] = 2 ** (bits - 1) - 1
    return found
