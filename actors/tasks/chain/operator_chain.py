"""The operators of a task, wired to each other and to the network (Flink's OperatorChain)."""

from __future__ import annotations

import contextlib
import random
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from actors.mailbox.executor import MailboxExecutor
from actors.operators.contract.cancellation import Cancellation
from actors.operators.contract.chunking import ChunkLimit
from actors.operators.contract.operator import Operator, Output
from actors.operators.sinks.operator import SinkOperator
from actors.operators.sources.operator import SourceOperator
from actors.protocol.data_messages import TaskDeployment
from actors.protocol.elements import CheckpointOptions
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from actors.tasks.chain.cached_files import CachedFiles
from actors.tasks.chain.chain_members import ChainMember, load_members
from actors.tasks.chain.outputs import (
    ChainingOutput,
    CountingOutput,
    EdgeOutput,
    OperatorOutput,
    RecordWriterOutput,
    SourceOutput,
    Writer,
    combined,
    name_operator,
)
from actors.tasks.chain.task_services import TaskOperatorContext, TaskServices
from actors.tasks.chain.timers import TaskTimers
from actors.tasks.metrics.figures import OperatorFigures, TaskFigures
from flinkray.transformations.partitioning import Partitioner
from flinkray.types.records import OperatorId, OutputTag
from graphs.job_graph import NetworkEdge

# What lies between an operator and the next one on the interpreter's stack: 5 or 6 functions for most.
_FRAMES_PER_OPERATOR = 20
_OTHER_FRAMES = 500

_recursion_limit = threading.Lock()

CreateWriter = Callable[[NetworkEdge, Partitioner], Writer]


