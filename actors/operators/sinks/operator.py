"""Runs a sink's writer, and commits what it prepared once a checkpoint makes it last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from actors.operators.contract.operator import Operator, OperatorContext, Output
from actors.operators.sinks.changes import accepted_changes
from actors.operators.sinks.collect_writer import CollectWriter
from actors.operators.sinks.commits import COMMITTABLES, Commits
from actors.operators.sinks.committables import encode_committables, encode_messages
from actors.operators.sinks.writer_context import WriterContext
from actors.protocol.elements import CheckpointOptions, LatencyMarker
from actors.protocol.operator_events import RowsPersisted, RowsTaken
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from actors.user_code.errors import NO_VALUE, raise_attributed
from actors.user_code.functions import TaskRuntimeContext, UserFunctions
from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import short_repr
from flinkray.connectors.committer import END_OF_INPUT, CommittableSummary
from flinkray.connectors.functions.sink import SinkFunctionSink
from flinkray.connectors.sink import SinkWriter
from flinkray.transformations.operator_factories import SinkFactory
from flinkray.types.records import MAX_TIMESTAMP, Timestamp
from graphs.job_graph import OperatorCode

_WRITER = "writer"
_NO_COMMITTER = "{} adds a post-commit topology, and commits nothing: let create_committer return a committer"


class SinkOperator(Operator):
    """The end of a chain. After Flink's two-phase commit: what a writer prepares belongs to the checkpoint before whose
    barrier it was written, and is committed when that one, or a later one, is complete: here, or by a committer
    behind, to which it goes before the barrier.

    Without checkpoints it is committed when the input has ended. A task that fails or is cancelled commits nothing;
    what no checkpoint has is aborted then. What a checkpoint has is committed by the attempt that starts from it, which
    may be a second time, if this one died right after it had done so.
    """

    def __init__(self, code: OperatorCode) -> None:
        factory = code.factory
        assert isinstance(factory, SinkFactory)
        self._sink = factory.sink
        self._is_changelog = factory.is_changelog
        self._gives = factory.gives_committables
        self._gives_prepared = factory.gives_prepared
        self._commits_behind = factory.gives_prepared or factory.sink.commits_globally
        self._collects = bool(getattr(factory.sink, "needs_coordinator", False))
        self._restored: RestoredState | None = None
        self._writer: SinkWriter | None = None
        self._commits: Commits | None = None
        self._unprotected: list[Any] = []
        """Committables that no checkpoint has, and that are aborted if the task fails."""
        self._has_given_all = False
        """Whether what was prepared at the end of the input is on its way through operators of the sink."""

    @property
    def is_available(self) -> bool:
        if self._writer is not None and not self._writer.is_available:
            return False
        return self._commits is None or self._commits.keeps_up

    @property
    def may_end(self) -> bool:
        return self._commits is None or self._commits.is_settled

    @property
    def gives_after_data(self) -> bool:
        return self._gives

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        functions = [self._sink.function] if isinstance(self._sink, SinkFunctionSink) else []
        self._functions = UserFunctions(context, functions)

    def initialize_state(self, restored: RestoredState | None) -> None:
        self._restored = restored
        self._functions.initialize_state(restored)

    def open(self) -> None:
        restored, self._restored = self._restored, None
        try:
            if self._collects:
                self._writer = self._collect_writer(restored)
                return
            self._open_commits(restored, gives_restored=self._gives)
            self._functions.open(TaskRuntimeContext(self.context))
            states = None if restored is None else restored.items(_WRITER)
            restored_id = None if restored is None else restored.checkpoint_id
            self._writer = self._sink.create_writer(WriterContext(self.context, restored_id, self._raise), states)
        except BaseException as error:
            self._raise(error)

    def recover_finished(self, restored: RestoredState) -> None:
        """Commits what the checkpoint has, and brings the driver the rows that it has."""
        try:
            if self._collects:
                self._collect_writer(restored).close()
                return
            # Without committables it may be that those behind had finished too, and take nothing.
            self._open_commits(restored, gives_restored=False)
        except BaseException as error:
            self._raise(error)
        finally:
            self.close()

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if self._is_changelog:
            batch = accepted_changes(batch, self._sink.accepts, self._sink.key_columns)
            if not batch.num_rows:
                return
        try:
            self._opened_writer.write(batch)
        except BaseException as error:
            self._raise(error)

    def on_watermark(self, timestamp: Timestamp) -> None:
        """Tells the writer; watermarks end here, unless operators are behind. The last one comes there behind the last
        commits."""
        try:
            self._opened_writer.write_watermark(timestamp)
        except BaseException as error:
            self._raise(error)
        if self._commits_behind or (self._gives and timestamp < MAX_TIMESTAMP):
            self.output.emit_watermark(timestamp)

    def process_status(self, is_idle: bool, input_index: int = 0) -> None:
        """As watermarks: operators behind must not wait for those of a subtask that is idle."""
        if self._commits_behind or self._gives:
            self.output.emit_status(is_idle)

    def process_latency_marker(self, marker: LatencyMarker) -> None:
        """Latency markers end here: their latency was reported on arrival."""

    def handle_coordinator_event(self, event: Any) -> None:
        writer = self._writer
        match event:
            case RowsTaken() if isinstance(writer, CollectWriter):
                writer.on_rows_taken(event.sequence)
            case RowsPersisted() if isinstance(writer, CollectWriter):
                writer.on_rows_kept(event.sequence)
            case _:
                raise TypeError(f"sink {self.context.operator_name!r} cannot handle {event!r}")

    def finish(self) -> None:
        try:
            self._opened_writer.flush(end_of_input=True)
            if self._gives_prepared:
                # Operators of users take nothing behind the end, with whatever checkpoint it would come.
                self._give_prepared(END_OF_INPUT, self._opened_writer.prepare_commit(END_OF_INPUT))
                return
            if self.context.has_checkpoints:
                return
            prepared = self._opened_writer.prepare_commit(END_OF_INPUT)
            if self._commits_behind:
                self._give_prepared(END_OF_INPUT, prepared)
            elif prepared or self._commits is not None:
                self._unprotected = prepared
                commits = self._commits_of(prepared)
                commits.add(END_OF_INPUT, prepared)
                commits.complete_and_wait(END_OF_INPUT)
                self._unprotected = []
        except BaseException as error:
            self._raise(error)

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def prepare_barrier(self, checkpoint_id: int) -> None:
        if not self._commits_behind or self._has_given_all:
            return
        try:
            self._give_prepared(checkpoint_id, self._prepare(checkpoint_id))
        except BaseException as error:
            self._raise(error)

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot:
        snapshot = OperatorSnapshot()
        try:
            writer = self._opened_writer
            if isinstance(writer, CollectWriter):
                snapshot.add_list(_WRITER, [writer.snapshot(checkpoint_id)])
                return snapshot
            if not self._commits_behind and (prepared := self._prepare(checkpoint_id)):
                self._commits_of(prepared).add(checkpoint_id, prepared)
            snapshot.add_list(COMMITTABLES, () if self._commits is None else self._commits.committables(checkpoint_id))
            state = writer.snapshot_state(checkpoint_id)
            if state is not None:
                snapshot.add_list(_WRITER, [state])
            self._functions.snapshot_state(checkpoint_id, snapshot)
        except BaseException as error:
            self._raise(error)
        return snapshot

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if self._commits is None:
            self._on_committed(checkpoint_id)
        else:
            self._commits.complete(checkpoint_id)

    def close(self) -> None:
        writer, self._writer = self._writer, None
        commits, self._commits = self._commits, None
        steps: list[Callable[[], None]] = []
        if commits is not None:
            if self._unprotected:
                steps.append(lambda: commits.abort(self._unprotected))
            steps.append(commits.close)
        if writer is not None:
            steps.append(writer.close)
        steps.append(self._functions.close)
        errors = [error for step in steps if (error := _error_of(step)) is not None]
        if errors:
            self._raise(errors[0])

    # -- inside --------------------------------------------------------------------------------------------------

    def _open_commits(self, restored: RestoredState | None, gives_restored: bool) -> None:
        """Commits what is restored, before anything is written.

        Args:
            gives_restored: whether operators behind are told of that checkpoint also where it has nothing to commit.
        """
        committer = self._sink.create_committer()
        if committer is not None:
            give = self.output.emit if self._gives else None
            self._commits = Commits(self.context, committer, self._raise, self._on_committed, give)
        elif self._gives:
            raise TypeError(_NO_COMMITTER.format(type(self._sink).__name__))
        if restored is not None and ((waiting := restored.items(COMMITTABLES)) or gives_restored):
            self._commits_of(waiting).restore(waiting, restored.checkpoint_id)

    def _on_committed(self, checkpoint_id: int) -> None:
        # What was restored is committed before there is a writer, and the end of input is no checkpoint.
        if self._writer is None or checkpoint_id == END_OF_INPUT:
            return
        try:
            self._writer.notify_checkpoint_complete(checkpoint_id)
        except BaseException as error:
            self._raise(error)

    def _give_prepared(self, checkpoint_id: int, prepared: list[Any]) -> None:
        if not self._gives_prepared:
            self.output.emit(encode_committables(checkpoint_id, prepared))
            return
        self._has_given_all = checkpoint_id == END_OF_INPUT
        index, parallelism = self.context.subtask_index, self.context.parallelism
        summary = CommittableSummary(index, parallelism, checkpoint_id, len(prepared), 0)
        self.output.emit(encode_messages(summary, prepared))

    def _prepare(self, checkpoint_id: int) -> list[Any]:
        self._opened_writer.flush(end_of_input=False)
        return self._opened_writer.prepare_commit(checkpoint_id)

    def _commits_of(self, committables: list[Any]) -> Commits:
        if self._commits is None:
            raise TypeError(
                f"the writer of {type(self._sink).__name__} prepares commits, but the sink has no committer: let "
                f"create_committer return one, which commits such as {short_repr(committables[0])}"
            )
        return self._commits

    def _collect_writer(self, restored: RestoredState | None) -> CollectWriter:
        writer = CollectWriter(self.context)
        if restored is not None:
            writer.restore(restored.items(_WRITER), restored.is_rescaled, restored.checkpoint_id)
        return writer

    @property
    def _opened_writer(self) -> SinkWriter:
        assert self._writer is not None, "the task opens its operators before anything else"
        return self._writer

    def _raise(self, error: BaseException) -> NoReturn:
        raise_attributed(self.context.operator_name, self.context.subtask, NO_VALUE, error)


def _error_of(step: Callable[[], None]) -> BaseException | None:
    try:
        step()
    except BaseException as error:
        return error
    return None
