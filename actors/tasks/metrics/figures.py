"""The figures of a task and its operators: plain numbers that its thread writes, and the slot's thread reads."""

from __future__ import annotations

import logging
from collections.abc import Callable

from actors.protocol.elements import LatencyMarker
from actors.protocol.ports import Clock
from actors.protocol.task_messages import OperatorMetrics, TaskMetrics
from actors.tasks.metrics.latencies import Granularity, OperatorLatencies
from flinkray.batches.batch import Batch
from flinkray.execution import LATE_RECORDS_DROPPED
from flinkray.types.records import MAX_TIMESTAMP

log = logging.getLogger(__name__)


class Stopwatch:
    """Measures how much time passes between its starts and stops. One thread starts and stops it, any may read it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # One tuple, replaced as a whole, so that another thread always sees a total and a start that go together.
        self._total_and_since: tuple[float, float | None] = (0.0, None)

    def start(self) -> None:
        total_ms, since = self._total_and_since
        if since is None:
            self._total_and_since = (total_ms, self._clock.monotonic_ms())

    def stop(self) -> None:
        self._total_and_since = (self.total_ms, None)

    @property
    def total_ms(self) -> float:
        """Milliseconds between starts and stops so far, including the time since the last start."""
        total_ms, since = self._total_and_since
        return total_ms if since is None else total_ms + self._clock.monotonic_ms() - since


class TaskAccumulator:
    """A number that user functions add to (a `flinkray.functions.interfaces.Accumulator`)."""

    def __init__(self, initial: int | float) -> None:
        self.value = initial

    def add(self, value: int | float) -> None:
        self.value += value


class TaskFigures:
    """The figures of one attempt.

    Rows *in* came from the network or from sources of the chain; rows *out* went to the network or to sinks of the
    chain. (Flink counts only the network, so that a job of one chain seems to do nothing.)
    """

    def __init__(self, clock: Clock, inputs: int) -> None:
        self.records_in = 0
        self.records_out = 0
        self.batches_in = 0
        self.batches_out = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self._watermarks: list[int | None] = [None] * inputs
        self.idle = Stopwatch(clock)
        self.backpressured = Stopwatch(clock)
        self.running = Stopwatch(clock)
        self.accumulators: dict[str, TaskAccumulator] = {}
        self.operators: list[OperatorFigures] = []

    def count_in(self, batch: Batch) -> None:
        self.records_in += batch.num_rows
        self.batches_in += 1
        self.bytes_in += batch.nbytes

    def count_out(self, batch: Batch) -> None:
        self.records_out += batch.num_rows
        self.batches_out += 1
        self.bytes_out += batch.nbytes

    def set_watermark(self, input_index: int, timestamp: int) -> None:
        """Notes the watermark of one input of the task; a source is its own input."""
        self._watermarks[input_index] = timestamp

    @property
    def watermark(self) -> int | None:
        """The lowest of the inputs, or None while one of them has none."""
        known = [watermark for watermark in self._watermarks if watermark is not None]
        return min(known) if len(known) == len(self._watermarks) else None

    def accumulator(self, name: str, initial: int | float) -> TaskAccumulator:
        """The accumulator of that name, which functions of one task share."""
        return self.accumulators.setdefault(name, TaskAccumulator(initial))

    def accumulator_values(self) -> dict[str, int | float]:
        values = {name: accumulator.value for name, accumulator in list(self.accumulators.items())}
        late = sum(figures.counted(LATE_RECORDS_DROPPED) for figures in list(self.operators))
        return {**values, LATE_RECORDS_DROPPED: int(late)} if late else values

    def snapshot(self) -> TaskMetrics:
        """All figures at this moment. Any thread. Time that is neither idle nor back-pressured is busy, as in Flink."""
        idle, backpressured = self.idle.total_ms, self.backpressured.total_ms
        return TaskMetrics(
            records_in=self.records_in,
            records_out=self.records_out,
            batches_in=self.batches_in,
            batches_out=self.batches_out,
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            busy_ms=max(0.0, self.running.total_ms - idle - backpressured),
            idle_ms=idle,
            backpressured_ms=backpressured,
            watermark=self.watermark,
            accumulators=self.accumulator_values(),
            latencies=tuple(each for figures in list(self.operators) for each in figures.latencies.statistics()),
            operators=tuple(figures.snapshot() for figures in list(self.operators)),
        )


class OperatorFigures:
    """Counters and gauges of one operator (an `actors.operators.contract.operator.OperatorMetrics`)."""

    def __init__(self, operator_name: str, latencies: OperatorLatencies | None = None) -> None:
        self.operator_name = operator_name
        self.latencies = latencies or OperatorLatencies("", operator_name, 0, Granularity.OPERATOR, 128)
        self.number_of_inputs = 1
        self._watermarks_in: dict[int, int] = {}
        self._watermark_out: int | None = None
        self._counts: dict[str, float] = {}
        self._gauges: dict[str, float] = {}
        self._functions: dict[str, Callable[[], float | None]] = {}

    def count(self, name: str, increase: float = 1) -> None:
        self._counts[name] = self._counts.get(name, 0) + increase

    def counted(self, name: str) -> float:
        """How far the counter is."""
        return self._counts.get(name, 0)

    def gauge(self, name: str, value: float) -> None:
        self._gauges[name] = value

    def gauge_function(self, name: str, read: Callable[[], float | None]) -> None:
        self._functions[name] = read

    def watermark_in(self, input_index: int, timestamp: int) -> None:
        self._watermarks_in[input_index] = timestamp

    def watermark_out(self, timestamp: int) -> None:
        self._watermark_out = timestamp

    def latency(self, marker: LatencyMarker, latency_ms: float) -> None:
        self.latencies.add(marker, latency_ms)

    def watermarks(self) -> dict[str, float]:
        """The last watermarks, in epoch milliseconds: the lowest of all inputs, that of each if there are several, and
        that of the output. Those that are unknown or the end of time are left out."""
        known = dict(self._watermarks_in)
        found: dict[str, int | None] = {"current_output_watermark_ms": self._watermark_out}
        if len(known) == self.number_of_inputs:
            found["current_input_watermark_ms"] = min(known.values(), default=None)
        if self.number_of_inputs > 1:
            found |= {f"current_input_{index + 1}_watermark_ms": known[index] for index in sorted(known)}
        return {name: mark for name, mark in found.items() if mark is not None and mark < MAX_TIMESTAMP}

    def snapshot(self) -> OperatorMetrics:
        """All counters and gauges at this moment. One thread at a time."""
        return OperatorMetrics(self.operator_name, dict(self._counts), self.gauges())

    def gauges(self) -> dict[str, float]:
        """The values of all gauges. One thread at a time. A function that fails is not called again."""
        values = {**self._gauges, **self.watermarks()}
        for name, read in list(self._functions.items()):
            try:
                value = read()
                if value is not None:
                    values[name] = float(value)
            except Exception:
                log.warning("gauge %r of operator %r is not reported any more", name, self.operator_name, exc_info=True)
                self._functions.pop(name, None)
        return values
