"""What flows between tasks: batches of rows, and the events that travel in order with them."""

from __future__ import annotations

from dataclasses import dataclass

from flinkray.batch import Batch
from flinkray.types import Timestamp


@dataclass(frozen=True, slots=True)
class Watermark:
    """No more rows with an event time at or below `timestamp` will come."""

    timestamp: Timestamp


@dataclass(frozen=True, slots=True)
class WatermarkStatus:
    """IDLE before falling silent, ACTIVE before rows or watermarks again."""

    is_idle: bool


IDLE = WatermarkStatus(is_idle=True)
ACTIVE = WatermarkStatus(is_idle=False)


@dataclass(frozen=True, slots=True)
class LatencyMarker:
    """Made by a source, forwarded past user functions to one random channel per output."""

    marked_ms: int
    operator_id: str
    subtask_index: int


@dataclass(frozen=True, slots=True)
class CheckpointBarrier:
    """Separates the rows before a checkpoint from those after it."""

    checkpoint_id: int
    timestamp_ms: int
    is_exactly_once: bool = True
    is_unaligned: bool = False


@dataclass(frozen=True, slots=True)
class CancelCheckpointMarker:
    """The checkpoint will not be completed; stop waiting for its barriers."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class EndOfData:
    """All rows of this channel have come; a last checkpoint may still follow. `should_drain`: timers fire first."""

    should_drain: bool = True


@dataclass(frozen=True, slots=True)
class EndOfPartition:
    """Nothing will come on this channel any more."""


Event = (
    Watermark
    | WatermarkStatus
    | LatencyMarker
    | CheckpointBarrier
    | CancelCheckpointMarker
    | EndOfData
    | EndOfPartition
)
Element = Batch | Event
