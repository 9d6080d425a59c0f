"""Vertices and their subtasks."""

from __future__ import annotations

from collections.abc import Callable

from actors.protocol.control_messages import SubtaskDetails, VertexDetails
from actors.rest.answers import metrics, vertices
from actors.rest.asking.call import Call
from actors.rest.asking.masters import Masters
from actors.rest.asking.refusals import Refusal
from actors.rest.handlers.jobs import aggregates_of
from flinkray.rest import vertices as shapes
from flinkray.rest.metrics import AggregatedMetric, Metric


class VertexHandlers:
    """Handlers of routes about vertices."""

    def __init__(self, masters: Masters, now_ms: Callable[[], int]) -> None:
        self._masters = masters
        self._now_ms = now_ms

    def vertex(self, call: Call) -> shapes.VertexDetails:
        return vertices.details(self._vertex(call), self._now_ms())

    def vertex_accumulators(self, call: Call) -> shapes.VertexAccumulators:
        return vertices.accumulators(self._vertex(call))

    def back_pressure(self, call: Call) -> shapes.VertexBackPressure:
        return vertices.back_pressure(self._vertex(call), self._now_ms())

    def subtask_times(self, call: Call) -> shapes.VertexTimes:
        return vertices.times(self._vertex(call), self._now_ms())

    def vertex_task_managers(self, call: Call) -> shapes.VertexTaskExecutors:
        return vertices.task_managers(self._vertex(call), self._now_ms())

    def watermarks(self, call: Call) -> list[Metric]:
        return metrics.watermarks(self._vertex(call))

    def vertex_metrics(self, call: Call) -> list[Metric]:
        return metrics.listed(metrics.of_vertex(self._vertex(call)), call.list_in_query("get"))

    def coordinator_metrics(self, call: Call) -> list[Metric]:
        self._vertex(call)
        return []

    def vertex_history(self, call: Call) -> shapes.VertexHistory:
        vertex = self._vertex(call)
        return vertices.history(vertex, self._masters.rate_history(call.job_id(), vertex.vertex_id))

    # -- subtasks ------------------------------------------------------------------------------------------------

    def subtasks_metrics(self, call: Call) -> list[AggregatedMetric]:
        vertex = self._vertex(call)
        wanted = _indices(call, vertex)
        values = [metrics.of_subtask(each) for each in vertex.subtasks if each.subtask_index in wanted]
        return metrics.over_several(values, call.list_in_query("get"), aggregates_of(call))

    def subtasks_accumulators(self, call: Call) -> shapes.SubtasksAccumulators:
        return vertices.subtasks_accumulators(self._vertex(call))

    def subtask(self, call: Call) -> shapes.SubtaskAttempt:
        return vertices.current_attempt(self._subtask(call), self._now_ms())

    def subtask_metrics(self, call: Call) -> list[Metric]:
        return metrics.listed(metrics.of_subtask(self._subtask(call)), call.list_in_query("get"))

    def attempt(self, call: Call) -> shapes.SubtaskAttempt:
        subtask, number, now = self._subtask(call), call.number("attempt"), self._now_ms()
        if number == subtask.attempt_number:
            return vertices.current_attempt(subtask, now)
        prior = self._masters.prior_attempts(call.job_id(), call.id_of("vertexid"))
        for each in prior:
            if each.subtask_index == subtask.subtask_index and each.attempt_number == number:
                return vertices.former_attempt(each, now)
        raise Refusal(404, f"attempt {number} of subtask {subtask.subtask_index} is not one of the last, or not yet")

    def attempt_accumulators(self, call: Call) -> shapes.SubtaskAccumulators:
        subtask, number = self._subtask(call), call.number("attempt")
        if number != subtask.attempt_number:
            raise Refusal(404, f"attempt {number} is over; accumulators are those of attempt {subtask.attempt_number}")
        return vertices.subtask_accumulators(subtask)

    # -- inside --------------------------------------------------------------------------------------------------

    def _vertex(self, call: Call) -> VertexDetails:
        return vertex_of(self._masters, call)

    def _subtask(self, call: Call) -> SubtaskDetails:
        vertex, index = self._vertex(call), call.number("subtaskindex")
        if index >= len(vertex.subtasks):
            raise Refusal(404, f"vertex {vertex.name!r} has subtasks 0 to {len(vertex.subtasks) - 1}, and no {index}")
        return vertex.subtasks[index]


def vertex_of(masters: Masters, call: Call) -> VertexDetails:
    """The vertex that the path names."""
    vertex_id = call.id_of("vertexid")
    job = masters.details(call.job_id())
    found = next((vertex for vertex in job.vertices if vertex.vertex_id == vertex_id), None)
    if found is None:
        raise Refusal(404, f"job {job.name!r} ({job.job_id}) has no vertex {vertex_id!r}")
    return found


def _indices(call: Call, vertex: VertexDetails) -> frozenset[int]:
    """The subtasks that are asked for, such as `0,2-4`; all where it is not said."""
    everything = frozenset(range(len(vertex.subtasks)))
    ranges = call.list_in_query("subtasks")
    if ranges is None:
        return everything
    wanted: set[int] = set()
    for each in ranges:
        first, dash, last = each.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise Refusal(400, f"subtasks has {each!r}, and takes indices and ranges such as 0,2-4")
        # Of a range from 0 to a billion only what there is.
        wanted.update(index for index in everything if int(first[:18]) <= index <= int((last if dash else first)[:18]))
    return frozenset(wanted)
