"""Declared rows in state go on where their type has changed so that each value still says what it said."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from actors.operators.registry import create_operator
from actors.state.keyed.options import StateOptions
from flinkray import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    Row,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from flinkray.errors import IncompatibleStateError
from flinkray.testing import KeyedHarness
from flinkray.transformations.operator_factories import ProcessFactory
from flinkray.types.keys import ColumnKey
from tests.support.operators import code
from tests.support.rescaling import Subtasks
from tests.support.state import write_snapshot

BACKENDS = ["hashmap", "rocksdb"]
KINDS = ["value", "list", "map", "reducing", "aggregating"]
PERMISSION = {"execution.state-recovery.allow-removed-fields": True}
LONG, INT, TEXT, DOUBLE = Types.LONG(), Types.INT(), Types.STRING(), Types.DOUBLE()


class Latest(AggregateFunction):
    """Its accumulator is the value that came last."""

    def create_accumulator(self) -> Any:
        return None

    def add(self, value: Any, accumulator: Any) -> Any:
        return value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, accumulator_a: Any, accumulator_b: Any) -> Any:
        return accumulator_b


class Keeping(KeyedProcessFunction):
    """Keeps a value, or gives what it has kept, in one kind of state."""

    def __init__(self, kind: str, value_type: Any, value: Any = None, ttl: Any = None) -> None:
        self.kind, self.value_type, self.value, self.ttl = kind, value_type, value, ttl
        self.found: list[Any] = []

    def open(self, runtime_context: Any) -> None:
        given: Any = {"value_type": self.value_type, "ttl": self.ttl}
        match self.kind:
            case "value":
                self.state = runtime_context.get_state(ValueStateDescriptor("kept", **given))
            case "list":
                self.state = runtime_context.get_list_state(ListStateDescriptor("kept", **given))
            case "map":
                self.state = runtime_context.get_map_state(MapStateDescriptor("kept", **given))
            case "reducing":
                descriptor = ReducingStateDescriptor("kept", function=lambda _one, other: other, **given)
                self.state = runtime_context.get_reducing_state(descriptor)
            case "aggregating":
                aggregating = AggregatingStateDescriptor("kept", function=Latest(), **given)
                self.state = runtime_context.get_aggregating_state(aggregating)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if self.value is not None:
            self.keep(self.value)
        else:
            self.found.append(self.kept())
        yield from ()

    def keep(self, value: Any) -> None:
        if self.kind == "value":
            self.state.update(value)
        elif self.kind == "map":
            self.state["entry"] = value
        else:
            self.state.add(value)

    def kept(self) -> Any:
        if self.kind == "value":
            return self.state.value()
        if self.kind == "map":
            return self.state["entry"]
        found = self.state.get()
        return next(iter(found)) if self.kind == "list" else found


def saved_with(kind: str, backend: str, value_type: Any, value: Any, ttl: Any = None) -> bytes:
    settings: Any = {"options": {"state.backend.type": backend}}
    with KeyedHarness(Keeping(kind, value_type, value, ttl), key="k", **settings) as before:
        before.process({"k": 1}, 0)
        return before.snapshot()


def restored(kind: str, backend: str, value_type: Any, saved: bytes, ttl: Any = None, **options: Any) -> Any:
    """What the state has with another declared type; it is written again on the way, which takes its column."""
    found: list[Any] = []
    for former_options in (options, {}):
        function = Keeping(kind, value_type, ttl=ttl)
        settings: Any = {"options": {"state.backend.type": backend, **former_options}}
        with KeyedHarness(function, key="k", restore_from=saved, **settings) as after:
            saved = after.snapshot()
            after.process({"k": 1}, 1)
        found += function.found
    assert repr(found[0]) == repr(found[1]), "its own snapshot gives the same"
    return found[0]


def named(**types: Any) -> Any:
    return Types.ROW_NAMED(list(types), list(types.values()))


each_kind = pytest.mark.parametrize("kind", KINDS)
each_backend = pytest.mark.parametrize("backend", BACKENDS)

# -- rows of Types, dicts of Arrow schemas, and tuples


@each_kind
@each_backend
@pytest.mark.parametrize(
    ("before", "value", "after", "expected"),
    [
        (named(a=LONG), Row(a=1), named(a=LONG, b=TEXT), Row(a=1, b=None)),
        (named(a=LONG, b=TEXT), Row(a=1, b="x"), named(b=TEXT, a=LONG), Row(b="x", a=1)),
        (named(a=INT), Row(a=1), named(a=LONG), Row(a=1)),
        (named(a=INT, b=TEXT), Row(a=1, b=None), named(c=TEXT, b=TEXT, a=DOUBLE), Row(c=None, b=None, a=1.0)),
        (pa.schema({"a": pa.int32()}), {"a": 1}, pa.schema({"b": pa.string(), "a": pa.int64()}), {"b": None, "a": 1}),
        (
            pa.struct({"a": pa.float32()}),
            {"a": 0.5},
            pa.struct({"a": pa.float64(), "b": pa.int8()}),
            {"a": 0.5, "b": None},
        ),
    ],
    ids=["added", "reordered", "widened", "all", "a schema", "a struct"],
)
def test_rows_take_fields_that_are_added_reordered_or_wider(
    kind: str, backend: str, before: Any, value: Any, after: Any, expected: Any
) -> None:
    found = restored(kind, backend, after, saved_with(kind, backend, before, value))
    assert found == expected
    assert repr(found) == repr(expected), "also in its types, and in the order of its fields"


@pytest.mark.parametrize("kind", KINDS[:4])
@each_backend
@pytest.mark.parametrize(
    ("before", "value", "after", "expected"),
    [
        (Types.ROW([INT, TEXT]), Row(1, "x"), Types.ROW([LONG, TEXT, DOUBLE]), Row(1, "x", None)),
        (Types.TUPLE([INT, TEXT]), (1, "x"), Types.TUPLE([DOUBLE, TEXT, TEXT]), (1.0, "x", None)),
        (named(a=INT, b=TEXT), (1, "x"), named(b=TEXT, a=INT), ("x", 1)),
    ],
    ids=["rows", "tuples", "tuples for named rows"],
)
def test_values_without_names_have_their_fields_in_the_declared_order(
    kind: str, backend: str, before: Any, value: Any, after: Any, expected: Any
) -> None:
    found = restored(kind, backend, after, saved_with(kind, backend, before, value))
    assert repr(found) == repr(expected)


@pytest.mark.parametrize("kind", KINDS[:4])
@each_backend
@pytest.mark.parametrize("value", [Row(x=1), {"x": 1}])
def test_a_value_with_other_fields_than_were_declared_is_refused_not_emptied(
    kind: str, backend: str, value: Any
) -> None:
    saved = saved_with(kind, backend, named(a=LONG), value)
    with pytest.raises(IncompatibleStateError, match="has other fields than were declared"):
        restored(kind, backend, named(a=LONG, b=TEXT), saved)


@each_kind
@each_backend
def test_a_field_goes_with_permission_only(kind: str, backend: str) -> None:
    saved = saved_with(kind, backend, named(a=LONG, b=TEXT), Row(a=1, b="x"))
    with pytest.raises(IncompatibleStateError, match=r"field 'b' is not in it any more.*allow-removed-fields"):
        restored(kind, backend, named(a=LONG), saved)
    assert restored(kind, backend, named(a=LONG), saved, **PERMISSION) == Row(a=1)


@each_backend
@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (named(a=LONG), named(a=INT), "field 'a' was int64 and is int32 now"),
        (named(a=LONG), named(a=DOUBLE), "field 'a' was int64 and is double now"),
        (named(a=LONG), named(a=TEXT), "field 'a' was int64 and is string now"),
        (named(a=Types.LIST(INT)), named(a=Types.LIST(LONG)), "field 'a' was list<"),
        (named(a=LONG), Types.TUPLE([LONG]), "keep the old type"),
        (named(a=LONG), LONG, "keep the old type"),
        (
            pa.schema({"a": pa.int64()}),
            pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.int64(), nullable=False)]),
            "field 'b' is new and must not be null",
        ),
        (LONG, INT, "its value was int64 and is int32 now"),
        (TEXT, LONG, "its value was string and is int64 now"),
    ],
)
def test_what_may_not_hold_the_same_values_is_refused_with_the_field(
    backend: str, before: Any, after: Any, says: str
) -> None:
    value = {str(TEXT): "x", str(LONG): 1}.get(str(before), Row(a=1))
    saved = saved_with("value", backend, before, value)
    with pytest.raises(IncompatibleStateError, match=f"'kept' was saved with value_type=.*{says}"):
        restored("value", backend, after, saved)


@pytest.mark.parametrize("kind", KINDS[:4])
@each_backend
@pytest.mark.parametrize(
    ("before", "after", "value"),
    [
        (pa.int8(), pa.int64(), -5),
        (pa.uint32(), pa.int64(), 2**32 - 1),
        (pa.int32(), pa.float64(), 7),
        (pa.float32(), pa.float64(), 0.25),
        (pa.string(), pa.large_string(), "x"),
        (pa.decimal128(10, 2), pa.decimal128(20, 4), Decimal("1.25")),
    ],
    ids=str,
)
def test_plain_values_may_become_wider(kind: str, backend: str, before: Any, after: Any, value: Any) -> None:
    found = restored(kind, backend, after, saved_with(kind, backend, before, value))
    assert found == value
    assert type(found) is (float if after == pa.float64() else type(value))


@each_kind
@each_backend
def test_a_time_to_live_may_change_with_the_type(kind: str, backend: str) -> None:
    ttl = StateTtlConfig.new_builder(1_000).build()
    for before, after in ((None, ttl), (ttl, None), (ttl, ttl)):
        saved = saved_with(kind, backend, named(a=INT), Row(a=1), before)
        assert restored(kind, backend, named(a=DOUBLE, b=TEXT), saved, after) == Row(a=1.0, b=None)


@each_backend
def test_accumulators_without_names_are_not_taken_for_declared_rows(backend: str) -> None:
    """The declared type may be that of the result."""
    saved = saved_with("aggregating", backend, Types.TUPLE([LONG, LONG]), (1, 2))
    with pytest.raises(IncompatibleStateError, match="without names"):
        restored("aggregating", backend, Types.TUPLE([LONG, LONG, LONG]), saved)
    for accumulator in (5, {"sum": 1, "rows": 2}, Row(sum=1, rows=2)):
        saved = saved_with("aggregating", backend, named(mean=INT), accumulator)
        assert restored("aggregating", backend, named(mean=DOUBLE, b=TEXT), saved) == accumulator


# -- classes of the user's, which have changed when their pickles are read


def current(version: type) -> type:
    """Makes a class the one that this module has under the name `Position`."""
    version.__name__ = version.__qualname__ = "Position"
    version.__module__ = __name__
    sys.modules[__name__].Position = version  # type: ignore[attr-defined]
    return version


@dataclass
class _Plain:
    a: int
    b: str


@dataclass
class _PlainLater:
    c: float | None
    b: str
    a: int
    d: int = 7
    e: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Frozen:
    a: int
    b: str


@dataclass(frozen=True, slots=True)
class _FrozenLater:
    c: float | None
    b: str
    a: int
    d: int = 7
    e: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Slots:
    a: int
    b: str


@dataclass(slots=True)
class _SlotsLater:
    c: float | None
    b: str
    a: int
    d: int = 7
    e: list[int] = field(default_factory=list, init=False)


class _Named(NamedTuple):
    a: int
    b: str


class _NamedLater(NamedTuple):
    c: float | None
    b: str
    a: int
    d: int = 7
    e: tuple[int, ...] = ()


CLASSES: dict[str, tuple[type, type]] = {
    "dataclass": (_Plain, _PlainLater),
    "frozen dataclass with slots": (_Frozen, _FrozenLater),
    "dataclass with slots": (_Slots, _SlotsLater),
    "NamedTuple": (_Named, _NamedLater),
}


@each_kind
@each_backend
@pytest.mark.parametrize("name", CLASSES)
def test_objects_of_a_class_get_its_new_fields_by_name(kind: str, backend: str, name: str) -> None:
    """New ones have the class's default, or are None."""
    before, after = CLASSES[name]
    make: Callable[..., Any] = current(before)
    saved = saved_with(kind, backend, before, make(a=1, b="x"))
    current(after)
    found = restored(kind, backend, after, saved)
    assert type(found) is after
    assert (found.c, found.b, found.a, found.d, list(found.e)) == (None, "x", 1, 7, [])


