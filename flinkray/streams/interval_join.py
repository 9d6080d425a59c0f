"""Interval joins, and the check of their bounds: `a.key_by("k").interval_join(b.key_by("k")).between(-5_000, 5_000)`.

How the runtime finds the partners of a row is in `actors/operators/joins/interval_partners.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from flinkray.errors import InvalidProgramError
from flinkray.functions.checks import checked_tag
from flinkray.functions.interfaces import ProcessJoinContext, ProcessJoinFunction
from flinkray.streams.checks.functions import declared_type
from flinkray.streams.checks.joins import check_same_keys, joined_type
from flinkray.streams.checks.known_types import KnownType
from flinkray.streams.data_stream import DataStream
from flinkray.streams.keyed_stream import KeyedStream
from flinkray.time.durations import Duration, to_millis
from flinkray.transformations.operator_factories import IntervalJoinFactory
from flinkray.types.records import MAX_TIMESTAMP, Millis, OutputTag, RecordType

JoinCallable = ProcessJoinFunction | Callable[[Any, Any, ProcessJoinContext], Iterable[Any] | None]


class IntervalJoin:
    """Two keyed streams that wait for the bounds of their join. Made by `KeyedStream.interval_join`."""

    def __init__(self, left: KeyedStream, right: KeyedStream) -> None:
        if not isinstance(right, KeyedStream):
            raise InvalidProgramError(
                f"interval_join takes a keyed stream, other.key_by(...), not {type(right).__name__}"
            )
        left._require_same_environment(right, "interval_join")
        check_same_keys((left._key, right._key), (left._known, right._known), "interval_join")
        self._left = left
        self._right = right

    def between(self, lower_bound: Duration, upper_bound: Duration) -> IntervalJoined:
        """Pairs of the same key where `lower_bound <= right's event time - left's <= upper_bound`.

        Args:
            lower_bound: may be negative, as an int of milliseconds, a timedelta, or text such as "-5 s".
        Raises:
            InvalidProgramError: the lower bound is above the upper one.
        """
        lower, upper = _bound(lower_bound, "lower_bound"), _bound(upper_bound, "upper_bound")
        if lower > upper:
            raise InvalidProgramError(
                f"interval_join: the lower bound ({lower} ms) is above the upper one ({upper} ms), so nothing would "
                "ever join; between(lower_bound, upper_bound) says where the right row lies, seen from the left one"
            )
        return IntervalJoined(self._left, self._right, lower, upper)


class IntervalJoined:
    """Made by `between`. Settings first, then `process` or `join`, which gives the stream of results.

    Works in event time only. A pair is emitted as soon as both rows are there, and has the later one's event time. A
    row whose event time is below the watermark is late: it joins nothing, and is dropped and counted
    (`late_records_dropped`) where no side output is set for its stream. Both bounds are inclusive unless set otherwise.
    """

    def __init__(self, left: KeyedStream, right: KeyedStream, lower_ms: Millis, upper_ms: Millis) -> None:
        self._left = left
        self._right = right
        self._lower_ms = lower_ms
        self._upper_ms = upper_ms
        self._is_lower_exclusive = False
        self._is_upper_exclusive = False
        self._late_tags: tuple[OutputTag | None, OutputTag | None] = (None, None)

    # -- settings

    def lower_bound_exclusive(self) -> IntervalJoined:
        """Excludes the lower bound: rows exactly at it do not join."""
        self._is_lower_exclusive = True
        return self

    def upper_bound_exclusive(self) -> IntervalJoined:
        """Excludes the upper bound: rows exactly at it do not join."""
        self._is_upper_exclusive = True
        return self

    def side_output_left_late_data(self, tag: OutputTag) -> IntervalJoined:
        """Late rows of the left stream go to this side output of the result."""
        self._late_tags = (checked_tag(tag, "side_output_left_late_data"), self._late_tags[1])
        return self

    def side_output_right_late_data(self, tag: OutputTag) -> IntervalJoined:
        """Late rows of the right stream go to this side output of the result."""
        self._late_tags = (self._late_tags[0], checked_tag(tag, "side_output_right_late_data"))
        return self

    # -- operations

    def process(self, function: JoinCallable, output_type: Any = None) -> DataStream:
        """What `function(left, right, ctx)` yields for every pair; `yield tag, value` is for a side output.

        `ctx` has the event times of the pair: `get_left_timestamp()`, `get_right_timestamp()`, and `get_timestamp()`,
        the later of both, which the results get.
        """
        declared = declared_type(
            function, "process_element", output_type, of_items=True, parameters=("left", "right", "ctx")
        )
        return self._joined(function, declared, KnownType.of(declared))

    def join(self) -> DataStream:
        """The pairs in columns: rows of the left stream's columns, then the right's.

        The right's key columns are left out, and a name that the left has too gets the suffix `_right`.
        """
        return self._joined(None, None, joined_type(self._left._known, self._right._known, self._right._key))

    def _joined(self, function: JoinCallable | None, declared: RecordType | None, known: KnownType) -> DataStream:
        factory = IntervalJoinFactory(
            lower_ms=Millis(self._lower_ms + self._is_lower_exclusive),
            upper_ms=Millis(self._upper_ms - self._is_upper_exclusive),
            function=function,
            late_tags=self._late_tags,
            output_type=declared,
        )
        keys = (self._left._key, self._right._key)
        return self._left._two_inputs(self._right, "Interval Join", factory, keys, known)


def _bound(bound: Duration, name: str) -> Millis:
    """The bound in milliseconds, which may be negative."""
    opposite: Duration | None = None
    if isinstance(bound, str) and bound.lstrip().startswith("-"):
        opposite = bound.lstrip()[1:]
    elif (isinstance(bound, timedelta) and bound < timedelta(0)) or (isinstance(bound, int) and bound < 0):
        opposite = -bound
    millis = to_millis(bound, name) if opposite is None else -to_millis(opposite, f"the opposite of {name}")
    if abs(millis) >= MAX_TIMESTAMP:
        raise InvalidProgramError(f"interval_join: {name} is {millis} ms, which no two event times are apart")
    return Millis(millis)
