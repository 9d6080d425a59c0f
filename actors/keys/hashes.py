"""The key of each row: its columns, its values, its hash and its key group.

The hash is part of the state format: it decides in which key group, and so in which file of a savepoint, a key's state
is. It depends on nothing but the values (no seed of a process, no byte order, no version of a library) and must never
change; `tests/unit/actors/keys/test_hashes.py` holds golden values.
"""

from __future__ import annotations

import decimal
import enum
import hashlib
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.columns.text_words import WORD_BYTES, WORDS_AT_ONCE, TextWords, Words
from actors.keys.object_hashes import hashes_of_objects
from actors.state.snapshots.pickling import with_one_nan
from actors.user_code.errors import raise_attributed
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import as_numpy, fixed_width, numpy_dtype
from flinkray.batches.object_columns import object_values, pickled_array, to_object_array
from flinkray.batches.row_codec import decode, short_repr
from flinkray.batches.value_columns import to_array, to_values
from flinkray.errors import TypeMismatchError, UnknownColumnError
from flinkray.types.keys import ColumnKey, FunctionKey, KeySelector
from flinkray.types.nested import contains
from flinkray.types.object_type import PICKLED, ObjectType
from flinkray.types.records import Kind, RecordType
from flinkray.types.structs import Struct, as_key
from flinkray.types.value_types import Misfit, Unholdable, infer_type, with_rows

Hashes = npt.NDArray[np.uint64]
KeyGroups = npt.NDArray[np.int32]

KEY_COLUMN = "key"
"""Column of a key that a function gave; a tuple's columns are `key_0`, `key_1`, ..."""

# All constants below are part of the state format: with others, keys go to other key groups and their state is not
# found. The multipliers are those of MurmurHash3's finaliser, the increment is 2**64 divided by the golden ratio.
_MIX_1 = np.uint64(0xFF51AFD7ED558CCD)
_MIX_2 = np.uint64(0xC4CEB9FE1A85EC53)
_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_WORD = np.uint64(0x87C37B91114253D5)
_NULL = np.uint64(0x6E756C6C6B657921)
_NAN_BITS = np.uint64(0x7FF8000000000000)
_LONG_VALUE_BYTES = 256
"""Longer strings are hashed one by one: the vectorised loop runs as often as the longest value has words."""

_SHIFT_33 = np.uint64(33)
_SHIFT_32 = np.uint64(32)


# -- columns and values ------------------------------------------------------------------------------------------


def key_columns(batch: Batch, selector: KeySelector, where: str) -> pa.RecordBatch:
    """The key of each row as columns: those named by the selector, or `key` (`key_0` ...) for a function's.

    Args:
        where: names the task or operator in errors, for example "map (1/2)".
    Raises:
        UnknownColumnError: the batch has no such column.
        UserFunctionError: the key function raised.
        TypeMismatchError: its results do not fit one Arrow type.
    """
    if isinstance(selector, ColumnKey):
        return _select(batch.data, selector, where)
    return batch.keys if batch.keys is not None else _computed(batch, selector, where)


def key_values(columns: pa.RecordBatch, selector: KeySelector | None = None) -> list[Any]:
    """Each row's key as a Python value: the bare value of a single column, a tuple of several. Every NaN is the one
    object NAN, also within tuples; structs are rows where the selector names columns."""
    lists = [_as_keys(to_values(column), column.type, selector) for column in columns.columns]
    return lists[0] if len(lists) == 1 else list(zip(*lists, strict=True))


