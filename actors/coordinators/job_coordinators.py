"""All operator coordinators of one job, through its restarts and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct, field

from actors.coordinators.alignment import WatermarkAlignment
from actors.coordinators.base import JobMasterContext, OperatorCoordinator
from actors.coordinators.collect_coordinator import CollectCoordinator
from actors.coordinators.factory import create_coordinator
from actors.coordinators.threaded import ThreadedCoordinator
from flinkray.errors import FlinkrayError
from flinkray.types.records import OperatorId
from graphs.execution_graph import ExecutionGraph, ExecutionVertexId
from graphs.job_graph import CoordinatorConfig, JobVertexId

ContextOf = Callable[[OperatorId, JobVertexId, int], JobMasterContext]
"""(operator, its vertex, the vertex's parallelism) -> what its coordinator may use of the JobMaster."""


States = dict[OperatorId, bytes]
"""What the coordinators have given for a checkpoint."""


class _Snapshot(Struct, eq=False):
    """A checkpoint for which coordinators have been asked for their states, and whose barriers are not sent yet."""

    checkpoint_id: int
    done: Callable[[States | Exception], None]
    waits_for: set[OperatorId]
    """Coordinators with a thread, which have not answered."""
    states: States = field(default_factory=dict)


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
        self._snapshot: _Snapshot | None = None
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
        # One that hangs would never say that its readers are gone.
        self._alignment = WatermarkAlignment()
        renewed: list[tuple[OperatorCoordinator, OperatorCoordinator]] = []
        for vertex in self._graph.job_vertices.values():
            for config in vertex.coordinators:
                former = self._coordinators[config.operator_id]
                if former.survives_restart(checkpoint_id):
                    for subtask_index in range(vertex.parallelism):
                        former.subtask_failed(subtask_index, checkpoint_id)
                    continue
                former.close()
                created = self._create(config, vertex.id, states.get(config.operator_id), checkpoint_id)
                renewed.append((created, former))
        for created, former in renewed:
            if isinstance(created, ThreadedCoordinator) and isinstance(former, ThreadedCoordinator):
                created.start_after(former)
            else:
                created.start()

    def close(self, then: Callable[[], None]) -> None:
        """The job has ended; `then` is called when all are closed, now or later, or never where one hangs."""
        left = set(self._threaded())

        def closed(operator_id: OperatorId) -> None:
            left.discard(operator_id)
            if not left:
                then()

        for operator_id, coordinator in self._coordinators.items():
            if isinstance(coordinator, ThreadedCoordinator):
                coordinator.close_then(partial(closed, operator_id))
            else:
                coordinator.close()
        if not left:
            then()

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

    def snapshot(self, checkpoint_id: int, done: Callable[[States | Exception], None]) -> None:
        """Has `done` called with the states of all coordinators, or what the first one raised that has none: now, or
        later, or never where one hangs. What they send after that waits for `let_events_go`."""
        self._end_snapshot()
        threaded = self._threaded()
        snapshot = self._snapshot = _Snapshot(checkpoint_id, done, set(threaded))
        for operator_id, each in threaded.items():
            each.begin_snapshot(checkpoint_id, partial(self._on_snapshot, snapshot, operator_id))
        if not threaded:
            self._finish(snapshot)

    def let_events_go(self) -> None:
        """To be called when all that `done` has led to is sent: barriers must come before later events."""
        if self._snapshot is not None and not self._snapshot.waits_for:
            self._end_snapshot()

    def notify(self, checkpoint_id: int, is_complete: bool) -> None:
        """Tells all coordinators what became of the checkpoint."""
        if self._snapshot is not None and self._snapshot.checkpoint_id == checkpoint_id:
            self._end_snapshot()
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

    def _on_snapshot(self, snapshot: _Snapshot, operator_id: OperatorId, state: bytes | Exception) -> None:
        if snapshot is not self._snapshot or not snapshot.waits_for:
            return  # it was given up, or another coordinator has failed
        if isinstance(state, Exception):
            snapshot.waits_for.clear()
            snapshot.done(state)
            return
        snapshot.states[operator_id] = state
        snapshot.waits_for.discard(operator_id)
        if not snapshot.waits_for:
            self._finish(snapshot)

    def _finish(self, snapshot: _Snapshot) -> None:
        """Adds the states of those that have no thread: last, as they do not hold back what they send."""
        try:
            for operator_id, coordinator in self._coordinators.items():
                if operator_id not in snapshot.states:
                    snapshot.states[operator_id] = coordinator.snapshot(snapshot.checkpoint_id)
        except Exception as error:
            snapshot.done(error)
        else:
            snapshot.done(snapshot.states)

    def _end_snapshot(self) -> None:
        if self._snapshot is not None:
            self._snapshot = None
            for coordinator in self._threaded().values():
                coordinator.end_snapshot()

    def _threaded(self) -> dict[OperatorId, ThreadedCoordinator]:
        """The coordinators that have a thread of their own."""
        return {key: each for key, each in self._coordinators.items() if isinstance(each, ThreadedCoordinator)}

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
