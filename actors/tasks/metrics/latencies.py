"""Histograms of the latencies that markers of sources show on their arrival (Flink's LatencyStats)."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from actors.protocol.elements import LatencyMarker
from flinkray.latencies import LatencyStatistics

_QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)


class Granularity(enum.Enum):
    """What latencies are told apart by, beside the operator subtask that they are measured at."""

    SINGLE = "single"
    OPERATOR = "operator"
    SUBTASK = "subtask"

    def source_of(self, marker: LatencyMarker) -> tuple[str, int | None]:
        """(operator id, subtask index) of the source, as far as it counts."""
        if self is Granularity.SINGLE:
            return "", None
        return marker.operator_id, marker.subtask_index if self is Granularity.SUBTASK else None


class Histogram:
    """The last `size` values. One thread adds, any may read."""

    def __init__(self, size: int) -> None:
        self._values = np.zeros(size)
        self.count = 0

    def add(self, value: float) -> None:
        self._values[self.count % len(self._values)] = value
        self.count += 1

    def last_values(self) -> Any:
        """At least one has been added. A copy, in no order."""
        return self._values[: min(self.count, len(self._values))].copy()


class OperatorLatencies:
    """Of one subtask of an operator, by source."""

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
        """One per source that a marker came from; from any thread."""
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
