"""A stream as a split, and the order of the ids of its entries."""

from __future__ import annotations

from msgspec import Struct

FIRST = "0-0"
"""The id before all others."""


class RedisSplit(Struct, frozen=True):
    """A stream, with the id of the entry that was read last, and of the one at which it ends (None: it does not).
    `is_begun`: that entry was read, and is not just where the user wants to begin. `number`: the how-manieth entry of
    the stream it is, where that is known."""

    stream: str
    last_id: str
    stop_id: str | None = None
    is_begun: bool = False
    number: int | None = None

    @property
    def split_id(self) -> str:
        return self.stream


def order_of(entry_id: str) -> tuple[int, int]:
    """Ids in the order of their entries."""
    milliseconds, _, number = entry_id.partition("-")
    return int(milliseconds), int(number or 0)
