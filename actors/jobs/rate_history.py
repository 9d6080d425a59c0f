"""What each subtask did per second, over the last reports of its figures: the read model behind rates and charts."""

from __future__ import annotations

import math
from array import array
from operator import attrgetter

from msgspec import Struct, field

from actors.protocol.job_reports import RateSample, TaskRates
from actors.protocol.task_messages import TaskMetrics
from graphs.execution_graph import AttemptId, ExecutionVertexId

# How many samples are kept of each subtask: with Flink's interval between reports, a minute.
SAMPLES = 60

# Figures that a task reports sooner than this after others, as it does at its end, say nothing about a second.
SHORTEST_MS = 100

_RATES = TaskRates.__struct_fields__
_MOST = tuple(1000.0 if name.endswith("_ms") else math.inf for name in _RATES)
_counters = attrgetter(*_RATES)
_COLUMNS = 4 + len(_RATES)  # the time, the watermark and the queues before them


class _Subtask(Struct):
    attempt: AttemptId
    at_ms: int
    counters: tuple[float, ...]
    """The figures at that time, in the order of TaskRates: the rest of a report is not kept here."""
    samples: array[float] = field(default_factory=lambda: array("d"))
    """Row by row, the oldest first. As doubles, the samples of a thousand subtasks take five megabytes."""


class RateHistory:
    """The last rates of subtasks. Not thread-safe."""

    def __init__(self, samples: int = SAMPLES) -> None:
        self._size = samples * _COLUMNS
        self._subtasks: dict[ExecutionVertexId, _Subtask] = {}

    def report(self, subtask: ExecutionVertexId, attempt: AttemptId, metrics: TaskMetrics, now: int) -> None:
        """A subtask's figures so far; those of a new attempt begin at nothing."""
        known = self._subtasks.get(subtask)
        counters = _counters(metrics)
        if known is None or known.attempt != attempt:
            samples = array("d") if known is None else known.samples
            self._subtasks[subtask] = _Subtask(attempt, now, counters, samples)
            return
        elapsed = now - known.at_ms
        if elapsed < SHORTEST_MS:
            return
        # A second has from none to a thousand milliseconds, whatever delays the reports had: busy is what is left of
        # the time of a task, whose parts are not read at exactly the same moment.
        changes = zip(known.counters, counters, _MOST, strict=True)
        rates = [max(0.0, min((after - before) * 1000 / elapsed, most)) for before, after, most in changes]
        watermark = math.nan if metrics.watermark is None else float(metrics.watermark)
        known.samples.extend((now, watermark, metrics.input_queue, metrics.output_queue, *rates))
        del known.samples[: max(0, len(known.samples) - self._size)]
        known.at_ms, known.counters = now, counters

    def latest(self, subtask: ExecutionVertexId, attempt: AttemptId) -> TaskRates:
        """The last rates of that attempt; nothing as long as it has not reported twice."""
        known = self._subtasks.get(subtask)
        if known is None or known.attempt != attempt or not known.samples or known.samples[-_COLUMNS] != known.at_ms:
            return TaskRates()
        return _rates(known.samples[-_COLUMNS:])

    def samples(self, subtask: ExecutionVertexId) -> tuple[RateSample, ...]:
        """The last samples over all attempts, oldest first."""
        known = self._subtasks.get(subtask)
        if known is None:
            return ()
        rows = (known.samples[start : start + _COLUMNS] for start in range(0, len(known.samples), _COLUMNS))
        return tuple(map(_sample, rows))


def _rates(row: array[float]) -> TaskRates:
    return TaskRates(*row[4:])


def _sample(row: array[float]) -> RateSample:
    time, watermark, input_queue, output_queue = row[:4]
    known = None if math.isnan(watermark) else int(watermark)
    return RateSample(int(time), _rates(row), known, int(input_queue), int(output_queue))
