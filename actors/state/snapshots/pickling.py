"""Pickles of keys and values in state: values so that other processes can read them, equal keys as equal bytes."""

from __future__ import annotations

import datetime
import decimal
import io
import operator
import pickle
from decimal import Decimal
from typing import Any

import numpy as np

from flinkray.batches.pickling import ARROW_DATA
from flinkray.batches.pickling import dumps as pickle_anything
from flinkray.persistence import PROTOCOL, Pickler, has_paths, loads
from flinkray.types.rows import Row
from flinkray.types.value_types import has_nanoseconds, in_unit

NAN = float("nan")
"""The NaN that stands for all others in keys: a dict finds a NaN only if it is the same object."""

_PLAIN = frozenset({int, float, str, bool, bytes, type(None), Decimal, datetime.datetime, datetime.date})
_CANONICAL = frozenset({int, str, bytes, type(None)})
"""Types whose equal values have equal pickles."""
_STACK_GLOBAL = pickle.STACK_GLOBAL[0]
"""The opcode that precedes every class and function in a pickle; a pickle without this byte has none."""
_EXACT = decimal.Context(decimal.MAX_PREC, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
"""A context for decimals that loses no digits; Python's own rounds to 28."""


def dumps(value: Any) -> bytes:
    """Pickles any value, as `flinkray.batches.pickling.dumps` does, but faster if plain pickle can write it."""
    python_type = type(value)
    if python_type in _PLAIN or (python_type is tuple and _PLAIN.issuperset(map(type, value))):
        return pickle.dumps(value, PROTOCOL)
    if isinstance(value, ARROW_DATA):
        return pickle_anything(value)
    try:
        pickled = pickle.dumps(value, PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):  # a class or function that has no importable name
        return pickle_anything(value)
    if _STACK_GLOBAL not in pickled:
        return pickled
    # Pickling anything is ten times slower, so only values that need it are (and text that looks as if it did).
    is_special = pickled.count(b"__main__") or pickled.count(b"pyarrow") or has_paths(pickled)
    return pickle_anything(value) if is_special else pickled


def is_immutable(value: Any) -> bool:
    """Whether a value is of the common types that cannot change; False where that is not known."""
    python_type = type(value)
    if python_type in _PLAIN or (python_type is tuple and _PLAIN.issuperset(map(type, value))):
        return True
    return isinstance(value, ARROW_DATA)


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
    """Unpickles a key, and makes every NaN in it NAN."""
    return with_one_nan(loads(pickled))


class KeyPickler:
    """Pickles keys so that equal keys, and no others, have equal bytes, none of which begins with another's."""

    def __init__(self) -> None:
        self._stream = io.BytesIO()
        # The pickler has no memo, by which the pickle would depend on which parts of the key are the same object.
        self._pickler = Pickler(self._stream)
        self._pickler.fast = True

    def dumps(self, key: Any) -> bytes:
        """Pickles `canonical(key)`. `load_key` makes a key of it that is equal to `key`, unless that holds a
        frozenset."""
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
            return pickle_anything(simple)
        return stream.getvalue()

    def canonical(self, key: Any) -> Any:
        """The key that stands for all keys equal to it.

        It has 1 for 1.0 and True, 0 for -0.0, NAN for any NaN, UTC for other zones, Python's times for pandas' and
        numpy's, and so on.
        """
        python_type = type(key)
        if python_type in _CANONICAL:
            return key
        if python_type is float:
            return int(key) if key.is_integer() else with_one_nan(key)
        if isinstance(key, tuple):
            if python_type is tuple and _CANONICAL.issuperset(map(type, key)):
                return key
            parts = tuple([self.canonical(part) for part in key])
            return type(key)._maker()(parts) if isinstance(key, Row) else parts  # no tuple is equal to a row
        if isinstance(key, int):
            return int(key)
        if isinstance(key, str):
            return str.__str__(key)
        if isinstance(key, bytes):
            return bytes(key)
        if isinstance(key, np.datetime64 | np.timedelta64):
            return _pythons_time(key)
        if isinstance(key, np.number | np.bool_):
            simple = key.item()
            return key if isinstance(simple, np.generic) else self.canonical(simple)
        if python_type is Decimal and not key.is_nan():
            return _plain_number(key)
        if isinstance(key, datetime.datetime | datetime.timedelta) and key == key:  # not so pandas' NaT
            return _plain_time(key)
        if isinstance(key, frozenset):
            return "frozenset", *sorted(self.dumps(part) for part in key)
        return key


def _plain_number(number: Decimal) -> int | float | Decimal:
    if number.is_finite() and number == number.to_integral_value():
        return int(number)
    as_float = float(number)
    return as_float if as_float == number else number.normalize(_EXACT)


def _pythons_time(time: np.datetime64 | np.timedelta64) -> Any:
    """The datetime or timedelta that is equal, where there is one."""
    in_micros = None if np.isnat(time) else in_unit(time, "us")
    equal = None if in_micros is None else in_micros.item()
    return equal if isinstance(equal, datetime.datetime | datetime.timedelta) else time


def _plain_time(time: datetime.datetime | datetime.timedelta) -> Any:
    """Python's own time for one of pandas', which is equal unless it has nanoseconds."""
    is_plain = type(time) in (datetime.datetime, datetime.timedelta) or has_nanoseconds([time])
    if isinstance(time, datetime.timedelta):
        return time if is_plain else datetime.timedelta(time.days, time.seconds, time.microseconds)
    moment = time if is_plain else datetime.datetime.combine(time.date(), time.timetz())
    return moment if moment.utcoffset() is None else _in_utc(moment)


def _in_utc(time: datetime.datetime) -> datetime.datetime:
    """The same moment: times of different zones are equal where their moments are."""
    try:
        return time.astimezone(datetime.UTC)
    except OverflowError:  # the first or last hours that there are: its moment has no date in UTC
        return time
