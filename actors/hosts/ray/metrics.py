"""Metrics on Ray: counters and gauges at Ray's own metrics endpoint, which its Prometheus configuration scrapes."""

from __future__ import annotations

import threading

from ray.util.metrics import Counter, Gauge


class RayMetrics:
    """A MetricSink of counters and gauges named `flinkray_<name>`; Ray adds its own prefix. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}

    def count(self, name: str, increase: float, tags: dict[str, str]) -> None:
        if increase <= 0:
            return
        with self._lock:
            counter = self._counters.get(name)
            if counter is None:
                counter = self._counters[name] = Counter(f"flinkray_{name}", tag_keys=tuple(tags))
        counter.inc(increase, tags=tags)

    def gauge(self, name: str, value: float, tags: dict[str, str]) -> None:
        with self._lock:
            gauge = self._gauges.get(name)
            if gauge is None:
                gauge = self._gauges[name] = Gauge(f"flinkray_{name}", tag_keys=tuple(tags))
        gauge.set(value, tags=tags)
