"""The contract of a sink: one writer per subtask; for exactly-once sinks also what is prepared and committed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

from flinkray.batches.batch import Batch


class SinkWriterContext(Protocol):
    """What a writer may use of its task."""

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

    def now_ms(self) -> int: ...


class SinkWriter(ABC):
    """Takes batches. All methods run in the task's thread."""

    @abstractmethod
    def write(self, batch: Batch) -> None: ...

    def flush(self, end_of_input: bool) -> None:
        """Write through what is buffered: before a checkpoint, and at the end of input."""

    def prepare_commit(self) -> list[Any]:
        """What must be committed once the coming checkpoint is complete (picklable); empty: nothing."""
        return []

    def snapshot_state(self, checkpoint_id: int) -> Any:
        """What the writer needs to go on from here, besides what it has prepared (picklable); None: nothing."""
        return None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """What was prepared for this checkpoint and all earlier ones is committed."""

    @abstractmethod
    def close(self) -> None:
        """Release everything; called also when the task failed or was cancelled."""


class Committer(ABC):
    """Makes prepared output visible. Committing twice must be the same as once."""

    @abstractmethod
    def commit(self, committables: Sequence[Any]) -> None: ...

    def abort(self, committables: Sequence[Any]) -> None:
        """Drop what was prepared but never acknowledged."""

    def close(self) -> None: ...


class Sink(ABC):
    """Describes a sink; picklable."""

    def prepare(self) -> Sink:
        """Called in the driver once per submission, before anything is shipped; gives the sink to ship."""
        return self

    @abstractmethod
    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        """
        Args:
            restored: where the task starts from a checkpoint, the list of what `snapshot_state` gave there: of one
                former writer, or after a change of the parallelism of none or several; else None. What they had
                prepared has been committed by then.
        """

    def create_committer(self) -> Committer | None:
        """None: the sink has no second phase (what it writes is visible at once)."""
        return None
