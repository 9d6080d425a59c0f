"""Columns as integers that ascend as an order has the values, so that rows are sorted and compared as integers are.

NaN comes behind all other numbers, -0.0 equals 0.0, and texts are ordered by their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from actors.columns.ordering import Indices, differs_from_previous, order_by
from actors.columns.text_words import ordered_words
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.tables.plans.expressions import SortKey

Codes = list[npt.NDArray[np.int64]]
"""A column of integers for each key of an order, or two."""
_LARGEST = np.iinfo(np.int64).max


def sort_codes(columns: Sequence[pa.Array], order: Sequence[SortKey]) -> Codes:
    """Integers that ascend, the first ones first, as the order has the rows.

    They can be compared among these rows only.

    Args:
        columns: the column of each key.
    """
    codes: Codes = []
    for column, key in zip(columns, order, strict=True):
        values = _codes(_filled(column) if column.null_count else column)
        if column.null_count:
            is_null = as_numpy(column.is_null())
            codes.append((~is_null if key.nulls_first else is_null).astype(np.int64))
            values = np.where(is_null, 0, values)
        codes.append(~values if key.descending else values)
    return codes


def starts_of_ties(codes: Codes, sorted_rows: Indices) -> npt.NDArray[np.bool_]:
    """Whether each of the sorted rows differs in a code from the one before it; true for the first."""
    if not codes:
        return np.asarray(np.arange(len(sorted_rows)) == 0)
    return np.asarray(np.logical_or.reduce([differs_from_previous(each[sorted_rows]) for each in codes]))


def groups_of_ties(codes: Codes) -> Indices:
    """A number for each row, which those have that are equal in all codes, of which there is one at least."""
    order = order_by(*codes)
    groups = np.empty(len(order), np.int64)
    groups[order] = np.cumsum(starts_of_ties(codes, order)) - 1
    return groups


def is_less(codes: Codes, rows: Indices, others: Indices) -> npt.NDArray[np.bool_]:
    """Whether each row comes before the other one; of equal ones none does."""
    found = np.zeros(len(rows), np.bool_)
    for each in reversed(codes):
        one, other = each[rows], each[others]
        found = (one < other) | ((one == other) & found)
    return found


def _filled(column: pa.Array) -> pa.Array:
    """The column with one of its values in place of NULL, if there is one."""
    place = max(pc.index(column.is_valid(), True).as_py(), 0)
    if not pa.types.is_nested(column.type):
        return column.fill_null(column[place])
    return column.take(from_numpy(np.where(as_numpy(column.is_null()), place, np.arange(len(column)))))


def _codes(column: pa.Array) -> npt.NDArray[np.int64]:
    kind = column.type
    if column.null_count or pa.types.is_null(kind):  # there are no others
        return np.zeros(len(column), np.int64)
    if pa.types.is_floating(kind):
        return _of_floats(as_numpy(column).astype(np.float64))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return as_numpy(column).astype(np.int64)
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return as_numpy(column.view(width)).astype(np.int64)
    if pa.types.is_struct(kind) or pa.types.is_list(kind):
        return groups_of_ties(_codes_of_parts(column)) if len(column) else np.zeros(0, np.int64)
    words = ordered_words(column)
    if words is not None:
        return words
    encoded = column.dictionary_encode()
    ranks = np.empty(len(encoded.dictionary), np.int64)
    ranks[as_numpy(pc.sort_indices(encoded.dictionary))] = np.arange(len(ranks))
    return ranks.take(as_numpy(encoded.indices))


def _codes_of_parts(column: pa.Array) -> Codes:
    """Rows and lists are ordered by their first part, then by the next one; NULL is before all values, and where a list
    ends is before all that are longer."""
    first = SortKey(0)
    if pa.types.is_struct(column.type):
        return sort_codes(column.flatten(), [first] * column.type.num_fields) or [np.zeros(len(column), np.int64)]
    lengths = as_numpy(pc.list_value_length(column).fill_null(0)).astype(np.int64)
    begins = np.cumsum(lengths) - lengths
    values = column.flatten()
    elements = groups_of_ties(sort_codes([values], [first])) if len(values) else np.zeros(1, np.int64)
    most = int(lengths.max(initial=0))
    places = np.minimum(begins[:, None] + np.arange(most), len(elements) - 1)
    found = np.where(np.arange(most) < lengths[:, None], elements[places], -1)
    return [found[:, place] for place in range(most)] or [np.zeros(len(column), np.int64)]


def _of_floats(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    bits = (values + 0.0).view(np.int64)  # -0.0 is 0.0 then
    codes = np.where(bits < 0, bits ^ _LARGEST, bits)
    return np.where(np.isnan(values), _LARGEST, codes)
