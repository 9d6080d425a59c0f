"""What every state backend does alike: kinds, time to live, snapshots, other parallelism, other backend."""

from __future__ import annotations

import copy
import datetime
import gc
import math
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from actors.keys.hashes import key_groups, key_values
from actors.protocol.checkpoint_handles import InlineState
from actors.protocol.elements import CheckpointOptions
from actors.state.keyed.backend import KeyedStateBackend
from actors.state.rocksdb.store import RocksDbStore
from actors.state.snapshots.pickling import with_one_nan
from actors.state.snapshots.snapshot import OperatorSnapshot
from actors.state.snapshots.values import is_pickled
from flinkray.errors import CheckpointError, InvalidProgramError, TypeMismatchError
from flinkray.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    TtlUpdateType,
    ValueStateDescriptor,
)
from flinkray.types.records import Millis
from flinkray.types.rows import Row
from graphs.key_groups import key_group_range
from tests.support.keyed_state import (
    BACKENDS,
    CHECKPOINT,
    MAX_PARALLELISM,
    SAVEPOINT,
    AllKinds,
    BackendFactory,
    Mean,
    RandomOperations,
    group_of,
    owner_of,
    snapshot_of,
)
from tests.support.operators import ManualClock
from tests.support.state import RecordingStateWriter, restored_from, write_snapshot

TTL = StateTtlConfig(Millis(100))
TTL_READ = StateTtlConfig(Millis(100), TtlUpdateType.ON_READ_AND_WRITE)
ALL_GROUPS = range(MAX_PARALLELISM)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def factory(tmp_path: Path, clock: ManualClock) -> Iterator[BackendFactory]:
    factory = BackendFactory(tmp_path / "local", clock)
    yield factory
    factory.close()
    assert not (tmp_path / "local").exists() or os.listdir(tmp_path / "local") == [], "local files are left"


