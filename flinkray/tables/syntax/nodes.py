"""What all nodes of the syntax tree have: a place in the text."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace


class Span(Struct, frozen=True):
    """Where something stands in the text: the offset of its first character, and that behind its last one."""

    start: int
    end: int

    def to(self, last: Span) -> Span:
        """From the beginning of this one to the end of another."""
        return Span(self.start, last.end)


NOWHERE = Span(0, 0)
"""The place of what was not read from a text."""


class Node(Struct, frozen=True, kw_only=True):
    """Base of all nodes. Nodes are equal when they and their places are; `without_places` takes the places away."""

    span: Span = NOWHERE


T = TypeVar("T")


def without_places(value: T) -> T:
    """The same node, or tuple of nodes, as if it had been read from nowhere: what means the same is then equal."""
    return _without_places(value)  # type: ignore[no-any-return]


def _without_places(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_without_places(each) for each in value)
    if not isinstance(value, Node):
        return value
    fields = {name: _without_places(getattr(value, name)) for name in value.__struct_fields__ if name != "span"}
    return replace(value, span=NOWHERE, **fields)
