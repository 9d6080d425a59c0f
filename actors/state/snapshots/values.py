"""Values of state as bytes: plain values of Python's own types as MessagePack, which is shorter and takes a fifth of
the time, all others as pickles.

The first byte says which. Pickles begin with 0x80, so that values which earlier versions have pickled are read as well.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from msgspec.msgpack import Decoder, Encoder

from actors.state.snapshots.pickling import dumps
from flinkray.persistence import loads

_SCALARS = frozenset({type(None), bool, int, float, str, bytes})
"""Types whose values, alone and side by side, come back from MessagePack as they were."""

# Part of the format of checkpoints: a byte stands for a type for ever.
_TYPES: dict[int, Any] = {
    1: Any,  # a scalar
    2: tuple,
    3: list,
    4: dict,
    5: set,
    6: frozenset,
    7: datetime.date,
    8: datetime.datetime,
    9: datetime.timedelta,
    10: Decimal,
}
_PREFIXES = {python_type: bytes([number]) for number, python_type in _TYPES.items()}
_SCALAR = _PREFIXES[Any]
_LISTS = frozenset({tuple, list, set, frozenset})
_encode = Encoder().encode
_decoders: dict[int, Callable[[memoryview], Any]] = {number: Decoder(each).decode for number, each in _TYPES.items()}


def value_to_bytes(value: Any) -> bytes:
    """Any value, as `value_of_bytes` gives it back in whatever process."""
    python_type = type(value)
    try:
        if python_type in _SCALARS:
            return _SCALAR + _encode(value)
        if _is_plain(value, python_type):
            return _PREFIXES[python_type] + _encode(value)
    except (OverflowError, ValueError):  # an integer of more than 64 bits, or text that is none in UTF-8
        pass
    return dumps(value)


def value_of_bytes(data: bytes) -> Any:
    """The value. Raises what `flinkray.persistence.loads` does."""
    decode = _decoders.get(data[0]) if data else None
    return loads(data) if decode is None else decode(memoryview(data)[1:])


def is_pickled(data: bytes) -> bool:
    """Whether the bytes of a value are a pickle, which may name classes."""
    return data[:1] == b"\x80"


def _is_plain(value: Any, python_type: type) -> bool:
    """Whether a value that is no scalar comes back as it was."""
    if python_type in _LISTS:
        return _SCALARS.issuperset(map(type, value))
    if python_type is dict:
        return _SCALARS.issuperset(map(type, value.values())) and all(type(key) is str for key in value)
    if python_type is datetime.datetime:
        return bool(value.tzinfo is None and not value.fold)
    if python_type is Decimal:
        return bool(value.is_finite())
    return python_type is datetime.date or python_type is datetime.timedelta
