"""Structs within rows, as row functions see them: dicts whose values are attributes, too."""

from __future__ import annotations

import operator
from typing import Any

from flinkray.errors import did_you_mean
from flinkray.persistence import known_as
from flinkray.types.rows import row_class


class Struct(dict[str, Any]):
    """What is nested in a row, under names: `order.address.city` and `order.address["city"]` give the same value.

    A dict in everything else, and equal to a plain one. Where a name is that of a method of dicts, such as `items`, the
    attribute is the method, and the item the value. As a key, of state for example, it is a `Row`, which has a hash.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        # Only reached where a dict has no such attribute.
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"this struct has no field {name!r}{did_you_mean(name, self)}; fields: {', '.join(self)}"
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(dict, name):
            raise AttributeError(f"{name!r} is a method of dicts; set the field as struct[{name!r}] = ...")
        self[name] = value

    def copy(self) -> Struct:
        """A struct with the same values."""
        return Struct(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (dict(self),)


@known_as("flinkray/Struct@1")
def _rebuild(values: dict[str, Any]) -> Struct:
    return Struct(values)


def as_key(value: Any) -> Any:
    """The value as a key, of which `Struct`s, also within tuples, are rows."""
    if isinstance(value, Struct):
        return row_class(tuple(value))(*map(as_key, value.values()))
    if not isinstance(value, tuple):
        return value
    parts = tuple(map(as_key, value))
    if all(map(operator.is_, parts, value)):
        return value
    return parts if type(value) is tuple else type(value)(*parts)  # a row or a named tuple
