"""Whether entries of a stream were removed before they were read, from what the server counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from flinkray.connectors.redis.splits import RedisSplit, order_of


class StreamCounts(NamedTuple):
    """A stream at one moment, as XINFO STREAM tells since Redis 7."""

    added: int
    """How many entries it has ever had."""
    length: int
    """How many it has."""
    first_id: str | None
    """The id of the first that it has; None: it has none."""
    last_id: str
    """The id of the last one that it has ever had."""

    @property
    def removed(self) -> int:
        """How many were trimmed or deleted."""
        return self.added - self.length

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> StreamCounts | None:
        """What a client has read; None: an older server does not count what was added."""
        if "entries-added" not in info:
            return None
        first = info["first-entry"]
        return cls(
            added=int(info["entries-added"]),
            length=int(info["length"]),
            first_id=first[0].decode() if first else None,
            last_id=info["last-generated-id"].decode(),
        )


class Look(NamedTuple):
    """What a reader that is about to read on knows from the counts."""

    split: RedisSplit
    """With its number, where that is known now."""
    unread: int = 0
    """How many entries behind the last one read are gone."""
    is_uncertain: bool = False
    """The last one read is gone, and others behind it may be."""
    is_another: bool = False
    """The stream has had fewer entries than were read from it."""


def look_at(split: RedisSplit, counts: StreamCounts) -> Look:
    """Compares what was read with what was removed; the entries that are read on with were there at the same moment.

    Removed are the first ones, unless somebody deletes others: more than were read are some that were not.
    """
    is_gone = counts.first_id is None or order_of(counts.first_id) > order_of(split.last_id)
    if split.number is not None and counts.added < split.number:
        # It was deleted and made anew; or a replica took over that had not had all, and keeps what was read.
        number = 0 if is_gone else None
        return look_at(replace(split, number=number), counts)._replace(is_another=True)
    if order_of(split.last_id) >= order_of(counts.last_id):
        return Look(replace(split, number=counts.added))
    if not is_gone:
        return Look(split)
    from_here = replace(split, number=counts.removed)
    if split.number is None:
        return Look(from_here, is_uncertain=split.is_begun)
    unread = counts.removed - split.number
    return Look(from_here, unread) if unread > 0 else Look(split)


def advanced(split: RedisSplit, last_id: str, entries: int, counts: StreamCounts | None) -> RedisSplit:
    """The split behind so many more entries, which were there at the moment of `counts`."""
    number = None if split.number is None else split.number + entries
    if counts is not None and last_id == counts.last_id:
        number = counts.added
    return replace(split, last_id=last_id, is_begun=True, number=number)
