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
from flinkray.types.records import RecordType, Timestamp


class Boundedness(enum.Enum):
    BOUNDED = "bounded"
    UNBOUNDED = "unbounded"


class SourceSplit(Protocol):
    """A part of the source's data together with the position within it; picklable. What snapshots keep."""

    @property
    def split_id(self) -> str: ...


class ReaderStatus(enum.Enum):
    NOTHING_AVAILABLE = "nothing available"
    """Ask again after the reader has called `context.notify_available()`."""
    END_OF_INPUT = "end of input"
    """All splits are read, and the enumerator has said that there are no more."""


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """A batch together with the split it came from (watermarks are made per split)."""

    batch: Batch
    split_id: str


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """What the source itself knows about a split's event time, beside what the watermark strategy makes of the rows
    (Flink's ReaderOutput.emitWatermark, markIdle and markActive)."""

    split_id: str
    watermark: Timestamp | None = None
    """No more rows at or below it; one that does not rise has no effect. It makes an idle split active."""
    is_idle: bool | None = None
    """True: the split holds no one back until it gives rows or a watermark again. None: as before."""


class SourceReaderContext(Protocol):
    """What a reader may use of its task."""

    @property
    def subtask_index(self) -> int: ...

    @property
    def parallelism(self) -> int: ...

    @property
    def attempt_number(self) -> int: ...

    @property
    def operator_name(self) -> str: ...

    @property
    def job_id(self) -> str: ...

    @property
    def batch_rows(self) -> int:
        """The target number of rows per batch."""

    @property
    def may_read_again(self) -> bool:
        """Whether the job may go back: a checkpoint or a restart may ask for rows that have been read. Else what is
        behind can be let go."""

    def now_ms(self) -> int:
        """The task's clock: epoch milliseconds. Use no other, so that tests can drive it."""

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        """Run `callback` on a timer thread after `delay_ms`; it must not block."""

    def send_split_request(self) -> None:
        """Ask the enumerator for another split."""

    def send_source_event(self, event: Any) -> None:
        """Send something of your own to the enumerator."""

    def split_finished(self, split_id: str) -> None:
        """That split is read to its end, so it no longer holds the watermark back. From the task's thread."""

    def notify_available(self) -> None:
        """From any thread: `poll` may have something now."""


class SourceReader(ABC):
    """Turns splits into batches. All methods run in the task's thread and return at once."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def poll(self) -> SourceBatch | SourceProgress | ReaderStatus:
        """The next batch (never empty), news of event time, or a status."""

    @abstractmethod
    def add_splits(self, splits: Sequence[Any]) -> None: ...

    @abstractmethod
    def notify_no_more_splits(self) -> None: ...

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """The splits not yet read to their end, each with its position."""

    def pause_or_resume_splits(self, to_pause: Sequence[str], to_resume: Sequence[str]) -> bool:
        """The watermarks of some splits are too far ahead of their alignment group, or no longer (after Flink's method
        of that name). `poll` must give nothing of paused ones; `notify_available` is called after this.

        Returns:
            Whether the reader can do that; only one that reads several splits at the same time has to.
        """
        return False

    def handle_source_event(self, event: Any) -> None:
        """The enumerator sent something."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class SplitEnumeratorContext(Protocol):
    """What an enumerator may do. Only the JobMaster's own thread calls it."""

    @property
    def parallelism(self) -> int: ...

    @property
    def registered_readers(self) -> frozenset[int]: ...

    def now_ms(self) -> int: ...

    def assign_splits(self, splits: Sequence[Any], subtask_index: int) -> None: ...

    def signal_no_more_splits(self, subtask_index: int) -> None: ...

    def send_event_to_reader(self, subtask_index: int, event: Any) -> None: ...

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        """Run `callback` in the JobMaster's thread after `delay_ms`: for splits that are found over time."""


class SplitEnumerator(ABC):
    """Finds splits and gives them to readers. Must not block."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def handle_split_request(self, subtask_index: int) -> None: ...

    @abstractmethod
    def add_reader(self, subtask_index: int) -> None: ...

    @abstractmethod
    def add_splits_back(self, splits: Sequence[Any], subtask_index: int) -> None:
        """A reader failed before these were covered by a checkpoint."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> Any:
        """What `Source.create_enumerator` needs to go on: above all the splits that no reader has. Picklable, not None.

        What was assigned before this call is in the state of the readers.
        """

    def handle_source_event(self, subtask_index: int, event: Any) -> None: ...

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None: ...

    def close(self) -> None: ...


class Source(ABC):
    """Describes a source; picklable."""

    is_stoppable: ClassVar[bool] = True
    """Whether it can be asked to end its data early, in good order."""

    @property
    @abstractmethod
    def boundedness(self) -> Boundedness: ...

    @property
    def output_type(self) -> RecordType | None:
        """The type of its rows where it is known before any is read."""
        return None

    @property
    def is_parallel(self) -> bool:
        """False: it runs in one subtask only, whatever the environment's parallelism."""
        return True

    def prepare(self) -> Source:
        """Called in the driver once per submission, before anything is shipped; gives the source to ship.

        Work that needs the driver belongs here (handing a DataFrame over, listing files).
        """
        return self

    @abstractmethod
    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        """Gives the enumerator; where the job starts from a checkpoint, `restored` is what its predecessor's
        `snapshot_state` gave, perhaps at another parallelism: readers that have splits have them in their own state."""

    @abstractmethod
    def create_reader(self, context: SourceReaderContext) -> SourceReader: ...
