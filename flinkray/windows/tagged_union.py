"""What windows see of the rows of two streams that are joined or co-grouped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TaggedUnion:
    """A row of the first or of the second stream: what assigners (also a dynamic gap), triggers and evictors of a join
    or co-group get as element (Flink's CoGroupedStreams.TaggedUnion)."""

    is_first: bool
    value: Any

    def is_one(self) -> bool:
        """Whether it is of the first stream."""
        return self.is_first

    def is_two(self) -> bool:
        """Whether it is of the second stream."""
        return not self.is_first

    def get_one(self) -> Any:
        """The row of the first stream; None where it is the second's."""
        return self.value if self.is_first else None

    def get_two(self) -> Any:
        """The row of the second stream; None where it is the first's."""
        return None if self.is_first else self.value
