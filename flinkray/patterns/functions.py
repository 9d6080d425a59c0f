"""Functions that get the matches of a pattern, and the contexts of these and of conditions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from flinkray.functions.interfaces import Function

Events = Mapping[str, list[Any]]
"""The events of a match by the names of the parts of its pattern, in the order of the pattern; a part without events,
being optional, is not there."""


class PatternContext(Protocol):
    """The `ctx` of a PatternProcessFunction."""

    def timestamp(self) -> int | None:
        """The event time of the match in milliseconds: that of its last event, or, of a partial match, the end of its
        time; None in processing time."""

    def current_processing_time(self) -> int:
        """The clock, in epoch milliseconds."""


class IterativeConditionContext(Protocol):
    """The second argument of a condition that takes one. Valid during the call."""

    def get_events_for_pattern(self, name: str) -> list[Any]:
        """The events that the match has so far of that part of the pattern; the one that is asked about is not among
        them."""

    def timestamp(self) -> int:
        """The time of the event that is asked about, in milliseconds."""

    def current_processing_time(self) -> int:
        """The clock, in epoch milliseconds."""


class PatternProcessFunction(Function):
    """What is done with each match of a pattern."""

    @abstractmethod
    def process_match(self, match: Events, ctx: PatternContext) -> Iterable[Any] | None:
        """Yields results for a match, and `tag, value` for side outputs."""


class TimedOutPartialMatchHandler(Function):
    """Base, beside PatternProcessFunction, of functions that also get the partial matches whose time is over."""

    @abstractmethod
    def process_timed_out_match(self, match: Events, ctx: PatternContext) -> Iterable[Any] | None:
        """Yields results for a partial match, as a rule `tag, value` for a side output."""