class OperatorChain:
    """Built for every task, also for a single operator. The task's thread makes all calls.

    All operators are set up when the constructor returns; `close` is called whatever happens after that.

    Args:
        executors: by operator; whoever is further down the chain has a higher priority.
        operator_acted: called after each mail of an operator: it may be available again.
        cancellation: of the task; asked before an operator's rows go on.
    """

    def __init__(
        self,
        deployment: TaskDeployment,
        services: TaskServices,
        figures: TaskFigures,
        executors: Mapping[OperatorId, MailboxExecutor],
        timers: TaskTimers,
        create_writer: CreateWriter,
        operator_acted: Callable[[], None],
        cancellation: Cancellation,
    ) -> None:
        self._figures = figures
        self._create_writer = create_writer
        self._writers: list[Writer] = []
        self.chunk_limit = ChunkLimit(self._writers)
        self._operator_acted = operator_acted
        self._head_node = deployment.head_node
        members = load_members(deployment)
        _allow_depth(len(members))
        # By the node that takes the input; from the head, and the sources chained to it, to the tail.
        self._operators: dict[int, Operator] = {}
        self._by_operator_id: dict[OperatorId, Operator] = {}
        for member in members:
            if member.first.node_id == deployment.head_node:
                self.exchanges = member.codes[0].exchanges
                """Per gate, how rows are spread over subtasks; None where any subtask may have any row."""
            operator = services.create_operator(member.codes, [config.name for config in member.configs])
            self._operators[member.first.node_id] = operator
            self._by_operator_id.update((config.operator_id, operator) for config in member.configs)
        self._cached_files = CachedFiles(deployment.cached_files)
        self._figures_of_operators: list[OperatorFigures] = []
        for member, operator in zip(members, self._operators.values(), strict=True):
            context = TaskOperatorContext(
                member.first,
                member.name,
                member.codes[0].keys,
                deployment,
                self._cached_files,
                services,
                figures,
                self.chunk_limit,
                executors[member.first.operator_id],
                timers,
                operator_acted,
                cancellation,
            )
            context.metrics.number_of_inputs = operator.number_of_inputs
            self._figures_of_operators.append(context.metrics)
            output = self._output_of(member, operator, context.random("latency markers"))
            operator.setup(context, OperatorOutput(output, context.metrics.watermark_out, cancellation.check))
        figures.operators = list(self._figures_of_operators)
        self._gating = [o for o in self._operators.values() if type(o).is_available is not Operator.is_available]
        self._unclosed = list(self._operators.values())

    # -- what the task asks --------------------------------------------------------------------------------------

    @property
    def operators(self) -> tuple[Operator, ...]:
        """From the head, and the sources chained to it, to the tail."""
        return tuple(self._operators.values())

    @property
    def head(self) -> Operator:
        return self._operators[self._head_node]

    def source(self, node_id: int) -> SourceOperator:
        """The source operator of that node."""
        operator = self._operators[node_id]
        assert isinstance(operator, SourceOperator), f"node {node_id} is a {type(operator).__name__}, not a source"
        return operator

    def head_input(self, input_index: int) -> Output:
        """Takes what the network brings for that input of the head."""
        return CountingOutput(self._into(self.head, input_index, None), self._figures.count_in)

    @property
    def is_available(self) -> bool:
        """Whether every operator wants more input."""
        return not self._gating or all(operator.is_available for operator in self._gating)

    @property
    def figures(self) -> tuple[OperatorFigures, ...]:
        """Counters and gauges, per operator."""
        return tuple(self._figures_of_operators)

    # -- life cycle ----------------------------------------------------------------------------------------------

    def restore(self, restored_of: Callable[[OperatorId], RestoredState | None]) -> None:
        """initialize_state and open, from the tail to the head: who emits while opening finds an open receiver.

        Args:
            restored_of: what each operator starts from.
        """
        for operator in reversed(self.operators):
            with _named(operator):
                operator.initialize_state(restored_of(OperatorId(operator.context.operator_id)))
                operator.open()

    def recover_finished(self, restored_of: Callable[[OperatorId], RestoredState]) -> None:
        """Instead of `restore`: all rows of the task were processed in an earlier attempt, and no operator runs."""
        self._unclosed.clear()
        for operator in reversed(self.operators):
            with _named(operator):
                operator.recover_finished(restored_of(OperatorId(operator.context.operator_id)))

    def end_keys(self) -> None:
        """No more rows of any key that the head has had will come."""
        with _named(self.head):
            self.head.end_keys()

    def end_input(self, input_index: int) -> None:
        """No more rows on that input of the head."""
        with _named(self.head):
            self.head.end_input(input_index)

    def finish(self) -> None:
        """No more rows at all: from the head to the tail, so that what each still emits passes all behind it."""
        for operator in self.operators:
            with _named(operator):
                if operator is not self.head and not isinstance(operator, SourceOperator):
                    operator.end_input(0)
                operator.finish()

    def close(self) -> None:
        """Closes all operators from the tail to the head, also when one fails; then raises the first failure.

        Each is closed once, however often this is called: a task that fails in closing is closed again by its end.
        """
        first: Exception | None = None
        while self._unclosed:
            operator = self._unclosed.pop()
            try:
                operator.close()
            except Exception as error:
                name_operator(error, operator)
                first = first or error
        self._cached_files.close()
        if first is not None:
            raise first

    def forget(self) -> None:
        """After `close`, once: see `Operator.forget`."""
        for operator in self.operators:
            operator.forget()

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def prepare_barrier(self, checkpoint_id: int) -> None:
        """From the head to the tail: what one emits before the barrier passes all behind it."""
        for operator in self.operators:
            with _named(operator):
                operator.prepare_barrier(checkpoint_id)

    def snapshot(self, checkpoint_id: int, options: CheckpointOptions) -> dict[OperatorId, OperatorSnapshot]:
        """The state of all operators that have any.

        An error of one discards what the others gave.
        """
        snapshots: dict[OperatorId, OperatorSnapshot] = {}
        try:
            for operator in reversed(self.operators):
                with _named(operator):
                    snapshot = operator.snapshot_state(checkpoint_id, options)
                if snapshot is not None:
                    snapshots[OperatorId(operator.context.operator_id)] = snapshot
        except BaseException:
            for snapshot in snapshots.values():
                snapshot.discard()
            raise
        return snapshots

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """From the tail to the head."""
        for operator in reversed(self.operators):
            with _named(operator):
                operator.notify_checkpoint_complete(checkpoint_id)
        self._operator_acted()

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """From the tail to the head, all of them, also when one fails; then raises the first failure."""
        first: Exception | None = None
        for operator in reversed(self.operators):
            try:
                operator.notify_checkpoint_aborted(checkpoint_id)
            except Exception as error:
                name_operator(error, operator)
                first = first or error
        self._operator_acted()
        if first is not None:
            raise first

    def handle_event(self, operator_id: OperatorId, event: Any) -> None:
        """Something from an operator's coordinator."""
        operator = self._by_operator_id[operator_id]
        with _named(operator):
            operator.handle_coordinator_event(event)
        self._operator_acted()

    # -- wiring --------------------------------------------------------------------------------------------------

    def _output_of(self, member: ChainMember, operator: Operator, generator: random.Random) -> Output:
        """To the next operators of the chain, and through writers to other tasks."""
        edges: list[EdgeOutput] = [
            self._into(self._operators[edge.target_node], edge.input_index, edge.output_tag)
            for edge in member.last.chained_outputs
        ]
        for edge, partitioner in zip(member.last.network_outputs, member.codes[-1].partitioners, strict=True):
            writer = self._create_writer(edge, partitioner)
            self._writers.append(writer)
            edges.append(CountingOutput(RecordWriterOutput(writer, edge.output_tag), self._figures.count_out))
        if not isinstance(operator, SourceOperator):
            return combined(edges, generator)
        # A chained source has one output, its input of the head; the head of a source task is input 0.
        input_index = member.last.chained_outputs[0].input_index if operator is not self.head else 0
        return SourceOutput(
            combined(edges, generator), self._figures.count_in, partial(self._figures.set_watermark, input_index)
        )

    def _into(self, operator: Operator, input_index: int, tag: OutputTag | None) -> EdgeOutput:
        """Into an operator; rows that a sink takes have left the task."""
        edge = ChainingOutput(operator, input_index, tag)
        return CountingOutput(edge, self._figures.count_out) if isinstance(operator, SinkOperator) else edge


def _allow_depth(operators: int) -> None:
    """Each operator calls the next, which a chain of hundreds could not within Python's usual limit."""
    with _recursion_limit:  # other tasks of the process may have longer chains
        sys.setrecursionlimit(max(sys.getrecursionlimit(), _OTHER_FRAMES + operators * _FRAMES_PER_OPERATOR))


@contextlib.contextmanager
def _named(operator: Operator) -> Iterator[None]:
    """Errors inside say which operator they come from."""
    try:
        yield
    except Exception as error:
        name_operator(error, operator)
        raise
