"""Where the results are that later stages read, and until when they are needed (Flink's JobMasterPartitionTracker)."""

from __future__ import annotations

from actors.protocol.ports import Address
from actors.protocol.resources import AllocationId
from actors.scheduling.commands import ReleaseResultPartitions
from actors.scheduling.deployment import allocation_of, task_executor_of
from graphs.execution_graph import (
    AttemptId,
    Execution,
    ExecutionGraph,
    ExecutionVertexId,
    PartitionId,
    ResultPartitionKey,
)
from graphs.regions import PartitionReleaseStrategy, RegionTopology
from graphs.states import ExecutionState


class ResultTracker:
    """The blocking results of tasks that have finished. A result is in the slot that its task ran in.

    Pipelined ones go by themselves when they have been read. Those of a task that has finished stay if their reader
    ends before it asks for them, so they are released when the task is to run again.

    Not thread-safe.
    """

    def __init__(self, graph: ExecutionGraph, topology: RegionTopology) -> None:
        self._graph = graph
        self._release_strategy = PartitionReleaseStrategy(topology)
        self._held: dict[ResultPartitionKey, Execution] = {}
        """Result -> the attempt that made it."""
        self._late: set[AttemptId] = set()
        """Attempts that finished although they were cancelled."""

    def on_finished(self, execution: Execution) -> list[ReleaseResultPartitions]:
        """The attempt's results can be read from now on; gives the results that it has read, which nobody needs any
        more."""
        for partition in execution.vertex.results:
            if not partition.result.result_type.is_pipelined:
                self._held[partition.key] = execution
        return self._release(self._release_strategy.vertex_finished(execution.vertex.id))

    def on_finished_late(self, execution: Execution) -> None:
        """It was to end, and finished before it heard of that: what it has made stays until it is reset, unless the
        job ends and its slots with it."""
        self._late.add(execution.attempt_id)

    def on_reset(self, execution: Execution) -> list[ReleaseResultPartitions]:
        """The subtask is to run again, and all that read from it while it ran have ended: what it reads is needed
        again, and what this attempt has made is not."""
        self._release_strategy.vertex_unfinished(execution.vertex.id)
        made = execution.vertex.results
        released = self._release(tuple(partition.key for partition in made))
        is_late = execution.attempt_id in self._late
        self._late.discard(execution.attempt_id)
        if is_late or execution.state is ExecutionState.FINISHED:
            left = [each for each in made if is_late or each.result.result_type.is_pipelined]
            released += _release_of(execution, [each.id_for(execution.attempt_id) for each in left])
        return released

    def on_slot_lost(self, allocation_id: AllocationId) -> tuple[ExecutionVertexId, ...]:
        """The slot is gone; gives the subtasks whose results, which are still needed, are gone with it."""
        lost = [key for key, execution in self._held.items() if execution.allocation_id == allocation_id]
        return tuple(dict.fromkeys(self._held.pop(key).vertex.id for key in lost))

    def is_available(self, key: ResultPartitionKey) -> bool:
        """Whether the result of a task that has finished can be read."""
        return key in self._held

    def holding_slots(self) -> frozenset[AllocationId]:
        """The slots that have results which are still needed."""
        return frozenset(allocation_of(execution) for execution in self._held.values())

    def clear(self) -> None:
        """The job has ended, and its slots with it."""
        self._held.clear()
        self._late.clear()

    def _release(self, keys: tuple[ResultPartitionKey, ...]) -> list[ReleaseResultPartitions]:
        by_slot: dict[tuple[Address, AllocationId], list[PartitionId]] = {}
        for key in keys:
            execution = self._held.pop(key, None)
            if execution is not None:
                partition_id = self._graph.partitions[key].id_for(execution.attempt_id)
                slot = (task_executor_of(execution), allocation_of(execution))
                by_slot.setdefault(slot, []).append(partition_id)
        return [ReleaseResultPartitions(*slot, tuple(ids)) for slot, ids in by_slot.items()]


def _release_of(execution: Execution, ids: list[PartitionId]) -> list[ReleaseResultPartitions]:
    if not ids:
        return []
    return [ReleaseResultPartitions(task_executor_of(execution), allocation_of(execution), tuple(ids))]
