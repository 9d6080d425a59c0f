"""Stable hashes of Python objects, which are keys whose type nobody declared.

Objects that are equal hash equal, and as they would in a column of their own type: a key is in the same key group
whether the program declares its type or not.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.state.snapshots.pickling import KeyPickler
from flinkray.batches.value_columns import to_array
from flinkray.types.value_types import Misfit, Unholdable, infer_type

Hashes = npt.NDArray[np.uint64]


def hashes_of_objects(
    values: Sequence[Any], hash_array: Callable[[pa.Array], Hashes], combine: Callable[[list[Hashes], int], Hashes]
) -> Hashes:
    """A hash of each object, of which there may be none.

    Args:
        hash_array: the hashes of a column.
        combine: the hash of several columns of hashes, given how many rows they have.
    """
    return _ObjectHashes(hash_array, combine).of(values)


class _ObjectHashes:
    def __init__(
        self, hash_array: Callable[[pa.Array], Hashes], combine: Callable[[list[Hashes], int], Hashes]
    ) -> None:
        self._hash_array = hash_array
        self._combine = combine

    def of(self, values: Sequence[Any]) -> Hashes:
        rows_by_form: defaultdict[Any, list[int]] = defaultdict(list)
        for row, value in enumerate(values):
            rows_by_form[_form(value)].append(row)
        hashes = np.empty(len(values), np.uint64)
        for form, rows in rows_by_form.items():
            hashes[rows] = self._of_form(form, [values[row] for row in rows])
        return hashes

    def _of_form(self, form: Any, values: list[Any]) -> Hashes:
        if form in _COLUMNS:
            convert, arrow_type = _COLUMNS[form]
            return self._hash_array(pa.array(map(convert, values), arrow_type))
        if isinstance(form, int):  # tuples of so many items, which are the columns of a key
            return self._combine([self.of(column) for column in zip(*values, strict=True)], len(values))
        if form in ("list", "set"):
            return self._of_bytes([self._joined(self.of(list(value)), form) for value in values])
        if form == "dict":
            return self._of_bytes([self._joined(self.of(list(value.items())), form) for value in values])
        if form == "state":
            return self.of([(_name(type(value)), value.__getstate__()) for value in values])
        return self._of_other(values)

    def _joined(self, hashes: Hashes, form: str) -> bytes:
        """The bytes of the hashes of a collection's items; a set and a dict have none of an order."""
        ordered = hashes if form == "list" else np.sort(hashes)
        return ordered.astype("<u8").tobytes()

    def _of_other(self, values: list[Any]) -> Hashes:
        """Hashes of values of one class: as a column of theirs, where Arrow has one, else of their pickles."""
        try:
            return self._hash_array(to_array(values, infer_type(values)))
        except (Misfit, Unholdable):
            if len(values) > 1:
                return np.concatenate([self._of_other([value]) for value in values])
        return self._of_bytes([KeyPickler().dumps(values[0])])

    def _of_bytes(self, values: list[bytes]) -> Hashes:
        return self._hash_array(pa.array(values, pa.large_binary()))


def _form(value: Any) -> Any:
    """What decides how a value is hashed: a name, the length of a tuple, or its class."""
    python_type = type(value)
    if python_type in _COLUMNS:
        return python_type if python_type is not int or _is_word(value) else "wide int"
    if isinstance(value, enum.Enum) and not isinstance(value, int | str | float):
        return enum.Enum
    if isinstance(value, type):
        return type
    if isinstance(value, tuple):
        return len(value) or "no items"
    for base in (int, float, str, bytes):
        if isinstance(value, base):
            return base if base is not int or _is_word(value) else "wide int"
    for name, collection in _COLLECTIONS.items():
        if isinstance(value, collection):
            return name
    # By what it holds: a pickle of an object of the main script's has its class in it, which every run makes anew.
    own: Any = python_type
    is_simple = (own.__reduce_ex__, own.__reduce__) == (object.__reduce_ex__, object.__reduce__)
    return "state" if is_simple else python_type


def _is_word(number: Any) -> bool:
    """Whether it is a number of 64 bits, as a column of numbers has them."""
    return -(2**63) <= int(number) < 2**63


_COLLECTIONS: dict[str, Any] = {"list": list, "set": frozenset | set, "dict": dict}


def _name(python_type: type) -> str:
    return f"{python_type.__module__}.{python_type.__qualname__}"


def _enum_name(value: enum.Enum) -> str:
    return f"{_name(type(value))}.{value.name}"


_COLUMNS: dict[Any, tuple[Callable[[Any], Any], pa.DataType]] = {
    type(None): (lambda _: None, pa.null()),
    bool: (bool, pa.bool_()),
    int: (int, pa.int64()),
    float: (float, pa.float64()),
    str: (str.__str__, pa.large_string()),
    bytes: (bytes, pa.large_binary()),
    enum.Enum: (_enum_name, pa.large_string()),
    type: (_name, pa.large_string()),
}
