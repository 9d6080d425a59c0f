"""The contract of a source: splits, an enumerator at the JobMaster, readers in the tasks (Flink's FLIP-27).

A source is described by a picklable `Source`. The JobMaster has one `SplitEnumerator` of it, which finds splits and
assigns them; every source subtask has one `SourceReader`, which turns its splits into batches. A reader never blocks:
what has to wait (a socket, a blocking generator) waits on a thread of the reader's own.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from flinkray.batches.batch import Batch
from flinkray.connectors.subtask import SubtaskContext
from flinkray.types.records import RecordType, Timestamp


class Boundedness(enum.Enum):
    """Whether a source ends by itself. A program runs in batch mode only where all of its sources do."""

    BOUNDED = "bounded"
    UNBOUNDED = "unbounded"


class SourceSplit(Protocol):
    """A part of the source's data together with the position within it. Picklable: it is what snapshots keep."""

    @property
    def split_id(self) -> str:
        """Names the part: unique within the source, and the same at every position."""


class ReaderStatus(enum.Enum):
    """What `SourceReader.poll` gives where it has no batch."""

    NOTHING_AVAILABLE = "nothing available"
    """Ask again after the reader has called `context.notify_available()`."""
    END_OF_INPUT = "end of input"
    """All splits are read, and the enumerator has said that there are no more."""


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """A batch together with the split it came from, since watermarks are made per split."""

    batch: Batch
    """The rows; at least one."""
    split_id: str


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """What the source itself knows about a split's event time, beside what the watermark strategy makes of the rows
    (Flink's ReaderOutput.emitWatermark, markIdle and markActive)."""

    split_id: str
    watermark: Timestamp | None = None
    """No more rows of the split have event time at or below it (epoch milliseconds). It makes an idle split active; one
    that is not above the last has no effect."""
    is_idle: bool | None = None
    """True: the split holds the watermark of others back no more, until it gives rows or a watermark again. False: it
    does. None: as before."""


class SourceReaderContext(SubtaskContext, Protocol):
    """What a reader may use of its task. From the task's thread, except for `notify_available`."""

    @property
    def batch_rows(self) -> int:
        """The number of rows that batches aim at (option `flinkray.batch.target-rows`)."""

    @property
    def may_read_again(self) -> bool:
        """Whether the job may go back, since a checkpoint or a restart may ask for rows again that have been read.
        False: what has been read can be let go."""

    @property
    def has_checkpoints(self) -> bool:
        """Whether the job takes checkpoints, so that `notify_checkpoint_complete` is going to be called."""

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        """Runs `callback` on a timer thread after `delay_ms` milliseconds; it must not block."""

    def send_split_request(self) -> None:
        """Asks the enumerator for another split; `handle_split_request` is called there."""

    def send_source_event(self, event: Any) -> None:
        """Sends a picklable value to the enumerator, whose `handle_source_event` gets it."""

    def split_finished(self, split_id: str) -> None:
        """Says that a split has been read to its end, so that it no longer holds the watermark back."""

    def notify_available(self) -> None:
        """Says, from any thread, that `poll` may have something now."""


