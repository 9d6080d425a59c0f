"""The figures of a job, put together from those of its tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from actors.jobs.rate_history import RateHistory
from actors.protocol.control_messages import JobDetails, SubtaskDetails, VertexDetails
from actors.protocol.job_reports import AttemptDetails, JobSummary, TaskRates
from actors.protocol.ports import Address
from actors.protocol.resources import SlotWait
from actors.protocol.task_messages import TaskMetrics
from actors.scheduling.scheduler import Scheduler
from flinkray.execution import JobProgress, JobStatus
from graphs.execution_graph import (
    AttemptId,
    Execution,
    ExecutionGraph,
    ExecutionJobVertex,
    ExecutionVertex,
    ExecutionVertexId,
)
from graphs.job_graph import SourceInput, TaskKind
from graphs.states import ExecutionState

_NOTHING = TaskMetrics()


class JobMetrics:
    """What the current attempts of a job's tasks have reported. Not thread-safe."""

    def __init__(self, graph: ExecutionGraph) -> None:
        self._graph = graph
        self._reported: dict[ExecutionVertexId, tuple[AttemptId, TaskMetrics]] = {}
        self.history = RateHistory()

    def report(self, metrics: Mapping[AttemptId, TaskMetrics], now: int) -> None:
        """Newer figures; those of attempts that are not current are ignored."""
        for attempt, figures in metrics.items():
            execution = self._graph.executions.get(attempt)
            if execution is not None:
                self._reported[execution.vertex.id] = attempt, figures
                self.history.report(execution.vertex.id, attempt, figures, now)

    def of(self, subtask: ExecutionVertex) -> TaskMetrics:
        """The figures that the subtask's current attempt has reported last."""
        attempt, figures = self._reported.get(subtask.id, (None, _NOTHING))
        return figures if attempt == subtask.current.attempt_id else _NOTHING

    def accumulators(self) -> dict[str, int | float]:
        """Sums over all subtasks of the final accumulators of tasks that have ended, and the last reported ones of
        others."""
        totals: dict[str, int | float] = {}
        for subtask in self._graph.vertices.values():
            final = subtask.current.accumulators if subtask.current.state.is_terminal else {}
            for name, value in (final or self.of(subtask).accumulators).items():
                totals[name] = totals.get(name, 0) + value
        return totals

    def progress(self) -> JobProgress:
        """Sums over sources and sinks. A task counts what its sources make as in, and what its sinks take as out."""
        vertices = self._graph.job_vertices.values()
        sources = [self.of(subtask) for vertex in vertices if _reads_source(vertex) for subtask in vertex.subtasks]
        sinks = [vertex for vertex in vertices if not vertex.results]
        return JobProgress(
            status=self._graph.status.current,
            records_in=sum(figures.records_in for figures in sources),
            records_out=sum(self.of(subtask).records_out for vertex in sinks for subtask in vertex.subtasks),
            watermark=_lowest(self.of(subtask).watermark for vertex in sinks for subtask in vertex.subtasks),
        )


def job_details(scheduler: Scheduler, metrics: JobMetrics) -> JobDetails:
    """The job as it is now, as a value that can leave the JobMaster."""
    graph = scheduler.graph
    progress = metrics.progress()
    return JobDetails(
        job_id=graph.job_id,
        name=graph.name,
        status=graph.status.current,
        status_times=_status_times(graph),
        vertices=tuple(_vertex_details(vertex, scheduler, metrics) for vertex in graph.job_vertices.values()),
        accumulators=metrics.accumulators(),
        records_in=progress.records_in,
        records_out=progress.records_out,
        watermark=progress.watermark,
        error=scheduler.failure,
        restarts=scheduler.restarts,
        failures=scheduler.failures,
        slot_wait=_slot_wait(scheduler),
    )


def _slot_wait(scheduler: Scheduler) -> SlotWait | None:
    """What the job waits for; None: it has all slots that it has asked for."""
    attempts = (subtask.current for subtask in scheduler.graph.vertices.values())
    since = [each.timestamps[ExecutionState.SCHEDULED] for each in attempts if each.state is ExecutionState.SCHEDULED]
    missing = Counter(request.profile for request in scheduler.pool.unserved())
    if not since or not missing or scheduler.status.is_terminal:
        return None
    return SlotWait(min(since), len(scheduler.pool.requests()), tuple(missing.items()))


def _vertex_details(vertex: ExecutionJobVertex, scheduler: Scheduler, metrics: JobMetrics) -> VertexDetails:
    return VertexDetails.of(vertex, tuple(_subtask_details(subtask, scheduler, metrics) for subtask in vertex.subtasks))


def _subtask_details(subtask: ExecutionVertex, scheduler: Scheduler, metrics: JobMetrics) -> SubtaskDetails:
    execution = subtask.current
    return SubtaskDetails(
        subtask_index=subtask.subtask_index,
        attempt_id=execution.attempt_id,
        attempt_number=execution.attempt_number,
        state=execution.state.name,
        slot=scheduler.slot_of(execution),
        metrics=metrics.of(subtask),
        error=execution.error,
        times=_times(execution),
        task_executor=_task_executor(execution),
        rates=TaskRates() if execution.state.is_terminal else metrics.history.latest(subtask.id, execution.attempt_id),
    )


def prior_attempts(vertex: ExecutionJobVertex) -> tuple[AttemptDetails, ...]:
    """The attempts that others have followed, as far as they are remembered, oldest first for each subtask."""
    return tuple(
        AttemptDetails(
            subtask.subtask_index,
            execution.attempt_number,
            execution.state.name,
            _times(execution),
            _task_executor(execution),
        )
        for subtask in vertex.subtasks
        for execution in subtask.prior
    )


def job_summary(scheduler: Scheduler, is_batch: bool) -> JobSummary:
    """The job as a list of jobs shows it."""
    graph = scheduler.graph
    counts = Counter(execution.state.name for execution in graph.executions.values())
    return JobSummary(dict(counts), is_batch, _status_times(graph), _slot_wait(scheduler))


def _status_times(graph: ExecutionGraph) -> tuple[tuple[JobStatus, int], ...]:
    return tuple(sorted(graph.status.timestamps.items(), key=lambda entry: entry[1]))


def _times(execution: Execution) -> tuple[tuple[str, int], ...]:
    return tuple((state.name, time) for state, time in execution.timestamps.items())


def _task_executor(execution: Execution) -> Address | None:
    return None if execution.location is None else Address(execution.location)


def _reads_source(vertex: ExecutionJobVertex) -> bool:
    chained = any(isinstance(i, SourceInput) for operator in vertex.job_vertex.operators for i in operator.inputs)
    return chained or vertex.job_vertex.kind is TaskKind.SOURCE


def _lowest(watermarks: Iterable[int | None]) -> int | None:
    """The lowest watermark; None as long as one of them is not known."""
    known = list(watermarks)
    return None if not known or None in known else min(mark for mark in known if mark is not None)
