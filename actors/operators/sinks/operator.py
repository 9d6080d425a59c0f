"""Runs a sink's writer, and commits what it prepared once a checkpoint makes it last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from actors.operators.contract.connector_context import ConnectorContext
from actors.operators.contract.operator import Operator, OperatorContext, Output
from actors.operators.sinks.collect_writer import CollectWriter
from actors.protocol.elements import CheckpointOptions, LatencyMarker
from actors.protocol.operator_events import RowsPersisted, RowsTaken
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from actors.user_code.errors import NO_VALUE, raise_attributed
from actors.user_code.functions import TaskRuntimeContext, UserFunctions
from flinkray.batches.batch import Batch
from flinkray.connectors.functions.sink import SinkFunctionSink
from flinkray.connectors.sink import Committer, SinkWriter
from flinkray.transformations.operator_factories import SinkFactory
from flinkray.types.records import Timestamp
from graphs.job_graph import OperatorCode

_COMMITTABLES = "committables"
"""Name of the part with (checkpoint id, committables) of everything that is prepared and not yet committed."""
_WRITER = "writer"


class SinkOperator(Operator):
    """The end of a chain. After Flink's two-phase commit: what a writer prepares belongs to the checkpoint before whose
    barrier it was written, and is committed when that one, or a later one, is complete.

    Without checkpoints it is committed when the input has ended. A task that fails or is cancelled commits nothing;
    what no checkpoint has is aborted then. What a checkpoint has is committed by the attempt that starts from it, which
    may be a second time, if this one died right after it had done so.
    """

    def __init__(self, code: OperatorCode) -> None:
        factory = code.factory
        assert isinstance(factory, SinkFactory)
        self._sink = factory.sink
        self._collects = bool(getattr(factory.sink, "needs_coordinator", False))
        self._restored_committables: list[Any] = []
        self._restored_states: list[Any] | None = None
        self._is_rescaled = False
        self._restored_id = 0
        self._writer: SinkWriter | None = None
        self._committer: Committer | None = None
        self._prepared: dict[int, list[Any]] = {}
        """Checkpoint -> the committables that its completion commits, ascending. Those of a checkpoint that failed are
        committed with the next one."""
        self._unprotected: list[Any] = []
        """Committables that no checkpoint has, and that are aborted if the task fails."""

    @property
    def is_available(self) -> bool:
        return not isinstance(self._writer, CollectWriter) or self._writer.is_available

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        functions = [self._sink.function] if isinstance(self._sink, SinkFunctionSink) else []
        self._functions = UserFunctions(context, functions)

    def initialize_state(self, restored: RestoredState | None) -> None:
        self._restore(restored)
        self._functions.initialize_state(restored)

    def _restore(self, restored: RestoredState | None) -> None:
        if restored is not None:
            self._restored_committables = [each for _, prepared in restored.items(_COMMITTABLES) for each in prepared]
            self._restored_states = restored.items(_WRITER)
            self._is_rescaled = restored.is_rescaled
            self._restored_id = restored.checkpoint_id

    def open(self) -> None:
        committables, self._restored_committables = self._restored_committables, []
        states, self._restored_states = self._restored_states, None
        try:
            if self._collects:
                self._writer = self._collect_writer(states)
                return
            self._committer = self._sink.create_committer()
            self._commit(committables)
            self._functions.open(TaskRuntimeContext(self.context))
            self._writer = self._sink.create_writer(ConnectorContext(self.context), states)
        except BaseException as error:
            self._raise(error)

    def recover_finished(self, restored: RestoredState) -> None:
        """Commits what the checkpoint has, and brings the driver the rows that it has."""
        self._restore(restored)
        try:
            if self._collects:
                self._collect_writer(self._restored_states).close()
                return
            self._committer = self._sink.create_committer()
            self._commit(self._restored_committables)
        except BaseException as error:
            self._raise(error)
        finally:
            self.close()

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        try:
            self._opened_writer.write(batch)
        except BaseException as error:
            self._raise(error)

    def on_watermark(self, timestamp: Timestamp) -> None:
        """Watermarks end here."""

    def process_status(self, is_idle: bool, input_index: int = 0) -> None:
        """Statuses end here."""

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
            if not self.context.has_checkpoints:
                self._unprotected = self._opened_writer.prepare_commit()
                self._commit_prepared(None)
                self._commit(self._unprotected)
                self._unprotected = []
        except BaseException as error:
            self._raise(error)

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot:
        snapshot = OperatorSnapshot()
        try:
            writer = self._opened_writer
            if isinstance(writer, CollectWriter):
                snapshot.add_list(_WRITER, [writer.snapshot(checkpoint_id)])
                return snapshot
            writer.flush(end_of_input=False)
            if prepared := writer.prepare_commit():
                self._prepared[checkpoint_id] = list(prepared)
            snapshot.add_list(_COMMITTABLES, self._prepared.items())
            state = writer.snapshot_state(checkpoint_id)
            if state is not None:
                snapshot.add_list(_WRITER, [state])
            self._functions.snapshot_state(checkpoint_id, snapshot)
        except BaseException as error:
            self._raise(error)
        return snapshot

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        try:
            self._commit_prepared(checkpoint_id)
            self._opened_writer.notify_checkpoint_complete(checkpoint_id)
        except BaseException as error:
            self._raise(error)

    def close(self) -> None:
        writer, self._writer = self._writer, None
        committer, self._committer = self._committer, None
        steps: list[Callable[[], None]] = []
        if committer is not None:
            if self._unprotected:
                steps.append(lambda: committer.abort(self._unprotected))
            steps.append(committer.close)
        if writer is not None:
            steps.append(writer.close)
        steps.append(self._functions.close)
        errors = [error for step in steps if (error := _error_of(step)) is not None]
        if errors:
            self._raise(errors[0])

    # -- inside --------------------------------------------------------------------------------------------------

    def _commit_prepared(self, up_to: int | None) -> None:
        """Commits what was prepared for that checkpoint and all before it; None: for all."""
        due = [each for each in self._prepared if up_to is None or each <= up_to]
        self._commit([each for checkpoint_id in due for each in self._prepared[checkpoint_id]])
        for checkpoint_id in due:
            del self._prepared[checkpoint_id]

    def _commit(self, committables: list[Any]) -> None:
        if not committables:
            return
        if self._committer is None:
            raise TypeError(
                f"the writer of {type(self._sink).__name__} prepares commits, but the sink has no committer: let "
                "create_committer return one"
            )
        self._committer.commit(committables)

    def _collect_writer(self, states: list[Any] | None) -> CollectWriter:
        writer = CollectWriter(self.context)
        if states is not None:
            writer.restore(states, self._is_rescaled, self._restored_id)
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
