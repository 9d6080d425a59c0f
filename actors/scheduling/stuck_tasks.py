"""Tasks that were cancelled and do not stop: the process of their slot has to end them."""

from __future__ import annotations

from collections.abc import Iterable

from actors.protocol.resources import AllocationId
from actors.scheduling.deployment import allocation_of
from graphs.execution_graph import Execution
from graphs.states import ExecutionState

# A task that does not stop by then has its slot's process ended (Flink waits 180 s and then ends the TaskManager).
CANCEL_TIMEOUT_MS = 30_000


def slots_that_do_not_stop(executions: Iterable[Execution], now: int) -> dict[AllocationId, str]:
    """The slots whose tasks were to stop for too long, each with the reason why it is to end. Times are epoch
    milliseconds."""
    stuck: dict[AllocationId, list[str]] = {}
    for execution in executions:
        since = execution.timestamps.get(ExecutionState.CANCELING, now)
        if execution.state is ExecutionState.CANCELING and now - since >= CANCEL_TIMEOUT_MS:
            stuck.setdefault(allocation_of(execution), []).append(repr(execution.vertex.name))
    waited = f"did not stop within {CANCEL_TIMEOUT_MS // 1000} s"
    return {slot: f"task {', '.join(names)} {waited}" for slot, names in stuck.items()}
