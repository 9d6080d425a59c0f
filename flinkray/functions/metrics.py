"""Figures that functions report: what `runtime_context.get_metrics_group()` gives (names after PyFlink).

They are reported now and then by another thread than the function's, and begin anew when a task is restarted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Counter(Protocol):
    """A number that goes up and down."""

    def inc(self, n: int = 1) -> None: ...

    def dec(self, n: int = 1) -> None: ...

    def get_count(self) -> int: ...


class Meter(Protocol):
    """A rate: how often something happens, reported as events per second."""

    def mark_event(self, value: int = 1) -> None: ...

    def get_count(self) -> int: ...

    def get_rate(self) -> float:
        """Events per second over the meter's span of time, up to now."""


class Distribution(Protocol):
    """Values, of which `<name>_count`, `_sum`, `_min`, `_max` and `_mean` are reported."""

    def update(self, value: int | float) -> None: ...


class MetricGroup(Protocol):
    """Names are unique within a group: asking for the same again gives the same.

    Raises:
        InvalidProgramError: the name is that of a figure of another kind.
    """

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """A group within this one; with `extra` a group for a key, and in it one for its value."""

    def counter(self, name: str) -> Counter: ...

    def gauge(self, name: str, obj: Callable[[], int | float]) -> None:
        """Reports what `obj` returns. It is called by the reporting thread, so it should be quick; what it raises is
        logged, and ends its reports."""

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter: ...

    def distribution(self, name: str) -> Distribution: ...

    def get_scope_components(self) -> list[str]:
        """Names of the groups around, outermost first."""

    def get_metric_identifier(self, metric_name: str) -> str:
        """The name under which a figure is reported, without what the reporter adds."""