@each_kind
@each_backend
@pytest.mark.parametrize("name", CLASSES)
def test_objects_of_a_class_lose_fields_with_permission_only(kind: str, backend: str, name: str) -> None:
    after, before = CLASSES[name]
    make: Callable[..., Any] = current(before)
    saved = saved_with(kind, backend, before, make(c=0.5, b="x", a=1))
    current(after)
    with pytest.raises(IncompatibleStateError, match="field 'c' is not in it any more"):
        restored(kind, backend, after, saved)
    found = restored(kind, backend, after, saved, **PERMISSION)
    assert (type(found), found.a, found.b) == (after, 1, "x")


# -- subtasks


@each_backend
@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1)])
def test_rows_of_all_subtasks_become_new_ones(backend: str, before: int, after: int) -> None:
    def make(value_type: Any, value: Any, into: list[Keeping]) -> Callable[[], Any]:
        def operator() -> Any:
            into.append(Keeping("list", value_type, value))
            return create_operator([code(ProcessFactory(into[-1], None), key)], ["op"])

        return operator

    key, made = ColumnKey(("k",)), [[], []]  # type: ignore[var-annotated]
    settings: Any = {"state_options": StateOptions(backend)}
    old = Subtasks(make(named(a=INT), Row(a=1), made[0]), [key], before, **settings)
    old.push({"k": list(range(20))})
    written = [write_snapshot(snapshot) for snapshot in old.snapshots()]
    new = Subtasks(make(named(b=TEXT, a=DOUBLE), None, made[1]), [key], after, written, **settings)
    new.push({"k": list(range(20))})
    assert [found for each in made[1] for found in each.found] == [Row(b=None, a=1.0)] * 20
    for harness in (*old.harnesses, *new.harnesses):
        harness.operator.close()
