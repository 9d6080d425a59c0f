"""What a task does for its checkpoints beside its own thread: writing, acknowledging, giving up."""

from __future__ import annotations

import enum
import logging
import threading
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from actors.protocol.checkpoint_handles import CheckpointMetrics, OperatorSubtaskState, StatePart, TaskSnapshot
from actors.protocol.data_messages import AcknowledgeCheckpoint, DeclineCheckpoint, TaskDeployment
from actors.protocol.elements import CheckpointBarrier
from actors.state.snapshots.snapshot import OperatorSnapshot
from actors.tasks.chain.task_services import SnapshotWriter, TaskServices
from actors.tasks.checkpoints.in_flight import InFlightPart
from flinkray.config import options
from flinkray.errors import ErrorInfo
from flinkray.types.records import OperatorId

log = logging.getLogger(__name__)


class SubtaskCheckpoints:
    """The checkpoints of one task between their snapshot and their acknowledgement; there may be several.

    Each is acknowledged, or declined with the error of writing it, or given up without a word. Whichever it is, nothing
    of it is held afterwards, and nothing that nobody will refer to is left where it was written to.

    Args:
        head: the operator whose state the rows in flight belong to.
    """

    def __init__(self, deployment: TaskDeployment, services: TaskServices, head: OperatorId) -> None:
        self._deployment = deployment
        self._services = services
        self._head = head
        self._inline_bytes = deployment.configuration.get(options.INLINE_STATE_BYTES)
        self._lock = threading.Condition()
        self._parts: dict[int, _Part] = {}

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
        """The snapshot has been taken. It is written as soon as everything in `waits_for` has been added."""
        begun_ms = self._services.clock.monotonic_ms()
        part = _Part(barrier, snapshots, list(in_flight), metrics, is_finished, is_at_end, set(waits_for), begun_ms)
        with self._lock:
            assert barrier.checkpoint_id not in self._parts, f"checkpoint {barrier.checkpoint_id} was begun already"
            self._parts[barrier.checkpoint_id] = part
        self._write_if_ready(part)

    def add(
        self, checkpoint_id: int, what: str, rows: Iterable[InFlightPart] = (), alignment_ms: float | None = None
    ) -> None:
        """Something that `begin` was told to wait for; without effect if the checkpoint was given up."""
        with self._lock:
            part = self._parts.get(checkpoint_id)
            if part is None or what not in part.waits_for:
                return
            part.waits_for.discard(what)
            part.in_flight += rows
            if alignment_ms is not None:
                part.metrics = replace(part.metrics, alignment_ms=alignment_ms)
        self._write_if_ready(part)

    def waits_for(self, checkpoint_id: int, what: str) -> bool:
        with self._lock:
            part = self._parts.get(checkpoint_id)
            return part is not None and what in part.waits_for

    def give_up(self, checkpoint_id: int) -> None:
        """It will not complete. Any thread; without effect if there is no such checkpoint, or not any more."""
        with self._lock:
            part = self._parts.get(checkpoint_id)
            if part is None:
                return
            if part.stage is _Stage.WRITING:
                # Who writes it sees it, and cleans up behind itself.
                part.stage = _Stage.GIVEN_UP
            else:
                del self._parts[checkpoint_id]
            self._lock.notify_all()
        if part.stage is not _Stage.GIVEN_UP:
            part.discard()

    def give_up_all(self) -> None:
        """The task is at its end. Any thread."""
        with self._lock:
            checkpoint_ids = tuple(self._parts)
        for checkpoint_id in checkpoint_ids:
            self.give_up(checkpoint_id)

    @property
    def incomplete(self) -> tuple[int, ...]:
        """Those that still wait for something. Any thread."""
        with self._lock:
            return tuple(each for each, part in self._parts.items() if part.waits_for)

    @property
    def under_way(self) -> int:
        """How many there are. Any thread."""
        with self._lock:
            return len(self._parts)

    @property
    def is_idle(self) -> bool:
        """Nothing is to be acknowledged. Any thread."""
        with self._lock:
            return self._is_idle()

    def wait(self, timeout_ms: float | None) -> None:
        """Blocks until it is idle, or the timeout."""
        with self._lock:
            self._lock.wait_for(self._is_idle, None if timeout_ms is None else timeout_ms / 1000)

    def _is_idle(self) -> bool:
        return all(part.stage is _Stage.GIVEN_UP for part in self._parts.values())

    # -- writing -------------------------------------------------------------------------------------------------

    def _write_if_ready(self, part: _Part) -> None:
        with self._lock:
            if part.waits_for or part.stage is not _Stage.COLLECTING:
                return
            part.stage = _Stage.WRITING
        if part.is_empty:
            self._written(part, TaskSnapshot({}, part.is_finished, part.is_at_end), None)
            return
        self._services.run_blocking(lambda: self._write(part), lambda result, error: self._written(part, result, error))

    def _write(self, part: _Part) -> TaskSnapshot:
        """Off the task's thread."""
        try:
            options, name = part.barrier.options, self._deployment.attempt_id
            part.writer = writer = self._services.create_writer(options, name, self._inline_bytes)
            try:
                states = self._write_parts(part, writer)
            except BaseException:
                writer.abort()
                raise
        finally:
            part.discard()
        return TaskSnapshot(states, part.is_finished, part.is_at_end)

    def _write_parts(self, part: _Part, writer: SnapshotWriter) -> dict[OperatorId, OperatorSubtaskState]:
        written: dict[OperatorId, list[StatePart]] = {}
        for operator_id, pending in part.pending_parts(self._head):
            if part.stage is _Stage.GIVEN_UP:
                raise _GivenUp
            written.setdefault(operator_id, []).append(pending.write(writer))
        writer.close()
        with self._lock:
            if part.stage is _Stage.GIVEN_UP:
                raise _GivenUp
            part.stage = _Stage.WRITTEN
        return {each: OperatorSubtaskState(tuple(parts)) for each, parts in written.items()}

    def _written(self, part: _Part, snapshot: Any, error: BaseException | None) -> None:
        """On a thread that must not wait."""
        deployment, checkpoint_id = self._deployment, part.barrier.checkpoint_id
        with self._lock:
            is_wanted = self._parts.get(checkpoint_id) is part and part.stage is not _Stage.GIVEN_UP
        if is_wanted and error is not None:
            log.warning("%s: checkpoint %d was not written", deployment.task_name, checkpoint_id, exc_info=error)
            reason = f"task {deployment.task_name!r} could not write its state: {type(error).__name__}: {error}"
            info = ErrorInfo.of(error)
            self._services.answer_checkpoint(
                DeclineCheckpoint(deployment.job_id, deployment.attempt_id, checkpoint_id, reason, info)
            )
        elif is_wanted:
            metrics = part.measured(self._services.clock.monotonic_ms())
            self._services.answer_checkpoint(
                AcknowledgeCheckpoint(deployment.job_id, deployment.attempt_id, checkpoint_id, snapshot, metrics)
            )
        elif error is None and part.writer is not None:
            self._services.run_blocking(part.writer.abort, partial(self._cleaned_up, checkpoint_id))
        # Only now: the task must not report its end before this.
        with self._lock:
            if self._parts.get(checkpoint_id) is part:
                del self._parts[checkpoint_id]
            self._lock.notify_all()

    def _cleaned_up(self, checkpoint_id: int, _result: Any, error: BaseException | None) -> None:
        """What was written for a checkpoint that nobody wants any more is gone, or not."""
        if error is not None:
            task_name = self._deployment.task_name
            log.warning(
                "%s: files of checkpoint %d, which was aborted, are left", task_name, checkpoint_id, exc_info=error
            )


