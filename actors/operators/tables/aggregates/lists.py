"""Results that are made of all values of a group."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from actors.columns.take import take
from actors.keys.index import Ids, KeyIndex
from actors.operators.aggregates.value_rules import has_order
from actors.operators.calc.calculation import calculate, prepared
from actors.operators.calc.values.evaluation import EvaluationContext
from actors.operators.tables.aggregates.states.extremes import order_numbers
from actors.operators.tables.aggregates.states.value_sets import ValueSets
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.errors import RecordError
from flinkray.tables.plans.expressions import AggregateCall, BoundExpression, Call, Column, Constant
from flinkray.tables.types.arrow import to_arrow
from flinkray.tables.types.logical import STRING

ListResult = Callable[[Ids, pa.RecordBatch, int, AggregateCall], pa.Array]
"""Makes the results of so many groups of their values, which come in order, with the place of their group."""


def _offsets(places: Ids, size: int) -> Ids:
    return np.searchsorted(places, np.arange(size + 1)).astype(np.int32)


def _lists(places: Ids, values: pa.Array, size: int) -> pa.Array:
    """A list of its values for each group; NULL where it has none."""
    offsets = _offsets(places, size)
    is_empty = np.append(np.diff(offsets) == 0, False)
    return pa.ListArray.from_arrays(from_numpy(offsets, is_null=is_empty if is_empty.any() else None), values)


def _array(places: Ids, values: pa.RecordBatch, size: int, call: AggregateCall) -> pa.Array:
    return _lists(places, values.column(0), size).cast(to_arrow(call.type))


def _one(is_last: bool) -> ListResult:
    def result(places: Ids, values: pa.RecordBatch, size: int, _: AggregateCall) -> pa.Array:
        offsets = _offsets(places, size)
        rows = offsets[1:] - 1 if is_last else offsets[:-1]
        return values.column(0).take(from_numpy(rows, is_null=np.diff(offsets) == 0))

    return result


def _single(places: Ids, values: pa.RecordBatch, size: int, call: AggregateCall) -> pa.Array:
    if np.any(np.diff(_offsets(places, size)) > 1):
        raise RecordError("a query that stands for one value has several rows")
    return _one(True)(places, values, size, call)


def _text(places: Ids, values: pa.RecordBatch, size: int, _: AggregateCall) -> pa.Array:
    """Texts with the separator of each before it, but for the first."""
    texts = values.column(0)
    separators = values.column(1) if values.num_columns > 1 else pa.repeat(",", len(texts))
    joined = pc.binary_join_element_wise(separators, texts, "")
    return pc.binary_join(_lists(places, _first_else(places, texts, joined), size), "")


def _first_else(places: Ids, first: pa.Array, others: pa.Array) -> pa.Array:
    is_first = np.diff(places, prepend=-1) != 0
    return pc.if_else(from_numpy(is_first), first, others)


def _json_array(places: Ids, values: pa.RecordBatch, size: int, call: AggregateCall) -> pa.Array:
    return _enclosed(places, _fragments("JSON_ARRAY", values, call), size, "[]")


def _json_object(places: Ids, values: pa.RecordBatch, size: int, call: AggregateCall) -> pa.Array:
    """The values in the order of their keys, each of which a group has once, as Flink has it."""
    keys = pa.RecordBatch.from_arrays([from_numpy(places), values.column(1)], names=["group", "key"])
    numbers = KeyIndex().ids(keys)
    repeated = np.flatnonzero(np.bincount(numbers) > 1)
    if len(repeated):
        key = values.column(1)[int(np.argmax(numbers == repeated[0]))].as_py()
        raise RecordError(f"JSON_OBJECTAGG has the key {key!r} twice: each key of a group has one value")
    order = as_numpy(pc.sort_indices(keys, [("group", "ascending"), ("key", "ascending")]))
    return _enclosed(places[order], _fragments("JSON_OBJECT", take(values, from_numpy(order)), call), size, "{}")


def _fragments(function: str, values: pa.RecordBatch, call: AggregateCall) -> pa.Array:
    """What stands between the brackets of the JSON of each row's arguments, which come from the last one on."""
    columns = dict(enumerate(reversed(values.columns)))
    found = calculate(_json_call(function, call.arguments), columns, values.num_rows, EvaluationContext())
    return pc.utf8_slice_codeunits(found, 1, -1)


