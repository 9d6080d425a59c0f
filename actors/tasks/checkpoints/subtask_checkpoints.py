"""What a task does for its checkpoints off its own thread: it writes snapshots, and acknowledges or declines them."""

from __future__ import annotations

import enum
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from actors.protocol.checkpoint_handles import CheckpointMetrics, OperatorSubtaskState, StatePart, TaskSnapshot
from actors.protocol.elements import CheckpointBarrier
from actors.protocol.task_messages import AcknowledgeCheckpoint, DeclineCheckpoint, TaskDeployment
from actors.state.snapshots.snapshot import OperatorSnapshot, PendingPart
from actors.tasks.chain.task_services import SnapshotWriter, TaskServices
from actors.tasks.checkpoints.in_flight import InFlightPart
from flinkray.errors import ErrorInfo, make_printable, message_of
from flinkray.types.records import OperatorId

log = logging.getLogger(__name__)


class SubtaskCheckpoints:
    """The checkpoints of one task between their snapshot and their acknowledgement; there may be several.

    Each is acknowledged, or declined with the error of writing it, or aborted without a word. In any case nothing of it
    is held afterwards, and no file is left that nobody will refer to.

    Args:
        head: the operator whose state rows in flight belong to.
        inline_bytes: how much state may travel in the acknowledgement.
    """

    def __init__(self, deployment: TaskDeployment, services: TaskServices, head: OperatorId, inline_bytes: int) -> None:
        self._deployment = deployment
        self._services = services
        self._head = head
        self._inline_bytes = inline_bytes
        self._lock = threading.Condition()
        self._pending: dict[int, _PendingSnapshot] = {}

    def begin(
        self,
        barrier: CheckpointBarrier,
        snapshots: Mapping[OperatorId, OperatorSnapshot],
        in_flight: Iterable[InFlightPart],
        metrics: CheckpointMetrics,
        *,
        is_finished: bool,
        is_at_end: bool,
        waits_for: Iterable[str] = (),
    ) -> None:
        """Takes over the snapshot of a task, and writes it as soon as everything in `waits_for` has been added."""
        pending = _PendingSnapshot(
            barrier=barrier,
            snapshots=snapshots,
            in_flight=list(in_flight),
            metrics=metrics,
            is_finished=is_finished,
            is_at_end=is_at_end,
            waits_for=set(waits_for),
            begun_ms=self._services.clock.monotonic_ms(),
        )
        with self._lock:
            assert barrier.checkpoint_id not in self._pending, f"checkpoint {barrier.checkpoint_id} was begun already"
            self._pending[barrier.checkpoint_id] = pending
        self._write_if_ready(pending)

    def add(
        self, checkpoint_id: int, what: str, rows: Iterable[InFlightPart] = (), alignment_ms: float | None = None
    ) -> None:
        """Adds something that a checkpoint waits for. Without effect if it does not, or was aborted."""
        with self._lock:
            pending = self._pending.get(checkpoint_id)
            if pending is None or what not in pending.waits_for:
                return
            pending.waits_for.discard(what)
            pending.in_flight += rows
            if alignment_ms is not None:
                pending.metrics = replace(pending.metrics, alignment_ms=alignment_ms)
        self._write_if_ready(pending)

    def waits_for(self, checkpoint_id: int, what: str) -> bool:
        """Whether a checkpoint waits for something that is to be added."""
        with self._lock:
            pending = self._pending.get(checkpoint_id)
            return pending is not None and what in pending.waits_for

    def abort(self, checkpoint_id: int) -> None:
        """Gives up a checkpoint that will not complete. Any thread; without effect if there is no such checkpoint."""
        with self._lock:
            pending = self._pending.get(checkpoint_id)
            if pending is None:
                return
            if pending.stage is _Stage.WRITING:
                # The thread that writes it sees the new stage, and removes what it has written.
                pending.stage = _Stage.ABORTED
            else:
                del self._pending[checkpoint_id]
            self._lock.notify_all()
        if pending.stage is not _Stage.ABORTED:
            pending.discard()

    def abort_all(self) -> None:
        """Gives up all checkpoints, as the task is at its end. Any thread."""
        with self._lock:
            checkpoint_ids = tuple(self._pending)
        for checkpoint_id in checkpoint_ids:
            self.abort(checkpoint_id)

    @property
    def incomplete(self) -> tuple[int, ...]:
        """The ids of checkpoints that wait for something. Any thread."""
        with self._lock:
            return tuple(each for each, pending in self._pending.items() if pending.waits_for)

    @property
    def under_way(self) -> int:
        """How many checkpoints there are. Any thread."""
        with self._lock:
            return len(self._pending)

    @property
    def is_idle(self) -> bool:
        """Whether no checkpoint is to be acknowledged. Any thread."""
        with self._lock:
            return self._is_idle()

    def wait(self, timeout_ms: float | None) -> None:
        """Blocks until it is idle, or the timeout."""
        with self._lock:
            self._lock.wait_for(self._is_idle, None if timeout_ms is None else timeout_ms / 1000)

    def _is_idle(self) -> bool:
        return all(pending.stage is _Stage.ABORTED for pending in self._pending.values())

    # -- writing -------------------------------------------------------------------------------------------------

    def _write_if_ready(self, pending: _PendingSnapshot) -> None:
        with self._lock:
            if pending.waits_for or pending.stage is not _Stage.COLLECTING:
                return
            pending.stage = _Stage.WRITING
        if pending.is_empty:
            self._written(pending, TaskSnapshot({}, pending.is_finished, pending.is_at_end), None)
            return
        self._services.run_blocking(
            lambda: self._write(pending), lambda result, error: self._written(pending, result, error)
        )

    def _write(self, pending: _PendingSnapshot) -> TaskSnapshot:
        """Writes all parts. Runs off the task's thread."""
        try:
            options, name = pending.barrier.options, self._deployment.attempt_id
            pending.writer = writer = self._services.create_writer(options, name, self._inline_bytes)
            try:
                states = self._write_parts(pending, writer)
            except BaseException:
                writer.abort()
                raise
        finally:
            pending.discard()
        return TaskSnapshot(states, pending.is_finished, pending.is_at_end)

    def _write_parts(self, pending: _PendingSnapshot, writer: SnapshotWriter) -> dict[OperatorId, OperatorSubtaskState]:
        written: dict[OperatorId, list[StatePart]] = {}
        for operator_id, part in pending.parts(self._head):
            if pending.stage is _Stage.ABORTED:
                raise _WritingAborted
            written.setdefault(operator_id, []).append(part.write(writer))
        writer.close()
        with self._lock:
            if pending.stage is _Stage.ABORTED:
                raise _WritingAborted
            pending.stage = _Stage.WRITTEN
        return {each: OperatorSubtaskState(tuple(parts)) for each, parts in written.items()}

    def _written(self, pending: _PendingSnapshot, snapshot: Any, error: BaseException | None) -> None:
        """Answers the coordinator when a snapshot was written or could not be. Runs on a thread that must not wait."""
        deployment, checkpoint_id = self._deployment, pending.barrier.checkpoint_id
        with self._lock:
            is_wanted = self._pending.get(checkpoint_id) is pending and pending.stage is not _Stage.ABORTED
        if is_wanted and error is not None:
            make_printable(error)
            log.warning("%s: checkpoint %d was not written", deployment.task_name, checkpoint_id, exc_info=error)
            said = f"{type(error).__name__}: {message_of(error)}"
            reason = f"task {deployment.task_name!r} could not write its state: {said}"
            info = ErrorInfo.of(error)
            self._services.answer_checkpoint(
                DeclineCheckpoint(deployment.job_id, deployment.attempt_id, checkpoint_id, reason, info)
            )
        elif is_wanted:
            metrics = pending.final_metrics(self._services.clock.monotonic_ms())
            self._services.answer_checkpoint(
                AcknowledgeCheckpoint(deployment.job_id, deployment.attempt_id, checkpoint_id, snapshot, metrics)
            )
        elif error is None and pending.writer is not None:
            self._services.run_blocking(pending.writer.abort, partial(self._cleaned_up, checkpoint_id))
        # The task may end once this is gone, and must not report its end before the answer.
        with self._lock:
            if self._pending.get(checkpoint_id) is pending:
                del self._pending[checkpoint_id]
            self._lock.notify_all()

    def _cleaned_up(self, checkpoint_id: int, _result: Any, error: BaseException | None) -> None:
        """The files of an aborted checkpoint were removed, or could not be."""
        if error is not None:
            task_name = self._deployment.task_name
            log.warning(
                "%s: files of checkpoint %d, which was aborted, are left", task_name, checkpoint_id, exc_info=error
            )


