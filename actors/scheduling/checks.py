"""What always holds between two events of a scheduler; raises AssertionError where it does not."""

from __future__ import annotations

from collections.abc import Collection

from actors.scheduling.deployment import allocation_of
from actors.scheduling.failover.restarts import Restarts
from actors.scheduling.slots.slot_pool import SlotPool
from actors.scheduling.waiting_regions import WaitingRegions
from flinkray.execution import JobStatus
from graphs.execution_graph import AttemptId, Execution, ExecutionGraph
from graphs.states import ExecutionState


def check_scheduling(
    graph: ExecutionGraph,
    pool: SlotPool,
    waiting: WaitingRegions,
    restarts: Restarts,
    deployed: Collection[AttemptId],
) -> None:
    """
    Args:
        deployed: the current attempts that have a slot.
    """
    pool.check()
    wait = waiting.vertices
    assert len(wait) == len(set(wait)), "a subtask waits for its slot twice"
    for vertex in graph.vertices.values():
        assert all(execution.state.is_terminal for execution in vertex.prior), f"{vertex!r} has two live attempts"
        _check_execution(vertex.current, vertex.id in wait, graph, pool, restarts, deployed)
    for region in waiting.regions:
        assert not all(map(pool.is_served, region.labels)), "a region has all its slots and was not deployed"
    status = graph.status.current
    if status.is_terminal:
        assert all(execution.state.is_terminal for execution in graph.executions.values())
        assert not pool.slots(), "a job that has ended holds slots"
    is_restarting = restarts.pending is not None
    assert not is_restarting or status is JobStatus.RESTARTING, f"a restart of a job that is {status}"
    assert status is not JobStatus.RESTARTING or is_restarting or waiting, "restarts, and never ends to"


def _check_execution(
    execution: Execution,
    is_waiting: bool,
    graph: ExecutionGraph,
    pool: SlotPool,
    restarts: Restarts,
    deployed: Collection[AttemptId],
) -> None:
    state = execution.state
    runs = state not in (ExecutionState.CREATED, ExecutionState.SCHEDULED)
    assert state.is_terminal or runs == (execution.attempt_id in deployed), f"{execution!r} and its slot"
    assert is_waiting == (state is ExecutionState.SCHEDULED), f"{execution!r} and the slots that it waits for"
    if runs and not state.is_terminal:
        assert pool.slot(allocation_of(execution)) is not None, f"{execution!r} runs in a slot that is not held"
    if graph.status.current in (JobStatus.RUNNING, JobStatus.RESTARTING):
        stops = state in (ExecutionState.CANCELING, ExecutionState.CANCELED, ExecutionState.FAILED)
        assert not stops or restarts.includes(execution.vertex.id), f"{execution!r} does not run again"
