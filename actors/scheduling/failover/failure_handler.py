"""What a failure leads to: a restart, of what and when, or the job's end (Flink's ExecutionFailureHandler)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from actors.protocol.failure_records import TaskFailure
from actors.scheduling.failover.failover_strategies import FailoverStrategy, IsAvailable, unreadable_partition
from actors.scheduling.failover.failure_history import FailureHistory
from actors.scheduling.failover.restart_strategies import RestartDecision, RestartStrategy
from flinkray.errors import ErrorInfo
from graphs.execution_graph import ExecutionGraph, ExecutionVertexId


class FailureHandling(Struct, frozen=True):
    """What to do about a failure."""

    error: ErrorInfo
    """The error that counts as the cause."""
    can_restart: bool
    delay_ms: int
    vertices: frozenset[ExecutionVertexId]
    """The subtasks that are to run again, if the job can restart."""


class FailureHandler:
    """Asks the job's strategies, and remembers what failed. Not thread-safe."""

    failover_strategy: FailoverStrategy
    """That of the graph as it is now."""

    def __init__(self, graph: ExecutionGraph, restart_strategy: RestartStrategy) -> None:
        self.history = FailureHistory()
        self._graph = graph
        self._restart_strategy = restart_strategy

    def handle(
        self,
        failed: Iterable[ExecutionVertexId] | None,
        failures: Sequence[TaskFailure],
        now: int,
        *,
        has_started: bool,
        is_restarting: bool,
        is_available: IsAvailable,
    ) -> FailureHandling:
        """Decides about one event.

        Args:
            failed: the subtasks that it has ended; None: the job as a whole has failed.
            failures: how they saw it; the first one that is not a consequence counts.
            has_started: a job that has not does not restart.
            is_restarting: it joins a restart that is under way.
        """
        root = min(failures, key=lambda failure: failure.error.is_consequence)
        decision = self._decide(root.error, has_started, now)
        if is_restarting and decision.can_restart:
            self.history.add_concurrent(root)
        else:
            what = f"restarts after {decision.delay_ms / 1000:g} s" if decision.can_restart else "fails"
            self.history.add(root, f"{what}: {decision.reason}")
        for other in failures:
            if other is not root:
                self.history.add_concurrent(other)
        unreadable = {unreadable_partition(failure.error, self._graph) for failure in failures}
        vertices = (
            frozenset(self._graph.vertices)
            if failed is None
            else self.failover_strategy.vertices_to_restart(
                failed, lambda key: key not in unreadable and is_available(key)
            )
        )
        return FailureHandling(root.error, decision.can_restart, decision.delay_ms, vertices)

    def _decide(self, error: ErrorInfo, has_started: bool, now: int) -> RestartDecision:
        if not has_started:
            return RestartDecision(False, 0, "the job had not started")
        if not error.is_recoverable:
            return RestartDecision(False, 0, f"a restart does not help against a {error.type_name}")
        return self._restart_strategy.on_failure(now)