class _GivenUp(Exception):
    """Ends the writing of a checkpoint that nobody wants any more."""


class _Stage(enum.Enum):
    COLLECTING = "collecting"
    WRITING = "writing"
    WRITTEN = "written"
    GIVEN_UP = "given up"


class _Part:
    """One task's part of one checkpoint."""

    def __init__(
        self,
        barrier: CheckpointBarrier,
        snapshots: Mapping[OperatorId, OperatorSnapshot],
        in_flight: list[InFlightPart],
        metrics: CheckpointMetrics,
        is_finished: bool,
        is_at_end: bool,
        waits_for: set[str],
        begun_ms: float,
    ) -> None:
        self.barrier = barrier
        self.metrics = metrics
        self.is_finished = is_finished
        self.is_at_end = is_at_end
        self.waits_for = waits_for
        self.in_flight = in_flight
        self.stage = _Stage.COLLECTING
        self.writer: SnapshotWriter | None = None
        self._snapshots = snapshots
        self._begun_ms = begun_ms

    @property
    def is_empty(self) -> bool:
        return not self.in_flight and not any(snapshot.parts for snapshot in self._snapshots.values())

    def pending_parts(self, head: OperatorId) -> Iterable[tuple[OperatorId, Any]]:
        for operator_id, snapshot in self._snapshots.items():
            for part in snapshot.parts:
                yield operator_id, part
        for in_flight in self.in_flight:
            yield head, in_flight

    def measured(self, now_ms: float) -> CheckpointMetrics:
        in_flight_bytes = sum(part.nbytes for part in self.in_flight)
        return replace(self.metrics, async_ms=now_ms - self._begun_ms, in_flight_bytes=in_flight_bytes)

    def discard(self) -> None:
        for snapshot in self._snapshots.values():
            snapshot.discard()
        for in_flight in self.in_flight:
            in_flight.discard()
