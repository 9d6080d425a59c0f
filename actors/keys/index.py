"""Dense numbers for keys: 0 for the first key that came, 1 for the next, the same ones batch after batch.

Columnar operators keep their accumulators in arrays by these numbers. Whole columns are looked up at once: fixed-width
keys in a table of numpy arrays, texts by their hashes, others by the distinct values of each batch, several
columns by numbering each and then their pairs (exact: no two keys ever share a number).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.columns.casting import stored, stored_type
from actors.columns.large_columns import Columns, coalesced, fits, take_rows_as_table
from actors.columns.ordering import order_by
from actors.columns.row_sizes import row_sizes
from actors.columns.take import contiguous, take
from actors.keys.hashes import pickled_keys
from actors.keys.integer_index import Ids as Ids
from actors.keys.integer_index import IntegerIndex, PairIndex
from actors.keys.key_types import check_saved_types, has_objects, unified_key_type, unified_with_objects
from actors.keys.text_index import TextIndex
from flinkray.batches.numpy_arrays import as_numpy, fixed_width, from_numpy, numpy_dtype
from flinkray.batches.unification import cast_to_unified
from flinkray.batches.value_columns import to_values
from flinkray.errors import TypeMismatchError
from flinkray.types.arrow_types import is_bytes, is_text
from flinkray.types.object_type import PICKLED


class KeyIndex:
    """Numbers keys of one or several columns. Null is a key of its own, NaN equals NaN, and -0.0 equals 0.0.

    Column types may widen between batches (int64 to double, null to anything); a key keeps its number. Belongs to one
    thread. The keys are copied, so that no received batch stays alive.
    """

    def __init__(self) -> None:
        self._columns: list[_ColumnIndex] = []
        self._pairs: list[PairIndex] = []
        self._types: list[pa.DataType] = []
        self._chunks: list[pa.RecordBatch] = []
        self._longest = 0
        """Bytes of the largest key."""
        self._size = 0
        self._saved_types: list[pa.DataType] | None = None
        """The types of restored keys; None: there are none, or keys of the program's have come since."""
        self._renumbered: Ids | None = None
        """The number of each key by the number that the columns' indices gave it; None: these are the same. They differ
        where texts of a batch share a hash: all but the first of them are found after the batch's other keys."""

    def __len__(self) -> int:
        """How many keys are numbered; their numbers are 0 ... len - 1."""
        return self._size

    def ids(self, columns: pa.RecordBatch) -> Ids:
        """The number of each row's key; keys that are new get the next numbers, in order of arrival.

        Raises:
            TypeMismatchError: a column's type cannot hold both its new and its old values; names the column.
        """
        if not columns.num_rows:
            return np.empty(0, np.int64)
        columns = self._adapt(columns)
        found = self._found(columns)
        if self._found_size() > self._size:
            self._remember(columns, found)
        return found if self._renumbered is None else self._renumbered[found]

    def restored_ids(self, columns: pa.RecordBatch) -> Ids:
        """As `ids`, for keys of a snapshot. Those that come then must be of types by which they are found.

        Raises:
            IncompatibleStateError: by `ids`, where they are not; names both types.
        """
        self._saved_types = None
        ids = self.ids(columns)
        self._saved_types = self._types
        return ids

    def _found(self, columns: pa.RecordBatch) -> Ids:
        ids = self._columns[0].ids(columns.column(0))
        for number, pairs in enumerate(self._pairs, 1):
            index = self._columns[number]
            ids = pairs.ids(ids, index.ids(columns.column(number)), index.size)
        return ids

    def _found_size(self) -> int:
        return (self._pairs[-1] if self._pairs else self._columns[0]).size

    def key_columns(self) -> Columns | None:
        """All keys in the order of their numbers, which `ids` of a new index restores; None before the first."""
        self._chunks = coalesced(self._chunks)
        if len(self._chunks) > 1:
            return pa.Table.from_batches(self._chunks)
        return self._chunks[0] if self._chunks else None

    def take(self, ids: Ids | slice) -> Columns:
        """The keys with these numbers, a row for each. At least one key must be numbered."""
        keys = self.key_columns()
        if keys is None:
            raise ValueError("no key has been numbered yet")
        rows = ids if isinstance(ids, slice) else contiguous(ids)
        if isinstance(rows, slice):
            return keys.slice(rows.start, rows.stop - rows.start)
        if isinstance(keys, pa.Table) or not fits(self._longest * len(rows)):
            return take_rows_as_table(keys, rows)
        return take(keys, from_numpy(rows))

    def retain(self, ids: Ids) -> None:
        """Forgets all other keys, and numbers these distinct ones anew: ids[0] becomes 0, ids[1] becomes 1, ..."""
        if self._size:
            self._rebuild(self.take(ids), self._types)

    def _remember(self, columns: pa.RecordBatch, found: Ids) -> None:
        """Numbers the keys that are new among those found, and stores them."""
        size = self._found_size()
        rows = np.flatnonzero(found >= self._size)[::-1]
        first_rows = np.empty(size - self._size, np.int64)
        first_rows[found[rows] - self._size] = rows  # the last write wins, which is the first row of each
        if self._renumbered is not None or np.any(first_rows[1:] < first_rows[:-1]):
            order = order_by(first_rows)
            renumbered = np.empty(size, np.int64)
            renumbered[: self._size] = np.arange(self._size) if self._renumbered is None else self._renumbered
            renumbered[self._size + order] = np.arange(self._size, size)
            self._renumbered, first_rows = renumbered, first_rows[order]
        new = columns.take(from_numpy(first_rows))
        # Without the metadata of the schema, which may change from batch to batch.
        self._chunks.append(pa.RecordBatch.from_arrays(new.columns, names=new.schema.names))
        self._longest = max(self._longest, int(np.max(row_sizes(new))))
        self._size = size

    # -- types

    def _adapt(self, columns: pa.RecordBatch) -> pa.RecordBatch:
        """The columns in the types of the index, which is widened first where it has to be."""
        if columns.schema.types == self._types:  # none of these types is a dictionary
            return columns
        if self._saved_types is not None:
            check_saved_types(self._saved_types, columns.schema.types)
            self._saved_types = None
        decoded = [_decoded(column) for column in columns.columns]
        types = [column.type for column in decoded]
        if not self._columns:
            self._build(types)
        elif has_objects([*self._types, *types]):
            return self._adapt_objects(pa.RecordBatch.from_arrays(decoded, names=columns.schema.names))
        elif types != self._types:
            names = columns.schema.names
            merged = [unified_key_type(*each) for each in zip(names, self._types, types, decoded, strict=True)]
            if merged != self._types:
                self._widen(merged)
            decoded = [_cast(*both) for both in zip(decoded, merged, names, strict=True)]
        return pa.RecordBatch.from_arrays(decoded, names=columns.schema.names)

    def _adapt_objects(self, columns: pa.RecordBatch) -> pa.RecordBatch:
        """As `_adapt`, where keys are Python objects: those of different types, or of several columns, are pickled."""
        types = unified_with_objects(self._types, columns.schema.types)
        if types != self._types:
            keys = self.key_columns()
            if keys is None:
                self._build(types)
            else:
                self._rebuild(pickled_keys(keys), types)
        return columns if columns.schema.types == types else pickled_keys(columns)

    def _build(self, types: list[pa.DataType]) -> None:
        self._renumbered = None
        self._types = types
        self._columns = [_column_index(arrow_type) for arrow_type in types]
        self._pairs = [PairIndex() for _ in types[1:]]

    def _widen(self, types: list[pa.DataType]) -> None:
        keys = self.key_columns()
        if keys is None:
            self._build(types)
            return
        names = keys.schema.names
        cast = [_cast(*both) for both in zip(keys.columns, types, names, strict=True)]
        self._rebuild(type(keys).from_arrays(cast, names=names), types)

    def _rebuild(self, keys: Columns, types: list[pa.DataType]) -> None:
        self._build(types)
        self._chunks, self._size, self._longest = [], 0, 0
        for batch in keys.to_batches() if isinstance(keys, pa.Table) else [keys]:
            self.ids(batch)


