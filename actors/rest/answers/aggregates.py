"""Sums over subtasks and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from actors.protocol.control_messages import SubtaskDetails
from actors.protocol.job_reports import FigureSummary
from actors.protocol.task_messages import TaskMetrics
from actors.rest.answers import states
from flinkray.rest.figures import AggregatedFigure, AggregatedIo, AggregatedTaskDetails, IoMetrics, Statistics

_NOT_A_NUMBER = "NaN"


def aggregated(values: Iterable[float]) -> AggregatedFigure:
    """A figure over subtasks; all 0 where there are none. Quantiles are values that occur, as with Flink."""
    ascending = sorted(values)
    if not ascending:
        return AggregatedFigure(min=0, max=0, avg=0, sum=0, median=0, p25=0, p75=0, p95=0)
    total = sum(ascending)

    def at(quantile: float) -> int:
        return round(ascending[min(len(ascending) - 1, int(quantile * len(ascending)))])

    return AggregatedFigure(
        min=round(ascending[0]),
        max=round(ascending[-1]),
        avg=round(total / len(ascending)),
        sum=round(total),
        median=at(0.5),
        p25=at(0.25),
        p75=at(0.75),
        p95=at(0.95),
    )


def statistics(values: Sequence[float]) -> Statistics:
    """A figure over the subtasks of a checkpoint, of which Flink gives no quantiles."""
    if not values:
        return _statistics(0, 0, 0, ())
    return _statistics(min(values), max(values), sum(values) / len(values), ())


def statistics_of(summary: FigureSummary) -> Statistics:
    """A figure over all checkpoints."""
    return _statistics(summary.minimum, summary.maximum, summary.average, summary.quantiles)


def _statistics(minimum: float, maximum: float, average: float, quantiles: Sequence[float]) -> Statistics:
    p50, p90, p95, p99, p999 = quantiles or (_NOT_A_NUMBER,) * 5
    return Statistics(
        min=round(minimum), max=round(maximum), avg=round(average), p50=p50, p90=p90, p95=p95, p99=p99, p999=p999
    )


def io_metrics(metrics: Sequence[TaskMetrics]) -> IoMetrics:
    """What tasks have read and written. It is complete, as tasks report by themselves, and once more at their end."""

    def total(figure: Callable[[TaskMetrics], float]) -> float:
        return sum(map(figure, metrics))

    return IoMetrics(
        read_bytes=round(total(lambda each: each.bytes_in)),
        read_bytes_complete=True,
        write_bytes=round(total(lambda each: each.bytes_out)),
        write_bytes_complete=True,
        read_records=round(total(lambda each: each.records_in)),
        read_records_complete=True,
        write_records=round(total(lambda each: each.records_out)),
        write_records_complete=True,
        accumulated_backpressured_time=round(total(lambda each: each.backpressured_ms)),
        accumulated_idle_time=round(total(lambda each: each.idle_ms)),
        accumulated_busy_time=float(round(total(lambda each: each.busy_ms))),
    )


def aggregated_details(subtasks: Sequence[SubtaskDetails], now: int) -> AggregatedTaskDetails:
    """Figures, and times in each state, over subtasks; a state counts those that have been in it."""
    metrics = [subtask.metrics for subtask in subtasks]
    lasted = [states.durations(subtask.times, now) for subtask in subtasks]
    return AggregatedTaskDetails(
        metrics=AggregatedIo(
            read_bytes=aggregated(each.bytes_in for each in metrics),
            write_bytes=aggregated(each.bytes_out for each in metrics),
            read_records=aggregated(each.records_in for each in metrics),
            write_records=aggregated(each.records_out for each in metrics),
            accumulated_backpressured_time=aggregated(each.backpressured_ms for each in metrics),
            accumulated_idle_time=aggregated(each.idle_ms for each in metrics),
            accumulated_busy_time=aggregated(each.busy_ms for each in metrics),
        ),
        status_duration={
            state: aggregated(each[state] for each in lasted if each[state] != states.UNKNOWN) for state in states.LIFE
        },
    )
