"""Joins and co-groups of two streams per key and window: `a.join(b).where("k").equal_to("k").window(w).apply(f)`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from flinkray.connected_streams import check_same_keys, two_input
from flinkray.datastream import DataStream, KeyFunction, declared_type
from flinkray.durations import Duration, to_millis
from flinkray.errors import InvalidProgramError
from flinkray.evictors import Evictor
from flinkray.functions import CoGroupFunction, JoinFunction
from flinkray.keyed_stream import KeyedStream, check_assigner
from flinkray.keys import ColumnKey
from flinkray.known_types import UNKNOWN, KnownType
from flinkray.operator_factories import WindowCoGroupFactory
from flinkray.triggers import Trigger
from flinkray.types import Kind, OutputTag, RecordType
from flinkray.windowing import WindowAssigner

RIGHT_SUFFIX = "_right"
"""Told apart by it: a column of the second stream whose name the first has too."""


class _PairedStreams:
    """Two streams that wait for their keys and their windows."""

    _is_join: bool
    _name: str

    def __init__(self, first: DataStream, second: DataStream) -> None:
        self._first = first
        self._second = second
        self._where: KeyedStream | None = None
        self._equal_to: KeyedStream | None = None

    def _set_where(self, keys: tuple[str | KeyFunction, ...], key_type: Any) -> None:
        self._where = self._first.key_by(*keys, key_type=key_type)

    def _set_equal_to(self, keys: tuple[str | KeyFunction, ...], key_type: Any) -> None:
        if self._where is None:
            raise InvalidProgramError(f"{self._name}: where(key of the first stream) comes before equal_to")
        self._equal_to = self._second.key_by(*keys, key_type=key_type)
        check_same_keys(self._where, self._equal_to, self._name)

    def _keyed(self) -> tuple[KeyedStream, KeyedStream]:
        if self._where is None or self._equal_to is None:
            raise InvalidProgramError(f"{self._name} needs .where(key).equal_to(key) before .window(...)")
        return self._where, self._equal_to


class JoinedStreams(_PairedStreams):
    """Made by `join`."""

    _name = "join"

    def where(self, *keys: str | KeyFunction, key_type: Any = None) -> JoinedStreams:
        """The first stream's key: column names, or a function of the record."""
        self._set_where(keys, key_type)
        return self

    def equal_to(self, *keys: str | KeyFunction, key_type: Any = None) -> JoinedStreams:
        """The second stream's key, of the same type."""
        self._set_equal_to(keys, key_type)
        return self

    def window(self, assigner: WindowAssigner) -> WindowedJoin:
        """The windows in which records meet."""
        return WindowedJoin(*self._keyed(), WindowCoGroupFactory(check_assigner(assigner), is_join=True))


class CoGroupedStreams(_PairedStreams):
    """Made by `co_group`."""

    _name = "co_group"

    def where(self, *keys: str | KeyFunction, key_type: Any = None) -> CoGroupedStreams:
        """The first stream's key: column names, or a function of the record."""
        self._set_where(keys, key_type)
        return self

    def equal_to(self, *keys: str | KeyFunction, key_type: Any = None) -> CoGroupedStreams:
        """The second stream's key, of the same type."""
        self._set_equal_to(keys, key_type)
        return self

    def window(self, assigner: WindowAssigner) -> WindowedCoGroup:
        """The windows in which records meet."""
        return WindowedCoGroup(*self._keyed(), WindowCoGroupFactory(check_assigner(assigner), is_join=False))