def pickled_keys(columns: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
    """The same keys as Python objects, in one column: whatever their types are, they can be kept beside others."""
    batches = columns.to_batches() if isinstance(columns, pa.Table) else [columns]
    keys = itertools.chain.from_iterable(map(key_values, batches))
    return pa.RecordBatch.from_arrays([pickled_array(keys)], names=[KEY_COLUMN])


def hashable_keys(columns: pa.RecordBatch, where: str, selector: KeySelector | None = None) -> list[Any]:
    """As `key_values`, of keys that state, timers and windows can be kept by.

    Raises:
        TypeMismatchError: a key is or holds a list, or a dict that a function made.
    """
    keys = key_values(columns, selector)
    if any(pa.types.is_nested(kind) or isinstance(kind, ObjectType) for kind in columns.schema.types):
        for key in keys:
            try:
                hash(key)
            except TypeError:
                names = ", ".join(columns.schema.names)
                raise TypeMismatchError(
                    f"{where}: the key {short_repr(key)} ({names}) has a list or dict in it, so no state can be kept "
                    "by it; key by a function that makes text, a number or a tuple of it"
                ) from None
    return keys


def _as_keys(values: list[Any], arrow_type: pa.DataType, selector: KeySelector | None) -> list[Any]:
    held = arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type
    # The fields of a column's structs have one order, those of dicts of a function that of each batch's first.
    if isinstance(selector, ColumnKey) and contains(held, pa.types.is_struct):
        values = list(map(as_key, values))
    may_have_nan = pa.types.is_floating(held) or pa.types.is_nested(held) or isinstance(held, ObjectType)
    return [with_one_nan(value) for value in values] if may_have_nan else values


def _select(data: pa.RecordBatch, selector: ColumnKey, where: str) -> pa.RecordBatch:
    numbers = [data.schema.get_field_index(column) for column in selector.columns]
    if -1 in numbers:
        raise UnknownColumnError(selector.columns[numbers.index(-1)], data.schema.names, where)
    return data.select(numbers)


def _computed(batch: Batch, selector: FunctionKey, where: str) -> pa.RecordBatch:
    function = selector.function
    keys: list[Any] = []
    value: Any = None
    try:
        for value in decode(batch):
            keys.append(function(value))
    except BaseException as error:
        raise_attributed(f"{where}, key function {selector}", "", value, error)
    return _as_columns(keys, selector, where)


def _as_columns(keys: list[Any], selector: FunctionKey, where: str) -> pa.RecordBatch:
    key_type = selector.key_type
    if key_type is not None and key_type.kind is Kind.OBJECT:
        return pa.RecordBatch.from_arrays([_as_objects(keys, selector, where)], names=[KEY_COLUMN])
    types: Sequence[Any] = list(key_type.schema.types) if key_type is not None else []
    if not _is_wide(keys, key_type):
        if key_type is not None and key_type.kind is Kind.ROW:
            types = [with_rows(pa.struct(list(key_type.schema)))]
        column = _as_array(keys, types[0] if types else None, selector, where)
        return pa.RecordBatch.from_arrays([column], names=[KEY_COLUMN])
    width = len(types) or next(len(key) for key in keys if key is not None)
    for key in keys:
        if not isinstance(key, tuple | list) or len(key) != width:
            raise TypeMismatchError(
                f"{where}: the key function {selector} must give a tuple of {width} values for every row, "
                f"not {short_repr(key)}"
            )
    columns = zip(*keys, strict=True) if keys else ([] for _ in range(width))
    arrays = [
        _as_array(list(column), types[index] if types else None, selector, where)
        for index, column in enumerate(columns)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[f"{KEY_COLUMN}_{index}" for index in range(width)])


def _is_wide(keys: list[Any], key_type: RecordType | None) -> bool:
    """Whether the keys are tuples, of which each value gets a column: also named tuples and Rows, not dataclasses."""
    if key_type is None:
        first = next((key for key in keys if key is not None), None)
        return isinstance(first, tuple) and len(first) > 0
    has_tuples = key_type.kind is Kind.ROW and any(isinstance(key, tuple | list) for key in keys)
    return has_tuples or key_type.kind is Kind.TUPLE


def _as_objects(keys: list[Any], selector: FunctionKey, where: str) -> pa.Array:
    try:
        return to_object_array(keys)
    except Exception as error:  # pickling runs the keys' own code
        raise TypeMismatchError(
            f"{where}: a key that {selector} gives cannot be pickled ({error}); return numbers, text, bytes, times, or "
            "a tuple, frozenset, enum or dataclass of them"
        ) from error


def _as_array(values: list[Any], arrow_type: Any, selector: FunctionKey, where: str) -> pa.Array:
    try:
        return to_array(values, arrow_type if arrow_type is not None else _inferred(values))
    except Misfit as error:
        problem = f"{short_repr(error.value)} is not {error.expected}"
    except Unholdable as error:
        culprit = error.args[0]
        way_out = "; return its .name" if isinstance(culprit, enum.Enum) else ""
        problem = f"Arrow cannot hold {short_repr(culprit)} ({type(culprit).__name__}){way_out}"
    raise TypeMismatchError(
        f"{where}: the keys that {selector} gives must have one Arrow type: {problem}. Return numbers, text, bytes, "
        "times, UUIDs, or a tuple or dataclass of them, or say the type with key_by(..., key_type=...)"
    )


def _inferred(keys: list[Any]) -> pa.DataType:
    found = infer_type(keys)
    has_dict = any(isinstance(key, dict) and not isinstance(key, Struct) for key in keys)
    return found if has_dict or not pa.types.is_struct(found) else with_rows(found)  # no dict can be a key


# -- hashes ------------------------------------------------------------------------------------------------------


def key_groups(columns: pa.RecordBatch, max_parallelism: int) -> KeyGroups:
    """The key group of each row, in [0, max_parallelism)."""
    return _key_groups(columns, max_parallelism).astype(np.int32)


def key_owners(columns: pa.RecordBatch, owners: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`owners[key group]` of each row, where `owners` has an entry per key group."""
    groups = _key_groups(columns, len(owners))
    rows: npt.NDArray[Any] = owners.take(
        groups, mode="clip"
    )  # all indices are within bounds, and clipping is numpy's quickest mode
    return rows


def _key_groups(columns: pa.RecordBatch, max_parallelism: int) -> npt.NDArray[np.int64]:
    hashes = key_hashes(columns)
    if max_parallelism & (max_parallelism - 1):
        hashes %= np.uint64(max_parallelism)
    else:  # several times as fast as a division
        hashes &= np.uint64(max_parallelism - 1)
    return hashes.view(np.int64)


def key_hashes(columns: pa.RecordBatch) -> Hashes:
    """A stable 64-bit hash of each row's key.

    Equal values hash equal, whatever holds them: any width of integer, a float or decimal with a whole value, -0.0 and
    0.0, every NaN, `string` and `large_string`, a dictionary and its values, a time or duration in any unit. Null has a
    hash of its own. Several columns are combined in order.

    Raises:
        TypeMismatchError: a column's type cannot be a key; names the column.
    """
    hashed = [_hash_column(columns.column(index), name) for index, name in enumerate(columns.schema.names)]
    return hashed[0] if len(hashed) == 1 else _combine(hashed, columns.num_rows)


def _combine(parts: Sequence[Hashes], rows: int) -> Hashes:
    combined = np.full(rows, _INCREMENT)
    for part in parts:
        combined *= _WORD
        _mix(np.add(combined, part, out=combined))
    return combined


def _mix(values: Hashes) -> Hashes:
    """MurmurHash3's finaliser, in place: every input bit changes every output bit with probability one half."""
    scratch = np.empty(min(len(values), WORDS_AT_ONCE), np.uint64)
    for start in range(0, len(values), WORDS_AT_ONCE):
        words = values[start : start + WORDS_AT_ONCE]
        shifted = scratch[: len(words)]
        words ^= np.right_shift(words, _SHIFT_33, out=shifted)
        words *= _MIX_1
        words ^= np.right_shift(words, _SHIFT_33, out=shifted)
        words *= _MIX_2
        words ^= np.right_shift(words, _SHIFT_33, out=shifted)
    return values


class _NoStableHashError(Exception):
    """Values of a type have no stable hash, so they cannot be keys."""


def _hash_column(column: pa.Array, name: str) -> Hashes:
    try:
        return _hash_array(column)
    except (_NoStableHashError, pa.ArrowNotImplementedError) as error:
        raise TypeMismatchError(
            f"column {name!r} of type {column.type} cannot be a key: {error}; key by a function of it instead"
        ) from error


def _hash_array(array: pa.Array) -> Hashes:
    if len(array) == 0:
        return np.empty(0, dtype=np.uint64)
    if array.null_count == len(array):
        return np.full(len(array), _NULL)
    hashes = _hash_values(array)
    if array.null_count:
        hashes[as_numpy(array.is_null())] = _NULL
    return hashes


def _hash_values(array: pa.Array) -> Hashes:
    """The hashes of an array that is not empty; those of its nulls mean nothing."""
    types, arrow_type = pa.types, array.type
    if types.is_boolean(arrow_type):
        return _hash_integers(fixed_width(array.cast(pa.uint8()), np.dtype(np.uint8)))
    if types.is_integer(arrow_type):
        return _hash_integers(fixed_width(array, numpy_dtype(arrow_type)))
    if types.is_floating(arrow_type):
        return _hash_floats(fixed_width(array, numpy_dtype(arrow_type)))
    if types.is_temporal(arrow_type) and not types.is_interval(arrow_type):
        return _hash_times(array)
    if types.is_decimal(arrow_type):
        return _hash_decimals(array)
    if types.is_string_view(arrow_type) or types.is_binary_view(arrow_type):
        array = array.cast(pa.large_string() if types.is_string_view(arrow_type) else pa.large_binary())
        return _hash_variable_width(array)
    if any(is_type(arrow_type) for is_type in _VARIABLE_WIDTH):
        return _hash_variable_width(array)
    if types.is_fixed_size_binary(arrow_type):
        return _hash_variable_width(array.cast(pa.large_binary()))
    return _hash_nested(array)


_VARIABLE_WIDTH = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)


def _hash_nested(array: pa.Array) -> Hashes:
    types, arrow_type = pa.types, array.type
    if types.is_dictionary(arrow_type):
        indices = as_numpy(array.indices.fill_null(0))
        hashes: Hashes = _hash_array(array.dictionary)[indices]
        return hashes
    if types.is_struct(arrow_type):
        return _combine([_hash_array(field) for field in array.flatten()], len(array))
    if types.is_map(arrow_type):
        entries = _combine([_hash_array(array.keys), _hash_array(array.items)], len(array.keys))
        return _hash_lists(entries, as_numpy(array.offsets))
    if types.is_list(arrow_type) or types.is_large_list(arrow_type):
        return _hash_lists(_hash_array(array.values), as_numpy(array.offsets))
    if types.is_fixed_size_list(arrow_type):
        size = arrow_type.list_size
        offsets = (np.arange(len(array) + 1, dtype=np.int64) + array.offset) * size
        return _hash_lists(_hash_array(array.values), offsets)
    if arrow_type == PICKLED:
        return hashes_of_objects(object_values(array), _hash_array, _combine)
    if isinstance(arrow_type, pa.BaseExtensionType):
        return _hash_array(array.storage)
    raise _NoStableHashError("its values have no stable hash")


def _hash_integers(values: npt.NDArray[Any]) -> Hashes:
    # A narrower signed integer is sign-extended, so that equal values of any width become equal words.
    words = values.astype(np.int64 if values.dtype.kind == "i" else np.uint64, copy=False).view(np.uint64)
    return _mix(words + _INCREMENT)


def _hash_times(array: pa.Array) -> Hashes:
    """Hashes of times: by their nanoseconds modulo 2^64, so that times hash equal in whatever unit they are stored."""
    arrow_type = array.type
    stored = fixed_width(array, np.dtype(f"int{arrow_type.bit_width}")).astype(np.int64, copy=False)
    unit = "day" if pa.types.is_date32(arrow_type) else getattr(arrow_type, "unit", "ms")  # date64 has milliseconds
    return _hash_integers(stored.view(np.uint64) * _NANOSECONDS[unit])


_NANOSECONDS = {
    unit: np.uint64(count)
    for unit, count in {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "day": 86_400 * 10**9}.items()
}


def _hash_floats(values: npt.NDArray[Any]) -> Hashes:
    doubles = values.astype(np.float64)
    words = doubles.view(np.uint64).copy()
    words[np.isnan(doubles)] = _NAN_BITS
    is_whole = (np.trunc(doubles) == doubles) & (np.abs(doubles) < 2.0**63)
    words[is_whole] = doubles[is_whole].astype(np.int64).view(np.uint64)
    words += _INCREMENT
    return _mix(words)


def _hash_decimals(array: pa.Array) -> Hashes:
    """Hashes by value, not by scale: the scale that Arrow infers differs from batch to batch. A whole number of 64 bits
    hashes as that number."""
    encoded = array.dictionary_encode()
    parts = [_without_scale(value) for value in encoded.dictionary.to_pylist()]
    is_word = np.array([not scale and -(2**63) <= number < 2**63 for number, scale in parts], np.bool_)
    hashes = np.empty(len(parts), np.uint64)
    words = [number for (number, _), each in zip(parts, is_word, strict=True) if each]
    hashes[is_word] = _hash_integers(np.array(words, np.int64))
    texts = [f"{number}e-{scale}" for (number, scale), each in zip(parts, is_word, strict=True) if not each]
    if texts:
        hashes[~is_word] = _hash_variable_width(pa.array(texts, pa.large_string()))
    rows: Hashes = hashes[as_numpy(encoded.indices.fill_null(0))]
    return rows


def _without_scale(value: decimal.Decimal) -> tuple[int, int]:
    """The digits of the value as a number without zeros at its end, and how many of them are behind the point."""
    sign, digits, exponent = value.as_tuple()
    scale, number = -int(exponent), int("".join(map(str, digits)))
    while scale > 0 and number % 10 == 0:
        number, scale = number // 10, scale - 1
    return (-number if sign else number) * 10 ** max(0, -scale), max(0, scale)


def _hash_lists(elements: Hashes, offsets: npt.NDArray[Any]) -> Hashes:
    """A list hashes like the bytes of its elements' hashes."""
    starts = offsets.astype(np.int64) * 8
    return _hash_slices(elements.astype("<u8").view(np.uint8), starts[:-1], np.diff(starts))


def _hash_variable_width(array: pa.Array) -> Hashes:
    is_large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    dtype = np.dtype(np.int64 if is_large else np.int32)
    _, offsets_buffer, data_buffer = array.buffers()
    start = array.offset * dtype.itemsize
    offsets = np.frombuffer(offsets_buffer, dtype=dtype, count=len(array) + 1, offset=start)
    data = np.frombuffer(data_buffer, dtype=np.uint8) if data_buffer is not None else np.empty(0, dtype=np.uint8)
    first, last = int(offsets[0]), int(offsets[-1])
    return _hash_slices(data[first:last], offsets[:-1], offsets[1:] - offsets[:-1], first)


def _hash_slices(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[Any], lengths: npt.NDArray[Any], base: int = 0
) -> Hashes:
    """The hash of data[start - base : start - base + length] for each row."""
    words = TextWords(data, base)
    hashes = np.empty(len(lengths), np.uint64)
    for first in range(0, len(lengths), WORDS_AT_ONCE):
        some = slice(first, first + WORDS_AT_ONCE)
        hashes[some] = _hash_some(words, starts[some], lengths[some])
    long_rows = np.flatnonzero(lengths > _LONG_VALUE_BYTES)
    if len(long_rows):
        ranges = zip((starts[long_rows] - base).tolist(), lengths[long_rows].tolist(), strict=True)
        digests = [hashlib.blake2b(data[at : at + length].tobytes(), digest_size=8).digest() for at, length in ranges]
        hashes[long_rows] = _mix(np.frombuffer(b"".join(digests), "<u8").astype(np.uint64))
    return hashes


def _hash_some(words: TextWords, starts: npt.NDArray[Any], lengths: npt.NDArray[Any]) -> Hashes:
    """Hashes eight bytes of every row at a time; the hashes of long values mean nothing."""
    hashes = lengths.astype(np.uint64)
    hashes *= _MIX_2
    hashes += _INCREMENT
    shortest, longest = int(lengths.min()), min(int(lengths.max()), _LONG_VALUE_BYTES)
    for offset in range(0, longest, WORD_BYTES):
        if offset < shortest:
            _absorb(hashes, words.at(starts + offset, lengths - offset) if offset else words.at(starts, lengths))
        else:
            rows = np.flatnonzero(lengths > offset)
            some = hashes[rows]
            _absorb(some, words.at(starts[rows] + offset, lengths[rows] - offset))
            hashes[rows] = some
    return _mix(hashes)


def _absorb(hashes: Hashes, words: Words) -> None:
    """Mixes the next word of each row into its hash; overwrites `words`."""
    hashes ^= words
    hashes *= _WORD
    hashes ^= np.right_shift(hashes, _SHIFT_32, out=words)
