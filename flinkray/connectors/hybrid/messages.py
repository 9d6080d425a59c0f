"""What the enumerator and the readers of a HybridSource say to each other, and what checkpoints hold of it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from flinkray.connectors.source import Source


class HybridSplit(Struct, frozen=True):
    """A split of one of the sources."""

    source_index: int
    split: Any

    @property
    def split_id(self) -> str:
        return split_id_of(self.source_index, self.split.split_id)


def split_id_of(source_index: int, split_id: str) -> str:
    """The name of a split of one of the sources among those of all."""
    return f"{source_index}:{split_id}"


# -- from a reader


class SourceRead(Struct, frozen=True):
    """It has read all that it had of a source, and will get no more of that; -1: it begins, and has nothing."""

    source_index: int


class SourceWanted(Struct, frozen=True):
    """It has splits of that source, and needs the source."""

    source_index: int


class SplitWanted(Struct, frozen=True):
    """It asks for a split of the source that it reads."""

    source_index: int


# -- to a reader


class ReadSource(Struct, frozen=True):
    """Read this source now."""

    source_index: int
    source: Source


class NoMoreOfSource(Struct, frozen=True):
    """No more splits of that source will come."""

    source_index: int


# -- both ways


class InnerEvent(Struct, frozen=True):
    """An event of one of the sources, from its reader to its enumerator or the other way."""

    source_index: int
    event: Any


class HybridEnumeratorState(Struct, frozen=True):
    """What a checkpoint has of the enumerator."""

    source_index: int
    """Of the source that is read."""
    inner: Any
    """The state of its enumerator."""
    ended: dict[int, Any]
    """The last states of the enumerators whose successors functions have made, which are made from them again."""
    returned: tuple[HybridSplit, ...]
    """Splits of former sources whose readers were lost, and which nobody has got again."""
