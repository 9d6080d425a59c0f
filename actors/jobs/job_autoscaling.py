"""Gives a job the parallelism that its load needs: between its metrics, the autoscaler and its rescales.

What it does is a warning in the log, as a restart is: nobody else has asked for it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence

from actors.autoscaling.autoscaler import Autoscaler, Change
from actors.autoscaling.evaluation import ScalableVertex
from actors.autoscaling.load import VertexSample
from actors.autoscaling.settings import AutoscalerSettings
from actors.jobs.job_metrics import JobMetrics
from actors.jobs.job_rescales import JobRescales
from actors.protocol.job_reports import TaskRates
from actors.scheduling.scheduler import Scheduler
from flinkray.config.autoscaler_options import AUTOSCALER_ENABLED, METRICS_WINDOW, SCALING_ENABLED
from flinkray.config.configuration import Configuration
from flinkray.errors import RescaleError
from flinkray.execution import JobStatus
from graphs.execution_graph import ExecutionJobVertex
from graphs.job_graph import JobVertexId
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
        self._is_reset = False
        self._restarts = -1
        self._advice = ""
        """What it has said last."""

    @staticmethod
    def interval_ms(configuration: Configuration) -> float | None:
        """None: the job is not scaled by its load."""
        return configuration.get(METRICS_WINDOW) / _LOOKS if configuration.get(AUTOSCALER_ENABLED) else None

    def look(self, now: int) -> None:
        """Looks at the load, and begins a rescale where that is what it needs."""
        if not self._is_steady():
            self._autoscaler.reset(now)
            return
        samples = {vertex.id: self._sample(vertex) for vertex in self._vertices}
        known = {vertex: sample for vertex, sample in samples.items() if sample is not None}
        if len(known) < len(samples):
            return  # its tasks have not reported twice yet
        self._autoscaler.observe(known, now)
        changes = self._autoscaler.decide([_scalable(each) for each in self._vertices], self._groups(), now)
        if changes:
            self._act(changes, now)

    @property
    def _vertices(self) -> Sequence[ExecutionJobVertex]:
        return tuple(self._scheduler.graph.job_vertices.values())

    def _is_steady(self) -> bool:
        """Whether the same attempts run as the last time, all of them."""
        restarts, self._restarts = self._restarts, self._scheduler.restarts
        states = (each.state for each in self._scheduler.graph.executions.values())
        return (
            restarts == self._restarts
            and self._scheduler.status is JobStatus.RUNNING
            and self._rescales.under_way is None
            and all(state is ExecutionState.RUNNING for state in states)
        )

    def _sample(self, vertex: ExecutionJobVertex) -> VertexSample | None:
        """None: a subtask has not reported its rates yet."""
        history, nothing = self._metrics.history, TaskRates()
        rates = [history.latest(subtask.id, subtask.current.attempt_id) for subtask in vertex.subtasks]
        if nothing in rates:
            return None
        return VertexSample(
            sum(each.records_in for each in rates),
            sum(each.records_out for each in rates),
            max(each.busy_ms for each in rates) / 1000,
            max(each.backpressured_ms for each in rates) / 1000,
            None if vertex.inputs else self._pending(vertex),
        )

    def _pending(self, vertex: ExecutionJobVertex) -> int | None:
        """The rows that wait for a source; None where a subtask of it does not know."""
        total = 0.0
        for subtask in vertex.subtasks:
            gauges = [each.gauges for each in self._metrics.of(subtask).operators]
            known = [each["pending_rows"] for each in gauges if "pending_rows" in each]
            if not known:
                return None
            total += sum(known)
        return int(total)

    def _groups(self) -> list[list[JobVertexId]]:
        groups = bound_groups(self._scheduler.graph)
        return [
            [vertex.id for vertex in group]
            for group in groups
            if not any(vertex.job_vertex.fixed_because or vertex.job_vertex.has_own_parallelism for vertex in group)
        ]

    def _act(self, changes: Sequence[Change], now: int) -> None:
        name, text = self._scheduler.graph.name, "; ".join(map(str, changes))
        if self._is_advice_only:
            numbers = ", ".join(f"{each.vertex.name!r} {each.parallelism}" for each in changes)
            if numbers != self._advice:
                log.warning("job %r: the autoscaler would rescale it: %s (%s)", name, text, SCALING_ENABLED.key)
            self._advice = numbers
            return
        log.warning("job %r: the autoscaler rescales it: %s", name, text)
        wanted = {str(each.vertex.id): each.parallelism for each in changes}
        try:
            self._rescales.request(uuid.uuid4().hex, wanted, now)
        except RescaleError as error:
            log.warning("job %r: the autoscaler cannot rescale it: %s", name, error)
        self._autoscaler.reset(now)


def _scalable(vertex: ExecutionJobVertex) -> ScalableVertex:
    inputs = tuple(edge.source_vertex for edge in vertex.job_vertex.inputs)
    return ScalableVertex(vertex.id, vertex.name, vertex.parallelism, vertex.max_parallelism, inputs)