@pytest.fixture(params=BACKENDS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def backend(factory: BackendFactory, name: str) -> KeyedStateBackend:
    backend = factory.make(name)
    use(backend, "a")
    return backend


def use(backend: KeyedStateBackend, key: Any) -> None:
    backend.set_current_key(key, group_of(key))


def restored(factory: BackendFactory, name: str, *snapshots: OperatorSnapshot) -> KeyedStateBackend:
    backend = factory.make(name)
    backend.restore(restored_from(snapshots, ALL_GROUPS))
    return backend


# -- kinds -------------------------------------------------------------------------------------------------------


def test_plain_values_of_no_declared_type_are_saved_without_pickle(backend: KeyedStateBackend) -> None:
    backend.get_state(ValueStateDescriptor("value")).update(7)
    backend.get_list_state(ListStateDescriptor("list")).add_all(["a", ("b", 1), None])
    backend.get_map_state(MapStateDescriptor("map")).put("key", datetime.date(2024, 2, 29))
    saved = restored_from([snapshot_of(backend, SAVEPOINT)], ALL_GROUPS)
    values = [each for part in saved.names() for table in saved.keyed(part) for each in table["value"].to_pylist()]
    assert len(values) == 5
    assert not any(map(is_pickled, values))


def test_each_key_has_its_own_value(backend: KeyedStateBackend) -> None:
    state = backend.get_state(ValueStateDescriptor("seen"))
    assert state.value() is None
    state.update(1)
    use(backend, "b")
    assert state.value() is None
    state.update(2)
    use(backend, "a")
    assert state.value() == 1
    state.clear()
    assert state.value() is None
    state.update(3)
    state.update(None)
    assert state.value() is None


def test_a_list_keeps_order_and_does_not_leak_itself(backend: KeyedStateBackend) -> None:
    state = backend.get_list_state(ListStateDescriptor("seen"))
    assert list(state.get()) == []
    state.add(1)
    state.add_all([2, None])
    state.get().append(9)  # type: ignore[attr-defined]
    assert list(state.get()) == [1, 2, None]
    state.update([4])
    assert list(state.get()) == [4]
    state.update([])
    assert list(state.get()) == []


def test_a_map_has_entries_and_may_change_while_it_is_read(backend: KeyedStateBackend) -> None:
    state: Any = backend.get_map_state(MapStateDescriptor("seen"))
    assert state.is_empty()
    state.put("x", 1)
    state.put("y", None)
    state.put_all({"z": 2})
    assert (state.get("x"), state.get("w"), state.contains("y"), state.contains("w")) == (1, None, True, False)
    assert sorted(state.keys()) == ["x", "y", "z"]
    assert set(state.values()) == {1, 2, None}
    seen = []
    keys = state.keys()
    for key in keys:
        state.remove(key)
        state.put("later", 1)
        seen.append(key)
    assert sorted(seen) == ["x", "y", "z"]
    assert list(state.keys()) == ["later"]
    state.clear()
    assert state.is_empty()


def test_a_map_is_used_like_a_dict(backend: KeyedStateBackend) -> None:
    """As in PyFlink, where what is not there reads as None and is deleted without an error."""
    state = backend.get_map_state(MapStateDescriptor("map"))
    assert (state.is_empty(), list(state), state["a"], "a" in state) == (True, [], None, False)
    del state["a"]
    state["a"] = 1
    state.put_all({"b": 2, "c": 3})
    assert (sorted(state), sorted(state.values()), state["b"], "c" in state) == (["a", "b", "c"], [1, 2, 3], 2, True)
    del state["b"]
    assert sorted(state.items()) == [("a", 1), ("c", 3)]
    for key in state:
        del state[key]
    assert state.is_empty()


def test_a_list_is_iterated_over(backend: KeyedStateBackend) -> None:
    state = backend.get_list_state(ListStateDescriptor("list"))
    state.add_all([1, 2])
    state.add(3)
    assert [*state] == [1, 2, 3]


def test_a_descriptor_of_any_kind_gives_its_state(backend: KeyedStateBackend) -> None:
    assert backend.state_of(ListStateDescriptor("list")) is backend.get_list_state(ListStateDescriptor("list"))
    assert backend.state_of(MapStateDescriptor("map")) is backend.get_map_state(MapStateDescriptor("map"))
    with pytest.raises(InvalidProgramError, match="a state descriptor is needed, not 'list'"):
        backend.state_of("list")  # type: ignore[arg-type]


def test_all_keys_of_a_state_come_once_with_their_group_and_may_be_cleared_meanwhile(
    backend: KeyedStateBackend,
) -> None:
    keys = ["a", 1, (2, "x"), None, "ab"]
    descriptors = (ValueStateDescriptor("value"), ListStateDescriptor("list"), MapStateDescriptor("map"))
    value, elements, entries = (backend.state_of(each) for each in descriptors)
    for key in keys:
        use(backend, key)
        value.update(1)
        elements.add_all([1, 2])
        entries.put_all({"x": 1, "y": 2})
    for descriptor in descriptors:
        found = []
        for key, group in backend.keys_of(descriptor):
            assert group == group_of(key)
            backend.set_current_key(key, group)
            backend.state_of(descriptor).clear()
            found.append(key)
        assert sorted(found, key=repr) == sorted(keys, key=repr)
        assert list(backend.keys_of(descriptor)) == []


def test_keys_of_a_map_are_equal_as_pythons_are_and_come_back_as_they_were_put(backend: KeyedStateBackend) -> None:
    state: Any = backend.get_map_state(MapStateDescriptor("seen"))
    state.put(1.0, "float")
    assert (state.get(1), state.get(True), state.get(2)) == ("float", "float", None)
    ((key, _),) = state.items()
    assert type(key) is float
    text = "".join(["a", "b"])
    state.put((text, text), "same object twice")
    assert state.get(("ab", "".join(["a", "b"]))) == "same object twice"
    state.put(frozenset("xyz"), "set")
    assert state.get(frozenset("zyx")) == "set"
    assert frozenset("xyz") in set(state.keys())


def test_keys_of_a_map_are_equal_as_those_of_a_dict_also_times_and_rows(backend: KeyedStateBackend) -> None:
    state: Any = backend.get_map_state(MapStateDescriptor("seen"))
    noon, minute = datetime.datetime(2024, 1, 1, 12), datetime.timedelta(minutes=1)
    state.put(pd.Timestamp(noon), "noon")
    state.put(pd.Timedelta(minute), "minute")
    assert (state.get(noon), state.get(minute)) == ("noon", "minute")
    assert state.get(pd.Timestamp(noon) + pd.Timedelta(1, "ns")) is None
    state.put(noon, "again")
    assert len(list(state.keys())) == 2
    state.put((1, 2), "tuple")
    state.put(Row(1, 2), "row")
    state.put(Row(a=1, b=2), "named row")
    assert [state.get(key) for key in ((1, 2), Row(1, 2), Row(a=1, b=2))] == ["tuple", "row", "named row"]


@pytest.mark.parametrize("options", [CHECKPOINT, SAVEPOINT], ids=["checkpoint", "savepoint"])
def test_every_nan_is_the_same_key_also_after_a_restore_at_another_parallelism(
    factory: BackendFactory, name: str, options: CheckpointOptions
) -> None:
    columns = pa.record_batch({"a": [float("nan"), float("-nan"), 0.0, -0.0], "b": [float("nan")] * 4})
    keys, groups = key_values(columns), key_groups(columns, MAX_PARALLELISM).tolist()
    assert groups[0] == groups[1] != groups[2] == groups[3]
    backend, parallelism = factory.make(name), 1
    for parallelism in (1, 3, 2):
        owner = next(i for i in range(parallelism) if groups[0] in key_group_range(i, parallelism, MAX_PARALLELISM))
        if parallelism > 1:
            backend, former = factory.make(name, owner, parallelism), snapshot_of(backend, options)
            owned = key_group_range(owner, parallelism, MAX_PARALLELISM)
            backend.restore(restored_from([former], owned, owner, parallelism))
        count = backend.get_state(ValueStateDescriptor("count"))
        entries: Any = backend.get_map_state(MapStateDescriptor("map"))
        for key, group in zip(keys, groups, strict=True):
            if group in key_group_range(owner, parallelism, MAX_PARALLELISM):
                backend.set_current_key(key, group)
                count.update((count.value() or 0) + 1)
                entries.put(float("-nan"), (entries.get(float("nan")) or 0) + 1)
                entries.put(("x", float("nan")), 1)
        backend.set_current_key(key_values(columns.slice(1, 1))[0], groups[1])
    assert count.value() == 6
    assert (entries.get(math.nan), len(list(entries.items()))) == (6, 2)
    assert [with_one_nan(key) is key for key, _ in entries.items()] == [True, True]
    entries.remove(float("nan"))
    assert not entries.contains(float("nan"))
    assert entries.contains(("x", float("-nan")))


def test_a_key_that_begins_like_another_has_its_own_state(backend: KeyedStateBackend) -> None:
    elements = backend.get_list_state(ListStateDescriptor("list"))
    entries = backend.get_map_state(MapStateDescriptor("map"))
    keys = ["", "a", "aa", b"a", 0, 1, 256, -1, 1.5, None, ("a",), ("a", "a"), ()]
    for key in keys:
        backend.set_current_key(key, 3)
        elements.add(repr(key))
        entries.put(key, repr(key))
    for key in keys:
        backend.set_current_key(key, 3)
        assert list(elements.get()) == [repr(key)]
        assert dict(entries.items()) == {key: repr(key)}


def test_reducing_and_aggregating_state_fold(backend: KeyedStateBackend) -> None:
    total = backend.get_reducing_state(ReducingStateDescriptor("total", function=lambda a, b: a + b))
    mean = backend.get_aggregating_state(AggregatingStateDescriptor("mean", function=Mean()))
    assert total.get() is None
    assert mean.get() is None
    for value in (1, 2, 6):
        total.add(value)
        mean.add(value)
    assert (total.get(), mean.get()) == (9, (9, 3))


# -- descriptors and keys ----------------------------------------------------------------------------------------


def test_the_same_descriptor_gives_the_same_state(backend: KeyedStateBackend) -> None:
    backend.get_state(ValueStateDescriptor("seen", pa.int64())).update(1)
    assert backend.get_state(ValueStateDescriptor("seen", int)).value() == 1


def test_a_state_redefined_as_another_kind_is_an_error(backend: KeyedStateBackend) -> None:
    backend.get_state(ValueStateDescriptor("seen"))
    with pytest.raises(InvalidProgramError, match=r"'dedupe' \(subtask 1 of 1\).*'seen' is a value state.*list"):
        backend.get_list_state(ListStateDescriptor("seen"))


def test_a_state_redefined_with_another_type_is_an_error(backend: KeyedStateBackend) -> None:
    backend.get_state(ValueStateDescriptor("seen", pa.int64()))
    with pytest.raises(InvalidProgramError, match=r"'seen' was declared with value_type=int64 .* value_type=string"):
        backend.get_state(ValueStateDescriptor("seen", pa.string()))


def test_without_a_current_key_state_is_an_error_that_names_the_operator(backend: KeyedStateBackend) -> None:
    states = AllKinds(backend)
    backend.clear_current_key()
    calls: list[Any] = [
        backend.current_key,
        backend.current_key_group,
        states.value.value,
        states.value.clear,
        lambda: states.value.update(1),
        states.list.get,
        lambda: states.list.add(1),
        lambda: states.map.get(1),
        states.map.items,
        lambda: states.reducing.add(1),
        states.aggregating.get,
    ]
    for call in calls:
        with pytest.raises(InvalidProgramError, match=r"'dedupe' \(subtask 1 of 1\): there is no current key"):
            call()


# -- time to live ------------------------------------------------------------------------------------------------


def test_a_value_vanishes_its_time_to_live_after_the_last_write(backend: KeyedStateBackend, clock: ManualClock) -> None:
    state = backend.get_state(ValueStateDescriptor("seen", ttl=TTL))
    state.update(1)
    clock.now = 99
    assert state.value() == 1
    clock.now = 100
    assert state.value() is None
    state.update(2)
    clock.now = 199
    assert state.value() == 2


def test_reading_renews_where_that_is_asked_for_but_never_what_has_expired(
    backend: KeyedStateBackend, clock: ManualClock
) -> None:
    value = backend.get_state(ValueStateDescriptor("value", ttl=TTL_READ))
    elements = backend.get_list_state(ListStateDescriptor("list", ttl=TTL_READ))
    entries = backend.get_map_state(MapStateDescriptor("map", ttl=TTL_READ))
    value.update(1)
    elements.add(1)
    entries.put("x", 1)
    entries.put("y", 1)
    clock.now = 90
    assert (value.value(), list(elements.get()), entries.get("x")) == (1, [1], 1)
    clock.now = 180
    assert (value.value(), list(elements.get()), dict(entries.items())) == (1, [1], {"x": 1})
    clock.now = 279
    assert (value.value(), list(elements.get()), dict(entries.items())) == (1, [1], {"x": 1})
    clock.now = 379
    assert (value.value(), list(elements.get()), entries.is_empty()) == (None, [], True)


def test_elements_and_entries_expire_one_by_one(backend: KeyedStateBackend, clock: ManualClock) -> None:
    elements = backend.get_list_state(ListStateDescriptor("list", ttl=TTL))
    entries = backend.get_map_state(MapStateDescriptor("map", ttl=TTL))
    elements.add(1)
    entries.put("x", 1)
    clock.now = 60
    elements.add(2)
    entries.put("y", 2)
    clock.now = 100
    assert list(elements.get()) == [2]
    assert (entries.get("x"), entries.contains("x"), dict(entries.items())) == (None, False, {"y": 2})
    clock.now = 160
    assert (list(elements.get()), entries.is_empty()) == ([], True)


def test_expired_state_of_keys_that_never_come_back_goes_away(backend: KeyedStateBackend, clock: ManualClock) -> None:
    state = backend.get_state(ValueStateDescriptor("seen", ttl=TTL))
    for key in range(500):
        use(backend, key)
        state.update(key)
    clock.now = 100
    for key in range(1000, 3000):
        use(backend, key)
        state.update(key)
    clock.now = 50  # were the first ones still there, they would be read again
    left = 0
    for key in range(500):
        use(backend, key)
        left += state.value() is not None
    assert left == 0


# -- snapshots ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [CHECKPOINT, SAVEPOINT], ids=["checkpoint", "savepoint"])
def test_a_snapshot_restores_every_kind_and_time_to_live(
    factory: BackendFactory, name: str, clock: ManualClock, options: CheckpointOptions
) -> None:
    def declare(backend: KeyedStateBackend) -> list[Any]:
        return [
            backend.get_state(ValueStateDescriptor("value", ttl=TTL)),
            backend.get_list_state(ListStateDescriptor("list")),
            backend.get_map_state(MapStateDescriptor("map", ttl=TTL)),
        ]

    backend = factory.make(name)
    value, elements, entries = declare(backend)
    use(backend, ("k", None))
    value.update(1)
    elements.add(2)
    entries.put(1.0, 3)
    snapshot = snapshot_of(backend, options)
    elements.add(9)
    entries.put("y", 9)
    value.update(9)
    after = restored(factory, name, snapshot)
    value, elements, entries = declare(after)
    use(after, ("k", None))
    assert (value.value(), list(elements.get()), list(entries.items())) == (1, [2], [(1.0, 3)])
    assert type(next(iter(entries.keys()))) is float
    clock.now = 100
    assert (value.value(), list(elements.get()), entries.is_empty()) == (None, [2], True)


@pytest.mark.parametrize("options", [CHECKPOINT, SAVEPOINT], ids=["checkpoint", "savepoint"])
def test_state_that_nobody_asked_for_since_the_restore_is_kept(
    factory: BackendFactory, name: str, options: CheckpointOptions
) -> None:
    backend = factory.make(name)
    use(backend, "k")
    backend.get_state(ValueStateDescriptor("value", int)).update(1)
    between = restored(factory, name, snapshot_of(backend, options))
    after = restored(factory, name, snapshot_of(between, options))
    use(after, "k")
    assert after.get_state(ValueStateDescriptor("value", int)).value() == 1


def test_a_time_to_live_may_be_added_or_dropped_between_runs(
    factory: BackendFactory, name: str, clock: ManualClock
) -> None:
    backend = factory.make(name)
    use(backend, "k")
    backend.get_state(ValueStateDescriptor("plain")).update(1)
    backend.get_list_state(ListStateDescriptor("timed", ttl=TTL)).add(2)
    backend.get_map_state(MapStateDescriptor("map", ttl=TTL)).put(1.0, 3)
    clock.now = 50
    after = restored(factory, name, snapshot_of(backend))
    use(after, "k")
    now_timed = after.get_state(ValueStateDescriptor("plain", ttl=TTL))
    now_plain = after.get_list_state(ListStateDescriptor("timed"))
    now_plain_map = after.get_map_state(MapStateDescriptor("map"))
    clock.now = 149
    assert (now_timed.value(), list(now_plain.get()), list(now_plain_map.items())) == (1, [2], [(1.0, 3)])
    clock.now = 150
    assert (now_timed.value(), list(now_plain.get()), list(now_plain_map.items())) == (None, [2], [(1.0, 3)])


def test_restoring_as_another_kind_is_an_error(factory: BackendFactory, name: str) -> None:
    backend = factory.make(name)
    use(backend, "k")
    backend.get_state(ValueStateDescriptor("seen")).update(1)
    after = restored(factory, name, snapshot_of(backend))
    message = r"'dedupe' \(subtask 1 of 1\): state 'seen' was saved as a value state.* list state; give the new one"
    with pytest.raises(CheckpointError, match=message):
        after.get_list_state(ListStateDescriptor("seen"))


def test_restoring_as_another_type_is_an_error_and_as_no_type_is_none(factory: BackendFactory, name: str) -> None:
    backend = factory.make(name)
    use(backend, "k")
    backend.get_state(ValueStateDescriptor("seen", pa.int64())).update(1)
    backend.get_map_state(MapStateDescriptor("map", key_type=str)).put("x", 1)
    snapshot = snapshot_of(backend)
    after = restored(factory, name, snapshot)
    with pytest.raises(CheckpointError, match=r"'seen' was saved with value_type=int64, .* value_type=string; keep"):
        after.get_state(ValueStateDescriptor("seen", pa.string()))
    with pytest.raises(CheckpointError, match=r"'map' was saved with key_type=string, .* key_type=int64; keep"):
        after.get_map_state(MapStateDescriptor("map", key_type=int))
    use(after, "k")
    assert after.get_state(ValueStateDescriptor("seen")).value() == 1


def test_backends_of_one_operator_keep_their_states_apart(factory: BackendFactory, name: str) -> None:
    backends = [factory.make(name, prefix=prefix) for prefix in ("", "window/")]
    parts = []
    for number, backend in enumerate(backends):
        use(backend, "k")
        backend.get_state(ValueStateDescriptor("value")).update(number)
        parts += backend.snapshot(CHECKPOINT)
    snapshot = OperatorSnapshot(parts)
    for number, prefix in enumerate(("", "window/")):
        after = factory.make(name, prefix=prefix)
        after.restore(restored_from([snapshot], ALL_GROUPS))
        use(after, "k")
        assert after.get_state(ValueStateDescriptor("value")).value() == number


def test_a_discarded_snapshot_leaves_nothing_and_harms_nobody(backend: KeyedStateBackend) -> None:
    state = backend.get_state(ValueStateDescriptor("value"))
    state.update([1])
    snapshot = snapshot_of(backend)
    snapshot.discard()
    snapshot.discard()
    assert state.value() == [1]


def test_a_snapshot_is_written_also_after_its_backend_is_closed(factory: BackendFactory, name: str) -> None:
    backend = factory.make(name)
    use(backend, "k")
    backend.get_state(ValueStateDescriptor("value")).update(1)
    snapshots = [snapshot_of(backend, CHECKPOINT), snapshot_of(backend, SAVEPOINT)]
    backend.close()
    for snapshot in snapshots:
        after = restored(factory, name, snapshot)
        use(after, "k")
        assert after.get_state(ValueStateDescriptor("value")).value() == 1


def test_a_backend_that_nobody_closes_leaves_no_files(factory: BackendFactory) -> None:
    abandoned = factory.make("rocksdb")
    use(abandoned, "k")
    abandoned.get_state(ValueStateDescriptor("value")).update(1)
    assert os.listdir(factory.directory)
    factory.made.clear()
    del abandoned
    gc.collect()
    assert os.listdir(factory.directory) == []


def test_a_store_that_nobody_closes_is_closed_before_its_files_are_removed(
    factory: BackendFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it tries to flush, again after a second, while whoever collects garbage waits."""
    files_then = []
    close = RocksDbStore.close

    def closed(store: RocksDbStore) -> None:
        files_then.append(os.listdir(factory.directory))
        close(store)

    monkeypatch.setattr(RocksDbStore, "close", closed)
    abandoned = factory.make("rocksdb")
    use(abandoned, "k")
    abandoned.get_state(ValueStateDescriptor("value")).update(1)
    factory.made.clear()
    del abandoned
    gc.collect()
    assert len(files_then) == 1
    assert files_then[0]


class Unimportable:
    """Pickled by value where its module is the main script."""

    def __init__(self, number: int) -> None:
        self.number = number


def test_values_of_a_class_of_the_main_script_carry_it_along(
    factory: BackendFactory, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Unimportable, "__module__", "__main__")
    backend = factory.make(name)
    use(backend, "k")
    backend.get_state(ValueStateDescriptor("value")).update(Unimportable(7))
    after = restored(factory, name, snapshot_of(backend, SAVEPOINT))
    use(after, "k")
    value: Any = after.get_state(ValueStateDescriptor("value")).value()
    assert value.number == 7


@pytest.mark.parametrize(
    ("value_type", "value"),
    [
        (pa.int32(), 7),
        (pa.float64(), float("inf")),
        (pa.string(), "x"),
        (pa.float32(), 0.1),
        (pa.list_(pa.int64()), (1, 2)),
        (tuple[int, str], (1, "x")),
        (object, {1, 2}),
        (None, (1, [2])),
    ],
)
def test_a_value_comes_back_as_it_was_whatever_type_is_declared(
    factory: BackendFactory, name: str, value_type: Any, value: Any
) -> None:
    backend = factory.make(name)
    use(backend, "k")
    backend.get_state(ValueStateDescriptor("value", value_type)).update(value)
    after = restored(factory, name, snapshot_of(backend, SAVEPOINT))
    use(after, "k")
    found = after.get_state(ValueStateDescriptor("value", value_type)).value()
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("null", [pd.NaT, pd.NA], ids=["NaT", "NA"])
def test_nulls_of_pandas_in_typed_state_are_none_after_a_restore(
    factory: BackendFactory, name: str, null: object
) -> None:
    backend = factory.make(name)
    use(backend, "k")
    backend.get_list_state(ListStateDescriptor("list", pa.int64())).add_all([null, 1])
    after = restored(factory, name, snapshot_of(backend, SAVEPOINT))
    use(after, "k")
    assert list(after.get_list_state(ListStateDescriptor("list", pa.int64()))) == [None, 1]


def put(backend: KeyedStateBackend, way: str, value_type: Any, value: Any) -> None:
    match way:
        case "update":
            backend.get_state(ValueStateDescriptor("s", value_type)).update(value)
        case "add":
            backend.get_list_state(ListStateDescriptor("s", value_type)).add(value)
        case "update list":
            backend.get_list_state(ListStateDescriptor("s", value_type)).update([value])
        case "put":
            backend.get_map_state(MapStateDescriptor("s", value_type)).put("k", value)
        case "reduce":
            first = ReducingStateDescriptor("s", value_type, function=lambda one, _: one)
            backend.get_reducing_state(first).add(value)


@pytest.mark.parametrize("way", ["update", "add", "update list", "put", "reduce"])
@pytest.mark.parametrize(
    ("value_type", "value"),
    [(pa.int64(), "text"), (pa.int64(), 2**63), (pa.int32(), 2**31), (pa.string(), 1), (pa.bool_(), 1), (float, "x")],
    ids=str,
)
def test_a_value_that_its_declared_type_does_not_hold_is_refused_when_it_is_put(
    backend: KeyedStateBackend, way: str, value_type: Any, value: Any
) -> None:
    use(backend, "k")
    with pytest.raises(TypeMismatchError, match=r"state 's' is declared with value_type=\w+, which does not hold"):
        put(backend, way, value_type, value)


def test_a_list_that_is_to_be_replaced_stays_where_a_value_is_refused(backend: KeyedStateBackend) -> None:
    use(backend, "k")
    state = backend.get_list_state(ListStateDescriptor("s", int))
    state.add(1)
    with pytest.raises(TypeMismatchError):
        state.update([2, "x"])
    assert list(state) == [1]


def test_a_value_that_its_declared_type_does_not_hold_fails_the_savepoint_by_name(
    factory: BackendFactory, name: str
) -> None:
    backend = factory.make(name)
    state = backend.get_reducing_state(ReducingStateDescriptor("count", pa.int64(), function=lambda *_: "text"))
    use(backend, "fine")
    state.add(1)
    use(backend, "odd")
    state.add(1)
    state.add(1)
    with pytest.raises(CheckpointError, match=r"'dedupe'.*'count'.*int64.*key 'odd' it holds 'text'; declare"):
        write_snapshot(snapshot_of(backend, SAVEPOINT))


def test_the_canonical_table_is_the_same_for_every_backend(factory: BackendFactory) -> None:
    tables = []
    for name in BACKENDS:
        backend = factory.make(name)
        counts = backend.get_state(ValueStateDescriptor("count", pa.int64(), ttl=TTL))
        entries = backend.get_map_state(MapStateDescriptor("entries"))
        for key in ("a", "b", "c"):
            use(backend, key)
            counts.update(len(key))
            entries.put("x", {1})
        written = write_snapshot(snapshot_of(backend, SAVEPOINT))
        states = {}
        for part in written.parts:
            assert isinstance(part.data, InlineState)
            table = pa.ipc.open_stream(part.data.data).read_all()
            states[part.name] = (table.schema, table.schema.metadata, sorted(map(str, table.to_pylist())))
        tables.append(states)
    assert tables[0] == tables[1]
    assert set(tables[0]) == {"keyed/count", "keyed/entries"}


# -- against a model ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_random_operations_and_snapshots_agree_with_a_model(factory: BackendFactory, name: str, seed: int) -> None:
    rng = random.Random(seed)
    operations = RandomOperations(rng, [f"key {number}" for number in range(8)])
    states = AllKinds(factory.make(name), typed=bool(seed % 2))
    unwritten: list[tuple[OperatorSnapshot, dict[Any, dict[str, Any]]]] = []
    writer = RecordingStateWriter()

    def check_one() -> None:
        snapshot, expected = unwritten.pop(rng.randrange(len(unwritten)))
        write_snapshot(snapshot, writer)
        after = AllKinds(restored(factory, name, snapshot), typed=bool(seed % 2))
        operations.check(lambda _key: after, expected)

    for _ in range(400):
        operations.step(lambda _key: states)
        if rng.random() < 0.03:
            options = rng.choice([CHECKPOINT, SAVEPOINT])
            unwritten.append((snapshot_of(states.backend, options), copy.deepcopy(operations.model)))
        elif unwritten and rng.random() < 0.03:
            check_one()
    operations.check(lambda _key: states)
    while unwritten:
        check_one()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("options", [CHECKPOINT, SAVEPOINT], ids=["checkpoint", "savepoint"])
def test_state_survives_every_change_of_parallelism(
    factory: BackendFactory, name: str, seed: int, options: CheckpointOptions
) -> None:
    rng = random.Random(seed)
    operations = RandomOperations(rng, [f"key {number}" for number in range(30)])
    states = [AllKinds(factory.make(name))]

    def states_of(key: Any) -> AllKinds:
        return states[owner_of(key, len(states))]

    for parallelism in (4, 2, 3, 3, 1):
        for _ in range(300):
            operations.step(states_of)
        former = [snapshot_of(each.backend, options) for each in states]
        states.clear()
        for index in range(parallelism):
            backend = factory.make(name, index, parallelism)
            owned = key_group_range(index, parallelism, MAX_PARALLELISM)
            backend.restore(restored_from(former, owned, index, parallelism))
            states.append(AllKinds(backend))
        operations.check(states_of)


def test_a_savepoint_moves_between_backends(factory: BackendFactory) -> None:
    rng = random.Random(1)
    operations = RandomOperations(rng, [f"key {number}" for number in range(20)])
    states = [AllKinds(factory.make("hashmap"), typed=True)]
    for name in ("rocksdb", "hashmap", "rocksdb"):
        for _ in range(300):
            operations.step(lambda _key: states[-1])
        states.append(AllKinds(restored(factory, name, snapshot_of(states[-1].backend, SAVEPOINT)), typed=True))
        operations.check(lambda _key: states[-1])


def test_the_state_of_a_row_is_found_by_the_other_backend(factory: BackendFactory, name: str) -> None:
    key = Row(a=1.0, b="x")
    first = factory.make(name)
    use(first, key)
    first.get_state(ValueStateDescriptor("seen")).update(1)
    for other in BACKENDS:
        second = restored(factory, other, snapshot_of(first, SAVEPOINT))
        use(second, key)
        assert second.get_state(ValueStateDescriptor("seen")).value() == 1


def test_an_incremental_checkpoint_of_rocksdb_is_refused_by_hashmap(factory: BackendFactory) -> None:
    backend = factory.make("rocksdb")
    use(backend, "k")
    backend.get_state(ValueStateDescriptor("value")).update(1)
    with pytest.raises(
        CheckpointError, match=r"'dedupe'.*checkpoint 1 was written by the rocksdb.*or from a savepoint"
    ):
        restored(factory, "hashmap", snapshot_of(backend))
