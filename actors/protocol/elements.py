"""What flows between tasks: batches of rows, and the events that travel in order with them."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from flinkray.types.records import Timestamp

if TYPE_CHECKING:  # masters and workers, which only hand batches on, do without Arrow
    from flinkray.batches.batch import Batch


class Watermark(Struct, frozen=True):
    """No more rows with an event time at or below `timestamp` will come."""

    timestamp: Timestamp


class WatermarkStatus(Struct, frozen=True):
    """IDLE before falling silent, ACTIVE before rows or watermarks again."""

    is_idle: bool


IDLE = WatermarkStatus(is_idle=True)
ACTIVE = WatermarkStatus(is_idle=False)


class LatencyMarker(Struct, frozen=True):
    """Made by a source, forwarded past user functions to one random channel of one random output."""

    marked_ms: int
    operator_id: str
    subtask_index: int


class StopMode(enum.Enum):
    """Whether a savepoint ends the job, and how."""

    GO_ON = "go on"
    SUSPEND = "suspend"
    """Sources stop at the barrier; event time stays where it is."""
    DRAIN = "drain"
    """Sources stop at the barrier with MAX_TIMESTAMP, so that all windows and timers fire before it."""


class CheckpointOptions(Struct, frozen=True):
    """How a checkpoint is taken (Flink's CheckpointOptions)."""

    is_savepoint: bool = False
    """It is in the format that every backend reads, aligned, and in a directory of its own."""
    is_exactly_once: bool = True
    """False: channels do not wait for each other's barriers."""
    is_unaligned: bool = False
    """Barriers overtake rows from the start."""
    aligned_timeout_ms: int | None = None
    """An aligned barrier becomes an unaligned one when this has passed since the trigger; None: never."""
    stop: StopMode = StopMode.GO_ON
    directory: str = ""
    """URI of the checkpoint's directory; empty: state goes with the acknowledgement."""
    shared_directory: str = ""
    """URI of the directory for files that several checkpoints use; empty: nothing is shared."""


class CheckpointBarrier(Struct, frozen=True):
    """Separates the rows before a checkpoint from those after it."""

    checkpoint_id: int
    timestamp_ms: int
    options: CheckpointOptions = CheckpointOptions()
    may_overtake: bool = True
    """False: on this exchange it stays behind the rows, whatever the options say (Flink's forced alignment)."""

    @property
    def overtakes(self) -> bool:
        """It goes before all rows that wait."""
        return self.options.is_unaligned and self.may_overtake

    @property
    def blocks_channel(self) -> bool:
        """Aligned: nothing behind it may be read until the consumer has handled it."""
        return self.options.is_exactly_once and not self.overtakes

    @property
    def may_turn_unaligned(self) -> bool:
        """It waits behind rows, and may overtake them once it has waited for long."""
        return self.blocks_channel and self.may_overtake


class CancelCheckpointMarker(Struct, frozen=True):
    """The checkpoint will not be completed; stop waiting for its barriers."""

    checkpoint_id: int


class EndOfData(Struct, frozen=True):
    """All rows of this channel have come; a last checkpoint may still follow. `should_drain`: timers fire first."""

    should_drain: bool = True


class EndOfPartition(Struct, frozen=True):
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
Element: TypeAlias = "Batch | Event"