@lru_cache(64)
def _json_call(function: str, arguments: tuple[BoundExpression, ...]) -> BoundExpression:
    columns = tuple(Column(each.type, place) for place, each in enumerate(arguments[1:]))
    on_null = Constant(arguments[0].type, "NULL")
    return prepared(Call(STRING.not_null(), function, (on_null, *columns)), EvaluationContext())


def _enclosed(places: Ids, texts: pa.Array, size: int, ends: str) -> pa.Array:
    joined = pc.binary_join(_lists(places, texts, size), ",").fill_null("")
    return pc.binary_join_element_wise(ends[0], joined, ends[1], "")


def collected(groups: Ids, sets: ValueSets, call: AggregateCall) -> pa.Array:
    """How often each value is in each group. Where values have an order they are in it, so that equal multisets are
    equal maps, however they came about."""
    places, numbers = sets.of_groups(groups)
    values = sets.take(numbers).column(0)
    if has_order(values.type):
        order = np.lexsort((order_numbers(values), places))
        numbers, values = numbers[order], take(values, from_numpy(order))
    offsets = from_numpy(_offsets(places, len(groups)))
    counts = from_numpy(sets.counts(numbers).astype(np.int32))
    return pa.MapArray.from_arrays(offsets, values, counts).cast(to_arrow(call.type))


def percentiles(groups: Ids, sets: ValueSets) -> pa.Array:
    """Between the two values of each group that are nearest to a share of its rows, in doubles: of its first share, or
    list of shares. A value counts as often as it is there, times its frequency, where it has one."""
    places, numbers = sets.of_groups(groups)
    columns, counts = sets.take(numbers).columns, sets.counts(numbers)
    if len(columns) > 2:
        counts = counts * np.maximum(as_numpy(columns[2].cast(pa.int64()).fill_null(0)), 0)
    values = as_numpy(columns[0].cast(pa.float64(), safe=False))
    order = np.lexsort((values, places))
    values = np.append(values[order], np.nan)
    ends = np.concatenate([[0], np.cumsum(counts[order])])
    firsts = np.searchsorted(places, np.arange(len(groups) + 1))
    begins, totals = ends[firsts[:-1]], np.diff(ends[firsts])
    shares = columns[1].take(from_numpy(np.where(totals > 0, firsts[:-1], 0), is_null=totals == 0))
    wanted, lengths = _shares(shares)
    of = np.repeat(np.arange(len(groups)), lengths)
    places_of = wanted * (totals[of] - 1) + 1
    below, above = np.floor(places_of), np.ceil(places_of)
    low, high = (np.searchsorted(ends, begins[of] + each) - 1 for each in (below, above))
    with np.errstate(invalid="ignore"):
        between = (above - places_of) * values[low] + (places_of - below) * values[high]
    found = from_numpy(np.where(low == high, values[low], between), is_null=totals[of] == 0)
    if not pa.types.is_list(shares.type):
        return found
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(from_numpy(offsets, is_null=np.append(lengths == 0, False)), found)


def _shares(column: pa.Array) -> tuple[npt.NDArray[np.float64], Ids]:
    """All shares, and how many each group has."""
    lengths: Ids = np.ones(len(column), np.int64)
    if pa.types.is_list(column.type):
        lengths = as_numpy(pc.list_value_length(column).fill_null(0)).astype(np.int64)
        column = column.flatten()
    found: npt.NDArray[np.float64] = as_numpy(column.cast(pa.float64(), safe=False).fill_null(0))
    wrong = found[~((found >= 0) & (found <= 1))]
    if len(wrong):
        raise RecordError(f"PERCENTILE takes shares from 0 to 1, and one is {wrong[0]}")
    return found, lengths


LIST_RESULTS: dict[str, ListResult] = {
    "ARRAY_AGG": _array,
    "FIRST_VALUE": _one(False),
    "JSON_ARRAYAGG": _json_array,
    "JSON_OBJECTAGG": _json_object,
    "LAST_VALUE": _one(True),
    "LISTAGG": _text,
    "SINGLE_VALUE": _single,
}
