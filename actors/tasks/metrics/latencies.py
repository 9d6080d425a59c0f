"""Histograms of the latencies of markers from sources, as each operator measures them (Flink's LatencyStats)."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from actors.protocol.elements import LatencyMarker
from flinkray.latencies import LatencyStatistics

_QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)


class Granularity(enum.Enum):
    """Which latencies one histogram collects at an operator subtask: all, those of one source, or of one source
    subtask."""

    SINGLE = "single"
    OPERATOR = "operator"
    SUBTASK = "subtask"

    def source_of(self, marker: LatencyMarker) -> tuple[str, int | None]:
        """(operator id, subtask index) of a marker's source, as far as histograms tell sources apart."""
        if self is Granularity.SINGLE:
            return "", None
        return marker.operator_id, marker.subtask_index if self is Granularity.SUBTASK else None


class Histogram:
    """The last `size` values. One thread adds values, any may read."""

    def __init__(self, size: int) -> None:
        self._values = np.zeros(size)
        self.count = 0

    def add(self, value: float) -> None:
        self._values[self.count % len(self._values)] = value
        self.count += 1

    def last_values(self) -> Any:
        """A copy of the last values, in no order; at least one must have been added."""
        return self._values[: min(self.count, len(self._values))].copy()


class OperatorLatencies:
    """The latencies at one operator subtask, by source."""

    def __init__(
        self, operator_id: str, operator_name: str, subtask_index: int, granularity: Granularity, history_size: int
    ) -> None:
        self._operator_id = operator_id
        self._operator_name = operator_name
        self._subtask_index = subtask_index
        self._granularity = granularity
        self._history_size = history_size
        self._histograms: dict[tuple[str, int | None], Histogram] = {}

    def add(self, marker: LatencyMarker, latency_ms: float) -> None:
        source = self._granularity.source_of(marker)
        histogram = self._histograms.get(source)
        if histogram is None:
            histogram = self._histograms[source] = Histogram(self._history_size)
        histogram.add(latency_ms)

    def statistics(self) -> list[LatencyStatistics]:
        """The statistics of each source that a marker has come from. Any thread."""
        return [self._of(source, histogram) for source, histogram in list(self._histograms.items()) if histogram.count]

    def _of(self, source: tuple[str, int | None], histogram: Histogram) -> LatencyStatistics:
        values = histogram.last_values()
        p50, p75, p95, p98, p99, p999 = (float(quantile) for quantile in np.quantile(values, _QUANTILES))
        return LatencyStatistics(
            source_id=source[0],
            source_subtask_index=source[1],
            operator_id=self._operator_id,
            operator_name=self._operator_name,
            subtask_index=self._subtask_index,
            count=histogram.count,
            min=float(values.min()),
            max=float(values.max()),
            mean=float(values.mean()),
            p50=p50,
            p75=p75,
            p95=p95,
            p98=p98,
            p99=p99,
            p999=p999,
        )
