"""A snapshot of state in memory shows one moment, whatever user code does while it is being written."""

from __future__ import annotations

from typing import Any

import pytest

from actors.state.hashmap.backend import HashMapKeyedStateBackend
from actors.state.keyed.options import StateOptions
from actors.state.snapshots.keyed_parts import StateFacts, state_tables
from actors.state.snapshots.snapshot import OperatorSnapshot
from flinkray.errors import InvalidProgramError
from flinkray.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    TtlUpdateType,
    ValueStateDescriptor,
)
from flinkray.types.records import Millis
from tests.support.keyed_state import CHECKPOINT
from tests.support.operators import ManualClock
from tests.support.state import restored_from, write_snapshot

OWNED = range(16)
TTL = StateTtlConfig(Millis(100), TtlUpdateType.ON_READ_AND_WRITE)


def make() -> HashMapKeyedStateBackend:
    backend = HashMapKeyedStateBackend("operator 'op' (subtask 1 of 1)", OWNED, "", ManualClock(), StateOptions())
    backend.set_current_key("k", 3)
    return backend


def restored(snapshot: OperatorSnapshot) -> HashMapKeyedStateBackend:
    backend = make()
    backend.restore(restored_from([snapshot], OWNED))
    return backend


@pytest.mark.parametrize("ttl", [None, TTL])
def test_a_value_that_is_changed_in_place_is_copied_first(ttl: Any) -> None:
    backend = make()
    value = backend.get_state(ValueStateDescriptor("value", ttl=ttl))
    value.update([1])
    snapshot = OperatorSnapshot(backend.snapshot(CHECKPOINT))
    value.value().append(2)
    value.value().append(3)
    assert value.value() == [1, 2, 3]
    assert restored(snapshot).get_state(ValueStateDescriptor("value", ttl=ttl)).value() == [1]


@pytest.mark.parametrize("ttl", [None, TTL])
def test_elements_and_entries_that_are_changed_in_place_are_copied_first(ttl: Any) -> None:
    backend = make()
    elements = backend.get_list_state(ListStateDescriptor("list", ttl=ttl))
    entries = backend.get_map_state(MapStateDescriptor("map", ttl=ttl))
    elements.add([1])
    entries.put("x", [1])
    snapshot = OperatorSnapshot(backend.snapshot(CHECKPOINT))
    elements.add([9])
    elements.get()[0].append(2)
    entries.get("x").append(2)
    next(iter(entries.values())).append(3)
    assert (elements.get(), dict(entries.items())) == ([[1, 2], [9]], {"x": [1, 2, 3]})
    after = restored(snapshot)
    assert after.get_list_state(ListStateDescriptor("list", ttl=ttl)).get() == [[1]]
    assert dict(after.get_map_state(MapStateDescriptor("map", ttl=ttl)).items()) == {"x": [1]}


def test_a_reduce_function_may_change_what_it_gets() -> None:
    def extend(so_far: list[int], value: list[int]) -> list[int]:
        so_far.extend(value)
        return so_far

    backend = make()
    descriptor = ReducingStateDescriptor("all", function=extend)
    everything = backend.get_reducing_state(descriptor)
    everything.add([1])
    snapshot = OperatorSnapshot(backend.snapshot(CHECKPOINT))
    everything.add([2])
    assert restored(snapshot).get_reducing_state(descriptor).get() == [1]


def test_each_of_several_snapshots_under_way_shows_its_own_moment_in_whatever_order_they_are_written() -> None:
    backend = make()
    value = backend.get_state(ValueStateDescriptor("value"))
    value.update([0])
    snapshots = []
    for number in range(1, 5):
        snapshots.append(OperatorSnapshot(backend.snapshot(CHECKPOINT)))
        if number != 2:  # not touched between the second and the third
            value.value().append(number)
    contents = {}
    for index in (2, 0, 3, 1):
        contents[index] = restored(snapshots[index]).get_state(ValueStateDescriptor("value")).value()
        value.value().append(100 + index)
    assert [contents[index] for index in range(4)] == [[0], [0, 1], [0, 1], [0, 1, 3]]


def test_nothing_is_copied_once_the_snapshot_is_written_or_given_up() -> None:
    backend = make()
    value = backend.get_state(ValueStateDescriptor("value"))
    value.update([1])
    for end in (write_snapshot, OperatorSnapshot.discard):
        stored = value.value()
        snapshot = OperatorSnapshot(backend.snapshot(CHECKPOINT))
        end(snapshot)
        assert value.value() is stored


def test_values_that_cannot_change_are_never_copied() -> None:
    backend = make()
    value = backend.get_state(ValueStateDescriptor("value"))
    stored = (1.0, "x", None)
    value.update(stored)
    backend.snapshot(CHECKPOINT)
    assert value.value() is stored


def test_a_key_of_another_subtask_is_an_error_that_says_so() -> None:
    backend = make()
    value = backend.get_state(ValueStateDescriptor("value"))
    backend.set_current_key("k", 16)
    with pytest.raises(InvalidProgramError, match=r"'op'.*key group 16 is not one of this subtask's \(0 to 15\)"):
        value.update(1)


@pytest.mark.parametrize("value_type", [str, None])
def test_a_piece_of_large_values_has_few_of_them(value_type: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.state.snapshots.keyed_parts._BYTES_PER_TABLE", 100_000)
    facts = StateFacts.of(ValueStateDescriptor("v", value_type), "value")
    rows = [(3, b"key", None, "x" * 1000, None)] * 300 + [(3, b"key", None, "x", None)] * 4000
    pieces = list(state_tables(facts, "operator 'op'", iter(rows)))
    assert sum(piece.data.num_rows for piece in pieces) == len(rows)
    assert max(piece.data.nbytes for piece in pieces[:4]) <= 100_000
    assert max(piece.data.num_rows for piece in pieces) > 1000