class _WindowedPair:
    """Settings of both; late records of the two streams share one side output."""

    def __init__(self, first: KeyedStream, second: KeyedStream, factory: WindowCoGroupFactory) -> None:
        self._first = first
        self._second = second
        self._factory = factory

    def _set_lateness(self, lateness: Duration) -> None:
        lateness_ms = to_millis(lateness, "allowed_lateness")
        self._factory = dataclasses.replace(self._factory, allowed_lateness_ms=lateness_ms)

    def _set_trigger(self, trigger: Trigger) -> None:
        self._factory = dataclasses.replace(self._factory, trigger=trigger)

    def _set_evictor(self, evictor: Evictor) -> None:
        self._factory = dataclasses.replace(self._factory, evictor=evictor)

    def _set_late_tag(self, tag: OutputTag) -> None:
        self._factory = dataclasses.replace(self._factory, late_tag=tag)

    def _apply(self, name: str, function: Any, declared: RecordType | None, known: KnownType) -> DataStream:
        factory = dataclasses.replace(self._factory, function=function, output_type=declared)
        return two_input(self._first, self._second, name, factory, (self._first._key, self._second._key), known)


class WindowedJoin(_WindowedPair):
    """A join with its windows."""

    def trigger(self, trigger: Trigger) -> WindowedJoin:
        """What fires the windows, in place of the assigner's default. It gets rows as `TaggedUnion`."""
        self._set_trigger(trigger)
        return self

    def evictor(self, evictor: Evictor) -> WindowedJoin:
        """What leaves rows out of the windows that fire. It gets rows as `TaggedUnion`, those of both streams."""
        self._set_evictor(evictor)
        return self

    def allowed_lateness(self, lateness: Duration) -> WindowedJoin:
        """Windows stay this long after their end."""
        self._set_lateness(lateness)
        return self

    def side_output_late_data(self, tag: OutputTag) -> WindowedJoin:
        """Records too late for all their windows go to this side output of the result."""
        self._set_late_tag(tag)
        return self

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
        return self._apply("Join", None, None, joined_type(self._first, self._second))


class WindowedCoGroup(_WindowedPair):
    """A co-group with its windows."""

    def trigger(self, trigger: Trigger) -> WindowedCoGroup:
        """What fires the windows, in place of the assigner's default. It gets rows as `TaggedUnion`."""
        self._set_trigger(trigger)
        return self

    def evictor(self, evictor: Evictor) -> WindowedCoGroup:
        """What leaves rows out of the windows that fire. It gets rows as `TaggedUnion`, those of both streams."""
        self._set_evictor(evictor)
        return self

    def allowed_lateness(self, lateness: Duration) -> WindowedCoGroup:
        """Windows stay this long after their end."""
        self._set_lateness(lateness)
        return self

    def side_output_late_data(self, tag: OutputTag) -> WindowedCoGroup:
        """Records too late for all their windows go to this side output of the result."""
        self._set_late_tag(tag)
        return self

    def apply(
        self,
        function: CoGroupFunction | Callable[[Iterable[Any], Iterable[Any]], Iterable[Any] | None],
        output_type: Any = None,
    ) -> DataStream:
        """What `function(first_rows, second_rows)` yields, once per key and window; one of them may be empty."""
        declared = declared_type(function, "co_group", output_type, of_items=True)
        return self._apply("Co-Group", function, declared, KnownType.of(declared))


def joined_type(first: KeyedStream, second: KeyedStream) -> KnownType:
    """What is known of the rows of the columnar inner join."""
    left, right = first._known, second._known
    if left.columns is None or right.columns is None:
        return UNKNOWN
    key = second._key
    left_out = key.columns if isinstance(key, ColumnKey) else ()
    kept = [name for name in right.columns if name not in left_out]
    renamed = [name + RIGHT_SUFFIX if name in left.columns else name for name in kept]
    names = [*left.columns, *renamed]
    if len(set(names)) < len(names):
        raise InvalidProgramError(f"join would give two columns the same name: {', '.join(names)}; rename one first")
    if left.record_type is None or right.record_type is None:
        return KnownType.of_columns(names)
    fields = [right.record_type.schema.field(name).with_name(new) for name, new in zip(kept, renamed, strict=True)]
    return KnownType.of(RecordType(Kind.ROW, pa.schema([*left.record_type.schema, *fields])))