def _decoded(column: pa.Array) -> pa.Array:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _cast(column: pa.Array, target: pa.DataType, name: str) -> pa.Array:
    try:
        return cast_to_unified(column, target)
    except pa.ArrowException as error:
        raise TypeMismatchError(f"key column {name!r} of {column.type} does not fit {target}: {error}") from error


class _ColumnIndex(Protocol):
    """Numbers the values of one column."""

    @property
    def size(self) -> int: ...

    def ids(self, column: pa.Array) -> Ids: ...


def _column_index(arrow_type: pa.DataType) -> _ColumnIndex:
    if isinstance(arrow_type, pa.BaseExtensionType) and arrow_type != PICKLED:
        return _ExtensionIndex(arrow_type)
    words = _words_of(arrow_type)
    if words is not None:
        return _FixedWidthIndex(words)
    return TextIndex() if is_text(arrow_type) or is_bytes(arrow_type) else _DictIndex(arrow_type)


def _words_of(arrow_type: pa.DataType) -> Callable[[pa.Array], Ids] | None:
    """A function that gives equal values of the type, and only these, equal 64-bit words; None: the type has none."""
    types = pa.types
    if types.is_null(arrow_type):
        return lambda column: np.zeros(len(column), np.int64)
    if types.is_boolean(arrow_type):
        return lambda column: _fixed(column.cast(pa.uint8()), np.dtype(np.uint8))
    if types.is_float16(arrow_type) or types.is_float32(arrow_type) or types.is_float64(arrow_type):
        dtype = numpy_dtype(arrow_type)
        return lambda column: _float_words(fixed_width(column, dtype))
    if types.is_integer(arrow_type):
        integer = numpy_dtype(arrow_type)
        return lambda column: _fixed(column, integer)
    if types.is_temporal(arrow_type) and not types.is_interval(arrow_type):
        stored = np.dtype(f"int{arrow_type.bit_width}")
        return lambda column: _fixed(column, stored)
    return None


