"""Flame graphs of vertices, their subtasks and operators."""

from __future__ import annotations

from actors.protocol.client_requests import loop_thread
from actors.protocol.control_messages import VertexDetails
from actors.protocol.task_messages import subtask_name
from actors.rest.answers import flame_graphs
from actors.rest.asking.call import Call
from actors.rest.asking.masters import Masters
from actors.rest.asking.refusals import Refusal
from actors.rest.handlers.vertices import vertex_of
from flinkray.rest import flame_graphs as shapes

_RUNNING = ("INITIALIZING", "RUNNING")


class FlameGraphHandlers:
    """Handlers of routes about what tasks spend their time on.

    Whoever asks gets what was sampled so far, and has it go on for some seconds: nobody waits for samples.
    """

    def __init__(self, masters: Masters) -> None:
        self._masters = masters

    def flame_graph(self, call: Call) -> shapes.FlameGraph:
        vertex = vertex_of(self._masters, call)
        kind, threads = _kind(call), _threads(call, vertex)
        if not threads:
            return shapes.FlameGraph(end_timestamp=flame_graphs.TERMINATED, data=None)
        stacks, sampled_ms = self._masters.stack_samples(threads)
        if not stacks:
            return shapes.FlameGraph(end_timestamp=flame_graphs.WAITING, data=None)
        times = flame_graphs.times_of(stacks, kind, _operator(call, vertex))
        return shapes.FlameGraph(end_timestamp=sampled_ms, data=flame_graphs.tree(times))

    def collapsed_stacks(self, call: Call) -> str:
        return flame_graphs.collapsed(self._times(call)[1])

    def speedscope(self, call: Call) -> shapes.Speedscope:
        return flame_graphs.speedscope(*self._times(call))

    def _times(self, call: Call) -> tuple[str, flame_graphs.Times]:
        vertex = vertex_of(self._masters, call)
        stacks, _ = self._masters.stack_samples(_threads(call, vertex))
        return vertex.name, flame_graphs.times_of(stacks, _kind(call), _operator(call, vertex))


def _kind(call: Call) -> str:
    """What Flink's clients write in small or large letters."""
    given = (call.text_in_query("type") or flame_graphs.FULL).lower()
    if given not in flame_graphs.KINDS:
        raise Refusal(400, f"type is {given!r}, and takes {', '.join(flame_graphs.KINDS)}")
    return given


def _operator(call: Call, vertex: VertexDetails) -> str | None:
    given = call.text_in_query("operator")
    if given is not None and given not in vertex.operators:
        raise Refusal(400, f"operator is {given!r}, and takes those of {vertex.name!r}: {', '.join(vertex.operators)}")
    return given


def _threads(call: Call, vertex: VertexDetails) -> dict[str, list[str]]:
    """Slot -> the threads in it of the subtasks that are asked for and run."""
    index = call.number_in_query("subtaskindex", -1)
    if index >= len(vertex.subtasks):
        raise Refusal(404, f"vertex {vertex.name!r} has subtasks 0 to {len(vertex.subtasks) - 1}, and no {index}")
    found: dict[str, list[str]] = {}
    for subtask in vertex.subtasks:
        if subtask.slot is not None and subtask.state in _RUNNING and index in (-1, subtask.subtask_index):
            name = subtask_name(vertex.name, subtask.subtask_index, vertex.parallelism)
            found.setdefault(subtask.slot, []).append(loop_thread(subtask.slot, name))
    return found
