"""Joins and co-groups of two streams per key and window: `a.join(b).where("k").equal_to("k").window(w).apply(f)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NoReturn, Self

from flinkray.errors import InvalidProgramError
from flinkray.functions.interfaces import CoGroupFunction, JoinFunction
from flinkray.streams.checks.functions import declared_type
from flinkray.streams.checks.joins import check_same_keys, joined_type
from flinkray.streams.checks.known_types import KnownType
from flinkray.streams.checks.windows import check_assigner
from flinkray.streams.data_stream import DataStream, KeyFunction
from flinkray.streams.keyed_stream import KeyedStream
from flinkray.streams.windowed_stream import WindowedStream
from flinkray.time.durations import Duration
from flinkray.transformations.operator_factories import WindowCoGroupFactory
from flinkray.types.records import OutputTag, RecordType
from flinkray.windows.assigners import WindowAssigner
from flinkray.windows.evictors import Evictor
from flinkray.windows.triggers import Trigger


class _PairedStreams:
    """Base of JoinedStreams and CoGroupedStreams: two streams that wait for their keys and windows."""

    _name: ClassVar[str]

    def __init__(self, first: DataStream, second: DataStream) -> None:
        self._first = first
        self._second = second
        self._where: KeyedStream | None = None
        self._equal_to: KeyedStream | None = None

    def where(self, *keys: str | KeyFunction, key_type: Any = None) -> Self:
        """The first stream's key: column names, or a function of the record."""
        self._where = self._first.key_by(*keys, key_type=key_type)
        self._check_keys()
        return self

    def equal_to(self, *keys: str | KeyFunction, key_type: Any = None) -> Self:
        """The second stream's key, of the same type."""
        if self._where is None:
            raise InvalidProgramError(f"{self._name}: where(key of the first stream) comes before equal_to")
        self._equal_to = self._second.key_by(*keys, key_type=key_type)
        self._check_keys()
        return self

    def apply(self, *_arguments: Any, **_named: Any) -> NoReturn:
        """Raises InvalidProgramError, as windows are missing: `.window(...)` gives what can be applied."""
        raise InvalidProgramError(
            f"{self._name} needs windows in which records meet: .where(key).equal_to(key).window("
            "TumblingEventTimeWindows.of('1 min')).apply(...); without windows use key_by(...).interval_join(...)"
        )

    def _check_keys(self) -> None:
        if self._where is not None and self._equal_to is not None:
            first, second = self._where, self._equal_to
            check_same_keys((first._key, second._key), (first._known, second._known), self._name)

    def _keyed(self) -> tuple[KeyedStream, KeyedStream]:
        if self._where is None or self._equal_to is None:
            raise InvalidProgramError(f"{self._name} needs .where(key).equal_to(key) before .window(...)")
        return self._where, self._equal_to


class JoinedStreams(_PairedStreams):
    """Two streams of a window join, which wait for their keys and windows. Made by `join`."""

    _name = "join"

    def window(self, assigner: WindowAssigner) -> WindowedJoin:
        """The windows in which records meet: rows of both streams together make sessions. An assigner that looks at
        rows (a dynamic gap) gets them as `TaggedUnion`."""
        return WindowedJoin(*self._keyed(), check_assigner(assigner))


class CoGroupedStreams(_PairedStreams):
    """Two streams of a co-group, which wait for their keys and windows. Made by `co_group`."""

    _name = "co_group"

    def window(self, assigner: WindowAssigner) -> WindowedCoGroup:
        """The windows in which records meet: rows of both streams together make sessions. An assigner that looks at
        rows (a dynamic gap) gets them as `TaggedUnion`."""
        return WindowedCoGroup(*self._keyed(), check_assigner(assigner))


class _WindowedPair:
    """Base of WindowedJoin and WindowedCoGroup: their settings. Late records of both streams share one side output."""

    _is_join: ClassVar[bool]

    def __init__(self, first: KeyedStream, second: KeyedStream, assigner: WindowAssigner) -> None:
        self._first = first
        self._second = second
        # Checks and holds the settings, which are those of windows over the union of both streams.
        self._windows = WindowedStream(first, assigner)

    def trigger(self, trigger: Trigger) -> Self:
        """What fires the windows, in place of the assigner's default. It gets rows as `TaggedUnion`.

        Raises:
            InvalidProgramError: the windows merge, and the trigger cannot.
        """
        self._windows.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor) -> Self:
        """Which rows of both streams a firing leaves out. It gets them as `TaggedUnion`."""
        self._windows.evictor(evictor)
        return self

    def allowed_lateness(self, lateness: Duration) -> Self:
        """Windows stay this long after their end: a row that comes later fires its window once more. Default: 0."""
        self._windows.allowed_lateness(lateness)
        return self

    def side_output_late_data(self, tag: OutputTag) -> Self:
        """Records too late for all their windows go to this side output of the result."""
        self._windows.side_output_late_data(tag)
        return self

    def _apply(self, name: str, function: Any, declared: RecordType | None, known: KnownType) -> DataStream:
        settings = self._windows._settings
        factory = WindowCoGroupFactory(
            assigner=settings.assigner,
            is_join=self._is_join,
            function=function,
            allowed_lateness_ms=settings.allowed_lateness_ms,
            late_tag=settings.late_tag,
            output_type=declared,
            trigger=self._windows._trigger(),
            evictor=settings.evictor,
        )
        keys = (self._first._key, self._second._key)
        return self._first._two_inputs(self._second, name, factory, keys, known)


class WindowedJoin(_WindowedPair):
    """A window join. Settings first, then `apply`, which gives the stream of results."""

    _is_join = True

    def apply(
        self, function: JoinFunction | Callable[[Any, Any], Any] | None = None, output_type: Any = None
    ) -> DataStream:
        """What `function(first, second)` gives for every pair in a window.

        Without a function the columnar inner join: rows of the first's columns, then the second's. Its key columns are
        left out, and a name that the first has too gets the suffix `_right`.
        """
        if function is not None:
            declared = declared_type(function, "join", output_type)
            return self._apply("Join", function, declared, KnownType.of(declared))
        if output_type is not None:
            raise InvalidProgramError("join: output_type is that of a function's results; without one leave it out")
        return self._apply("Join", None, None, joined_type(self._first._known, self._second._known, self._second._key))


class WindowedCoGroup(_WindowedPair):
    """A co-group with its windows. Settings first, then `apply`, which gives the stream of results."""

    _is_join = False

    def apply(
        self,
        function: CoGroupFunction | Callable[[Iterable[Any], Iterable[Any]], Iterable[Any] | None],
        output_type: Any = None,
    ) -> DataStream:
        """What `function(first_rows, second_rows)` yields, once per key and firing; one of them may be empty."""
        declared = declared_type(function, "co_group", output_type, of_items=True)
        return self._apply("Co-Group", function, declared, KnownType.of(declared))