def _fixed(column: pa.Array, dtype: np.dtype[Any]) -> Ids:
    return fixed_width(column, dtype).astype(np.int64, copy=False)


def _float_words(values: npt.NDArray[Any]) -> Ids:
    doubles = values.astype(np.float64) + 0.0  # -0.0 + 0.0 is 0.0
    words = doubles.view(np.int64)
    words[np.isnan(doubles)] = np.array(np.nan).view(np.int64)
    return words


class _FixedWidthIndex:
    """Numbers fixed-width values by the 64-bit words that stand for them."""

    def __init__(self, words: Callable[[pa.Array], Ids]) -> None:
        self._words = words
        self._integers = IntegerIndex()

    @property
    def size(self) -> int:
        return self._integers.size

    def ids(self, column: pa.Array) -> Ids:
        nulls = as_numpy(column.is_null()) if column.null_count else None
        return self._integers.ids(self._words(column), nulls)


class _ExtensionIndex:
    """Numbers values of an extension type by the values that store them."""

    def __init__(self, arrow_type: pa.BaseExtensionType) -> None:
        self._index = _column_index(stored_type(arrow_type))

    @property
    def size(self) -> int:
        return self._index.size

    def ids(self, column: pa.Array) -> Ids:
        return self._index.ids(stored(column))


class _DictIndex:
    """Numbers values of any other type in a dict, by the distinct values of each batch."""

    def __init__(self, arrow_type: pa.DataType) -> None:
        self._numbers: defaultdict[Any, int] = defaultdict()
        self._numbers.default_factory = self._numbers.__len__
        self._can_encode = not pa.types.is_nested(arrow_type) and arrow_type != PICKLED

    @property
    def size(self) -> int:
        return len(self._numbers)

    def ids(self, column: pa.Array) -> Ids:
        if not self._can_encode:
            hashable = map(_hashable, to_values(column))
            return np.fromiter(map(self._numbers.__getitem__, hashable), np.int64, len(column))
        encoded = column.dictionary_encode(null_encoding="encode")
        values = encoded.dictionary.to_pylist()
        distinct = np.fromiter(map(self._numbers.__getitem__, values), np.int64, len(values))
        numbers: Ids = distinct[as_numpy(encoded.indices)]
        return numbers


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return ("list", *map(_hashable, value))
    if isinstance(value, dict):
        return ("dict", *((_hashable(key), _hashable(item)) for key, item in value.items()))
    if isinstance(value, tuple):
        return tuple(map(_hashable, value))
    return "NaN of a float" if value != value else value
