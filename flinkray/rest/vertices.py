"""Vertices and their subtasks. Times are in epoch milliseconds, -1 where not known yet; durations in milliseconds."""

from __future__ import annotations

from msgspec import Struct, field

from flinkray.rest.figures import AggregatedTaskDetails, IoMetrics
from flinkray.rest.jobs import Accumulator, States


class SubtaskAttempt(Struct, frozen=True, kw_only=True, rename="kebab"):
    """One attempt to run a subtask."""

    subtask: int
    status: str
    attempt: int
    endpoint: str
    start_time: int
    end_time: int
    duration: int
    metrics: IoMetrics
    taskmanager_id: str
    status_duration: States
    """Execution state -> how long the attempt was in it."""
    start_time_again: int = field(name="start_time")


class VertexDetails(Struct, frozen=True, kw_only=True):
    """A vertex with all of its subtasks."""

    id: str
    name: str
    parallelism: int
    max_parallelism: int = field(name="maxParallelism")
    now: int
    subtasks: list[SubtaskAttempt]
    aggregated: AggregatedTaskDetails


class SubtaskTimes(Struct, frozen=True, kw_only=True):
    """When a subtask entered which state; 0: never."""

    subtask: int
    endpoint: str
    duration: int
    timestamps: States


class VertexTimes(Struct, frozen=True, kw_only=True):
    """When the subtasks of a vertex entered which state."""

    id: str
    name: str
    now: int
    subtasks: list[SubtaskTimes]


class TaskExecutorOfVertex(Struct, frozen=True, kw_only=True, rename="kebab"):
    """The subtasks of a vertex that run on one TaskExecutor, in sum."""

    endpoint: str
    status: str
    start_time: int
    end_time: int
    duration: int
    metrics: IoMetrics
    status_counts: States
    taskmanager_id: str
    aggregated: AggregatedTaskDetails


class VertexTaskExecutors(Struct, frozen=True, kw_only=True):
    """A vertex by TaskExecutors."""

    id: str
    name: str
    now: int
    taskmanagers: list[TaskExecutorOfVertex]


class SubtaskBackPressure(Struct, frozen=True, kw_only=True):
    """Where the time of a subtask goes; the ratios are between 0 and 1."""

    subtask: int
    level: str = field(name="backpressureLevel")
    ratio: float
    idle_ratio: float = field(name="idleRatio")
    busy_ratio: float = field(name="busyRatio")
    level_again: str = field(name="backpressure-level")


class VertexBackPressure(Struct, frozen=True, kw_only=True):
    """Which subtasks wait for those behind them."""

    status: str
    level: str = field(name="backpressureLevel")
    end_timestamp: int = field(name="end-timestamp")
    subtasks: list[SubtaskBackPressure]
    level_again: str = field(name="backpressure-level")


class VertexAccumulators(Struct, frozen=True, kw_only=True, rename="kebab"):
    """The accumulators of a vertex, over its subtasks."""

    id: str
    user_accumulators: list[Accumulator]


class SubtaskAccumulators(Struct, frozen=True, kw_only=True, rename="kebab"):
    """The accumulators of a subtask."""

    subtask: int
    attempt: int
    endpoint: str
    user_accumulators: list[Accumulator]


class SubtasksAccumulators(Struct, frozen=True, kw_only=True):
    """The accumulators of each subtask of a vertex."""

    id: str
    parallelism: int
    subtasks: list[SubtaskAccumulators]


class RateSample(Struct, frozen=True, kw_only=True, rename="kebab"):
    """What a subtask did per second at a time; times are milliseconds of each second."""

    timestamp: int
    records_in: float
    records_out: float
    bytes_in: float
    bytes_out: float
    buffers_in: float
    buffers_out: float
    busy_time: float
    idle_time: float
    backpressured_time: float
    watermark: int | None
    input_queue: int
    """Buffers that wait for the subtask, and in `output-queue` for those behind it."""
    output_queue: int


class VertexHistory(Struct, frozen=True, kw_only=True):
    """The last minutes of each subtask of a vertex, oldest first."""

    id: str
    subtasks: list[list[RateSample]]
