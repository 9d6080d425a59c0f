"""The metrics of user functions (flinkray.functions.metrics), reported as gauges of their operator.

Counters are reported as gauges too, as in Flink's own reporter for Prometheus, since they may go down.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from actors.operators.contract.operator import OperatorMetrics
from actors.protocol.ports import Clock
from flinkray.errors import InvalidProgramError, operator_label

_NO_NAME = re.compile(r"[^0-9A-Za-z_]")

T = TypeVar("T")


class UserCounter:
    """Implements `flinkray.functions.metrics.Counter`: the task's thread counts, any thread may read."""

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        self._count += n

    def dec(self, n: int = 1) -> None:
        self._count -= n

    def get_count(self) -> int:
        return self._count


class UserMeter:
    """Implements `flinkray.functions.metrics.Meter`: the task's thread marks events, any thread may ask for the rate,
    which also notes the count of that moment."""

    def __init__(self, clock: Clock, span_s: int) -> None:
        self._clock = clock
        self._span_ms = span_s * 1000.0
        self._count = 0
        self._seen = deque([(clock.monotonic_ms(), 0)])
        """(time, count) of earlier questions, oldest first; only the first is older than the span."""
        self._lock = threading.Lock()

    def mark_event(self, value: int = 1) -> None:
        self._count += value

    def get_count(self) -> int:
        return self._count

    def get_rate(self) -> float:
        with self._lock:
            now, count = self._clock.monotonic_ms(), self._count
            if now - self._seen[-1][0] >= self._span_ms / 1000:  # so that there are never more than a thousand
                self._seen.append((now, count))
            while len(self._seen) > 1 and self._seen[1][0] <= now - self._span_ms:
                self._seen.popleft()
            return (count - self._seen[0][1]) * 1000.0 / self._span_ms


class UserDistribution:
    """Implements `flinkray.functions.metrics.Distribution`: the task's thread updates, any thread may read."""

    def __init__(self) -> None:
        # One tuple, replaced as a whole: another thread must not see a sum without its count.
        self._seen: tuple[int, float, float, float] | None = None
        """Count, sum, lowest and highest of all values; None: there was none."""

    def update(self, value: int | float) -> None:
        if self._seen is None:
            self._seen = (1, value, value, value)
        else:
            count, total, low, high = self._seen
            self._seen = (count + 1, total + value, min(low, value), max(high, value))

    def figure(self, index: int) -> float | None:
        return None if self._seen is None else self._seen[index]

    def mean(self) -> float | None:
        seen = self._seen
        return None if seen is None else seen[1] / seen[0]


class UserMetricGroup:
    """Implements `flinkray.functions.metrics.MetricGroup`.

    Args:
        scope: the names of the groups that this one is in, outermost first.
        known: the metrics of all groups of the function; None: this is its outermost group.
    """

    def __init__(
        self,
        metrics: OperatorMetrics,
        clock: Clock,
        operator: str,
        scope: tuple[str, ...] = (),
        known: dict[str, object] | None = None,
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._operator = operator
        self._scope = scope
        self._known: dict[str, object] = {} if known is None else known
        """Identifier -> metric, for all metrics of the operator's function; shared by all its groups."""

    def add_group(self, name: str, extra: str | None = None) -> UserMetricGroup:
        scope = (*self._scope, name) if extra is None else (*self._scope, name, extra)
        return UserMetricGroup(self._metrics, self._clock, self._operator, scope, self._known)

    def counter(self, name: str) -> UserCounter:
        return self._figure(
            name, UserCounter, UserCounter, lambda made, identifier: self._report(identifier, made.get_count)
        )

    def gauge(self, name: str, obj: Callable[[], int | float]) -> None:
        if not callable(obj):
            raise InvalidProgramError(
                f"{operator_label(self._operator)}: gauge {name!r} takes a function without arguments, not {obj!r}"
            )
        self._figure(name, _UserGauge, _UserGauge, lambda _, identifier: self._report(identifier, obj))

    def meter(self, name: str, time_span_in_seconds: int = 60) -> UserMeter:
        if time_span_in_seconds < 1:
            raise InvalidProgramError(
                f"{operator_label(self._operator)}: meter {name!r} looks at a span of at least 1 s, not of "
                f"{time_span_in_seconds!r} s"
            )
        return self._figure(
            name,
            UserMeter,
            lambda: UserMeter(self._clock, time_span_in_seconds),
            lambda made, identifier: self._report(identifier, made.get_rate),
        )

    def distribution(self, name: str) -> UserDistribution:
        return self._figure(name, UserDistribution, UserDistribution, self._report_distribution)

    def get_scope_components(self) -> list[str]:
        return list(self._scope)

    def get_metric_identifier(self, metric_name: str) -> str:
        # Reporters take letters, digits and underscores.
        return _NO_NAME.sub("_", "_".join((*self._scope, metric_name)))

    def _figure(self, name: str, kind: type[T], make: Callable[[], T], report: Callable[[T, str], None]) -> T:
        identifier = self.get_metric_identifier(name)
        known = self._known.get(identifier)
        if known is None:
            made = make()
            self._known[identifier] = made
            report(made, identifier)
            return made
        if not isinstance(known, kind):
            raise InvalidProgramError(
                f"{operator_label(self._operator)}: {identifier!r} names a figure of another kind; choose another name"
            )
        return known

    def _report(self, identifier: str, read: Callable[[], Any]) -> None:
        self._metrics.gauge_function(identifier, read)

    def _report_distribution(self, made: UserDistribution, identifier: str) -> None:
        for index, what in enumerate(("count", "sum", "min", "max")):
            self._report(f"{identifier}_{what}", partial(made.figure, index))
        self._report(f"{identifier}_mean", made.mean)


class _UserGauge:
    """Stands for a gauge among the known metrics, so that its name is taken."""
