"""A pattern on a stream, and what is done with its matches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from flinkray.errors import InvalidProgramError
from flinkray.functions.checks import check_function, checked_tag
from flinkray.functions.type_hints import from_annotation, record_type
from flinkray.patterns.functions import Events, PatternContext, PatternProcessFunction, TimedOutPartialMatchHandler
from flinkray.patterns.pattern import Pattern, check_pattern
from flinkray.streams.checks.known_types import KnownType
from flinkray.streams.data_stream import DataStream
from flinkray.transformations.operator_factories import PatternFactory
from flinkray.types.records import OutputTag

Select = Callable[[Events], Any]
Process = PatternProcessFunction | Callable[[Events, PatternContext], Iterable[Any] | None]


class CEP:
    """Where pattern matching begins, as in Flink."""

    @staticmethod
    def pattern(stream: DataStream, pattern: Pattern) -> PatternStream:
        """The pattern on the stream: on a keyed stream in the events of each key, else in all events, in one subtask.

        Raises:
            InvalidProgramError: the pattern is none that can be matched; says why.
        """
        if not isinstance(stream, DataStream):
            raise InvalidProgramError(f"CEP.pattern takes a stream, not {stream!r}")
        if not isinstance(pattern, Pattern):
            raise InvalidProgramError(f"CEP.pattern takes a Pattern, Pattern.begin(...), not {pattern!r}")
        check_pattern(pattern)
        for columns in pattern.columns():
            stream._known.require(sorted(columns), "a condition of the pattern")
        return PatternStream(stream, pattern)


@dataclass(frozen=True)
class PatternStream:
    """Made by `CEP.pattern`. Settings first, then `select`, `flat_select` or `process`.

    Events are taken in the order of their event time, when the watermark has passed it; those that come later are
    dropped and counted, unless a side output is set for them. Functions get matches as dicts of lists of events, by the
    names of the parts of the pattern.
    """

    _stream: DataStream
    _pattern: Pattern
    _is_event_time: bool = True
    _late_tag: OutputTag | None = None

    # -- settings

    def in_event_time(self) -> PatternStream:
        """Events in the order of their event time, which is the default."""
        return replace(self, _is_event_time=True)

    def in_processing_time(self) -> PatternStream:
        """Events in the order in which they come; time limits go by the clock."""
        return replace(self, _is_event_time=False)

    def side_output_late_data(self, tag: OutputTag) -> PatternStream:
        """Late events go to this side output of the result."""
        return replace(self, _late_tag=checked_tag(tag, "side_output_late_data"))

    # -- matches

    def select(
        self,
        function: Select,
        output_type: Any = None,
        *,
        timed_out_tag: OutputTag | None = None,
        timed_out_select: Callable[[Events, int], Any] | None = None,
    ) -> DataStream:
        """One result for each match: `function(match)`.

        Args:
            output_type: as of `DataStream.map`.
            timed_out_tag: a side output for partial matches whose time (`within`) is over: for each what
                `timed_out_select(match, timestamp)` gives.
        """
        return self._matched(function, "select", output_type, timed_out_tag, timed_out_select)

    def flat_select(
        self,
        function: Select,
        output_type: Any = None,
        *,
        timed_out_tag: OutputTag | None = None,
        timed_out_select: Callable[[Events, int], Iterable[Any] | None] | None = None,
    ) -> DataStream:
        """As `select`, with any number of results for each match: the function is a generator, or returns an iterable
        or None."""
        return self._matched(function, "flat_select", output_type, timed_out_tag, timed_out_select)

    def process(self, function: Process, output_type: Any = None) -> DataStream:
        """What `function(match, ctx)` yields for each match: results, and `tag, value` for side outputs.

        Args:
            function: a PatternProcessFunction, which as a TimedOutPartialMatchHandler also gets partial matches whose
                time is over; or a generator function.
        """
        return self._matched(function, "process", output_type, None, None)

    def _matched(
        self,
        function: Any,
        mode: str,
        output_type: Any,
        timed_out_tag: OutputTag | None,
        timed_out_select: Callable[[Events, int], Any] | None,
    ) -> DataStream:
        parameters = ("match", "ctx") if mode == "process" else ("match",)
        check_function(function, "process_match", parameters)
        if (timed_out_tag is None) is not (timed_out_select is None):
            raise InvalidProgramError(f"{mode} takes timed_out_tag and timed_out_select together")
        if timed_out_tag is not None:
            checked_tag(timed_out_tag, mode)
            check_function(timed_out_select, "process_timed_out_match", ("match", "timestamp"))
        elif isinstance(function, TimedOutPartialMatchHandler):
            check_function(function, "process_timed_out_match", parameters)
        declared = record_type(output_type) if output_type is not None else None
        if declared is None:
            declared = from_annotation(function, of_items=mode != "select")
        factory = PatternFactory(
            pattern=self._pattern,
            function=function,
            mode=mode,
            is_event_time=self._is_event_time,
            late_tag=self._late_tag,
            timed_out_tag=timed_out_tag,
            timed_out_select=timed_out_select,
            output_type=declared,
        )
        matched = self._stream._one_input("CEP", factory, KnownType.of(declared))
        # A task of its own, whose state has one key group whatever its input has.
        return matched if self._stream._key is not None else matched.force_non_parallel().start_new_chain()
