"""Columns of Python objects: what keys are in that no type was declared for."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from flinkray.batches.pickling import dumps
from flinkray.persistence import PROTOCOL, loads
from flinkray.types.object_type import PICKLED, ObjectType

_SCALARS = frozenset({int, float, str, bool, bytes, type(None)})
_PLAIN_STORAGE = {int: pa.int64(), str: pa.string()}


def to_object_array(values: Sequence[Any]) -> pa.ExtensionArray:
    """The values as a column.

    Raises:
        Exception: whatever the pickling of a value raises, which runs its own code.
    """
    types = set(map(type, values))
    storage = _PLAIN_STORAGE.get(types.pop()) if len(types) == 1 else None
    if storage is not None:
        try:
            return pa.ExtensionArray.from_storage(ObjectType(storage), pa.array(values, storage))
        except (pa.ArrowException, OverflowError, UnicodeError):
            pass  # an int of more than 64 bits, or half of a character: these travel pickled
    return pickled_array(values)


def pickled_array(values: Iterable[Any]) -> pa.ExtensionArray:
    """The values as a column of pickles.

    Raises:
        Exception: as `to_object_array`.
    """
    return pa.ExtensionArray.from_storage(PICKLED, pa.array(map(_pickled, values), pa.binary()))


def object_values(array: pa.ExtensionArray) -> list[Any]:
    """The objects of a column."""
    values: list[Any] = array.storage.to_pylist()
    return list(map(loads, values)) if array.type == PICKLED else values


def _pickled(value: Any) -> bytes:
    is_plain = type(value) in _SCALARS or (type(value) is tuple and _SCALARS.issuperset(map(type, value)))
    # What is made of Python's own types needs nothing of cloudpickle, which takes several times as long.
    return pickle.dumps(value, PROTOCOL) if is_plain else dumps(value)
