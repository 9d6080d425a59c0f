"""The chain of a task's operators: wired to each other and to the network, opened, snapshotted, closed
(OperatorChain)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from actors.mailbox.executor import MailboxExecutor
from actors.operators.contract.chunking import ChunkLimit
from actors.operators.contract.held_rows import HeldRowsOfAll
from actors.operators.contract.operator import Operator, Output
from actors.operators.sinks.operator import SinkOperator
from actors.operators.sources.operator import SourceOperator
from actors.protocol.elements import CheckpointOptions
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from actors.tasks.chain.chain_members import ChainMember, load_members
from actors.tasks.chain.marks import mark
from actors.tasks.chain.operator_context import TaskOperatorContext
from actors.tasks.chain.outputs import (
    ChainingOutput,
    CountingOutput,
    EdgeOutput,
    OperatorOutput,
    RecordWriterOutput,
    ResultWriter,
    SourceOutput,
    close_all,
    combined,
    name_operator,
    naming_operator,
)
from actors.tasks.chain.task_services import TaskEnvironment
from actors.tasks.metrics.figures import OperatorFigures
from actors.user_code.functions import OpenedPartitioner
from flinkray.transformations.partitioning import Partitioner
from flinkray.types.records import OperatorId, OutputTag
from graphs.job_graph import NetworkEdge

# The most frames between an operator and the next one on the interpreter's stack, where most have 5 or 6.
_FRAMES_PER_OPERATOR = 20
_OTHER_FRAMES = 500

_recursion_limit = threading.Lock()

CreateWriter = Callable[[NetworkEdge, Partitioner], ResultWriter]
"""Makes the writer of a network output."""


class OperatorChain:
    """All operators of one task, even if there is only one. The task's thread makes all calls.

    The operators are set up when the constructor returns; `close` must be called whatever happens after that.

    Args:
        executors: run the mails of each operator; operators further down the chain have higher priorities.
    """

    def __init__(
        self,
        environment: TaskEnvironment,
        executors: Mapping[OperatorId, MailboxExecutor],
        create_writer: CreateWriter,
    ) -> None:
        deployment, figures = environment.deployment, environment.figures
        self._figures = figures
        self._create_writer = create_writer
        self._writers: list[ResultWriter] = []
        self.late_results: set[int] = set()
        """Indices of the results into which operators emit until the task ends (`Operator.gives_after_data`)."""
        self._partitioners: list[OpenedPartitioner] = []
        self.chunk_limit = ChunkLimit(self._writers)
        self._operator_acted = environment.operator_acted
        self._head_node = deployment.head_node
        environment.services.files.prepare()
        members = load_members(deployment)
        _allow_depth(len(members))
        self._operators: dict[int, Operator] = {}
        """From the head, and the sources chained to it, to the tail; by the node of the graph that takes the input."""
        self._by_operator_id: dict[OperatorId, Operator] = {}
        self._names: dict[int, str] = {}
        """By the same node."""
        for member in members:
            if member.first.node_id == deployment.head_node:
                self.exchanges = member.codes[0].exchanges
                """How each gate's exchange spreads rows over subtasks; None where any subtask may have any row."""
            operator = environment.services.create_operator(member.codes, [config.name for config in member.configs])
            self._operators[member.first.node_id] = operator
            self._names[member.first.node_id] = member.name
            self._by_operator_id.update((config.operator_id, operator) for config in member.configs)
        self._figures_of_operators: list[OperatorFigures] = []
        for member, operator in zip(members, self._operators.values(), strict=True):
            executor = executors[member.first.operator_id]
            context = TaskOperatorContext(environment, member, executor, self.chunk_limit)
            context.metrics.number_of_inputs = operator.number_of_inputs
            self._figures_of_operators.append(context.metrics)
            output = self._output_of(member, operator, context)
            check_canceled = environment.cancellation.check
            operator.setup(context, OperatorOutput(output, context.metrics.watermark_out, check_canceled))
            if isinstance(operator, SourceOperator):
                mark(operator, ("emit_next",), member.name)
        figures.operators = list(self._figures_of_operators)
        self._in_pieces = [operator for operator in reversed(self._operators.values()) if operator.FIRES_IN_PIECES]
        self._gating = [o for o in self._operators.values() if type(o).is_available is not Operator.is_available]
        held = [rows for operator in self._operators.values() if (rows := operator.held_rows) is not None]
        self.held_rows = HeldRowsOfAll(held) if held else None
        """The rows that operators have taken and hold; None: no operator of the chain holds any."""
        self._unclosed = list(self._operators.values())

    # -- what the task asks --------------------------------------------------------------------------------------

    @property
    def operators(self) -> tuple[Operator, ...]:
        """All operators, from the head, and the sources chained to it, to the tail."""
        return tuple(self._operators.values())

    @property
    def head(self) -> Operator:
        return self._operators[self._head_node]

    def source(self, node_id: int) -> SourceOperator:
        """The source operator of a node of the graph."""
        operator = self._operators[node_id]
        assert isinstance(operator, SourceOperator), f"node {node_id} is a {type(operator).__name__}, not a source"
        return operator

    def head_input(self, input_index: int) -> Output:
        """Where rows go that the network brings for an input of the head."""
        return CountingOutput(self._into(self._head_node, input_index, None), self._figures.count_in)

    @property
    def is_available(self) -> bool:
        """Whether every operator wants more input."""
        return not self._gating or all(operator.is_available for operator in self._gating)

    @property
    def may_end(self) -> bool:
        """Whether no operator has something left to do that needs no rows, such as a commit."""
        return all(operator.may_end for operator in self._operators.values())

    @property
    def is_firing(self) -> bool:
        """Whether what is due in an operator has fired in part only: no input is to be processed before the rest."""
        return any(operator.is_firing for operator in self._in_pieces)

    @property
    def figures(self) -> tuple[OperatorFigures, ...]:
        """Counters and gauges of each operator."""
        return tuple(self._figures_of_operators)

    # -- life cycle ----------------------------------------------------------------------------------------------

    def restore(self, restored_of: Callable[[OperatorId], RestoredState | None]) -> None:
        """Initialises the state of all operators and opens them.

        From the tail to the head, so that an operator that emits while it opens finds the next one open.

        Args:
            restored_of: the state that an operator starts from.
        """
        for partitioner in self._partitioners:
            partitioner.open()
        for operator in reversed(self.operators):
            with naming_operator(operator):
                operator.initialize_state(restored_of(OperatorId(operator.context.operator_id)))
                operator.open()

    def recover_finished(self, restored_of: Callable[[OperatorId], RestoredState]) -> None:
        """Called instead of `restore` if an earlier attempt had processed all rows of the task: no operator runs."""
        self._unclosed.clear()
        for operator in reversed(self.operators):
            with naming_operator(operator):
                operator.recover_finished(restored_of(OperatorId(operator.context.operator_id)))
        self.late_results.clear()

    def end_keys(self) -> None:
        """Tells the head that no more rows will come of any key that it has had."""
        with naming_operator(self.head):
            self.head.end_keys()

    def fire_on(self) -> None:
        """Fires a piece of what is due in the last operator that has not fired all."""
        operator = next(each for each in self._in_pieces if each.is_firing)
        with naming_operator(operator):
            operator.fire_on()

    def stop_firing(self) -> None:
        """Fires nothing more in any operator."""
        for operator in self._in_pieces:
            operator.stop_firing()

    def end_input(self, input_index: int) -> None:
        """Tells the head that no more rows will come on one of its inputs."""
        with naming_operator(self.head):
            self.head.finish_firing()
            self.head.end_input(input_index)

    def finish(self) -> None:
        """Finishes all operators, as no more rows will come.

        From the head to the tail, so that what an operator still emits is processed by those behind it.
        """
        for operator in self.operators:
            with naming_operator(operator):
                operator.finish_firing()
                if operator is not self.head and not isinstance(operator, SourceOperator):
                    operator.end_input(0)
                operator.finish()

    def close(self) -> None:
        """Closes all operators from the tail to the head, even if one fails; then raises the first failure.

        Each is closed once, however often this is called: a task that fails here calls it again at its end.
        """
        first = close_all(self._unclosed, self._partitioners)
        if first is not None:
            raise first

    def forget(self) -> None:
        """Frees what operators hold (`Operator.forget`). Called once, after `close`."""
        for operator in self.operators:
            operator.forget()

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def prepare_barrier(self, checkpoint_id: int) -> None:
        """Lets operators emit what must come before a barrier.

        From the head to the tail, so that what an operator emits is processed by those behind it.
        """
        for operator in self.operators:
            with naming_operator(operator):
                operator.prepare_barrier(checkpoint_id)

    def snapshot(self, checkpoint_id: int, options: CheckpointOptions) -> dict[OperatorId, OperatorSnapshot]:
        """Snapshots the state of all operators that have any. If one fails, the snapshots of the others are
        discarded."""
        snapshots: dict[OperatorId, OperatorSnapshot] = {}
        try:
            for operator in reversed(self.operators):
                with naming_operator(operator):
                    snapshot = operator.snapshot_state(checkpoint_id, options)
                if snapshot is not None:
                    snapshots[OperatorId(operator.context.operator_id)] = snapshot
        except BaseException:
            for snapshot in snapshots.values():
                snapshot.discard()
            raise
        return snapshots

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Tells all operators, from the tail to the head."""
        for operator in reversed(self.operators):
            with naming_operator(operator):
                operator.notify_checkpoint_complete(checkpoint_id)
        self._operator_acted()

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Tells all operators, from the tail to the head, even if one fails; then raises the first failure."""
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
        """Hands an event of its coordinator to an operator."""
        operator = self._by_operator_id[operator_id]
        with naming_operator(operator):
            operator.handle_coordinator_event(event)
        self._operator_acted()

    # -- wiring --------------------------------------------------------------------------------------------------

    def _output_of(self, member: ChainMember, operator: Operator, context: TaskOperatorContext) -> Output:
        """The output of an operator: to the next operators of the chain, and through writers to other tasks."""
        generator = context.random("latency markers")
        edges: list[EdgeOutput] = [
            self._into(edge.target_node, edge.input_index, edge.output_tag) for edge in member.last.chained_outputs
        ]
        for edge, partitioner in zip(member.last.network_outputs, member.codes[-1].partitioners, strict=True):
            writer = self._create_writer(edge, partitioner)
            self._writers.append(writer)
            if operator.gives_after_data:
                self.late_results.add(edge.result_index)
            self._partitioners.append(OpenedPartitioner(context, partitioner))
            edges.append(CountingOutput(RecordWriterOutput(writer, edge.output_tag), self._figures.count_out))
        if not isinstance(operator, SourceOperator):
            return combined(edges, generator)
        # A chained source has one output, its input of the head; the head of a source task is input 0.
        input_index = member.last.chained_outputs[0].input_index if operator is not self.head else 0
        return SourceOutput(
            combined(edges, generator), self._figures.count_in, partial(self._figures.set_watermark, input_index)
        )

    def _into(self, node: int, input_index: int, tag: OutputTag | None) -> EdgeOutput:
        """The output into an operator. Rows that a sink takes count as having left the task."""
        operator = self._operators[node]
        edge = ChainingOutput(operator, input_index, tag)
        mark(edge, ("deliver", "emit_watermark"), self._names[node])
        return CountingOutput(edge, self._figures.count_out) if isinstance(operator, SinkOperator) else edge


def _allow_depth(operators: int) -> None:
    """Raises Python's limit of recursion for a chain of hundreds of operators, of which each calls the next."""
    with _recursion_limit:  # other tasks of the process may need a higher limit
        sys.setrecursionlimit(max(sys.getrecursionlimit(), _OTHER_FRAMES + operators * _FRAMES_PER_OPERATOR))