class SourceReader(ABC):
    """Turns splits into batches. All methods are called by the task's thread, and return at once."""

    @abstractmethod
    def start(self) -> None:
        """Called once, before `poll`; where the task is restored, `add_splits` has been called with what was saved."""

    @abstractmethod
    def poll(self) -> SourceBatch | SourceProgress | ReaderStatus:
        """The next batch (never an empty one), news of event time, or a status."""

    @abstractmethod
    def add_splits(self, splits: Sequence[Any]) -> None:
        """Splits that the enumerator has assigned, or that a checkpoint holds: read on at the position of each."""

    @abstractmethod
    def notify_no_more_splits(self) -> None:
        """The enumerator will assign no further split: when those that are here are read, the input has ended."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """The splits that are not yet read to their end, each with the position after the last batch that `poll` gave.
        Picklable; a restored reader gets them through `add_splits`, perhaps those of several readers."""

    def pause_or_resume_splits(self, to_pause: Sequence[str], to_resume: Sequence[str]) -> bool:
        """The watermarks of some splits are too far ahead of their alignment group, or no longer (after Flink's method
        of that name). `poll` must give nothing of splits that are paused; the task polls again after this call.

        Args:
            to_pause, to_resume: ids of splits.

        Returns:
            Whether the reader can do that; only one that reads several splits at the same time has to.
        """
        return False

    def pending_rows(self) -> int | None:
        """How many rows wait to be given, for monitoring (pendingRecords of Flink's FLIP-33); None: it is not known.
        Asked now and then, on another thread: it reads plain values that others write."""
        return None

    def pending_bytes(self) -> int | None:
        """As `pending_rows`, where a source knows bytes (pendingBytes)."""
        return None

    def handle_source_event(self, event: Any) -> None:
        """The enumerator has sent something (`SplitEnumeratorContext.send_event_to_reader`)."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """A checkpoint that this reader took part in is complete: the job never goes back to before it, except by a
        savepoint or an older checkpoint that a user restores."""

    @abstractmethod
    def close(self) -> None:
        """Releases everything; called also when the task failed or was cancelled."""


class SplitEnumeratorContext(Protocol):
    """What an enumerator may do, in the thread that calls it."""

    @property
    def parallelism(self) -> int:
        """The number of subtasks of the source."""

    @property
    def registered_readers(self) -> frozenset[int]:
        """The indices of the subtasks whose readers run: only these can be assigned splits or sent events."""

    def now_ms(self) -> int:
        """The JobMaster's clock: epoch milliseconds. Use no other, so that tests can drive it."""

    def assign_splits(self, splits: Sequence[Any], subtask_index: int) -> None:
        """Gives splits to a reader, whose `add_splits` gets them in this order; from then on they are its own state."""

    def signal_no_more_splits(self, subtask_index: int) -> None:
        """Says to a reader that it gets no further split, so that it ends when it has read those that it has."""

    def send_event_to_reader(self, subtask_index: int, event: Any) -> None:
        """Sends a picklable value to a reader, whose `handle_source_event` gets it."""

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        """Runs `callback` in the enumerator's thread after `delay_ms` milliseconds: for splits that are found over
        time."""


class SplitEnumerator(ABC):
    """Finds splits and gives them to readers.

    One thread of the JobMaster's process, which it has for itself, creates it and makes all calls. While one blocks, no
    reader gets anything, and no checkpoint completes.
    """

    @abstractmethod
    def start(self) -> None:
        """Called once, before any reader registers."""

    @abstractmethod
    def handle_split_request(self, subtask_index: int) -> None:
        """A reader asks for a split: assign one, now or later, or say that there are no more."""

    @abstractmethod
    def add_reader(self, subtask_index: int) -> None:
        """The reader of a subtask has registered, for the first time or again after a failure."""

    @abstractmethod
    def add_splits_back(self, splits: Sequence[Any], subtask_index: int) -> None:
        """A reader failed before a checkpoint covered these splits, which it had been assigned: they are to be assigned
        again, to any reader."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> Any:
        """What `Source.create_enumerator` needs to go on: above all the splits that no reader has. Picklable, not None.

        What was assigned before this call is in the state of the readers.
        """

    def handle_source_event(self, subtask_index: int, event: Any) -> None:
        """A reader has sent something (`SourceReaderContext.send_source_event`)."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """A checkpoint of the job is complete."""

    def close(self) -> None:
        """Releases everything; called when the job has ended, or before the enumerator is made anew."""


class Source(ABC):
    """Describes a source for `from_source`. Picklable: it is shipped to the JobMaster and to every subtask."""

    is_stoppable: ClassVar[bool] = True
    """Whether it can be asked to end its data early and in good order, as stop_with_savepoint does."""

    has_times_by_split: ClassVar[bool] = False
    """Whether times go on within each split, while splits that are read beside each other may be at different times: so
    that watermarks of tables are made of each."""

    may_end: ClassVar[bool] = False
    """Whether it may come to an end though it is unbounded, as a function that returns, or a socket that is closed."""

    @property
    @abstractmethod
    def boundedness(self) -> Boundedness:
        """Whether the source ends by itself."""

    @property
    def output_type(self) -> RecordType | None:
        """The type of its rows, where it is known before any row is read; None: the first batch says."""
        return None

    @property
    def is_parallel(self) -> bool:
        """False: it runs in one subtask only, whatever the environment's parallelism."""
        return True

    @property
    def is_changelog(self) -> bool:
        """Whether its batches may have `kinds`, since its rows update and delete earlier ones."""
        return False

    def reading(self, fields: frozenset[str]) -> Source:
        """The source for who looks at some columns only: it may give null in place of all others.

        Args:
            fields: names of columns, and `column.field` of fields of rows, at any depth.
        Returns:
            A source with the same columns; this one where nothing would be saved.
        """
        return self

    def prepare(self) -> Source:
        """Called in the driver once per submission, before anything is shipped; gives the source to ship.

        Work that needs the driver belongs here (handing a DataFrame over, listing files).
        """
        return self

    @abstractmethod
    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        """The job's enumerator, made in its own thread at the JobMaster.

        Args:
            restored: where the job starts from a checkpoint, what the former enumerator's `snapshot_state` gave,
                perhaps at another parallelism; else None. Splits that readers had are in the readers' own state.
        """

    @abstractmethod
    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        """The reader of one subtask, made in the task's thread."""
