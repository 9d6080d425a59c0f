"""Gives a job the parallelism that its load needs: between its metrics, the autoscaler and its rescales.

What it does is a warning in the log, as a restart is: nobody else has asked for it.
"""

from __future__ import annotations

import logging
import uuid

from actors.autoscaling.autoscaler import Autoscaler, Change
from actors.autoscaling.evaluation import ScalableVertex
from actors.autoscaling.load import Samples, VertexSample
from actors.autoscaling.settings import AutoscalerSettings
from actors.jobs.job_metrics import JobMetrics
from actors.jobs.job_rescales import JobRescales
from actors.protocol.job_reports import TaskRates
from actors.scheduling.scheduler import Scheduler
from flinkray.config.autoscaler_options import AUTOSCALER_ENABLED, METRICS_WINDOW, SCALING_ENABLED
from flinkray.config.configuration import Configuration
from flinkray.errors import RescaleError
from flinkray.execution import JobStatus
from graphs.execution_graph import ExecutionJobVertex, ExecutionVertex
from graphs.job_graph import JobGraph, JobVertexId
from graphs.rescaling import bound_groups
from graphs.states import ExecutionState

log = logging.getLogger(__name__)

# So often within its window the load is looked at.
_LOOKS = 12


class JobAutoscaling:
    """For the JobMaster's thread, which calls `look` every `interval_ms`."""

    def __init__(
        self, configuration: Configuration, scheduler: Scheduler, metrics: JobMetrics, rescales: JobRescales
    ) -> None:
        self._scheduler = scheduler
        self._metrics = metrics
        self._rescales = rescales
        self._is_advice_only = not configuration.get(SCALING_ENABLED)
        self._autoscaler = Autoscaler(AutoscalerSettings.of(configuration))
        self._restarts = -1
        self._under_way: tuple[str, tuple[Change, ...]] | None = None
        """The request for a rescale that was made last, and what it is to bring."""
        self._advice, self._quiet_until = "", 0
        """What it has said last, and when it may say something else."""
        self._window_ms = configuration.get(METRICS_WINDOW)

    @staticmethod
    def interval_ms(job_graph: JobGraph) -> float | None:
        """None: the job does not follow its load, or cannot."""
        settings, configuration = job_graph.checkpoint_settings, job_graph.configuration
        if not configuration.get(AUTOSCALER_ENABLED) or not settings.is_periodic or settings.impossible_because:
            return None
        return configuration.get(METRICS_WINDOW) / _LOOKS

    def look(self, now: int) -> None:
        """Looks at the load, and begins a rescale where that is what it needs."""
        if self._rescales.under_way is not None:
            return
        self._note_result(now)
        if not self._is_steady():
            self._autoscaler.reset(now)
            return
        running = [vertex for vertex in self._scheduler.graph.job_vertices.values() if _running(vertex)]
        samples = {vertex.id: self._sample(vertex) for vertex in running}
        known = {vertex: sample for vertex, sample in samples.items() if sample is not None}
        if len(known) < len(samples):
            return  # its tasks have not reported twice yet
        self._autoscaler.observe(known, now)
        changes = self._autoscaler.decide([self._scalable(each, known) for each in running], self._groups(), now)
        if changes:
            self._act(changes, now)

    def _note_result(self, now: int) -> None:
        if self._under_way is None:
            return
        (request_id, changes), self._under_way = self._under_way, None
        result = self._rescales.result(request_id)
        if result is None or result.error is not None:
            self._autoscaler.refused(changes, now)
        else:
            self._autoscaler.changed(changes)

    def _is_steady(self) -> bool:
        """Whether the same attempts run as the last time, all that have not come to their end."""
        restarts, self._restarts = self._restarts, self._scheduler.restarts
        states = {each.state for each in self._scheduler.graph.executions.values()}
        ends = {ExecutionState.RUNNING, ExecutionState.FINISHED}
        return restarts == self._restarts and self._scheduler.status is JobStatus.RUNNING and states <= ends

    def _sample(self, vertex: ExecutionJobVertex) -> VertexSample | None:
        """None: a subtask has not reported its rates yet."""
        history, nothing, subtasks = self._metrics.history, TaskRates(), _running(vertex)
        rates = [history.latest(subtask.id, subtask.current.attempt_id) for subtask in subtasks]
        if nothing in rates:
            return None
        return VertexSample(
            sum(each.records_in for each in rates),
            sum(each.records_out for each in rates),
            max(each.busy_ms for each in rates) / 1000,
            sum(each.backpressured_ms for each in rates) / 1000 / len(rates),
            None if vertex.inputs else self._sum_of(vertex, "pending_rows"),
        )

    def _sum_of(self, vertex: ExecutionJobVertex, gauge: str) -> int | None:
        """Over the sources of a vertex; None where one of its subtasks does not know."""
        total = 0.0
        for subtask in _running(vertex):
            gauges = [each.gauges for each in self._metrics.of(subtask).operators]
            known = [each[gauge] for each in gauges if gauge in each]
            if not known:
                return None
            total += sum(known)
        return int(total)

    def _scalable(self, vertex: ExecutionJobVertex, samples: Samples) -> ScalableVertex:
        inputs = tuple(edge.source_vertex for edge in vertex.job_vertex.inputs if edge.source_vertex in samples)
        most = vertex.max_parallelism
        if samples[vertex.id].pending is not None:
            # A log has so many splits: more subtasks than these would read nothing.
            most = min(most, max(vertex.parallelism, self._sum_of(vertex, "splits") or most))
        return ScalableVertex(vertex.id, vertex.name, vertex.parallelism, most, inputs)

    def _groups(self) -> list[list[JobVertexId]]:
        groups = bound_groups(self._scheduler.graph)
        return [[vertex.id for vertex in group] for group in groups if all(map(_may_change, group))]

    def _act(self, changes: tuple[Change, ...], now: int) -> None:
        name, text = self._scheduler.graph.name, "; ".join(map(str, changes))
        if self._is_advice_only:
            numbers = ", ".join(f"{each.vertex.name!r} {each.parallelism}" for each in changes)
            if numbers != self._advice and now >= self._quiet_until:
                log.warning("job %r: the autoscaler would rescale it: %s (%s)", name, text, SCALING_ENABLED.key)
                self._advice, self._quiet_until = numbers, now + self._window_ms
            return
        request_id, wanted = uuid.uuid4().hex, {str(each.vertex.id): each.parallelism for each in changes}
        try:
            self._rescales.request(request_id, wanted, now)
        except RescaleError as error:
            log.warning("job %r: the autoscaler cannot rescale it: %s", name, error)
            self._autoscaler.refused(changes, now)
        else:
            log.warning("job %r: the autoscaler rescales it: %s", name, text)
            self._under_way = request_id, changes


def _running(vertex: ExecutionJobVertex) -> list[ExecutionVertex]:
    return [subtask for subtask in vertex.subtasks if subtask.current.state is ExecutionState.RUNNING]


def _may_change(vertex: ExecutionJobVertex) -> bool:
    is_free = not (vertex.job_vertex.fixed_because or vertex.job_vertex.has_own_parallelism)
    return is_free and bool(_running(vertex))
