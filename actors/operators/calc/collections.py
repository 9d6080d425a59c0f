"""Arrays, maps and rows: made, indexed and computed on their flattened elements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from actors.operators.calc.values.evaluation import Datum, KernelCall, as_array, nulls_where, plain, with_call
from actors.operators.calc.values.nested import (
    Lengths,
    flat_list,
    flat_map,
    lists_of,
    maps_of,
    positions_of,
    rows_of,
)
from flinkray.tables.types.logical import MapType, RowType

Indices = npt.NDArray[np.int64]


# -- made ----------------------------------------------------------------------------------------------------------


def _array(call: KernelCall, *elements: Datum) -> pa.Array:
    return lists_of(_each(call.rows, len(elements)), _interleaved(elements, call.rows), None, call.arrow_type)


def _map(call: KernelCall, *entries: Datum) -> pa.Array:
    keys, values = _interleaved(entries[::2], call.rows), _interleaved(entries[1::2], call.rows)
    lengths = _each(call.rows, len(entries) // 2)
    made = maps_of(lengths, keys, values, None, call.arrow_type)
    rows, (codes,) = rows_of(lengths), _codes(keys)
    return made if len(_first_of_each(rows, codes)) == len(rows) else _map_union(call, made)


def _row(call: KernelCall, *values: Datum) -> pa.Array:
    columns = [as_array(value, call.rows) for value in values]
    return pa.StructArray.from_arrays(columns, fields=list(call.arrow_type))


def _each(rows: int, count: int) -> Lengths:
    return np.full(rows, count, np.int64)


def _interleaved(columns: tuple[Datum, ...], rows: int) -> pa.Array:
    """The first value of each column, then the second of each, and so on."""
    arrays = [as_array(column, rows) for column in columns]
    indices = np.arange(rows * len(arrays)).reshape(len(arrays), rows).T.ravel()
    return pa.concat_arrays(arrays).take(pa.array(indices))


# -- indexed -------------------------------------------------------------------------------------------------------


def _item(call: KernelCall, container: Datum, key: Datum) -> pa.Array:
    kind = call.types[0]
    container = as_array(container, call.rows)
    if isinstance(kind, RowType):
        name = key.as_py()
        place = name - 1 if isinstance(name, int) else kind.names.index(name)
        return pc.struct_field(container, [place])
    if isinstance(kind, MapType):
        lengths, keys, values = flat_map(container)
        wanted = as_array(key, call.rows).cast(keys.type).take(pa.array(rows_of(lengths)))
        found = np.flatnonzero(pc.equal(keys, wanted).fill_null(False).to_numpy(zero_copy_only=False))
        return _values_at(values, rows_of(lengths)[found], found, call.rows)
    lengths, items = flat_list(container)
    index = as_array(key, call.rows)
    numbers = index.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    rows = np.flatnonzero((numbers >= 1) & (numbers <= lengths))
    begins = np.cumsum(lengths) - lengths
    return _values_at(items, rows, (begins + numbers - 1)[rows], call.rows)


def _values_at(values: pa.Array, rows: Indices, places: Indices, count: int) -> pa.Array:
    """The values at these places in these rows, and NULL in all others."""
    indices = np.full(count, -1, np.int64)
    indices[rows] = places
    return values.take(pa.array(indices, mask=indices < 0))


def _cardinality(value: pa.Array) -> pa.Array:
    if pa.types.is_map(value.type):
        lengths = pa.array(flat_map(value)[0].astype(np.int32))
        return nulls_where(value.is_null(), lengths) if value.null_count else lengths
    return pc.list_value_length(value)


def _element(call: KernelCall, value: pa.Array) -> pa.Array:
    """The only element; NULL of an empty array. More than one is an error."""
    lengths = flat_list(value)[0]
    if lengths.size and lengths.max() > 1:
        raise ValueError(f"ELEMENT takes an array of one element, and there is one of {lengths.max()}")
    return _item(call, value, pa.scalar(1))


# -- elements ------------------------------------------------------------------------------------------------------


def _codes(*columns: pa.Array) -> list[Indices]:
    """The same number for the same value in all of the columns, NULL being a value."""
    target = columns[0].type
    if pa.types.is_decimal(target) and not all(column.type.equals(target) for column in columns):
        scale = max(column.type.scale if pa.types.is_decimal(column.type) else 0 for column in columns)
        target = pa.decimal128(38, scale)
        columns = tuple(
            column if pa.types.is_decimal(column.type) else column.cast(pa.decimal128(19, 0)) for column in columns
        )
    joined = pa.concat_arrays([column.cast(target) for column in columns])
    if pa.types.is_nested(target):
        joined = pa.array([repr(value) for value in joined.to_pylist()])
    codes = joined.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return np.split(codes, np.cumsum([len(column) for column in columns])[:-1])


def _matches(array: pa.Array, wanted: Datum) -> tuple[Lengths, pa.Array, npt.NDArray[np.bool_]]:
    """The elements of all arrays, and which of them are what is wanted in their row."""
    lengths, items = flat_list(array)
    codes, wanted_codes = _codes(items, as_array(wanted, len(array)))
    return lengths, items, codes == wanted_codes[rows_of(lengths)]


def _contains(array: pa.Array, wanted: Datum) -> pa.Array:
    lengths, _, is_it = _matches(array, wanted)
    found = np.bincount(rows_of(lengths)[is_it], minlength=len(array)) > 0
    return _with_nulls(pa.array(found), array)


def _position(array: pa.Array, wanted: Datum) -> pa.Array:
    lengths, _, is_it = _matches(array, wanted)
    places = np.zeros(len(array), np.int32)
    at = np.flatnonzero(is_it)[::-1]  # the first of a row is written last
    places[rows_of(lengths)[at]] = positions_of(lengths)[at] + 1
    wanted_null = as_array(wanted, len(array)).is_null()
    return _with_nulls(nulls_where(wanted_null, pa.array(places)), array)


def _with_nulls(values: pa.Array, like: pa.Array) -> pa.Array:
    return nulls_where(like.is_null(), values) if like.null_count else values


def _kept(array: pa.Array, items: pa.Array, rows: Indices, indices: Indices, call: KernelCall) -> pa.Array:
    """Arrays of the elements at these indices, which are in the order of their rows."""
    lengths = np.bincount(rows, minlength=len(array)).astype(np.int64)
    return lists_of(lengths, items.take(pa.array(indices)), array, call.arrow_type)


def _appended(at_front: bool) -> Callable[..., pa.Array]:
    def kernel(call: KernelCall, array: Datum, element: Datum) -> pa.Array:
        array = as_array(array, call.rows)
        single = lists_of(_each(call.rows, 1), as_array(element, call.rows), None, call.arrow_type)
        return _concat(call, *((single, array) if at_front else (array, single)))

    return kernel


def _concat(call: KernelCall, *arrays: Datum) -> pa.Array:
    """One array after the other; NULL if one is."""
    columns = [as_array(array, call.rows).cast(call.arrow_type) for array in arrays]
    parts = [flat_list(column) for column in columns]
    rows = np.concatenate([rows_of(lengths) for lengths, _ in parts])
    order = np.argsort(rows, kind="stable")
    total = sum((lengths for lengths, _ in parts), np.zeros(call.rows, np.int64))
    joined = pa.concat_arrays([items for _, items in parts]).take(pa.array(order))
    is_null = np.zeros(call.rows, bool)
    for column in columns:
        is_null |= column.is_null().to_numpy(zero_copy_only=False)
    if not is_null.any():
        return lists_of(total, joined, None, call.arrow_type)
    there = pa.array(~is_null[np.repeat(np.arange(call.rows), total)])
    like = pa.array(np.zeros(call.rows, np.int8), mask=is_null)
    return lists_of(np.where(is_null, 0, total), joined.filter(there), like, call.arrow_type)


def _first_of_each(rows: Indices, codes: Indices) -> Indices:
    """Where each value stands first in its row, in order."""
    keys = rows * (int(codes.max(initial=0)) + 1) + codes
    return np.sort(np.unique(keys, return_index=True)[1]).astype(np.int64)


def _distinct(call: KernelCall, array: pa.Array) -> pa.Array:
    lengths, items = flat_list(array)
    rows, (codes,) = rows_of(lengths), _codes(items)
    first = _first_of_each(rows, codes)
    return _kept(array, items, rows[first], first, call)


def _union(call: KernelCall, left: Datum, right: Datum) -> pa.Array:
    return _distinct(call, _concat(call, left, right))


def _filtered(is_kept: bool) -> Callable[..., pa.Array]:
    """ARRAY_INTERSECT and ARRAY_EXCEPT: the distinct elements that the other array has, or has not."""

    def kernel(call: KernelCall, left: Datum, right: Datum) -> pa.Array:
        columns = [as_array(side, call.rows).cast(call.arrow_type) for side in (left, right)]
        (lengths, items), (other_lengths, others) = (flat_list(column) for column in columns)
        codes, other_codes = _codes(items, others)
        base = int(max(codes.max(initial=0), other_codes.max(initial=0))) + 1
        rows = rows_of(lengths)
        is_there = np.isin(rows * base + codes, rows_of(other_lengths) * base + other_codes)
        first = _first_of_each(rows, codes)
        first = first[is_there[first] == is_kept]
        return _with_nulls(_kept(columns[0], items, rows[first], first, call), columns[1])

    return kernel


def _removed(call: KernelCall, array: pa.Array, wanted: Datum) -> pa.Array:
    lengths, items, is_it = _matches(array, wanted)
    stays = np.flatnonzero(~is_it)
    return _kept(array, items, rows_of(lengths)[stays], stays, call)


def _reversed(call: KernelCall, array: pa.Array) -> pa.Array:
    lengths, items = flat_list(array)
    ends = np.cumsum(lengths)
    indices = np.repeat(ends, lengths) - 1 - positions_of(lengths)
    return lists_of(lengths, items.take(pa.array(indices)), array, call.arrow_type)


def _sliced(call: KernelCall, array: pa.Array, start: int, end: int | None = None) -> pa.Array:
    """Elements from place to place, both included; negative places count from behind."""
    lengths, items = flat_list(array)
    first = np.full(len(lengths), start - 1) if start > 0 else lengths + start if start < 0 else np.zeros_like(lengths)
    last = lengths if end is None else np.full(len(lengths), end) if end >= 0 else lengths + end + 1
    places, rows = positions_of(lengths), rows_of(lengths)
    stays = np.flatnonzero((places >= np.maximum(first, 0)[rows]) & (places < last[rows]))
    return _kept(array, items, rows[stays], stays, call)


def _sorted(call: KernelCall, array: pa.Array, ascending: bool = True, nulls_first: bool | None = None) -> pa.Array:
    """In order; NULLs first if that ascends, else last, unless it is said."""
    lengths, items = flat_list(array)
    first = ascending if nulls_first is None else nulls_first
    direction = "ascending" if ascending else "descending"
    order = np.asarray(pc.sort_indices(items, sort_keys=[("", direction)]))  # NULLs are at the end
    if first and items.null_count:
        order = np.roll(order, items.null_count)
    order = order[np.argsort(rows_of(lengths)[order], kind="stable")]
    return lists_of(lengths, items.take(pa.array(order)), array, call.arrow_type)


def _extreme(is_most: bool) -> Callable[..., pa.Array]:
    def kernel(call: KernelCall, array: pa.Array) -> pa.Array:
        lengths, items = flat_list(array)
        ranks = np.asarray(pc.rank(items, sort_keys="ascending", tiebreaker="first")).astype(np.int64)
        stays = np.flatnonzero(items.is_valid().to_numpy(zero_copy_only=False))
        rows = rows_of(lengths)
        order = stays[np.argsort(ranks[stays] * (1 if is_most else -1), kind="stable")]
        return _values_at(items, rows[order], order, call.rows)  # the last one written is the one

    return kernel


def _joined(array: pa.Array, separator: str, null_text: str | None = None) -> pa.Array:
    """The elements with the separator between; NULLs are left out, or written as said."""
    lengths, items = flat_list(array)
    if null_text is not None:
        items = items.fill_null(null_text)
    elif items.null_count:
        valid = items.is_valid()
        rows = rows_of(lengths)[valid.to_numpy(zero_copy_only=False)]
        lengths, items = np.bincount(rows, minlength=len(array)).astype(np.int64), items.filter(valid)
    return pc.binary_join(lists_of(lengths, items, array, pa.list_(pa.string())), separator)


# -- maps ----------------------------------------------------------------------------------------------------------


def _keys(call: KernelCall, value: pa.Array) -> pa.Array:
    lengths, keys, _ = flat_map(value)
    return lists_of(lengths, keys, value, call.arrow_type)


def _values(call: KernelCall, value: pa.Array) -> pa.Array:
    lengths, _, values = flat_map(value)
    return lists_of(lengths, values, value, call.arrow_type)


def _entries(call: KernelCall, value: pa.Array) -> pa.Array:
    lengths, keys, values = flat_map(value)
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(call.arrow_type.value_type))
    return lists_of(lengths, pairs, value, call.arrow_type)


def _from_arrays(call: KernelCall, keys: Datum, values: Datum) -> pa.Array:
    columns = [as_array(side, call.rows) for side in (keys, values)]
    is_null = pc.or_(*(column.is_null() for column in columns)).to_numpy(zero_copy_only=False)
    if is_null.any():
        columns = [column.take(pa.array(np.arange(call.rows), mask=is_null)) for column in columns]
    (lengths, flat_keys), (other, flat_values) = (flat_list(column) for column in columns)
    if (lengths != other).any():
        raise ValueError("MAP_FROM_ARRAYS takes as many keys as values")
    return maps_of(lengths, flat_keys, flat_values, columns[0], call.arrow_type)


def _map_union(call: KernelCall, *maps: Datum) -> pa.Array:
    """The entries of all maps; of the same key the last one counts, at the place of the first."""
    columns = [as_array(one, call.rows) for one in maps]
    parts = [flat_map(column) for column in columns]
    rows = np.concatenate([rows_of(lengths) for lengths, _, _ in parts])
    keys, values = (pa.concat_arrays([part[place] for part in parts]) for place in (1, 2))
    (codes,) = _codes(keys)
    first = _first_of_each(rows, codes)
    first = first[np.argsort(rows[first], kind="stable")]
    names = rows * (int(codes.max(initial=0)) + 1) + codes
    last = {name: place for place, name in enumerate(names.tolist())}
    latest = np.array([last[name] for name in names[first].tolist()], np.int64)
    lengths = np.bincount(rows[first], minlength=call.rows).astype(np.int64)
    made = maps_of(lengths, keys.take(pa.array(first)), values.take(pa.array(latest)), None, call.arrow_type)
    for column in columns:
        made = _with_nulls(made, column)
    return made


COLLECTION_KERNELS = {
    "ARRAY": with_call(_array),
    "MAP": with_call(_map),
    "ROW": with_call(_row),
    "ITEM": with_call(_item),
    "CARDINALITY": plain(_cardinality),
    "ELEMENT": with_call(_element),
    "ARRAY_CONTAINS": plain(_contains),
    "ARRAY_POSITION": plain(_position),
    "ARRAY_APPEND": with_call(_appended(at_front=False)),
    "ARRAY_PREPEND": with_call(_appended(at_front=True)),
    "ARRAY_REMOVE": with_call(_removed),
    "ARRAY_DISTINCT": with_call(_distinct),
    "ARRAY_REVERSE": with_call(_reversed),
    "ARRAY_SLICE": with_call(_sliced, 1, 2),
    "ARRAY_SORT": with_call(_sorted, 1, 2),
    "ARRAY_UNION": with_call(_union),
    "ARRAY_CONCAT": with_call(_concat),
    "ARRAY_INTERSECT": with_call(_filtered(is_kept=True)),
    "ARRAY_EXCEPT": with_call(_filtered(is_kept=False)),
    "ARRAY_MAX": with_call(_extreme(is_most=True)),
    "ARRAY_MIN": with_call(_extreme(is_most=False)),
    "ARRAY_JOIN": plain(_joined, 1, 2),
    "MAP_KEYS": with_call(_keys),
    "MAP_VALUES": with_call(_values),
    "MAP_ENTRIES": with_call(_entries),
    "MAP_FROM_ARRAYS": with_call(_from_arrays),
    "MAP_UNION": with_call(_map_union),
}
