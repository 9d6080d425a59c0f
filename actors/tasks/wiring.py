"""Sets up the inputs and outputs of a task as its deployment says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from actors.network.consumer.input_gate import InputGate, SingleInputGate, UnionInputGate
from actors.network.flow.debloating import debloater
from actors.network.producer.record_writer import RecordWriter
from actors.network.producer.result_partition import ResultPartition
from actors.operators.contract.chunking import ChunkSizer
from actors.operators.contract.operator import Output
from actors.protocol.task_messages import TaskDeployment
from actors.tasks.chain.operator_chain import OperatorChain
from actors.tasks.chain.outputs import BroadcastingOutput
from actors.tasks.chain.task_services import TaskEnvironment
from actors.tasks.inputs.input_processor import (
    ChannelEvents,
    EndedTaskInput,
    InputProcessor,
    NetworkTaskInput,
    SourceTaskInput,
    TaskInput,
)
from actors.tasks.inputs.key_sorter import KeySorter
from actors.tasks.inputs.sorted_inputs import SortedTaskInputs, SorterOutput
from flinkray.transformations.partitioning import KeyGroupPartitioner, Partitioner
from flinkray.types.records import Timestamp
from graphs.job_graph import NetworkEdge, NetworkInput, OperatorConfig, SourceInput


def head_config(deployment: TaskDeployment) -> OperatorConfig:
    """The operator that takes the task's inputs."""
    return next(config for config in deployment.operators if config.node_id == deployment.head_node)


def has_chained_sources(deployment: TaskDeployment) -> bool:
    return any(isinstance(each, SourceInput) for each in head_config(deployment).inputs)


def numbered_gates(deployment: TaskDeployment, gates: Sequence[SingleInputGate]) -> list[tuple[int, SingleInputGate]]:
    """The gates in the order in which their channels are numbered through, each with the number of its first
    channel."""
    numbered: list[tuple[int, SingleInputGate]] = []
    channels = 0
    for each in head_config(deployment).inputs:
        if isinstance(each, NetworkInput):
            for gate_index in each.gates:
                numbered.append((channels, gates[gate_index]))
                channels += gates[gate_index].number_of_channels
    return numbered


def create_input_processor(
    environment: TaskEnvironment, gates: Sequence[SingleInputGate], chain: OperatorChain, events: ChannelEvents
) -> InputProcessor:
    """Makes one input for each logical input of the head; a source that is the head is its own input.

    In batch mode the rows of keyed inputs are sorted by key first, unless that is turned off, and broadcast state is
    complete before the first row that reads it.
    """
    deployment, figures = environment.deployment, environment.figures
    head = head_config(deployment)

    def of_source(node_id: int) -> TaskInput:
        return SourceTaskInput(chain.source(node_id), lambda: chain.is_firing)

    if not head.inputs:
        return InputProcessor([of_source(head.node_id)], chain.end_input)
    sorter = _create_sorter(environment, chain)
    sorted_outputs = {
        index: SorterOutput(sorter, index, chain.head_input(index))
        for index, selector in enumerate(chain.head.context.keys)
        if sorter is not None and selector is not None
    }

    now_ms = chain.head.context.clock.monotonic_ms

    def waited_ms() -> float:
        return figures.backpressured.total_ms

    def of_gate(index: int, gate: InputGate, first_channel: int) -> TaskInput:
        set_watermark = partial(figures.set_watermark, index)
        output = sorted_outputs.get(index) or chain.head_input(index)
        chunk_sizer, sizes = (
            ChunkSizer(chain.chunk_limit),
            debloater(deployment.configuration, waited_ms, chain.held_rows),
        )
        return NetworkTaskInput(gate, output, set_watermark, events, first_channel, now_ms, chunk_sizer, sizes)

    inputs = _inputs(head, gates, of_gate, of_source)
    if sorter is None:
        first = chain.head.inputs_before_others if chain.head.context.is_batch else ()
        return InputProcessor(inputs, chain.end_input, first)
    combined = SortedTaskInputs(inputs, sorter, sorted_outputs, chain.end_keys, chain.end_input)
    return InputProcessor([combined], _nothing_more)


def _create_sorter(environment: TaskEnvironment, chain: OperatorChain) -> KeySorter | None:
    settings, selectors = environment.settings, chain.head.context.keys
    if not settings.sorts_inputs or all(each is None for each in selectors):
        return None
    return KeySorter(
        selectors,
        environment.deployment.task_name,
        memory_bytes=settings.sort_memory_bytes,
        directory=settings.temporary_directory,
        batch_rows=settings.batch_rows,
        batch_bytes=settings.batch_bytes,
    )


def ended_inputs(
    deployment: TaskDeployment, gates: Sequence[SingleInputGate], events: ChannelEvents
) -> list[TaskInput]:
    """Makes the inputs of a task whose rows were all processed in an earlier attempt: no rows are read or passed on."""
    head = head_config(deployment)
    nowhere: Output = BroadcastingOutput(())

    def of_gate(_index: int, gate: InputGate, first_channel: int) -> TaskInput:
        return NetworkTaskInput(gate, nowhere, _no_watermark, events, first_channel, lambda: 0.0, ChunkSizer(), None)

    return _inputs(head, gates, of_gate, lambda _node_id: EndedTaskInput()) or [EndedTaskInput()]


def _inputs(
    head: OperatorConfig,
    gates: Sequence[SingleInputGate],
    of_gate: Callable[[int, InputGate, int], TaskInput],
    of_source: Callable[[int], TaskInput],
) -> list[TaskInput]:
    inputs: list[TaskInput] = []
    first_channel = 0
    for index, each in enumerate(head.inputs):
        if isinstance(each, NetworkInput):
            own = [gates[gate_index] for gate_index in each.gates]
            gate: InputGate = own[0] if len(own) == 1 else UnionInputGate(own)
            inputs.append(of_gate(index, gate, first_channel))
            first_channel += gate.number_of_channels
        else:
            inputs.append(of_source(each.source_node))
    return inputs


def create_writer(
    environment: TaskEnvironment, edge: NetworkEdge, partition: ResultPartition, partitioner: Partitioner
) -> RecordWriter:
    """Makes the writer of one result of the task."""
    deployment, services, settings = environment.deployment, environment.services, environment.settings
    groups = deployment.partitions[edge.result_index].max_parallelism
    if isinstance(partitioner, KeyGroupPartitioner) and groups is not None:
        partitioner = replace(partitioner, max_parallelism=groups)
    return RecordWriter(
        partition,
        partitioner,
        buffer_timeout_ms=edge.buffer_timeout_ms,
        timers=services.timers,
        target_rows=settings.batch_rows,
        target_bytes=settings.batch_bytes,
        generator=services.random(f"{deployment.attempt_id} output {edge.result_index}"),
        where=deployment.task_name,
    )


def _nothing_more(_input_index: int) -> None:
    """Ignores the end of the combined input, as sorted inputs tell the operator of each end themselves."""


def _no_watermark(_timestamp: Timestamp) -> None:
    """Ignores watermarks, as a task that runs no operators has none."""