class _WritingAborted(Exception):
    """Ends the writing of a checkpoint that was aborted."""


class _Stage(enum.Enum):
    COLLECTING = "collecting"
    WRITING = "writing"
    WRITTEN = "written"
    ABORTED = "aborted"


class _PendingSnapshot(Struct, eq=False):
    """One task's part of one checkpoint, until it is acknowledged."""

    barrier: CheckpointBarrier
    snapshots: Mapping[OperatorId, OperatorSnapshot]
    in_flight: list[InFlightPart]
    metrics: CheckpointMetrics
    is_finished: bool
    is_at_end: bool
    waits_for: set[str]
    """What is to be added before it can be written."""
    begun_ms: float
    stage: _Stage = _Stage.COLLECTING
    writer: SnapshotWriter | None = None

    @property
    def is_empty(self) -> bool:
        return not self.in_flight and not any(snapshot.parts for snapshot in self.snapshots.values())

    def parts(self, head: OperatorId) -> Iterator[tuple[OperatorId, PendingPart]]:
        """All parts that are to be written, each with the operator that it belongs to."""
        for operator_id, snapshot in self.snapshots.items():
            for part in snapshot.parts:
                yield operator_id, part
        for rows in self.in_flight:
            yield head, rows

    def final_metrics(self, now_ms: float) -> CheckpointMetrics:
        """The metrics once everything is written."""
        in_flight_bytes = sum(part.nbytes for part in self.in_flight)
        return replace(self.metrics, async_ms=now_ms - self.begun_ms, in_flight_bytes=in_flight_bytes)

    def discard(self) -> None:
        """Frees what the parts hold."""
        for snapshot in self.snapshots.values():
            snapshot.discard()
        for part in self.in_flight:
            part.discard()
