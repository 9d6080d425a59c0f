"""A task: its life from deployment to its end, in one thread driven by a mailbox (Flink's Task and StreamTask)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from actors.mailbox.processor import MailboxProcessor, Suspension
from actors.mailbox.task_mailbox import MailboxClosed
from actors.network.consumer.input_gate import SingleInputGate
from actors.network.producer.record_writer import RecordWriter
from actors.network.producer.result_partition import ResultPartition
from actors.operators.contract.cancellation import Cancellation, TaskCanceled
from actors.operators.contract.input_status import InputStatus
from actors.protocol.elements import (
    CheckpointBarrier,
    CheckpointOptions,
    EndOfData,
    StopMode,
    Watermark,
)
from actors.protocol.task_messages import EndOfDataReached, TaskDeployment, TaskMetrics
from actors.tasks.chain.operator_chain import OperatorChain
from actors.tasks.chain.task_services import TaskEnvironment, TaskServices
from actors.tasks.chain.task_settings import TaskSettings
from actors.tasks.chain.timers import TaskTimers
from actors.tasks.checkpoints.ending import TaskEnd
from actors.tasks.checkpoints.restoring import TaskRestoring
from actors.tasks.checkpoints.subtask_checkpoints import SubtaskCheckpoints
from actors.tasks.checkpoints.task_checkpoints import TaskCheckpoints, TaskParts, decline
from actors.tasks.inputs.input_processor import InputProcessor
from actors.tasks.memory import keep_freed_memory
from actors.tasks.metrics.figures import Stopwatch, TaskFigures
from actors.tasks.wiring import (
    create_input_processor,
    create_writer,
    ended_inputs,
    has_chained_sources,
    head_config,
    numbered_gates,
)
from flinkray.transformations.partitioning import Partitioner
from flinkray.types.records import MAX_TIMESTAMP, OperatorId
from graphs.job_graph import NetworkEdge
from graphs.states import ExecutionState

log = logging.getLogger(__name__)


class StreamTask:
    """One attempt of one subtask (a Loop).

    Its life, in order: load the code, set up partitions, gates and operators; INITIALIZING; initialize_state and open,
    from tail to head; process the rows that were in flight in the checkpoint that it starts from; RUNNING; mails and
    input until the end of data; `finish` from head to tail, and EndOfData; if there are checkpoints, wait for one that
    covers this; stop timers, refuse and drain mails; flush; close operators; end the partitions; FINISHED. Any failure
    leads to FAILED and a cancellation to CANCELED, and operators are closed in any case. Each state is reported when it
    is reached, the last one when everything else is done.

    When a savepoint stops the job with SUSPEND: at the trigger, sources stop reading and the barrier goes out; each
    task stops its timers when it has taken the savepoint; when the savepoint is complete, sources end with an EndOfData
    that does not drain, so that no task sees a last watermark or `finish`. With DRAIN: at the trigger, sources end with
    MAX_TIMESTAMP, `finish` and EndOfData, and the barrier goes out behind these, so that the savepoint has all that
    remains to be committed. Either way a task ends once the savepoint is complete and its inputs have ended; if the
    savepoint fails, so does the task.

    A task whose rows were all processed before the checkpoint that it starts from runs no operators: once its inputs
    have ended, it sends MAX_TIMESTAMP and EndOfData, and goes on as at the end of data.

    Args:
        report: called in the task's thread with each new state, the error if there is one, and the metrics so far.
    """

    def __init__(
        self,
        deployment: TaskDeployment,
        services: TaskServices,
        report: Callable[[ExecutionState, BaseException | None, TaskMetrics], None],
    ) -> None:
        self.deployment = deployment
        self._services = services
        self._report = report
        self._figures = TaskFigures(services.clock, max(1, len(head_config(deployment).inputs)))
        self._error: BaseException | None = None
        self._processor = MailboxProcessor(self._default_action, self._set_error)
        self._timers = TaskTimers(services.timers)
        settings = TaskSettings.of(deployment.configuration)
        self._late_timers = TaskTimers(services.timers)
        self._end_condition = TaskEnd(deployment.has_checkpoints)
        head = head_config(deployment).operator_id
        self._written = SubtaskCheckpoints(deployment, services, head, settings.inline_state_bytes)
        self._is_running = False
        """Whether RUNNING has been reported, and the task has not begun to end."""
        # Operators further down have higher priorities, as one that waits for its mails must not get rows meanwhile.
        self._executors = {
            config.operator_id: self._processor.executor(position)
            for position, config in enumerate(deployment.operators, start=1)
        }
        self._phase = self._deploy
        self._is_done = False
        self._cancellation = Cancellation()
        self._environment = TaskEnvironment(
            deployment,
            settings,
            services,
            self._figures,
            self._timers,
            self._late_timers,
            self._cancellation,
            self._operator_acted,
        )
        self._chain: OperatorChain | None = None
        self._inputs: InputProcessor | None = None
        self._checkpoints: TaskCheckpoints | None = None
        self._partitions: list[ResultPartition] = []
        self._gates: list[SingleInputGate] = []
        self._writers: dict[int, RecordWriter] = {}
        """The writers of results, by result index."""
        self._suspension: Suspension | None = None
        self._waits_for_operator = False

    # -- any thread ----------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Ends the task soon: at its next step, or when an operator waits, emits or drops rows."""
        self._cancellation.set()
        self._written.abort_all()
        try:
            self._processor.control_executor.execute(self._cancellation.check, "cancel", urgent=True)
        except MailboxClosed:
            log.debug("task %s is at its end already", self.deployment.task_name)

    def deliver_event(self, operator_id: OperatorId, event: Any) -> None:
        """Hands an event of its coordinator to an operator; dropped if the task is at its end."""

        def deliver() -> None:
            self._opened_checkpoints.on_event(operator_id, event)

        try:
            # Not with the operator's priority, as no event may overtake the trigger of a checkpoint.
            self._processor.main_executor.execute(deliver, f"{type(event).__name__} of the coordinator")
        except MailboxClosed:
            log.debug("task %s has ended; %s comes too late", self.deployment.task_name, type(event).__name__)

    def metrics(self) -> TaskMetrics:
        """The task's metrics so far."""
        waiting = [partition.waiting for partition in tuple(self._partitions)]
        return replace(
            self._figures.snapshot(),
            input_queue=sum(channel.queued_buffers for gate in tuple(self._gates) for channel in gate.channels),
            output_queue=sum(buffers for buffers, _ in waiting),
            output_limit=sum(limit for _, limit in waiting),
        )

    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int, options: CheckpointOptions) -> None:
        """Starts a checkpoint in a task that gets no barrier from upstream, as it has no inputs or they have ended.

        The barrier is behind everything that was delivered before, events of coordinators included.
        """
        barrier = CheckpointBarrier(checkpoint_id, timestamp_ms, options)
        if not self._is_running:
            self._decline(checkpoint_id, "it is not running")
            return
        try:
            self._processor.main_executor.execute(lambda: self._trigger(barrier), f"checkpoint {checkpoint_id}")
        except MailboxClosed:
            self._decline(checkpoint_id, "it is at its end")

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """A checkpoint is complete: operators commit what they prepared for it, before any row is processed after
        this."""
        self._notify(lambda: self._on_complete(checkpoint_id), f"checkpoint {checkpoint_id} is complete")

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """A checkpoint is aborted."""
        # At once, as the end of the task may wait for this checkpoint.
        self._written.abort(checkpoint_id)
        self._notify(lambda: self._on_aborted(checkpoint_id), f"checkpoint {checkpoint_id} is aborted")

    def _notify(self, mail: Callable[[], None], description: str) -> None:
        try:
            self._processor.control_executor.execute(mail, description, urgent=True)
        except MailboxClosed:
            log.debug("task %s has ended; %s", self.deployment.task_name, description)

    def _decline(self, checkpoint_id: int, reason: str) -> None:
        self._services.answer_checkpoint(decline(self.deployment, checkpoint_id, reason))

    @property
    def checkpoints_under_way(self) -> int:
        """How many checkpoints were taken, and neither acknowledged nor aborted."""
        return self._written.under_way

    # -- Loop ----------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        try:
            return self._phase()
        except BaseException as error:
            # Any BaseException: this is the last frame of a thread, where it would go unnoticed otherwise.
            self._end_badly(error)
            return True

    def wait(self, timeout_ms: float | None) -> None:
        if self._processor.is_done:
            self._written.wait(timeout_ms)
        else:
            self._processor.wait(timeout_ms)

    @property
    def is_done(self) -> bool:
        return self._is_done

    # -- phases, each a step or more ------------------------------------------------------------------------------

    def _deploy(self) -> bool:
        self._cancellation.check()
        keep_freed_memory()
        deployment, network = self.deployment, self._services.network
        for partition in deployment.partitions:
            self._partitions.append(network.create_partition(partition, deployment.configuration))
        for gate in deployment.gates:
            self._gates.append(network.create_gate(gate, deployment.attempt_id, deployment.configuration))
        self._chain = chain = OperatorChain(self._environment, self._executors, self._create_writer)
        self._checkpoints = checkpoints = self._create_checkpoints(chain)
        if self._is_restored_finished:
            self._inputs = InputProcessor(ended_inputs(self.deployment, self._gates, checkpoints), _ignore)
        else:
            self._inputs = create_input_processor(self._environment, self._gates, chain, checkpoints)
        for connected in self._gates:
            connected.request_partitions()
        self._report(ExecutionState.INITIALIZING, None, self.metrics())
        self._phase = self._restore
        return True

    def _restore(self) -> bool:
        self._cancellation.check()
        chain, restore = self._opened_chain, self.deployment.restore
        if restore is None:
            chain.restore(lambda _operator_id: None)
        else:
            restoring = TaskRestoring(self.deployment, restore, self._services)
            with restoring.errors():
                if self._is_restored_finished:
                    chain.recover_finished(restoring.operator_state)
                else:
                    chain.restore(restoring.operator_state)
                    restoring.process_in_flight(chain)
        self._figures.running.start()
        self._is_running = True
        self._report(ExecutionState.RUNNING, None, self.metrics())
        self._phase = self._invoke
        return True

    def _invoke(self) -> bool:
        ran = self._processor.step()
        if self._processor.is_done:
            if self._error is not None:
                raise self._error
            self._phase = self._finish
        return ran

    def _finish(self) -> bool:
        self._timers.quiesce()
        self._opened_checkpoints.settle_outputs()
        self._is_running = False
        self._processor.prepare_close()
        self._processor.drain()
        self._phase = self._close
        return True

    def _close(self) -> bool:
        self._cancellation.check()
        if not self._written.is_idle:
            return False  # a task that is FINISHED cannot acknowledge any more
        for writer in self._writers.values():
            writer.flush_all()
        self._opened_chain.close()
        for writer in self._writers.values():
            writer.partition.finish()
        self._end(ExecutionState.FINISHED, None)
        return True

    def _end_badly(self, error: BaseException) -> None:
        is_canceled = bool(self._cancellation) or isinstance(error, TaskCanceled)
        error.add_note(f"in task {self.deployment.task_name!r}, attempt {self.deployment.attempt_number}")
        self._is_running = False
        self._timers.quiesce()
        self._written.abort_all()
        if self._chain is not None:
            try:
                self._chain.close()
            except BaseException as second:
                # Logged, but not the reason of the failure: operators that did not open well often do not close well.
                log.warning("task %s: closing failed after %r", self.deployment.task_name, error, exc_info=second)
        # The report comes first, so that the reason is known before consumers complain that their producer is gone.
        self._end(ExecutionState.CANCELED if is_canceled else ExecutionState.FAILED, None if is_canceled else error)
        for partition in self._partitions:
            partition.release(None if is_canceled else error)

    def _end(self, state: ExecutionState, error: BaseException | None) -> None:
        for watch in (self._figures.idle, self._figures.backpressured, self._figures.running):
            watch.stop()
        for writer in self._writers.values():
            writer.close()
        self._late_timers.quiesce()
        self._processor.close()
        if self._inputs is not None:
            self._inputs.close()
        self._is_done = True
        self._report(state, error, self.metrics())
        if self._chain is not None:
            self._chain.forget()
        self._error = None  # its traceback holds the frames of the failure, with their batches and with the task
        for gate in self._gates:
            self._services.network.release_gate(gate)

    # -- the default action --------------------------------------------------------------------------------------

    def _default_action(self) -> None:
        checkpoints = self._opened_checkpoints
        if checkpoints.holds_input:
            self._suspend(self._figures.idle)
            return
        if not self._has_room():
            return
        inputs = self._opened_inputs
        if self._opened_chain.is_firing:
            # Rows would overtake what is due before them; barriers may be the next that comes, or overtake rows.
            if not inputs.process_event():
                self._opened_chain.fire_on()
            checkpoints.after_input()
            return
        status = inputs.process_input()
        if status is InputStatus.NOTHING_AVAILABLE:
            self._suspend(self._figures.idle)
            inputs.on_available(self._wake)
        elif status is InputStatus.END_OF_DATA:
            self._end_data(inputs.should_drain)
        elif status is InputStatus.END_OF_INPUT:
            self._suspend(self._figures.idle)  # perhaps until a checkpoint is complete
            if not self._opened_chain.may_end:
                self._waits_for_operator = True
            elif self._end_condition.may_end:
                # Behind triggers that wait in the mailbox, which the urgent notice that lets the task end has
                # overtaken.
                self._processor.main_executor.execute(self._end_of_input, "the end of all input")
        checkpoints.after_input()

    def _end_of_input(self) -> None:
        # No savepoint that stops the job was triggered in between, nor did a checkpoint become complete.
        if self._end_condition.may_end and self._opened_chain.may_end:
            self._end_late_results()
            self._processor.all_actions_completed()
        else:
            self._wake()

    def _end_late_results(self) -> None:
        """Tells those behind what the operators committed last that nothing follows."""
        late = self._opened_chain.late_results
        if self._opened_inputs.should_drain:
            for index in late:
                self._writers[index].broadcast_event(Watermark(MAX_TIMESTAMP))
        self._send_end_of_data(late, self._opened_inputs.should_drain)
        late.clear()  # the next mail may be another one of these

    def _has_room(self) -> bool:
        """Whether outputs and operators take more; if not, suspends until they do or a barrier overtakes rows."""
        full = None
        for writer in self._writers.values():
            if not writer.is_available:
                full = writer
                break
        if full is None and self._opened_chain.is_available:
            return True
        inputs = self._opened_inputs
        if inputs.process_priority():
            return False
        self._suspend(self._figures.backpressured)
        if full is not None:
            full.availability.on_available(self._wake)
        else:
            self._waits_for_operator = True
        inputs.on_priority(self._wake)
        return False

    def _suspend(self, timer: Stopwatch) -> None:
        self._suspension = self._processor.suspend_default_action(timer)

    def _wake(self) -> None:
        """Lets the task look for input or room again. Any thread; waking it for nothing only costs another look."""
        suspension = self._suspension
        if suspension is not None:
            suspension.resume()

    def _operator_acted(self) -> None:
        if self._waits_for_operator or (self._chain is not None and self._chain.is_firing):
            self._waits_for_operator = False
            self._wake()

    def _end_data(self, should_drain: bool) -> None:
        # A timer that fired from now on would emit after the end.
        self._timers.quiesce()
        if self._is_restored_finished:
            for writer in self._writers.values():
                writer.broadcast_event(Watermark(MAX_TIMESTAMP))
        elif should_drain:
            self._opened_chain.finish()
        late = self._opened_chain.late_results
        self._send_end_of_data([index for index in self._writers if index not in late], should_drain)
        if self._end_condition.on_end_of_data(should_drain):
            deployment = self.deployment
            self._services.answer_checkpoint(
                EndOfDataReached(deployment.job_id, deployment.attempt_id, gives_rows_first=bool(late))
            )

    def _send_end_of_data(self, results: Iterable[int], should_drain: bool) -> None:
        for index in results:
            writer = self._writers[index]
            writer.broadcast_event(EndOfData(should_drain))
            writer.flush_all()

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def _trigger(self, barrier: CheckpointBarrier) -> None:
        checkpoints, checkpoint_id = self._opened_checkpoints, barrier.checkpoint_id
        if not self._is_running:
            self._decline(checkpoint_id, "it is at its end")
            for writer in self._writers.values():
                writer.partition.cancel_checkpoint(checkpoint_id)
            return
        if barrier.options.stop is StopMode.DRAIN and (self._opened_chain.is_firing or self._opened_inputs.has_waiting):
            # The savepoint is to have everything fired.
            self._processor.main_executor.execute(lambda: self._trigger(barrier), f"checkpoint {checkpoint_id}")
            return
        if barrier.options.stop is not StopMode.GO_ON and not checkpoints.is_over(checkpoint_id):
            self._end_condition.on_sources_stopped(checkpoint_id)
            self._stop_sources(barrier.options.stop)
        checkpoints.on_trigger(barrier)

    def _stop_sources(self, stop: StopMode) -> None:
        inputs = self._opened_inputs
        if stop is StopMode.SUSPEND:
            inputs.stop_sources()
        elif inputs.drain_sources() is InputStatus.END_OF_DATA:
            self._end_data(inputs.should_drain)
        self._wake()

    def _stop_taken(self, stop: StopMode) -> None:
        if stop is StopMode.SUSPEND:
            # They would act after the savepoint, and again when the job starts from it.
            self._timers.quiesce()
            self._opened_chain.stop_firing()

    def _on_complete(self, checkpoint_id: int) -> None:
        self._opened_checkpoints.on_complete(checkpoint_id)
        if checkpoint_id == self._end_condition.savepoint:
            self._opened_inputs.end_stopped_sources()
        self._wake()

    def _on_aborted(self, checkpoint_id: int) -> None:
        self._opened_checkpoints.on_aborted(checkpoint_id)

    def _call_later(self, delay_ms: float, action: Callable[[], None], description: str) -> None:
        """Sets a timer that also fires after the end of data, but not while an operator waits for its mails."""
        self._late_timers.call_later(max(0.0, delay_ms), action, self._processor.main_executor, description)

    # -- setting up ----------------------------------------------------------------------------------------------

    def _create_writer(self, edge: NetworkEdge, partitioner: Partitioner) -> RecordWriter:
        partition = self._partitions[edge.result_index]
        writer = create_writer(self._environment, edge, partition, partitioner)
        self._writers[edge.result_index] = writer
        return writer

    def _create_checkpoints(self, chain: OperatorChain) -> TaskCheckpoints:
        parts = TaskParts(
            chain=chain,
            writers=self._writers,
            gates=numbered_gates(self.deployment, self._gates),
            has_chained_sources=has_chained_sources(self.deployment),
            call_later=self._call_later,
            stop_taken=self._stop_taken,
            wake=self._wake,
        )
        return TaskCheckpoints(self.deployment, self._services, parts, self._written, self._end_condition)

    @property
    def _is_restored_finished(self) -> bool:
        restore = self.deployment.restore
        return restore is not None and restore.is_finished

    @property
    def _opened_chain(self) -> OperatorChain:
        assert self._chain is not None, "the chain is built before anything else happens"
        return self._chain

    @property
    def _opened_checkpoints(self) -> TaskCheckpoints:
        assert self._checkpoints is not None, "checkpoints are set up together with the chain"
        return self._checkpoints

    @property
    def _opened_inputs(self) -> InputProcessor:
        assert self._inputs is not None, "the inputs are made together with the chain"
        return self._inputs

    def _set_error(self, error: BaseException) -> None:
        self._error = error


def _ignore(_input_index: int) -> None:
    """Ignores the end of an input, as no operators run."""
