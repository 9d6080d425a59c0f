"""Stacks as trees and files: the merging, cutting and writing of what was sampled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from actors.protocol.client_requests import OPERATOR_MARK, StackTime
from flinkray.rest import flame_graphs as shapes

ON_CPU, OFF_CPU, FULL = "on_cpu", "off_cpu", "full"
KINDS = (FULL, ON_CPU, OFF_CPU)

TERMINATED, WAITING = -1, -3
"""What Flink gives instead of a time where no subtask runs, and where there are no samples yet."""

# What is less than a thousandth of the whole cannot be seen, and there may be very much of it.
_SHOWN = 1_000

Times = Mapping[tuple[str, ...], int]
"""Stack, outermost first -> microseconds."""


def times_of(stacks: Iterable[StackTime], kind: str, operator: str | None = None) -> Times:
    """Equal stacks in sum.

    Args:
        kind: one of `KINDS`: all of the time, that on the processor, or the rest.
        operator: only its part of each stack, without that of the operators that it calls; None: whole stacks.
    """
    found: dict[tuple[str, ...], int] = {}
    for stack in stacks:
        for frames in (stack.frames,) if operator is None else _parts(stack.frames, operator):
            value = {FULL: stack.wall_us, ON_CPU: stack.cpu_us, OFF_CPU: stack.wall_us - stack.cpu_us}[kind]
            if value > 0:
                found[frames] = found.get(frames, 0) + value
    return found


def _parts(frames: Sequence[str], operator: str) -> Iterator[tuple[str, ...]]:
    """The innermost operator's frames, if it is that one: only there its time goes. Row functions that run in one loop
    are one operator, which has the names of all."""
    marks = [place for place, frame in enumerate(frames) if frame.startswith(OPERATOR_MARK)]
    if marks and operator in frames[marks[-1]].removeprefix(OPERATOR_MARK).split(" -> "):
        yield tuple(frames[marks[-1] :])


class _Node(Struct):
    value: int
    children: dict[str, _Node]


def tree(times: Times) -> shapes.FlameGraphNode:
    """The stacks as one tree, callees by their names; what is too small to be seen is left out."""
    root = _Node(0, {})
    for frames, value in times.items():
        node = root
        node.value += value
        for frame in frames:
            node = node.children.setdefault(frame, _Node(0, {}))
            node.value += value
    return _shown("root", root, root.value // _SHOWN)


def _shown(name: str, node: _Node, least: int) -> shapes.FlameGraphNode:
    children = [_shown(each, child, least) for each, child in sorted(node.children.items()) if child.value > least]
    return shapes.FlameGraphNode(name=name, value=round(node.value / 1000), children=children)


def collapsed(times: Times) -> str:
    """A line for each stack: its frames with semicolons between them, and its milliseconds."""
    lines = ((";".join(frame.replace(";", ",") for frame in frames), round(us / 1000)) for frames, us in times.items())
    return "".join(f"{stack} {value}\n" for stack, value in sorted(lines) if value)


def speedscope(name: str, times: Times) -> shapes.Speedscope:
    """A profile of that name."""
    frames: dict[str, int] = {}
    samples = [[frames.setdefault(frame, len(frames)) for frame in stack] for stack in times]
    weights = [us / 1000 for us in times.values()]
    profile = shapes.SpeedscopeProfile(name=name, end_value=sum(weights), samples=samples, weights=weights)
    shared = {"frames": [shapes.SpeedscopeFrame(name=frame) for frame in frames]}
    return shapes.Speedscope(shared=shared, profiles=[profile])
