"""The contract of a sink: one writer per subtask; for exactly-once sinks also what is prepared and committed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

from flinkray.batches.batch import Batch
from flinkray.connectors.subtask import SubtaskContext


class SinkWriterContext(SubtaskContext, Protocol):
    """What a writer may use of its task, in the task's thread."""


class SinkWriter(ABC):
    """Takes batches. All methods are called by the task's thread, which handles nothing else meanwhile.

    At a checkpoint the order is `flush`, `prepare_commit`, `snapshot_state`, and later `notify_checkpoint_complete`.
    """

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Takes the rows of a batch, in order. It may block, which holds the input back."""

    def flush(self, end_of_input: bool) -> None:
        """Writes through what is buffered: before a checkpoint, and at the end of input."""

    def prepare_commit(self) -> list[Any]:
        """The committables, which are committed once the coming checkpoint is complete. Picklable; empty: nothing."""
        return []

    def snapshot_state(self, checkpoint_id: int) -> Any:
        """What the writer needs to go on from here, besides what it has prepared. Picklable; None: nothing."""
        return None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """What was prepared for this checkpoint and all earlier ones is committed."""

    @abstractmethod
    def close(self) -> None:
        """Releases everything; called also when the task failed or was cancelled."""


class Committer(ABC):
    """Makes prepared output visible. All methods are called by the task's thread.

    Committing the same twice must do no more than once, since a failure may repeat it.
    """

    @abstractmethod
    def commit(self, committables: Sequence[Any]) -> None:
        """Makes visible what writers have prepared.

        Raises:
            Exception: it cannot be done now; the job fails, and after a restart commits it again.
        """

    def abort(self, committables: Sequence[Any]) -> None:
        """Drops what was prepared and is never going to be committed."""

    def close(self) -> None:
        """Releases everything."""


class Sink(ABC):
    """Describes a sink for `sink_to`. Picklable: it is shipped to every subtask."""

    def prepare(self) -> Sink:
        """Called in the driver once per submission, before anything is shipped; gives the sink to ship."""
        return self

    @abstractmethod
    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        """The writer of one subtask, made in the task's thread.

        Args:
            restored: where the task starts from a checkpoint, the list of what `snapshot_state` gave there: of one
                former writer, or after a change of the parallelism of none or several; else None. What they had
                prepared has been committed by then.
        """

    def create_committer(self) -> Committer | None:
        """What commits; None: the sink has no second phase, so what it writes is visible at once."""
        return None
