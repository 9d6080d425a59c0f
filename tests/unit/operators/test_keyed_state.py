"""Keyed state in memory: per key, by descriptor, with a time to live."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from actors.state.keyed_state import MemoryKeyedState
from flinkray.errors import InvalidProgramError
from flinkray.functions import AggregateFunction
from flinkray.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    TtlUpdateType,
    ValueStateDescriptor,
)
from flinkray.types import Millis
from tests.support.operators import ManualClock

TTL = StateTtlConfig(Millis(100))
TTL_READ = StateTtlConfig(Millis(100), TtlUpdateType.ON_READ_AND_WRITE)


class Mean(AggregateFunction):
    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        return [accumulator[0] + value, accumulator[1] + 1]

    def get_result(self, accumulator: list[int]) -> float:
        return accumulator[0] / accumulator[1]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def backend(clock: ManualClock) -> MemoryKeyedState:
    backend = MemoryKeyedState("dedupe", "1 of 2", clock)
    backend.set_current_key("a")
    return backend


def test_each_key_has_its_own_value(backend: MemoryKeyedState) -> None:
    state = backend.get_state(ValueStateDescriptor("seen"))
    assert state.value() is None
    state.update(1)
    backend.set_current_key("b")
    assert state.value() is None
    state.update(2)
    backend.set_current_key("a")
    assert state.value() == 1
    state.clear()
    assert state.value() is None


def test_a_list_keeps_order_and_does_not_leak_itself(backend: MemoryKeyedState) -> None:
    state = backend.get_list_state(ListStateDescriptor("seen"))
    assert list(state.get()) == []
    state.add(1)
    state.add_all([2, 3])
    state.get().append(9)
    assert list(state.get()) == [1, 2, 3]
    state.update([4])
    assert list(state.get()) == [4]
    state.update([])
    assert list(state.get()) == []


def test_a_map_has_entries_and_may_change_while_it_is_read(backend: MemoryKeyedState) -> None:
    state = backend.get_map_state(MapStateDescriptor("seen"))
    assert state.is_empty()
    state.put("x", 1)
    state.put("y", None)
    assert (state.get("x"), state.get("z"), state.contains("y"), state.contains("z")) == (1, None, True, False)
    for key in list(state.keys()):
        state.remove(key)
    assert state.is_empty()
    assert list(state.keys()) == list(state.values()) == []


def test_reducing_and_aggregating_state_fold(backend: MemoryKeyedState) -> None:
    total = backend.get_reducing_state(ReducingStateDescriptor("total", function=lambda a, b: a + b))
    mean = backend.get_aggregating_state(AggregatingStateDescriptor("mean", function=Mean()))
    assert total.get() is None
    assert mean.get() is None
    for value in (1, 2, 6):
        total.add(value)
        mean.add(value)
    assert (total.get(), mean.get()) == (9, 3.0)


def test_the_same_descriptor_gives_the_same_state(backend: MemoryKeyedState) -> None:
    backend.get_state(ValueStateDescriptor("seen", pa.int64())).update(1)
    assert backend.get_state(ValueStateDescriptor("seen", pa.int64())).value() == 1


def test_a_state_redefined_as_another_kind_is_an_error(backend: MemoryKeyedState) -> None:
    backend.get_state(ValueStateDescriptor("seen"))
    with pytest.raises(InvalidProgramError, match=r"'dedupe' \(subtask 1 of 2\).*'seen' is a value state.*list"):
        backend.get_list_state(ListStateDescriptor("seen"))


def test_a_state_redefined_with_another_type_is_an_error(backend: MemoryKeyedState) -> None:
    backend.get_state(ValueStateDescriptor("seen", pa.int64()))
    with pytest.raises(InvalidProgramError, match=r"value_type=int64.*value_type=string"):
        backend.get_state(ValueStateDescriptor("seen", pa.string()))


def test_without_a_current_key_state_is_an_error_that_names_the_operator(backend: MemoryKeyedState) -> None:
    state = backend.get_state(ValueStateDescriptor("seen"))
    backend.clear_current_key()
    for use in (state.value, lambda: state.update(1), state.clear, backend.current_key):
        with pytest.raises(InvalidProgramError, match=r"'dedupe' \(subtask 1 of 2\).*no current key"):
            use()


def test_a_value_vanishes_its_time_to_live_after_the_last_write(backend: MemoryKeyedState, clock: ManualClock) -> None:
    state = backend.get_state(ValueStateDescriptor("seen", ttl=TTL))
    state.update(1)
    clock.now = 60
    assert state.value() == 1  # reading does not renew it
    clock.now = 99
    assert state.value() == 1
    clock.now = 100
    assert state.value() is None


def test_reading_renews_where_asked_for_but_never_what_has_expired(
    backend: MemoryKeyedState, clock: ManualClock
) -> None:
    state = backend.get_state(ValueStateDescriptor("seen", ttl=TTL_READ))
    state.update(1)
    clock.now = 99
    assert state.value() == 1
    clock.now = 198
    assert state.value() == 1
    clock.now = 298
    assert state.value() is None
    assert state.value() is None


def test_elements_and_entries_expire_one_by_one(backend: MemoryKeyedState, clock: ManualClock) -> None:
    elements = backend.get_list_state(ListStateDescriptor("list", ttl=TTL))
    entries = backend.get_map_state(MapStateDescriptor("map", ttl=TTL))
    elements.add(1)
    entries.put("x", 1)
    clock.now = 50
    elements.add(2)
    entries.put("y", 2)
    clock.now = 100
    assert list(elements.get()) == [2]
    assert entries.get("x") is None
    assert not entries.contains("x")
    assert list(entries.items()) == [("y", 2)]
    clock.now = 150
    assert list(elements.get()) == []
    assert entries.is_empty()


def test_reading_an_entry_renews_only_that_entry(backend: MemoryKeyedState, clock: ManualClock) -> None:
    entries = backend.get_map_state(MapStateDescriptor("map", ttl=TTL_READ))
    entries.put("x", 1)
    entries.put("y", 1)
    clock.now = 50
    entries.get("x")
    clock.now = 120
    assert list(entries.keys()) == ["x"]


def test_an_expired_sum_starts_anew(backend: MemoryKeyedState, clock: ManualClock) -> None:
    total = backend.get_reducing_state(ReducingStateDescriptor("total", ttl=TTL, function=lambda a, b: a + b))
    total.add(5)
    clock.now = 100
    total.add(1)
    assert total.get() == 1


def test_expired_state_of_keys_that_never_come_back_goes_away(backend: MemoryKeyedState, clock: ManualClock) -> None:
    states: list[Any] = [
        backend.get_state(ValueStateDescriptor("value", ttl=TTL)),
        backend.get_list_state(ListStateDescriptor("list", ttl=TTL)),
        backend.get_map_state(MapStateDescriptor("map", ttl=TTL)),
    ]
    for key in range(2000):
        clock.now += 1
        backend.set_current_key(key)
        states[0].update(key)
        states[1].add(key)
        states[2].put(key, key)
    assert all(len(state._table) < 500 for state in states)


def test_a_snapshot_is_plain_and_restores_every_kind(clock: ManualClock) -> None:
    def declare(backend: MemoryKeyedState) -> list[Any]:
        return [
            backend.get_state(ValueStateDescriptor("value", ttl=TTL)),
            backend.get_list_state(ListStateDescriptor("list")),
            backend.get_map_state(MapStateDescriptor("map", ttl=TTL)),
        ]

    backend = MemoryKeyedState("op", "1 of 1", clock)
    value, elements, entries = declare(backend)
    backend.set_current_key(("k", None))
    value.update(1)
    elements.add(2)
    entries.put("x", 3)
    saved = backend.snapshot()
    elements.add(9)
    entries.put("y", 9)
    restored = MemoryKeyedState("op", "1 of 1", clock)
    restored.restore(pickle.loads(pickle.dumps(saved)))
    value, elements, entries = declare(restored)
    restored.set_current_key(("k", None))
    assert (value.value(), list(elements.get()), dict(entries.items())) == (1, [2], {"x": 3})
    clock.now = 100
    assert value.value() is None


def test_state_that_nobody_asked_for_since_the_restore_is_kept(clock: ManualClock) -> None:
    backend = MemoryKeyedState("op", "1 of 1", clock)
    backend.set_current_key("k")
    backend.get_state(ValueStateDescriptor("value")).update(1)
    between = MemoryKeyedState("op", "1 of 1", clock)
    between.restore(backend.snapshot())
    after = MemoryKeyedState("op", "1 of 1", clock)
    after.restore(between.snapshot())
    after.set_current_key("k")
    assert after.get_state(ValueStateDescriptor("value")).value() == 1


def test_a_time_to_live_may_be_added_or_dropped_between_runs(clock: ManualClock) -> None:
    backend = MemoryKeyedState("op", "1 of 1", clock)
    backend.set_current_key("k")
    backend.get_state(ValueStateDescriptor("plain")).update(1)
    backend.get_list_state(ListStateDescriptor("timed", ttl=TTL)).add(2)
    clock.now = 50
    after = MemoryKeyedState("op", "1 of 1", clock)
    after.restore(backend.snapshot())
    after.set_current_key("k")
    now_timed = after.get_state(ValueStateDescriptor("plain", ttl=TTL))
    now_plain = after.get_list_state(ListStateDescriptor("timed"))
    clock.now = 149
    assert (now_timed.value(), list(now_plain.get())) == (1, [2])
    clock.now = 150
    assert (now_timed.value(), list(now_plain.get())) == (None, [2])


def test_restoring_as_another_kind_is_an_error(clock: ManualClock) -> None:
    backend = MemoryKeyedState("op", "1 of 1", clock)
    backend.set_current_key("k")
    backend.get_state(ValueStateDescriptor("seen")).update(1)
    after = MemoryKeyedState("op", "1 of 1", clock)
    after.restore(backend.snapshot())
    with pytest.raises(InvalidProgramError, match="'seen' was saved as a value state"):
        after.get_list_state(ListStateDescriptor("seen"))
