"""How the rows of an exchange are spread over the consumer's subtasks: descriptions only (the kernels are in actors/).

Semantics after Flink: forward keeps the subtask index; rescale goes round robin within the local group; rebalance
round robin over all; global to channel 0; key group by hash of the key -> key group -> subtask; shuffle at random;
broadcast to every channel; custom by a user function. Forward and rescale are pointwise, the others all-to-all.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, ClassVar

from msgspec import Struct

from flinkray.types.keys import KeySelector


class SubtaskStateMapper(enum.Enum):
    """Whose in-flight data a subtask takes over when an exchange is rescaled (Flink's SubtaskStateMapper)."""

    ARBITRARY = "arbitrary"
    FIRST = "first"
    FULL = "full"
    RANGE = "range"
    ROUND_ROBIN = "round robin"
    UNSUPPORTED = "unsupported"


class Partitioner(Struct, frozen=True):
    """Base of all; the subclass says how rows are spread."""

    name: ClassVar[str] = ""
    is_pointwise: ClassVar[bool] = False
    is_broadcast: ClassVar[bool] = False
    upstream_mapper: ClassVar[SubtaskStateMapper] = SubtaskStateMapper.ARBITRARY
    downstream_mapper: ClassVar[SubtaskStateMapper] = SubtaskStateMapper.ROUND_ROBIN

    def __str__(self) -> str:
        return self.name


class ForwardPartitioner(Partitioner, frozen=True):
    """To the subtask of the same index."""

    name = "FORWARD"
    is_pointwise = True
    upstream_mapper = SubtaskStateMapper.UNSUPPORTED
    downstream_mapper = SubtaskStateMapper.UNSUPPORTED


class RescalePartitioner(Partitioner, frozen=True):
    """In turn to the subtasks of the local group."""

    name = "RESCALE"
    is_pointwise = True
    upstream_mapper = SubtaskStateMapper.UNSUPPORTED
    downstream_mapper = SubtaskStateMapper.UNSUPPORTED


class RebalancePartitioner(Partitioner, frozen=True):
    """In turn to all subtasks."""

    name = "REBALANCE"


class ShufflePartitioner(Partitioner, frozen=True):
    """To a random subtask."""

    name = "SHUFFLE"


class GlobalPartitioner(Partitioner, frozen=True):
    """To the first subtask."""

    name = "GLOBAL"
    downstream_mapper = SubtaskStateMapper.FIRST


class BroadcastPartitioner(Partitioner, frozen=True):
    """To every subtask."""

    name = "BROADCAST"
    is_broadcast = True
    upstream_mapper = SubtaskStateMapper.UNSUPPORTED
    downstream_mapper = SubtaskStateMapper.UNSUPPORTED


class KeyGroupPartitioner(Partitioner, frozen=True):
    """Sends a row by its key: stable hash -> key group (modulo max parallelism) -> subtask."""

    key: KeySelector
    max_parallelism: int | None = None
    """Settled by the compiler from the consumer; None in a program."""
    name = "HASH"
    downstream_mapper = SubtaskStateMapper.RANGE


class CustomPartitioner(Partitioner, frozen=True):
    """`function(key, number_of_channels) -> channel`, once per row; `key` is what `selector` gives for the row."""

    function: Callable[[Any, int], int]
    selector: KeySelector
    name = "CUSTOM"
    downstream_mapper = SubtaskStateMapper.FULL
