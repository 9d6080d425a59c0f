"""What operators and their coordinators at the JobMaster say to each other (Flink's OperatorEvent).

They travel in OperatorEventSent and DeliverOperatorEvent of `actors.protocol.task_messages`. Events are in the past
tense, commands in the imperative.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from flinkray.types.records import Timestamp

if TYPE_CHECKING:  # with it, masters and workers would load Arrow
    from flinkray.batches.batch import Batch


# -- a source and its coordinator --------------------------------------------------------------------------------


class ReaderRegistered(Struct, frozen=True):
    """Source operator -> coordinator: the reader of this subtask is there."""

    subtask_index: int


class SplitRequested(Struct, frozen=True):
    """Source operator -> coordinator: the reader of this subtask has no split left."""

    subtask_index: int


class SourceEvent(Struct, frozen=True):
    """Source operator <-> coordinator: an event of the user's own."""

    subtask_index: int
    event: Any


class AddSplits(Struct, frozen=True):
    """Coordinator -> source operator: read these as well. `splits_bytes` is the pickled list of splits."""

    splits_bytes: bytes


class NoMoreSplits(Struct, frozen=True):
    """Coordinator -> source operator: the reader has all splits that it will ever get."""


class WatermarkReported(Struct, frozen=True):
    """Source operator -> coordinator, periodically where its strategy aligns: how far the subtask has come."""

    watermark: Timestamp


class WatermarkLimited(Struct, frozen=True):
    """Coordinator -> source operator: while its watermark is above this, it reads no more."""

    highest: Timestamp


# -- a collecting sink and its coordinator -----------------------------------------------------------------------


class RowsCollected(Struct, frozen=True):
    """Collect sink -> coordinator: rows for the driver. `sequence` counts per subtask."""

    subtask_index: int
    sequence: int
    batch: Batch
    former: tuple[tuple[int, int], ...] = ()
    """(subtask, sequence) that these rows had before each change of the parallelism since, the latest first."""


class RowsCut(Struct, frozen=True):
    """Collect sink -> coordinator, at each barrier: what has a lower sequence than this is before it."""

    checkpoint_id: int
    sequence: int


class RowsTaken(Struct, frozen=True):
    """Coordinator -> collect sink: it needs no room any more for what is up to this sequence; more may be sent.

    Without checkpoints the driver has taken all of it.
    """

    sequence: int


class RowsPersisted(Struct, frozen=True):
    """Coordinator -> collect sink: a complete checkpoint has what is below this sequence in its state, or,
    without checkpoints, the driver has it.

    Later snapshots of the sink need not have it. What is not below is sent again by a sink that is restored.
    """

    sequence: int
