"""What a slot has to be told to run one attempt of a subtask (Flink's TaskDeploymentDescriptorFactory)."""

from __future__ import annotations

from collections.abc import Callable

from actors.protocol.checkpoint_handles import TaskRestore
from actors.protocol.ports import Address
from actors.protocol.resources import AllocationId
from actors.protocol.task_messages import ChannelDescriptor, GateDescriptor, PartitionDescriptor, TaskDeployment
from graphs.execution_graph import Execution, ExecutionVertex, IntermediateResultPartition

SlotOf = Callable[[ExecutionVertex], Address]
"""The TaskSlot that the current attempt of a subtask runs in, or ran in."""


def allocation_of(execution: Execution) -> AllocationId:
    """The lease of the slot that the attempt runs in, or ran in; "" where it has had none."""
    return AllocationId(execution.allocation_id or "")


def task_executor_of(execution: Execution) -> Address:
    """The TaskExecutor of that slot; "" where the attempt has had none."""
    return Address(execution.location or "")


def deployment_of(execution: Execution, slot_of: SlotOf, restore: TaskRestore | None = None) -> TaskDeployment:
    """The deployment of an attempt whose producers have their slots (they need not be running).

    Args:
        restore: what it starts from; None: it starts without state.
    """
    vertex = execution.vertex
    job_vertex = vertex.job_vertex
    information = vertex.graph.information
    return TaskDeployment(
        job_id=information.job_id,
        job_name=information.job_name,
        attempt_id=execution.attempt_id,
        vertex_id=job_vertex.id,
        vertex_name=job_vertex.name,
        kind=job_vertex.job_vertex.kind,
        subtask_index=vertex.subtask_index,
        parallelism=job_vertex.parallelism,
        max_parallelism=job_vertex.max_parallelism,
        attempt_number=execution.attempt_number,
        allocation_id=allocation_of(execution),
        operators=job_vertex.job_vertex.operators,
        head_node=job_vertex.job_vertex.head_node,
        partitions=tuple(_partition(partition) for partition in vertex.results),
        gates=_gates(vertex, slot_of),
        configuration=information.configuration,
        restore=restore,
        has_checkpoints=information.checkpoint_settings.is_periodic and information.checkpoint_settings.has_final,
    )


def _partition(partition: IntermediateResultPartition) -> PartitionDescriptor:
    return PartitionDescriptor(
        partition_id=partition.current_id,
        result_type=partition.result.result_type,
        subpartitions=partition.number_of_subpartitions,
        is_broadcast=partition.result.is_broadcast,
        barriers_overtake=partition.result.barriers_overtake,
        max_parallelism=partition.result.consumer_max_parallelism,
    )


def _gates(vertex: ExecutionVertex, slot_of: SlotOf) -> tuple[GateDescriptor, ...]:
    gates = []
    edges = sorted(vertex.job_vertex.job_vertex.inputs, key=lambda edge: edge.gate_index)
    for group, edge in zip(vertex.consumed, edges, strict=True):
        subpartition = group.subpartition_of(vertex.id)
        partitions = [vertex.graph.partitions[key] for key in group]
        channels = tuple(
            ChannelDescriptor(partition.current_id, subpartition, slot_of(partition.producer))
            for partition in partitions
        )
        gates.append(GateDescriptor(edge.gate_index, edge.input_index, channels, edge.barriers_overtake))
    return tuple(gates)
