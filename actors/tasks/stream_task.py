"""A task: its life from deployment to the end, in one thread driven by a mailbox (Flink's Task and StreamTask)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from actors.elements import EndOfData
from actors.mailbox.processor import MailboxProcessor, Suspension
from actors.mailbox.task_mailbox import MailboxClosed
from actors.messages import TaskDeployment, TaskMetrics
from actors.network.input_gate import InputGate, SingleInputGate, UnionInputGate
from actors.network.record_writer import RecordWriter
from actors.network.result_partition import ResultPartition
from actors.operators.input_status import InputStatus
from actors.tasks.environment import TaskServices
from actors.tasks.input_processor import InputProcessor, NetworkTaskInput, SourceTaskInput, TaskInput
from actors.tasks.metrics import OperatorFigures, Stopwatch, TaskFigures
from actors.tasks.operator_chain import OperatorChain
from actors.tasks.timers import TaskTimers
from flinkray import options
from flinkray.partitioning import Partitioner
from flinkray.types import OperatorId
from graphs.job_graph import NetworkEdge, NetworkInput, OperatorConfig
from graphs.states import ExecutionState

log = logging.getLogger(__name__)


class TaskCanceled(BaseException):
    """Ends a task from within, wherever it is. No Exception, so that no user code takes it for one of its own."""


class StreamTask:
    """One attempt of one subtask; a `Loop`.

    In order: load the code, set up partitions, gates and operators; INITIALIZING; initialize_state and open from tail
    to head; RUNNING; mails and input until the end of data, then `finish` from head to tail; stop timers, refuse and
    drain mails; flush; close operators; end the partitions; FINISHED. Whatever fails on the way ends in FAILED, a
    cancel in CANCELED, and operators are closed always. A state is reported when it is reached; FINISHED, CANCELED
    and FAILED are reported last.

    Args:
        report: gets each new state, with the error where there is one, and the figures at that moment; called in the
            task's thread.
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
        self._figures = TaskFigures(services.clock, max(1, len(self._head_config(deployment).inputs)))
        self._error: BaseException | None = None
        self._processor = MailboxProcessor(self._default_action, self._set_error)
        self._timers = TaskTimers(services.timers)
        # Operators further down have a higher priority: who waits must not be entered from above meanwhile.
        self._executors = {
            config.operator_id: self._processor.executor(position)
            for position, config in enumerate(deployment.operators, start=1)
        }
        self._phase = self._deploy
        self._is_done = False
        self._is_canceled = False
        self._chain: OperatorChain | None = None
        self._inputs: InputProcessor | None = None
        self._partitions: list[ResultPartition] = []
        self._gates: list[SingleInputGate] = []
        self._writers: list[RecordWriter] = []
        self._suspension: Suspension | None = None
        self._waits_for_operator = False

    # -- any thread ----------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Ends the task soon: at its next step, or where an operator waits."""
        self._is_canceled = True
        try:
            self._processor.control_executor.execute(_raise_canceled, "cancel", urgent=True)
        except MailboxClosed:
            log.debug("task %s is at its end already", self.deployment.task_name)

    def deliver_event(self, operator_id: OperatorId, event: Any) -> None:
        """Something from the coordinator of one of the operators; dropped when the task is at its end."""

        def deliver() -> None:
            self._opened_chain.handle_event(operator_id, event)

        try:
            self._executors[operator_id].execute(deliver, f"{type(event).__name__} of the coordinator")
        except MailboxClosed:
            log.debug("task %s has ended; %s comes too late", self.deployment.task_name, type(event).__name__)

    def metrics(self) -> TaskMetrics:
        """The figures so far."""
        return self._figures.snapshot()

    def operator_figures(self) -> tuple[OperatorFigures, ...]:
        """Per operator; none before the task has set them up."""
        return self._chain.figures if self._chain is not None else ()

    # -- Loop ----------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        try:
            return self._phase()
        except BaseException as error:
            # Also what is no Exception: this is the last frame of a thread, where it would go unnoticed.
            self._end_badly(error)
            return True

    def wait(self, timeout_ms: float | None) -> None:
        self._processor.wait(timeout_ms)

    @property
    def is_done(self) -> bool:
        return self._is_done

    # -- phases, each a step or more ------------------------------------------------------------------------------

    def _deploy(self) -> bool:
        self._check_canceled()
        deployment, network = self.deployment, self._services.network
        for partition in deployment.partitions:
            self._partitions.append(network.create_partition(partition, deployment.configuration))
        for gate in deployment.gates:
            self._gates.append(network.create_gate(gate, deployment.attempt_id, deployment.configuration))
        self._chain = chain = OperatorChain(
            deployment,
            self._services,
            self._figures,
            self._executors,
            self._timers,
            self._create_writer,
            self._operator_acted,
        )
        self._inputs = InputProcessor(self._create_inputs(chain), chain.end_input)
        for connected in self._gates:
            connected.request_partitions()
        self._report(ExecutionState.INITIALIZING, None, self.metrics())
        self._phase = self._restore
        return True

    def _restore(self) -> bool:
        self._check_canceled()
        self._opened_chain.restore()
        self._figures.running.start()
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
        self._processor.prepare_close()
        self._processor.drain()
        for writer in self._writers:
            writer.flush_all()
        self._opened_chain.close()
        for writer in self._writers:
            writer.partition.finish()
        self._end(ExecutionState.FINISHED, None)
        return True

    def _end_badly(self, error: BaseException) -> None:
        is_canceled = self._is_canceled or isinstance(error, TaskCanceled)
        error.add_note(f"in task {self.deployment.task_name!r}, attempt {self.deployment.attempt_number}")
        self._timers.quiesce()
        if self._chain is not None:
            try:
                self._chain.close()
            except BaseException as second:
                # Not lost, but not the reason either: operators that did not open well often do not close well.
                log.warning("task %s: closing failed after %r", self.deployment.task_name, error, exc_info=second)
        # The report goes first, so that the reason is known before the consumers complain that their producer is gone.
        self._end(ExecutionState.CANCELED if is_canceled else ExecutionState.FAILED, None if is_canceled else error)
        for partition in self._partitions:
            partition.release(None if is_canceled else error)

    def _end(self, state: ExecutionState, error: BaseException | None) -> None:
        for watch in (self._figures.idle, self._figures.backpressured, self._figures.running):
            watch.stop()
        for writer in self._writers:
            writer.close()
        self._processor.close()
        self._is_done = True
        self._report(state, error, self.metrics())
        self._error = None  # its traceback holds the frames of the failure, with their batches, and these hold the task
        for gate in self._gates:
            self._services.network.release_gate(gate)

    # -- the default action --------------------------------------------------------------------------------------

    def _default_action(self) -> None:
        if not self._has_room():
            return
        inputs = self._opened_inputs
        status = inputs.process_input()
        if status is InputStatus.MORE_AVAILABLE:
            return
        if status is InputStatus.NOTHING_AVAILABLE:
            self._suspend(self._figures.idle)
            inputs.on_available(self._wake)
        elif status is InputStatus.END_OF_DATA:
            self._end_data(inputs.should_drain)
        else:
            self._processor.all_actions_completed()

    def _has_room(self) -> bool:
        """Whether outputs and operators take more; otherwise suspends until they do."""
        for writer in self._writers:
            if not writer.is_available:
                self._suspend(self._figures.backpressured)
                writer.availability.on_available(self._wake)
                return False
        if not self._opened_chain.is_available:
            self._suspend(self._figures.backpressured)
            self._waits_for_operator = True
            return False
        return True

    def _suspend(self, timer: Stopwatch) -> None:
        self._suspension = self._processor.suspend_default_action(timer)

    def _wake(self) -> None:
        """From any thread: perhaps there is input or room now. Being woken for nothing only costs another look."""
        suspension = self._suspension
        if suspension is not None:
            suspension.resume()

    def _operator_acted(self) -> None:
        if self._waits_for_operator:
            self._waits_for_operator = False
            self._wake()

    def _end_data(self, should_drain: bool) -> None:
        # A timer that fired now would emit behind the end.
        self._timers.quiesce()
        if should_drain:
            self._opened_chain.finish()
        for writer in self._writers:
            writer.broadcast_event(EndOfData(should_drain))
            writer.flush_all()

    # -- setting up ----------------------------------------------------------------------------------------------

    def _create_writer(self, edge: NetworkEdge, partitioner: Partitioner) -> RecordWriter:
        configuration = self.deployment.configuration
        writer = RecordWriter(
            self._partitions[edge.result_index],
            partitioner,
            buffer_timeout_ms=edge.buffer_timeout_ms,
            timers=self._services.timers,
            target_rows=configuration.get(options.BATCH_ROWS),
            target_bytes=configuration.get(options.BATCH_BYTES),
            generator=self._services.random(f"{self.deployment.attempt_id} output {edge.result_index}"),
            where=self.deployment.task_name,
        )
        self._writers.append(writer)
        return writer

    def _create_inputs(self, chain: OperatorChain) -> list[TaskInput]:
        """One per logical input of the head; a source that is the head is its own input."""
        head = self._head_config(self.deployment)
        if not head.inputs:
            return [SourceTaskInput(chain.source(head.node_id))]
        inputs: list[TaskInput] = []
        for index, each in enumerate(head.inputs):
            if isinstance(each, NetworkInput):
                own = [self._gates[gate_index] for gate_index in each.gates]
                gate: InputGate = own[0] if len(own) == 1 else UnionInputGate(own)
                inputs.append(
                    NetworkTaskInput(gate, chain.head_input(index), partial(self._figures.set_watermark, index))
                )
            else:
                inputs.append(SourceTaskInput(chain.source(each.source_node)))
        return inputs

    @staticmethod
    def _head_config(deployment: TaskDeployment) -> OperatorConfig:
        return next(config for config in deployment.operators if config.node_id == deployment.head_node)

    @property
    def _opened_chain(self) -> OperatorChain:
        assert self._chain is not None, "the chain is built before anything else happens"
        return self._chain

    @property
    def _opened_inputs(self) -> InputProcessor:
        assert self._inputs is not None, "the inputs are made together with the chain"
        return self._inputs

    def _set_error(self, error: BaseException) -> None:
        self._error = error

    def _check_canceled(self) -> None:
        if self._is_canceled:
            _raise_canceled()


def _raise_canceled() -> NoReturn:
    raise TaskCanceled
