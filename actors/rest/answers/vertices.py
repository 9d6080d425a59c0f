"""Vertices and subtasks in Flink's shapes."""

from __future__ import annotations

from collections.abc import Sequence

from actors.protocol.control_messages import SubtaskDetails, VertexDetails
from actors.protocol.job_reports import AttemptDetails, RateSample
from actors.protocol.ports import Address
from actors.protocol.task_messages import TaskMetrics
from actors.rest.answers import states
from actors.rest.answers.aggregates import aggregated_details, io_metrics
from actors.rest.answers.jobs import accumulators_of
from actors.rest.answers.task_managers import id_of
from flinkray.rest import vertices as shapes

_NOWHERE = "(unassigned)"

# The shares of its time that a subtask may be back-pressured: Flink's.
_LOW, _HIGH = 0.1, 0.5


def details(vertex: VertexDetails, now: int) -> shapes.VertexDetails:
    return shapes.VertexDetails(
        id=vertex.vertex_id,
        name=vertex.name,
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        now=now,
        subtasks=[current_attempt(subtask, now) for subtask in vertex.subtasks],
        aggregated=aggregated_details(vertex.subtasks, now),
    )


def current_attempt(subtask: SubtaskDetails, now: int) -> shapes.SubtaskAttempt:
    as_former = AttemptDetails(
        subtask.subtask_index, subtask.attempt_number, subtask.state, subtask.times, subtask.task_executor
    )
    return former_attempt(as_former, now, subtask.metrics)


def former_attempt(attempt: AttemptDetails, now: int, metrics: TaskMetrics | None = None) -> shapes.SubtaskAttempt:
    """An attempt, of which the figures are only known while it is the current one."""
    start, end, duration = states.span(attempt.times, now)
    return shapes.SubtaskAttempt(
        subtask=attempt.subtask_index,
        status=attempt.state,
        attempt=attempt.attempt_number,
        endpoint=attempt.task_executor or _NOWHERE,
        start_time=start,
        end_time=end,
        duration=duration,
        metrics=io_metrics([] if metrics is None else [metrics]),
        taskmanager_id=_NOWHERE if attempt.task_executor is None else id_of(attempt.task_executor),
        status_duration=states.durations(attempt.times, now),
        start_time_again=start,
    )


def times(vertex: VertexDetails, now: int) -> shapes.VertexTimes:
    subtasks = [
        shapes.SubtaskTimes(
            subtask=subtask.subtask_index,
            endpoint=subtask.task_executor or _NOWHERE,
            duration=states.span(subtask.times, now)[2],
            timestamps=states.timestamps(subtask.times),
        )
        for subtask in vertex.subtasks
    ]
    return shapes.VertexTimes(id=vertex.vertex_id, name=vertex.name, now=now, subtasks=subtasks)


def task_managers(vertex: VertexDetails, now: int) -> shapes.VertexTaskExecutors:
    by_executor: dict[str, list[SubtaskDetails]] = {}
    for subtask in vertex.subtasks:
        by_executor.setdefault(subtask.task_executor or _NOWHERE, []).append(subtask)
    found = [_task_manager(executor, subtasks, now) for executor, subtasks in by_executor.items()]
    return shapes.VertexTaskExecutors(id=vertex.vertex_id, name=vertex.name, now=now, taskmanagers=found)


def _task_manager(executor: str, subtasks: Sequence[SubtaskDetails], now: int) -> shapes.TaskExecutorOfVertex:
    start, end, duration = states.span_of_all((states.span(subtask.times, now) for subtask in subtasks), now)
    return shapes.TaskExecutorOfVertex(
        endpoint=executor,
        status=states.of_vertex(subtasks),
        start_time=start,
        end_time=end,
        duration=duration,
        metrics=io_metrics([subtask.metrics for subtask in subtasks]),
        status_counts=states.counts(subtask.state for subtask in subtasks),
        taskmanager_id=executor if executor == _NOWHERE else id_of(Address(executor)),
        aggregated=aggregated_details(subtasks, now),
    )


def back_pressure(vertex: VertexDetails, now: int) -> shapes.VertexBackPressure:
    running = [subtask for subtask in vertex.subtasks if subtask.state == "RUNNING"]
    subtasks = [_back_pressure(subtask) for subtask in running]
    worst = _level(max((subtask.ratio for subtask in subtasks), default=0.0))
    return shapes.VertexBackPressure(
        status="ok" if running else "deprecated", level=worst, end_timestamp=now, subtasks=subtasks, level_again=worst
    )


def _back_pressure(subtask: SubtaskDetails) -> shapes.SubtaskBackPressure:
    ratio = subtask.rates.backpressured_ms / 1000
    return shapes.SubtaskBackPressure(
        subtask=subtask.subtask_index,
        level=_level(ratio),
        ratio=round(ratio, 3),
        idle_ratio=round(subtask.rates.idle_ms / 1000, 3),
        busy_ratio=round(subtask.rates.busy_ms / 1000, 3),
        level_again=_level(ratio),
    )


def _level(ratio: float) -> str:
    return "ok" if ratio <= _LOW else "low" if ratio <= _HIGH else "high"


def accumulators(vertex: VertexDetails) -> shapes.VertexAccumulators:
    totals: dict[str, int | float] = {}
    for subtask in vertex.subtasks:
        for name, value in subtask.metrics.accumulators.items():
            totals[name] = totals.get(name, 0) + value
    return shapes.VertexAccumulators(id=vertex.vertex_id, user_accumulators=accumulators_of(totals))


def subtasks_accumulators(vertex: VertexDetails) -> shapes.SubtasksAccumulators:
    subtasks = [subtask_accumulators(subtask) for subtask in vertex.subtasks]
    return shapes.SubtasksAccumulators(id=vertex.vertex_id, parallelism=vertex.parallelism, subtasks=subtasks)


def subtask_accumulators(subtask: SubtaskDetails) -> shapes.SubtaskAccumulators:
    return shapes.SubtaskAccumulators(
        subtask=subtask.subtask_index,
        attempt=subtask.attempt_number,
        endpoint=subtask.task_executor or _NOWHERE,
        user_accumulators=accumulators_of(subtask.metrics.accumulators),
    )


def history(vertex: VertexDetails, samples: Sequence[Sequence[RateSample]]) -> shapes.VertexHistory:
    return shapes.VertexHistory(
        id=vertex.vertex_id, subtasks=[[_sample(each) for each in series] for series in samples]
    )


def _sample(sample: RateSample) -> shapes.RateSample:
    rates = sample.rates
    return shapes.RateSample(
        timestamp=sample.time_ms,
        records_in=rates.records_in,
        records_out=rates.records_out,
        bytes_in=rates.bytes_in,
        bytes_out=rates.bytes_out,
        buffers_in=rates.batches_in,
        buffers_out=rates.batches_out,
        busy_time=rates.busy_ms,
        idle_time=rates.idle_ms,
        backpressured_time=rates.backpressured_ms,
        watermark=sample.watermark,
        input_queue=sample.input_queue,
        output_queue=sample.output_queue,
    )
