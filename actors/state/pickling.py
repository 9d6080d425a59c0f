"""Keys and values of state as bytes: values for other processes to read, keys so that equal ones are equal bytes."""

from __future__ import annotations

import datetime
import io
import operator
import pickle
from decimal import Decimal
from typing import Any

import cloudpickle
import numpy as np

PROTOCOL = 5
NAN = float("nan")
"""The one that stands for all as a key: a dict finds a NaN only where it is the very object."""

_PLAIN = frozenset({int, float, str, bool, bytes, type(None), Decimal, datetime.datetime, datetime.date})
_CANONICAL = frozenset({int, str, bytes, type(None)})
"""Types of which equal values have equal pickles."""

loads = pickle.loads


def dumps(value: Any) -> bytes:
    """The value pickled; a class of the user's main script goes along, as no other process finds it by name."""
    python_type = type(value)
    if python_type in _PLAIN or (python_type is tuple and _PLAIN.issuperset(map(type, value))):
        return pickle.dumps(value, PROTOCOL)
    try:
        pickled = pickle.dumps(value, PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):  # a class or function that has no importable name
        return bytes(cloudpickle.dumps(value, PROTOCOL))
    # cloudpickle is ten times slower, so it is for those that need it (and for some text that says the same).
    return bytes(cloudpickle.dumps(value, PROTOCOL)) if b"__main__" in pickled else pickled


def is_immutable(value: Any) -> bool:
    """Whether a value is of the common types that cannot change; False where that is not known."""
    python_type = type(value)
    return python_type in _PLAIN or (python_type is tuple and _PLAIN.issuperset(map(type, value)))


def with_one_nan(key: Any) -> Any:
    """The key as a dict of keys needs it: every NaN in it, also within tuples, is NAN."""
    if isinstance(key, float | np.floating):
        return key if key == key else NAN
    if not isinstance(key, tuple) or _CANONICAL.issuperset(map(type, key)):
        return key
    parts = [with_one_nan(part) for part in key]
    if all(map(operator.is_, parts, key)):
        return key
    return tuple(parts) if type(key) is tuple else type(key)(*parts)  # a named tuple


def load_key(pickled: bytes) -> Any:
    """A key that was pickled, `with_one_nan`."""
    return with_one_nan(loads(pickled))


class KeyPickler:
    """Pickles keys so that equal keys, and no others, have equal bytes, none of which begins with another's."""

    def __init__(self) -> None:
        self._stream = io.BytesIO()
        # Without memo, in which the pickle would depend on which parts of the key are the same object.
        self._pickler = pickle.Pickler(self._stream, PROTOCOL)
        self._pickler.fast = True

    def dumps(self, key: Any) -> bytes:
        """Of `canonical(key)`: what `load_key` makes of it is equal to `key`, unless that holds a frozenset."""
        if type(key) in _CANONICAL:
            return pickle.dumps(key, PROTOCOL)
        simple = self.canonical(key)
        if type(simple) in _CANONICAL:
            return pickle.dumps(simple, PROTOCOL)
        stream = self._stream
        stream.seek(0)
        stream.truncate()
        try:
            self._pickler.dump(simple)
        except (pickle.PicklingError, AttributeError, TypeError):
            return bytes(cloudpickle.dumps(simple, PROTOCOL))
        return stream.getvalue()

    def canonical(self, key: Any) -> Any:
        """The one of all equal keys that stands for them: 1 for 1.0 and True, 0 for -0.0, NAN for any NaN, UTC, ..."""
        python_type = type(key)
        if python_type in _CANONICAL:
            return key
        if python_type is float:
            return int(key) if key.is_integer() else with_one_nan(key)
        if isinstance(key, tuple):
            if python_type is tuple and _CANONICAL.issuperset(map(type, key)):
                return key
            return tuple([self.canonical(part) for part in key])
        if isinstance(key, int):
            return int(key)
        if isinstance(key, str):
            return str.__str__(key)
        if isinstance(key, np.number | np.bool_):
            simple = key.item()
            return key if isinstance(simple, np.generic) else self.canonical(simple)
        if python_type is Decimal and key.is_finite():
            return int(key) if key == key.to_integral_value() else key.normalize()
        if python_type is datetime.datetime and key.utcoffset() is not None:
            return _in_utc(key)
        if isinstance(key, frozenset):
            return "frozenset", *sorted(self.dumps(part) for part in key)
        return key


def _in_utc(time: datetime.datetime) -> datetime.datetime:
    """The same moment: times of different zones are equal where their moments are."""
    try:
        return time.astimezone(datetime.UTC)
    except OverflowError:  # the first or last hours that there are: its moment has no date in UTC
        return time
