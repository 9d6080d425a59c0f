"""The contract of a sink: one writer per subtask; for exactly-once sinks also who commits what writers prepare."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from flinkray.batches.batch import Batch
from flinkray.connectors.committer import Committer
from flinkray.connectors.delivery_guarantee import DeliveryGuarantee
from flinkray.connectors.subtask import SubtaskContext
from flinkray.types.changelogs import ChangelogMode


class SinkWriterContext(SubtaskContext, Protocol):
    """What a writer may use of its task, in the task's thread."""

    @property
    def restored_checkpoint_id(self) -> int | None:
        """The checkpoint from which the task starts; None: from none."""

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> None:
        """Calls it in the task's thread after so many milliseconds, unless the task has ended by then."""

    def run_async(
        self, begin: Callable[[], Coroutine[Any, Any, Any]], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Runs the coroutine that `begin` gives on an event loop of the writer's own, which has a thread for itself;
        then calls `done` in the task's thread, with what it gave or raised. What `done` raises fails the task."""

    def end_async(self, last: Coroutine[Any, Any, None]) -> None:
        """Cancels all coroutines, runs the last one, waits for it for a moment, and ends the event loop."""

    def yield_to_mailbox(self) -> None:
        """Waits until something that was asked for here has been called, and calls that."""

    def gauge_function(self, name: str, read: Callable[[], float | None]) -> None:
        """A figure of the operator that is read when figures are reported, on another thread; None: there is none."""


class SinkWriter(ABC):
    """Takes batches. All methods are called by the task's thread, which handles nothing else meanwhile.

    At a checkpoint the order is `flush`, `prepare_commit`, `snapshot_state`, and later `notify_checkpoint_complete`.
    """

    @property
    def is_available(self) -> bool:
        """Whether more rows are wanted; looked at before rows are handed over, and after each call of this writer that
        its context was asked for. While not, the input is held back, and the task counts as back-pressured."""
        return True

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Takes the rows of a batch, in order. It may block, which holds the input back."""

    def write_watermark(self, timestamp: int) -> None:
        """No more rows are expected that are as old as this, in epoch milliseconds; it grows from call to call."""

    def flush(self, end_of_input: bool) -> None:
        """Writes through what is buffered: before a checkpoint, and at the end of input."""

    def prepare_commit(self, checkpoint_id: int) -> list[Any]:
        """The committables, which are committed once that checkpoint is complete, or a later one.

        Args:
            checkpoint_id: the checkpoint whose barrier comes next; `committer.END_OF_INPUT` at the end of a job without
                checkpoints.

        Returns:
            Picklable values; empty: there is nothing to commit.
        """
        return []

    def snapshot_state(self, checkpoint_id: int) -> Any:
        """What the writer needs to go on from here, besides what it has prepared. Picklable; None: nothing."""
        return None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """What was prepared for this checkpoint and all earlier ones is committed."""

    @abstractmethod
    def close(self) -> None:
        """Releases everything; called also when the task failed or was cancelled."""


class Sink(ABC):
    """Describes a sink for `sink_to`. Picklable: it is shipped to every subtask."""

    @property
    def accepts(self) -> ChangelogMode:
        """Which kinds of rows its writers take; a changelog of others is refused before anything runs.

        Where that is more than inserts, each batch of a changelog has `kinds`, and none of a stream of inserts has.
        With UPSERT the rows as they were before an update are left out, or -D where no row of the same key is behind
        them, and `key_columns` must be given.
        """
        return ChangelogMode.INSERT_ONLY

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns by which one row replaces another. Where the sink has another parallelism than what is before it,
        rows with the same values in them come to the same writer, in order; empty: there are none."""
        return ()

    @property
    def is_parallel(self) -> bool:
        """False: it runs in one subtask only, whatever the environment's parallelism."""
        return True

    def prepare(self) -> Sink:
        """Called in the driver once per submission, before anything is shipped; gives the sink to ship, which
        has the same `commits_globally`."""
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
        """What commits, in each subtask, what the writer of that subtask prepared; None: nothing is committed there.

        With neither this nor a global committer the sink has no second phase: what it writes is visible at once.
        """
        return None

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        """What the sink promises in a job with checkpoints."""
        return DeliveryGuarantee.AT_LEAST_ONCE

    @property
    def commits_globally(self) -> bool:
        """Whether one committer gets what the writers of all subtasks prepared: `create_global_committer`."""
        return False

    def create_global_committer(self) -> Committer:
        """What commits, once per checkpoint, what all writers prepared for it; called in one task of its own.

        For systems that know one commit per checkpoint, such as tables in a lake.
        """
        raise NotImplementedError(f"{type(self).__name__} says that it commits globally, and has no global committer")


class SupportsPreWriteTopology(ABC):
    """A second base for a `Sink` that has operators of its own before its writers."""

    @abstractmethod
    def add_pre_write_topology(self, rows: Any) -> Any:
        """Called in the driver for each submission and each plan.

        Args:
            rows: the DataStream that goes into the sink.

        Returns:
            The DataStream that its writers get. Its operators have the parallelism and the slot sharing group of the
            sink where they set none, and names and uids that begin with the sink's.
        """


class SupportsPreCommitTopology(ABC):
    """A second base for a `Sink` with a committer, local or global, that changes what its writers have prepared before
    it is committed: puts small files together, say.

    Its committer is an operator of its own then, behind those that the sink adds here. What comes to it before the
    barrier of a checkpoint is committed when that checkpoint is complete, whenever it was prepared.
    """

    @abstractmethod
    def add_pre_commit_topology(self, committables: Any) -> Any:
        """Called in the driver for each submission and each plan.

        Args:
            committables: a DataStream of `CommittableSummary` and `CommittableWithLineage`: with each checkpoint, and
                at the end of the input, each writer gives a summary and what it has prepared. It has no event time.

        Returns:
            The DataStream whose `CommittableWithLineage` are committed; summaries may be on it, and say nothing there.
            Operators may keep committables in their state, and give them or others with a later checkpoint; what
            they drop is never committed. They get settings as those before the writers do.
        """


class SupportsPostCommitTopology(ABC):
    """A second base for a `Sink` with a committer, local or global, that goes on with what it has committed."""

    @abstractmethod
    def add_post_commit_topology(self, committables: Any) -> None:
        """Called in the driver for each submission and each plan.

        Args:
            committables: a DataStream of `CommittableSummary` and `CommittableWithLineage`, without event time. After a
                failure those come again that the checkpoint has from which the job starts, and all later ones; state
                and sinks that write exactly once have each of them once. It ends when all is committed. Operators on
                it get settings as those before the writers do.
        """
