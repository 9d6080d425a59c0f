"""A time to live in every state backend: visibility, cleanup, snapshots, and random operations against a model."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest

from actors.protocol.elements import CheckpointOptions
from actors.state.keyed.backend import KeyedStateBackend
from actors.state.rocksdb.states import RocksDbState
from flinkray.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from flinkray.state.time_to_live import StateTtlConfig, StateTtlConfigBuilder
from graphs.key_groups import key_group_range
from tests.support.keyed_state import (
    BACKENDS,
    CHECKPOINT,
    MAX_PARALLELISM,
    SAVEPOINT,
    BackendFactory,
    Mean,
    group_of,
    owner_of,
    snapshot_of,
)
from tests.support.operators import ManualClock
from tests.support.state import restored_from, write_snapshot

TTL_MS = 100


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def factory(tmp_path: Path, clock: ManualClock) -> Iterator[BackendFactory]:
    factory = BackendFactory(tmp_path / "local", clock)
    yield factory
    factory.close()


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


def builder() -> StateTtlConfigBuilder:
    return StateTtlConfig.new_builder(TTL_MS)


def descriptors(ttl: StateTtlConfig) -> list[StateDescriptor]:
    """One of each kind."""
    return [
        ValueStateDescriptor("value", ttl=ttl),
        ListStateDescriptor("list", ttl=ttl),
        MapStateDescriptor("map", ttl=ttl),
        ReducingStateDescriptor("reducing", ttl=ttl, function=lambda a, b: a + b),
        AggregatingStateDescriptor("aggregating", ttl=ttl, function=Mean()),
    ]


class States:
    """One state of each kind in a backend."""

    def __init__(self, backend: KeyedStateBackend, ttl: StateTtlConfig) -> None:
        self.backend = backend
        self.value, self.list, self.map, self.reducing, self.aggregating = map(backend.state_of, descriptors(ttl))

    def write(self, number: int = 1) -> None:
        self.value.update(number)
        self.list.add(number)
        self.map.put("k", number)
        self.reducing.add(number)
        self.aggregating.add(number)

    def read(self) -> tuple[Any, ...]:
        entries = dict(self.map.items())
        return self.value.value(), list(self.list), entries, self.reducing.get(), self.aggregating.get()


NOTHING = (None, [], {}, None, None)
WRITTEN = (1, [1], {"k": 1}, 1, (1, 1))


def stored(backend: Any) -> int:
    """How many values, elements and entries the backend holds, expired ones included."""
    states = list(backend._states.values())
    if isinstance(states[0], RocksDbState):
        return sum(1 for _ in states[0]._store.items(b"", b""))
    return sum(
        1 for state in states for key, _ in state.all_keys() for _ in state._items(state._tables[group_of(key)][key])
    )


# -- visibility


def test_what_has_expired_is_never_returned(backend: KeyedStateBackend, clock: ManualClock) -> None:
    states = States(backend, builder().never_return_expired().disable_cleanup_in_background().build())
    states.write()
    clock.now = TTL_MS - 1
    assert states.read() == WRITTEN
    clock.now = TTL_MS
    assert states.read() == NOTHING


def test_what_has_expired_is_returned_once_where_that_is_asked_for(
    backend: KeyedStateBackend, clock: ManualClock
) -> None:
    """The read that finds it expired removes it (as in Flink)."""
    states = States(backend, builder().return_expired_if_not_cleaned_up().disable_cleanup_in_background().build())
    states.write()
    clock.now = 10 * TTL_MS
    assert not states.map.is_empty()
    assert states.read() == WRITTEN
    assert states.read() == NOTHING
    assert stored(backend) == 0


def test_an_expired_entry_is_found_once_whichever_way_it_is_looked_for(
    backend: KeyedStateBackend, clock: ManualClock
) -> None:
    ttl = builder().return_expired_if_not_cleaned_up().disable_cleanup_in_background().build()
    entries = backend.get_map_state(MapStateDescriptor("map", ttl=ttl))
    entries.put_all({"a": 1, "b": 2, "c": 3})
    clock.now = TTL_MS
    assert (entries["a"], "b" in entries, list(entries.keys())) == (1, True, ["c"])
    assert (entries["a"], "b" in entries, list(entries.keys())) == (None, False, [])
    assert entries.is_empty()


def test_adding_to_what_has_expired_goes_on_with_it_only_where_it_may_be_returned(
    backend: KeyedStateBackend, clock: ManualClock
) -> None:
    found = []
    for number, ttl in enumerate((builder(), builder().return_expired_if_not_cleaned_up())):
        kept = ttl.disable_cleanup_in_background().build()
        state = backend.get_reducing_state(
            ReducingStateDescriptor(f"sum {number}", ttl=kept, function=lambda a, b: a + b)
        )
        clock.now = 0
        state.add(1)
        clock.now = TTL_MS
        state.add(10)
        found.append(state.get())
    assert found == [10, 11]


def test_a_disabled_time_to_live_is_none(backend: KeyedStateBackend, clock: ManualClock) -> None:
    states = States(backend, builder().set_update_type(StateTtlConfig.UpdateType.Disabled).build())
    states.write()
    clock.now = 10 * TTL_MS
    assert states.read() == WRITTEN


# -- cleanup


def fill(backend: KeyedStateBackend, states: States, keys: int) -> None:
    for key in range(keys):
        use(backend, key)
        states.write(key)


def test_each_access_to_the_hashmap_cleans_up_as_many_keys_as_asked_for(
    factory: BackendFactory, clock: ManualClock
) -> None:
    backend = factory.make("hashmap")
    state = backend.get_state(ValueStateDescriptor("value", ttl=builder().cleanup_incrementally(7, False).build()))
    for key in range(100):
        use(backend, key)
        state.update(key)
    clock.now = TTL_MS
    use(backend, "other")
    assert stored(backend) == 100, "a new key alone cleans nothing up"
    left = [stored(backend)]
    while left[-1]:
        state.value()  # reading is enough
        left.append(stored(backend))
        assert len(left) < 100
    removed = [before - after for before, after in pairwise(left)]
    assert max(removed) == 7
    assert sum(removed) == 100


def test_every_record_cleans_up_the_hashmap_where_that_is_asked_for(
    factory: BackendFactory, clock: ManualClock
) -> None:
    backend = factory.make("hashmap")
    states = States(backend, builder().cleanup_incrementally(10, True).build())
    fill(backend, states, 50)
    clock.now = TTL_MS
    for _ in range(20):
        use(backend, "other")
    assert stored(backend) == 0


def test_in_the_background_every_backend_frees_what_nobody_reads_any_more(
    backend: KeyedStateBackend, clock: ManualClock
) -> None:
    states = States(backend, builder().build())
    fill(backend, states, 200)
    clock.now = TTL_MS
    for key in range(1000, 1400):
        use(backend, key)
        states.write(key)
    assert stored(backend) == 5 * 400


def test_without_cleanup_in_the_background_only_reading_removes_what_has_expired(
    backend: KeyedStateBackend, clock: ManualClock
) -> None:
    states = States(backend, builder().disable_cleanup_in_background().build())
    fill(backend, states, 100)
    clock.now = TTL_MS
    for _ in range(2):
        for key in range(1000, 1200):
            use(backend, key)
            states.value.update(key)
    assert stored(backend) == 5 * 100 + 200
    for key in range(100):
        use(backend, key)
        assert states.read() == NOTHING
    assert stored(backend) == 200


def test_a_cleanup_that_is_asked_for_runs_also_with_none_in_the_background(
    factory: BackendFactory, clock: ManualClock, name: str
) -> None:
    config = builder().disable_cleanup_in_background()
    config.cleanup_incrementally(5, False) if name == "hashmap" else config.cleanup_in_rocksdb_compact_filter(1)
    backend = factory.make(name)
    states = States(backend, config.build())
    fill(backend, states, 50)
    clock.now = TTL_MS
    for _ in range(200):
        use(backend, "other")
        states.value.update(1)
        states.list.update([1])
        states.map.put("k", 1)
        states.reducing.add(1)
        states.aggregating.add(1)
    assert stored(backend) == 5


def test_cleanup_of_rocksdb_reads_the_clock_as_seldom_as_asked_for(factory: BackendFactory) -> None:
    class Counting(ManualClock):
        reads = 0

        def now_ms(self) -> int:
            self.reads += 1
            return self.now

    factory.clock = counting = Counting()
    reads = []
    for entries in (1, 1000):
        backend = factory.make("rocksdb")
        ttl = builder().cleanup_in_rocksdb_compact_filter(entries).build()
        state = backend.get_state(ValueStateDescriptor("value", ttl=ttl))
        counting.reads = 0
        for key in range(640):
            use(backend, key)
            state.update(key)
        reads.append(counting.reads)
    assert reads[0] > reads[1] + 640


def test_rocksdb_compacts_files_of_the_shortest_age_that_any_state_asks_for(factory: BackendFactory) -> None:
    backend = factory.make("rocksdb")
    for number, period in enumerate(("1 h", "5 min", "2 h")):
        ttl = builder().cleanup_in_rocksdb_compact_filter(1000, period).build()
        backend.get_state(ValueStateDescriptor(f"value {number}", ttl=ttl))
    directory = Path(backend._directory) / "db"  # type: ignore[attr-defined]
    newest = max(directory.glob("OPTIONS-*"), key=lambda path: path.name)
    assert "periodic_compaction_seconds=300\n" in newest.read_text()


# -- snapshots


def rows_in(backend: KeyedStateBackend, options: CheckpointOptions = SAVEPOINT) -> int:
    return sum(part.items or 0 for part in write_snapshot(snapshot_of(backend, options)).parts)


@pytest.mark.parametrize(
    ("config", "left"),
    [
        (builder(), 0),
        (builder().return_expired_if_not_cleaned_up(), 5),
        (builder().return_expired_if_not_cleaned_up().cleanup_full_snapshot(), 0),
    ],
    ids=["never returned", "returned", "returned and cleaned up"],
)
def test_full_snapshots_leave_out_what_has_expired_and_cannot_be_read_any_more(
    backend: KeyedStateBackend, clock: ManualClock, config: StateTtlConfigBuilder, left: int
) -> None:
    states = States(backend, config.disable_cleanup_in_background().build())
    states.write()
    clock.now = TTL_MS - 1
    assert rows_in(backend) == 5
    clock.now = TTL_MS
    assert rows_in(backend) == left
    assert stored(backend) == 5, "the running job's state stays as it is"


@pytest.mark.parametrize("options", [CHECKPOINT, SAVEPOINT], ids=["checkpoint", "savepoint"])
def test_after_a_restore_the_time_to_live_goes_on_from_the_last_renewal_also_with_another_length(
    factory: BackendFactory, name: str, clock: ManualClock, options: CheckpointOptions
) -> None:
    """As in Flink, where values are stored with the time of their last access."""
    first = factory.make(name)
    use(first, "a")
    clock.now = 1000
    States(first, builder().build()).write()
    snapshot = write_snapshot(snapshot_of(first, options))
    for length, last in ((TTL_MS, 1000 + TTL_MS - 1), (50, 1049), (3000, 3999)):
        for now, expected in ((last, WRITTEN), (last + 1, NOTHING)):
            clock.now = 1010
            backend = factory.make(name)
            backend.restore(restored_from([snapshot], range(MAX_PARALLELISM)))
            states = States(backend, builder().set_ttl(length).build())
            use(backend, "a")
            clock.now = now
            assert states.read() == expected, f"{length} ms at {now}"


def test_expired_values_come_back_from_a_checkpoint_where_they_may_be_returned(
    factory: BackendFactory, name: str, clock: ManualClock
) -> None:
    ttl = builder().return_expired_if_not_cleaned_up().build()
    first = factory.make(name)
    use(first, "a")
    States(first, ttl).write()
    clock.now = TTL_MS
    backend = factory.make(name)
    backend.restore(restored_from([snapshot_of(first)], range(MAX_PARALLELISM)))
    use(backend, "a")
    states = States(backend, ttl)
    assert states.value.value() == 1


# -- against a model


class Model:
    """Dicts of (value, time of the last renewal) per key; does not clean up, which must not show."""

    def __init__(self, renews_on_read: bool, returns_expired: bool) -> None:
        self.renews_on_read = renews_on_read
        self.returns_expired = returns_expired
        self.values: dict[Any, tuple[Any, int]] = {}
        self.lists: dict[Any, list[tuple[Any, int]]] = {}
        self.maps: dict[Any, dict[Any, tuple[Any, int]]] = {}
        self.sums: dict[Any, tuple[Any, int]] = {}

    def read_one(self, entries: dict[Any, tuple[Any, int]], key: Any, now: int) -> Any:
        if key not in entries:
            return None
        value, renewed = entries[key]
        if renewed + TTL_MS <= now:
            del entries[key]
            return value if self.returns_expired else None
        if self.renews_on_read:
            entries[key] = value, now
        return value

    def read_list(self, key: Any, now: int) -> list[Any]:
        elements = self.lists.get(key, [])
        live = [element for element in elements if element[1] + TTL_MS > now]
        self.lists[key] = [(value, now) for value, _ in live] if self.renews_on_read else live
        return [value for value, _ in (elements if self.returns_expired else live)]

    def read_map(self, key: Any, now: int) -> dict[Any, Any]:
        entries = self.maps.setdefault(key, {})
        found = {each: self.read_one(entries, each, now) for each in list(entries)}
        return {each: value for each, value in found.items() if value is not None}


CONFIGS = list(product([False, True], [False, True]))


@pytest.mark.parametrize("seed", range(8))
def test_random_operations_with_expiry_and_restores_agree_with_a_model(
    factory: BackendFactory, name: str, clock: ManualClock, seed: int
) -> None:
    rng = random.Random(seed)
    renews, returns = CONFIGS[seed % 4]
    config = builder()
    if renews:
        config.update_ttl_on_read_and_write()
    if returns:  # what is cleaned up before it is read would depend on the backend
        config.return_expired_if_not_cleaned_up().disable_cleanup_in_background()
    elif seed >= 4:
        config.cleanup_incrementally(3, True).cleanup_in_rocksdb_compact_filter(10, 0)
    model, keys = Model(renews, returns), [f"key {number}" for number in range(6)]
    backends = [States(factory.make(name), config.build())]
    for step in range(400 if name == "hashmap" else 120):
        clock.now += rng.choice([0, 1, 10, 40])
        key, number, now = rng.choice(keys), rng.randrange(1, 100), clock.now
        states = backends[owner_of(key, len(backends))]
        use(states.backend, key)
        entry = rng.choice("xyz")
        where = f"seed {seed}, step {step}"
        match rng.randrange(11):
            case 0:
                states.value.update(number)
                model.values[key] = number, now
            case 1:
                assert states.value.value() == model.read_one(model.values, key, now), where
            case 2:
                states.list.add(number)
                model.lists.setdefault(key, []).append((number, now))
            case 3:
                assert list(states.list.get()) == model.read_list(key, now), where
            case 4 | 5:
                states.map[entry] = number
                model.maps.setdefault(key, {})[entry] = number, now
            case 6:
                assert states.map[entry] == model.read_one(model.maps.setdefault(key, {}), entry, now), where
            case 7:
                assert dict(states.map.items()) == model.read_map(key, now), where
            case 8:
                before = model.read_one(model.sums, key, now)
                states.reducing.add(number)
                model.sums[key] = number + (before or 0), now
            case 9:
                assert states.reducing.get() == model.read_one(model.sums, key, now), where
            case 10 if rng.random() < 0.3:
                options = rng.choice([CHECKPOINT, SAVEPOINT])
                former = [snapshot_of(each.backend, options) for each in backends]
                backends = []
                parallelism = rng.randrange(1, 4)
                for index in range(parallelism):
                    made = factory.make(name, index, parallelism)
                    owned = key_group_range(index, parallelism, MAX_PARALLELISM)
                    made.restore(restored_from(former, owned, index, parallelism))
                    backends.append(States(made, config.build()))
