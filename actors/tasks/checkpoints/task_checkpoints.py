"""How a task takes part in checkpoints in its own thread: barriers, triggers, snapshots and notices of their end.

Flink's SubtaskCheckpointCoordinator, with the parts of StreamTask around it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from actors.network.consumer.input_gate import SingleInputGate
from actors.network.producer.record_writer import RecordWriter
from actors.protocol.checkpoint_handles import CheckpointMetrics
from actors.protocol.elements import CheckpointBarrier, StopMode
from actors.protocol.task_messages import DeclineCheckpoint, TaskDeployment
from actors.tasks.chain.operator_chain import OperatorChain
from actors.tasks.chain.task_services import TaskServices
from actors.tasks.checkpoints.barriers import (
    AbortCheckpoint,
    BarrierCommand,
    BarrierHandler,
    DropCapture,
    EndCapture,
    HoldInput,
    ResumeChannels,
    SetTimer,
    StartCapture,
    TakeCheckpoint,
)
from actors.tasks.checkpoints.ending import TaskEnd
from actors.tasks.checkpoints.in_flight import InFlightPart, gate_part, result_part
from actors.tasks.checkpoints.subtask_checkpoints import SubtaskCheckpoints
from flinkray.batches.batch import Batch
from flinkray.errors import CheckpointError
from flinkray.types.records import OperatorId

log = logging.getLogger(__name__)

_INPUT = "input"

OUTPUT_CHECK_MS = 20.0
"""How often the task checks whether consumers have taken a barrier that becomes unaligned if they do not in time. The
checkpoint is not acknowledged before that, but writing it usually takes longer."""


class TaskParts(Struct, frozen=True):
    """The parts of a task that its checkpoints deal with."""

    chain: OperatorChain
    writers: Mapping[int, RecordWriter]
    """The writers of results, by result index."""
    gates: Sequence[tuple[int, SingleInputGate]]
    """The gates, each with the number of its first channel."""
    has_chained_sources: bool
    """Whether sources of the chain are inputs beside the gates."""
    call_later: Callable[[float, Callable[[], None], str], object]
    """Posts a mail to the task after so many milliseconds, also after the end of its data."""
    stop_taken: Callable[[StopMode], None]
    """Called when a savepoint has been taken that stops the job."""
    wake: Callable[[], None]
    """Called when input may be taken again."""


class TaskCheckpoints:
    """Carries out what the BarrierHandler decides. Belongs to the task's thread; implements ChannelEvents.

    To take a checkpoint means, in this order: operators prepare for the barrier, from head to tail; the barrier goes
    out on all results behind their rows (an unaligned one before them, so that they are part of the checkpoint);
    operators are snapshotted, from tail to head. The snapshots are written on another thread while the task goes on,
    and then acknowledged. An error before that fails the task; an error of writing declines the checkpoint.
    """

    def __init__(
        self,
        deployment: TaskDeployment,
        services: TaskServices,
        parts: TaskParts,
        written: SubtaskCheckpoints,
        end: TaskEnd,
    ) -> None:
        self._deployment = deployment
        self._services = services
        self._parts = parts
        self._written = written
        self._end = end
        channels = sum(gate.number_of_channels for _, gate in parts.gates)
        self._handler = BarrierHandler(
            channels,
            has_chained_sources=parts.has_chained_sources and channels > 0,
            may_overtake=all(gate.barriers_overtake for gate in deployment.gates),
        )
        self._restored = deployment.restore.checkpoint_id if deployment.restore is not None else -1
        self._runs_operators = deployment.restore is None or not deployment.restore.is_finished
        self._held_for: int | None = None
        self._held_events: list[tuple[OperatorId, Any]] = []
        self._ended_channels: list[int] = []

    @property
    def holds_input(self) -> bool:
        """Whether no input may be taken now."""
        return self._held_for is not None

    # -- channels ------------------------------------------------------------------------------------------------

    def on_barrier(self, channel: int, barrier: CheckpointBarrier) -> None:
        self._carry_out(self._handler.on_barrier(channel, barrier, self._now()))

    def on_cancel(self, channel: int, checkpoint_id: int) -> None:
        self._carry_out(self._handler.on_cancel(channel, checkpoint_id))

    def on_end_of_data(self, channel: int) -> None:
        # The checkpoint that this may lead to must come after what the task itself does at the end of its data.
        self._ended_channels.append(channel)

    def on_end(self, channel: int) -> None:
        self._carry_out(self._handler.on_end(channel, self._now()))

    def after_input(self) -> None:
        """Called when the task has done what the last input led to."""
        while self._ended_channels:
            self._carry_out(self._handler.on_end_of_data(self._ended_channels.pop(0), self._now()))

    # -- the coordinator -----------------------------------------------------------------------------------------

    def is_over(self, checkpoint_id: int) -> bool:
        """Whether a checkpoint was taken or aborted already, so that its trigger comes too late."""
        return self._handler.is_over(checkpoint_id)

    def on_trigger(self, barrier: CheckpointBarrier) -> None:
        """The coordinator triggers a checkpoint, as no task upstream sends its barrier on some channel."""
        self._carry_out(self._handler.on_trigger(barrier, self._now()))

    def on_event(self, operator_id: OperatorId, event: Any) -> None:
        """An event of an operator's coordinator has come.

        An event to a source that comes after the trigger waits for the snapshot: in the checkpoint, the coordinator has
        not sent it.
        """
        if not self._runs_operators:
            log.debug("%s runs no operators; %r is dropped", self._deployment.task_name, event)
            return
        self._held_events.append((operator_id, event))
        self._deliver_events()

    def _deliver_events(self) -> None:
        if not self._handler.is_between_trigger_and_snapshot:
            events, self._held_events = self._held_events, []
            for operator_id, event in events:
                self._parts.chain.handle_event(operator_id, event)

    def on_complete(self, checkpoint_id: int) -> None:
        """A checkpoint is complete, and with it all earlier ones."""
        if checkpoint_id < self._restored:
            log.debug("%s: checkpoint %d was before the restored one", self._deployment.task_name, checkpoint_id)
            return
        if self._runs_operators:
            self._parts.chain.notify_checkpoint_complete(checkpoint_id)
        self._end.on_complete(checkpoint_id)

    def on_aborted(self, checkpoint_id: int) -> None:
        """The coordinator has aborted a checkpoint.

        Raises:
            CheckpointError: it is the savepoint that the sources have stopped for.
        """
        if checkpoint_id < self._restored:
            return
        self._written.abort(checkpoint_id)
        if self._end.is_fatal(checkpoint_id):
            raise CheckpointError(
                f"task {self._deployment.task_name!r}: savepoint {checkpoint_id}, which the job was to stop with, has "
                "failed after the sources had stopped; the job goes on from its last checkpoint"
            )
        self._carry_out(self._handler.on_notice_of_abort(checkpoint_id))
        if self._runs_operators:
            self._parts.chain.notify_checkpoint_aborted(checkpoint_id)

    # -- carrying out commands -----------------------------------------------------------------------------------

    def _carry_out(self, commands: Sequence[BarrierCommand]) -> None:
        for command in commands:
            match command:
                case TakeCheckpoint():
                    self._take(command)
                case AbortCheckpoint():
                    self._abort(command)
                case ResumeChannels(channels):
                    self._resume(channels)
                case StartCapture(checkpoint_id):
                    for _, gate in self._parts.gates:
                        gate.begin_capture(checkpoint_id)
                case EndCapture(checkpoint_id, alignment_ms):
                    self._written.add(checkpoint_id, _INPUT, self._captured(checkpoint_id), alignment_ms)
                case DropCapture(checkpoint_id):
                    self._captured(checkpoint_id)
                case SetTimer(checkpoint_id, at_ms):
                    self._set_timer(checkpoint_id, at_ms)
                case HoldInput(checkpoint_id):
                    self._held_for = checkpoint_id
        if self._held_events:
            self._deliver_events()

    def _take(self, take: TakeCheckpoint) -> None:
        barrier, clock = take.barrier, self._services.clock
        checkpoint_id = barrier.checkpoint_id
        self._release_input(checkpoint_id)
        begun_ms = clock.monotonic_ms()
        chain = self._parts.chain
        if self._runs_operators:
            chain.prepare_barrier(checkpoint_id)
        overtaken = self._send(barrier)
        snapshots = chain.snapshot(checkpoint_id, barrier.options) if self._runs_operators else {}
        sync_ms = clock.monotonic_ms() - begun_ms
        self._end.on_taken(checkpoint_id, barrier.options.stop)
        outputs = self._unsettled_outputs(barrier)
        waits_for = {_output(index) for index, _ in outputs}
        if take.is_capturing:
            waits_for.add(_INPUT)
        self._written.begin(
            barrier,
            snapshots,
            overtaken,
            CheckpointMetrics(take.start_delay_ms, take.alignment_ms, sync_ms),
            is_finished=self._end.is_finished or not self._runs_operators,
            is_at_end=self._end.has_data_ended,
            waits_for=waits_for,
        )
        for index, writer in outputs:
            self._watch_output(index, writer, barrier)
        if barrier.options.stop is not StopMode.GO_ON:
            self._parts.stop_taken(barrier.options.stop)

    def _abort(self, abort: AbortCheckpoint) -> None:
        checkpoint_id = abort.checkpoint_id
        self._release_input(checkpoint_id)
        self._written.abort(checkpoint_id)
        for writer in self._parts.writers.values():
            writer.partition.cancel_checkpoint(checkpoint_id)
        if not abort.is_known:
            self._services.answer_checkpoint(decline(self._deployment, checkpoint_id, abort.reason))

    def _release_input(self, checkpoint_id: int) -> None:
        if self._held_for is not None and self._held_for <= checkpoint_id:
            self._held_for = None
            self._parts.wake()

    def _resume(self, channels: Sequence[int]) -> None:
        for channel in channels:
            first, gate = max((each for each in self._parts.gates if each[0] <= channel), key=lambda each: each[0])
            gate.resume_consumption(channel - first)

    def _captured(self, checkpoint_id: int) -> list[InFlightPart]:
        """Ends the capture in all gates; returns the captured rows, in the order of channels."""
        parts = []
        for _, gate in self._parts.gates:
            rows = [batch for _, batches in sorted(gate.end_capture(checkpoint_id).items()) for batch in batches]
            if rows:
                parts.append(InFlightPart(gate_part(gate.gate_index), rows))
        return parts

    def _set_timer(self, checkpoint_id: int, at_ms: int) -> None:
        def act() -> None:
            self._carry_out(self._handler.on_timer(checkpoint_id, self._now()))

        self._parts.call_later(at_ms - self._now(), act, f"checkpoint {checkpoint_id} waits no longer")

    # -- outputs -------------------------------------------------------------------------------------------------

    def _send(self, barrier: CheckpointBarrier) -> list[InFlightPart]:
        """Sends the barrier on all results; returns the rows that it has overtaken there."""
        parts = []
        for index, writer in self._parts.writers.items():
            parts += _parts_of_result(index, writer.partition.broadcast_barrier(barrier))
        return parts

    def _unsettled_outputs(self, barrier: CheckpointBarrier) -> list[tuple[int, RecordWriter]]:
        """The results in which the barrier may still overtake rows, which then are part of the checkpoint."""
        options = barrier.options
        if options.is_unaligned or not options.is_exactly_once or options.aligned_timeout_ms is None:
            return []
        return list(self._parts.writers.items())

    def _watch_output(self, index: int, writer: RecordWriter, barrier: CheckpointBarrier) -> None:
        """Settles an output once its consumers have taken the barrier, or the barrier has waited for too long."""
        checkpoint_id, timeout_ms = barrier.checkpoint_id, barrier.options.aligned_timeout_ms
        assert timeout_ms is not None, "only such outputs are watched"
        if not self._written.waits_for(checkpoint_id, _output(index)):
            return
        left_ms = barrier.timestamp_ms + timeout_ms - self._now()
        if left_ms <= 0:
            self._settle_output(index, writer, checkpoint_id)
        elif writer.partition.has_aligned_barrier(checkpoint_id):
            again = partial(self._watch_output, index, writer, barrier)
            self._parts.call_later(min(left_ms, OUTPUT_CHECK_MS), again, "look after a barrier that waits")
        else:
            self._written.add(checkpoint_id, _output(index))

    def _settle_output(self, index: int, writer: RecordWriter, checkpoint_id: int) -> None:
        """Lets the barrier overtake the rows of a result; these complete the task's part of the checkpoint."""
        overtaken = writer.partition.overtake(checkpoint_id)
        self._written.add(checkpoint_id, _output(index), _parts_of_result(index, overtaken or []))

    def settle_outputs(self) -> None:
        """Settles all outputs, as the task ends and would not do it later."""
        for checkpoint_id in self._written.incomplete:
            for index, writer in self._parts.writers.items():
                if self._written.waits_for(checkpoint_id, _output(index)):
                    self._settle_output(index, writer, checkpoint_id)

    def _now(self) -> int:
        return self._services.clock.now_ms()


def decline(deployment: TaskDeployment, checkpoint_id: int, reason: str) -> DeclineCheckpoint:
    """The message that the task cannot take part in a checkpoint, which is no fault of its own."""
    why = f"task {deployment.task_name!r}: {reason}"
    return DeclineCheckpoint(deployment.job_id, deployment.attempt_id, checkpoint_id, why)


def _output(index: int) -> str:
    return f"output {index}"


def _parts_of_result(index: int, overtaken: Sequence[Sequence[Batch]]) -> list[InFlightPart]:
    return [
        InFlightPart(result_part(index, subpartition), batches)
        for subpartition, batches in enumerate(overtaken)
        if batches
    ]
