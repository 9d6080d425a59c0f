"""Flame graphs: what the threads of a vertex's subtasks were doing, as a tree."""

from __future__ import annotations

from msgspec import Struct, field


class FlameGraphNode(Struct, frozen=True, kw_only=True):
    """A function with what it has called. `value` is milliseconds, with those of the functions that it has called."""

    name: str
    value: int
    children: list[FlameGraphNode]


class FlameGraph(Struct, frozen=True, kw_only=True, rename="camel"):
    """The last minute of a vertex, as far as anybody has looked."""

    end_timestamp: int
    """When the last sample was taken, in epoch milliseconds; -1: no subtask runs; -3: there are no samples yet."""
    data: FlameGraphNode | None


class SpeedscopeFrame(Struct, frozen=True, kw_only=True):
    """A function."""

    name: str


class SpeedscopeProfile(Struct, frozen=True, kw_only=True, rename="camel"):
    """Stacks, as indices of frames from the outermost, and the milliseconds of each."""

    type: str = "sampled"
    name: str
    unit: str = "milliseconds"
    start_value: float = 0
    end_value: float
    samples: list[list[int]]
    weights: list[float]


class Speedscope(Struct, frozen=True, kw_only=True):
    """A file that www.speedscope.app and its like open."""

    schema: str = field(default="https://www.speedscope.app/file-format-schema.json", name="$schema")
    shared: dict[str, list[SpeedscopeFrame]]
    profiles: list[SpeedscopeProfile]
    exporter: str = "flinkray"
