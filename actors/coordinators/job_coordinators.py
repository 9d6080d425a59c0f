"""All operator coordinators of one job, through its restarts and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from actors.coordinators.alignment import WatermarkAlignment
from actors.coordinators.base import CoordinatorContext, OperatorCoordinator
from actors.coordinators.collect_coordinator import CollectCoordinator
from actors.coordinators.factory import create_coordinator
from flinkray.errors import FlinkrayError
from flinkray.types.records import OperatorId
from graphs.execution_graph import ExecutionGraph, ExecutionVertexId
from graphs.job_graph import CoordinatorConfig, JobVertexId

ContextOf = Callable[[OperatorId, JobVertexId, int], CoordinatorContext]
"""(operator, its vertex, the vertex's parallelism) -> what its coordinator may use of the JobMaster."""


class JobCoordinators:
    """The coordinators of one job's operators, by operator. For the JobMaster's thread.

    Args:
        has_checkpoints: the job takes checkpoints periodically.
        retained: of how many complete ones it may start again from each.
    """

    def __init__(self, graph: ExecutionGraph, context_of: ContextOf, has_checkpoints: bool, retained: int = 1) -> None:
        self._graph = graph
        self._context_of = context_of
        self._has_checkpoints = has_checkpoints
        self._retained = retained
        self._alignment = WatermarkAlignment()
        self._coordinators: dict[OperatorId, OperatorCoordinator] = {}
        self._of_vertex: dict[JobVertexId, tuple[OperatorId, ...]] = {
            vertex.id: tuple(config.operator_id for config in vertex.coordinators)
            for vertex in graph.job_vertices.values()
        }

    # -- the life of the job -------------------------------------------------------------------------------------

    def start(self, states: Mapping[OperatorId, bytes], checkpoint_id: int | None) -> None:
        """
        Args:
            states: of the checkpoint that the job starts from, if any.
            checkpoint_id: of that checkpoint; None: the job starts from nothing.

        Raises:
            FlinkrayError: a coordinator cannot be made, or restored; names the operator.
        """
        for vertex in self._graph.job_vertices.values():
            for config in vertex.coordinators:
                self._create(config, vertex.id, states.get(config.operator_id), checkpoint_id)
        for coordinator in self._coordinators.values():
            coordinator.start()

    def restart(self, states: Mapping[OperatorId, bytes], checkpoint_id: int | None) -> None:
        """The job is restarted as a whole from that checkpoint, or without state. Raises as `start` does."""
        renewed: list[OperatorCoordinator] = []
        for vertex in self._graph.job_vertices.values():
            for config in vertex.coordinators:
                former = self._coordinators[config.operator_id]
                if former.survives_restart(checkpoint_id):
                    for subtask_index in range(vertex.parallelism):
                        former.subtask_failed(subtask_index, checkpoint_id)
                    continue
                former.close()
                renewed.append(self._create(config, vertex.id, states.get(config.operator_id), checkpoint_id))
        for coordinator in renewed:
            coordinator.start()

    def close(self) -> None:
        """The job has ended."""
        for coordinator in self._coordinators.values():
            coordinator.close()

    # -- subtasks ------------------------------------------------------------------------------------------------

    def handle_event(self, operator_id: OperatorId, subtask_index: int, event: Any) -> None:
        """Hands over an event of the current attempt of that subtask; raises what the coordinator raises."""
        coordinator = self._coordinators.get(operator_id)
        if coordinator is not None:
            coordinator.handle_event(subtask_index, event)

    def subtask_started(self, vertex_id: JobVertexId, subtask_index: int) -> None:
        """A new attempt of the subtask runs."""
        for operator_id in self._of_vertex[vertex_id]:
            self._coordinators[operator_id].subtask_started(subtask_index)

    def subtasks_failed(self, vertices: Iterable[ExecutionVertexId], checkpoint_id: int | None) -> None:
        """These subtasks have ended, and start again from that checkpoint, or without state."""
        for vertex in vertices:
            for operator_id in self._of_vertex[vertex.vertex_id]:
                self._coordinators[operator_id].subtask_failed(vertex.subtask_index, checkpoint_id)

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def snapshot(self, checkpoint_id: int) -> dict[OperatorId, bytes]:
        """The states of all coordinators. Raises what the first one that cannot give its state raises."""
        return {operator_id: each.snapshot(checkpoint_id) for operator_id, each in self._coordinators.items()}

    def notify(self, checkpoint_id: int, is_complete: bool) -> None:
        """Tells all coordinators what became of the checkpoint."""
        for coordinator in self._coordinators.values():
            if is_complete:
                coordinator.notify_checkpoint_complete(checkpoint_id)
            else:
                coordinator.notify_checkpoint_aborted(checkpoint_id)

    # -- collected rows ------------------------------------------------------------------------------------------

    @property
    def collectors(self) -> Sequence[CollectCoordinator]:
        """The coordinators of the sinks that bring rows to the driver."""
        return [each for each in self._coordinators.values() if isinstance(each, CollectCoordinator)]

    def collector(self, collect_id: str) -> CollectCoordinator:
        """
        Raises:
            FlinkrayError: the job has no such sink.
        """
        found = next((each for each in self.collectors if each.collect_id == collect_id), None)
        if found is None:
            raise FlinkrayError(f"job {self._graph.name!r} has no sink that collects {collect_id!r}")
        return found

    # -- inside --------------------------------------------------------------------------------------------------

    def _create(
        self, config: CoordinatorConfig, vertex_id: JobVertexId, state: bytes | None, checkpoint_id: int | None
    ) -> OperatorCoordinator:
        parallelism = self._graph.job_vertices[vertex_id].parallelism
        context = self._context_of(config.operator_id, vertex_id, parallelism)
        created = create_coordinator(config, context, self._alignment, self._has_checkpoints, self._retained)
        self._coordinators[config.operator_id] = created
        if state is not None:
            created.restore(state)
        elif checkpoint_id is not None:
            created.begin_without_state(checkpoint_id)
        return created
