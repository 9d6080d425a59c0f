"""When a checkpoint has taken too long and is aborted: execution.checkpointing.timeout.

The coordinator asks at every tick. What a task does when it hears of the end is in `actors.tasks.checkpoints`.
"""

from __future__ import annotations

from actors.checkpoints.coordination.failures import CheckpointFailure, FailureReason
from actors.checkpoints.coordination.pending import PendingCheckpoint
from graphs.execution_graph import ExecutionGraph


class CheckpointExpiry:
    """Says when pending checkpoints expire, and what they then waited for. Pure.

    Args:
        timeout_ms: how long after its trigger a checkpoint must be complete.
    """

    def __init__(self, graph: ExecutionGraph, timeout_ms: int) -> None:
        self._graph = graph
        self._timeout_ms = timeout_ms

    def due(self, pending: PendingCheckpoint) -> int:
        """When the checkpoint expires, in epoch milliseconds."""
        return pending.triggered_ms + self._timeout_ms

    def failure(self, pending: PendingCheckpoint) -> CheckpointFailure:
        """Why the checkpoint fails; names the first task that has not acknowledged."""
        tasks = len(pending.plan.to_acknowledge)
        missing = [attempt for attempt in pending.plan.to_acknowledge if pending.waits_for(attempt)]
        text = f"{self._timeout_ms} ms (execution.checkpointing.timeout), and "
        if missing:
            first = self._graph.executions[missing[0]].vertex.name
            text += f"{len(missing)} of {tasks} tasks had not acknowledged, among them {first}"
        else:
            text += "an earlier one was still being stored"
        return CheckpointFailure(FailureReason.EXPIRED, text)
