"""Commits, once per checkpoint, what writers prepared for it, where these do not commit themselves."""

from __future__ import annotations

from typing import Any, NoReturn

from actors.operators.contract.operator import Operator
from actors.operators.sinks.commits import COMMITTABLES, Commits
from actors.operators.sinks.committables import decode_committables, decode_messages
from actors.protocol.elements import CheckpointOptions, LatencyMarker
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from actors.user_code.errors import NO_VALUE, raise_attributed
from flinkray.batches.batch import Batch
from flinkray.connectors.committer import END_OF_INPUT, Committer
from flinkray.transformations.operator_factories import GlobalCommitterFactory
from flinkray.types.records import MAX_TIMESTAMP, Timestamp


class GlobalCommitterOperator(Operator):
    """The only subtask behind the writers of a sink that commits globally (Flink's GlobalCommitterOperator), or each of
    those behind the pre-commit topology of a sink (its CommitterOperator).

    Writers send what they prepared for a checkpoint before its barrier, and on this exchange no barrier overtakes rows:
    once the barriers of all writers are here, so is all of that checkpoint. It is in the snapshot, and committed when
    the checkpoint is complete. What comes through a topology may have been kept on the way, or be made anew after a
    failure: it belongs to the checkpoint whose barrier comes next, whichever it was prepared for.
    """

    def __init__(self, factory: GlobalCommitterFactory) -> None:
        self._sink = factory.sink
        self._gives = factory.gives_committables
        self._takes_messages = factory.takes_messages
        self._arrived: list[Any] = []
        """What came through a topology since the last barrier."""
        self._restored: RestoredState | None = None
        self._commits: Commits | None = None
        self._unprotected: list[Any] = []
        """Committables of a job without checkpoints, which are aborted if it fails."""

    @property
    def is_available(self) -> bool:
        return self._commits is None or self._commits.keeps_up

    @property
    def may_end(self) -> bool:
        return self._commits is None or self._commits.is_settled

    @property
    def gives_after_data(self) -> bool:
        return self._gives

    def initialize_state(self, restored: RestoredState | None) -> None:
        self._restored = restored

    def open(self) -> None:
        restored, self._restored = self._restored, None
        try:
            committer = self._committer()
            give = self.output.emit if self._gives else None
            self._commits = Commits(self.context, committer, self._raise, lambda _: None, give)
            if restored is not None and (waiting := restored.items(COMMITTABLES)):
                self._commits.restore(waiting, restored.checkpoint_id)
        except BaseException as error:
            self._raise(error)

    def recover_finished(self, restored: RestoredState) -> None:
        self._restored = restored
        try:
            self.open()
        finally:
            self.close()

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if self._takes_messages:
            try:
                self._arrived.extend(decode_messages(batch))
            except BaseException as error:
                self._raise(error)
            return
        for checkpoint_id, committables in decode_committables(batch):
            if checkpoint_id == END_OF_INPUT:
                self._unprotected.extend(committables)
            self._opened.add(checkpoint_id, committables)

    def on_watermark(self, timestamp: Timestamp) -> None:
        """Watermarks end here, unless operators are behind. The last one comes there behind the last commits."""
        if self._gives and timestamp < MAX_TIMESTAMP:
            self.output.emit_watermark(timestamp)

    def process_status(self, is_idle: bool, input_index: int = 0) -> None:
        """As watermarks."""
        if self._gives:
            self.output.emit_status(is_idle)

    def process_latency_marker(self, marker: LatencyMarker) -> None:
        """Latency markers end here."""

    def finish(self) -> None:
        if not self.context.has_checkpoints:
            self._unprotected.extend(self._arrived)
            self._add_arrived(END_OF_INPUT)
            self._opened.complete_and_wait(END_OF_INPUT)
            self._unprotected = []

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot:
        self._add_arrived(checkpoint_id)
        snapshot = OperatorSnapshot()
        snapshot.add_list(COMMITTABLES, self._opened.committables(checkpoint_id))
        return snapshot

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._opened.complete(checkpoint_id)

    def close(self) -> None:
        commits, self._commits = self._commits, None
        if commits is None:
            return
        if not self.context.has_checkpoints:
            self._unprotected.extend(self._arrived)
        try:
            if self._unprotected:
                commits.abort(self._unprotected)
            commits.close()
        except BaseException as error:
            self._raise(error)

    def _committer(self) -> Committer:
        if self._sink.commits_globally:
            return self._sink.create_global_committer()
        committer = self._sink.create_committer()
        if committer is None:
            name = type(self._sink).__name__
            raise TypeError(f"{name} adds a pre-commit topology, and has no committer: let create_committer return one")
        return committer

    def _add_arrived(self, checkpoint_id: int) -> None:
        arrived, self._arrived = self._arrived, []
        self._opened.add(checkpoint_id, arrived)

    @property
    def _opened(self) -> Commits:
        assert self._commits is not None, "the task opens its operators before anything else"
        return self._commits

    def _raise(self, error: BaseException) -> NoReturn:
        raise_attributed(self.context.operator_name, self.context.subtask, NO_VALUE, error)
