"""What is particular to keyed state in RocksDB: files, increments, memory, and the bytes of keys."""

from __future__ import annotations

import copyreg
import datetime
import os
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from actors.protocol.checkpoint_handles import OperatorSubtaskState, PartKind, SharedFile
from actors.protocol.elements import CheckpointOptions
from actors.state.keyed.backend import KeyedStateBackend
from actors.state.rocksdb import store as disk_store
from actors.state.rocksdb.checkpoint_files import UploadedFiles
from actors.state.rocksdb.states import Codec, pickled_length
from actors.state.rocksdb.store import RocksDbStore, load_rocksdict
from actors.state.snapshots.keyed_parts import FirstStateFacts, StateFacts
from actors.state.snapshots.pickling import KeyPickler, dumps
from actors.state.snapshots.snapshot import OperatorSnapshot
from flinkray.errors import MissingDependencyError
from flinkray.persistence import loads
from flinkray.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flinkray.types.rows import Row
from flinkray.types.type_info import Types
from graphs.key_groups import key_group_range
from tests.support.keyed_state import CHECKPOINT, MAX_PARALLELISM, SAVEPOINT, BackendFactory, group_of, snapshot_of
from tests.support.operators import ManualClock
from tests.support.state import RecordingStateWriter, delete_shared, restored_from, write_snapshot
from tests.support.versions import without_unit

ALL_GROUPS = range(MAX_PARALLELISM)
VALUE = ValueStateDescriptor("value")


@pytest.fixture
def factory(tmp_path: Path) -> Iterator[BackendFactory]:
    factory = BackendFactory(tmp_path / "local", ManualClock())
    yield factory
    factory.close()
    assert not (tmp_path / "local").exists() or os.listdir(tmp_path / "local") == [], "local files are left"


def fill(backend: KeyedStateBackend, keys: range, value: Any) -> None:
    state = backend.get_state(VALUE)
    for key in keys:
        backend.set_current_key(key, group_of(key))
        state.update((value, key, os.urandom(40)))


def read(backend: KeyedStateBackend, key: int) -> Any:
    backend.set_current_key(key, group_of(key))
    value = backend.get_state(VALUE).value()
    return None if value is None else value[:2]


# -- increments --------------------------------------------------------------------------------------------------


def test_touching_few_keys_uploads_little(factory: BackendFactory) -> None:
    backend = factory.make("rocksdb")
    fill(backend, range(20_000), "first")
    full = write_snapshot(snapshot_of(backend, checkpoint_id=1), RecordingStateWriter())
    backend.notify_checkpoint_complete(1)
    writer = RecordingStateWriter()
    fill(backend, range(0, 20_000, 100), "second")
    state = write_snapshot(snapshot_of(backend, checkpoint_id=2), writer)
    uploaded = sum(file.length for file in state.shared_files() if file.name in writer.uploaded)
    assert 0 < uploaded < 0.1 * full.nbytes
    assert state.nbytes > 0.9 * full.nbytes


def test_a_file_is_uploaded_again_when_its_upload_has_failed(factory: BackendFactory) -> None:
    class Failing(RecordingStateWriter):
        def write_shared(self, name: str, local_path: str) -> SharedFile:
            raise OSError("no space left")

    backend = factory.make("rocksdb")
    fill(backend, range(10), "first")
    with pytest.raises(OSError, match="no space"):
        write_snapshot(snapshot_of(backend, checkpoint_id=1), Failing())
    snapshot = snapshot_of(backend, checkpoint_id=2)
    writer = RecordingStateWriter()
    state = write_snapshot(snapshot, writer)
    assert {file.name for file in state.shared_files()} == set(writer.uploaded) != set()
    after = factory.make("rocksdb")
    after.restore(restored_from([snapshot], ALL_GROUPS))
    assert read(after, 3) == ("first", 3)


def test_a_restored_backend_goes_on_with_the_files_of_its_job_and_of_no_other(factory: BackendFactory) -> None:
    backend = factory.make("rocksdb")
    fill(backend, range(100), "first")
    snapshot = snapshot_of(backend)
    write_snapshot(snapshot)
    elsewhere = CheckpointOptions(directory="memory:///other", shared_directory="memory:///other/shared")
    for options, is_reused in ((CHECKPOINT, True), (elsewhere, False)):
        after = factory.make("rocksdb")
        after.restore(restored_from([snapshot], ALL_GROUPS))
        writer = RecordingStateWriter()
        write_snapshot(snapshot_of(after, options), writer)
        assert (writer.uploaded == []) == is_reused


@pytest.mark.parametrize("parallelism", [1, 2])
def test_values_in_files_of_increments_become_those_of_another_declared_type(
    factory: BackendFactory, parallelism: int
) -> None:
    def rows(**types: Any) -> ListStateDescriptor:
        return ListStateDescriptor("rows", Types.ROW_NAMED(list(types), list(types.values())))

    backend = factory.make("rocksdb")
    for key in range(50):
        backend.set_current_key(key, group_of(key))
        backend.get_list_state(rows(a=Types.INT())).add(Row(a=key))
    snapshot = snapshot_of(backend, checkpoint_id=1)
    write_snapshot(snapshot, RecordingStateWriter())
    for _ in range(2):
        after = factory.make("rocksdb", parallelism=parallelism)
        owned = key_group_range(0, parallelism, MAX_PARALLELISM)
        after.restore(restored_from([snapshot], owned))
        state = after.get_list_state(rows(b=Types.STRING(), a=Types.DOUBLE()))
        keys = [key for key in range(50) if group_of(key) in owned]
        for key in keys:
            after.set_current_key(key, group_of(key))
            assert repr(list(state)) == repr([Row(b=None, a=float(key))])
        assert keys
        snapshot = snapshot_of(after, checkpoint_id=2)
        write_snapshot(snapshot, RecordingStateWriter())


def test_what_the_first_version_said_of_a_state_is_read_without_its_type() -> None:
    facts = StateFacts.of(ValueStateDescriptor("v", int), "value")
    fields = (facts.name, facts.kind, facts.has_ttl, facts.value_type, facts.key_type, facts.column)
    made = copyreg.__newobj__(FirstStateFacts)  # type: ignore[attr-defined]
    made.__setstate__(list(fields))
    assert (made, made.column, made.declared) == (facts, facts.column, b"")


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_restore_that_fails_leaves_none_of_the_files_that_it_fetched(
    factory: BackendFactory, parallelism: int
) -> None:
    backend = factory.make("rocksdb")
    for value in ("first", "second"):
        fill(backend, range(100), value)
        snapshot = snapshot_of(backend)
        state = write_snapshot(snapshot)
    *_, missing = state.shared_files()
    delete_shared(missing)
    after = factory.make("rocksdb", parallelism=parallelism)
    with pytest.raises(KeyError):
        after.restore(restored_from([snapshot], key_group_range(0, parallelism, MAX_PARALLELISM)))
    after.close()
    backend.close()
    assert os.listdir(factory.directory) == []


@dataclass
class Life:
    """One checkpoint: taken, perhaps written (and acknowledged), then complete or given up."""

    snapshot: OperatorSnapshot
    expected: dict[int, str]
    state: OperatorSubtaskState | None = None


@pytest.mark.parametrize("seed", range(4))
def test_a_completed_checkpoint_has_all_its_files_whatever_else_was_given_up(
    factory: BackendFactory, seed: int
) -> None:
    """Several checkpoints under way; files are deleted as soon as no acknowledged or retained checkpoint has them."""
    chance = random.Random(seed)
    backend = factory.make("rocksdb", memory_bytes=1 << 20)
    model: dict[int, str] = {}
    under_way: dict[int, Life] = {}
    retained: Life | None = None
    deleted: set[str] = set()
    reused = 0

    def clean(ended: Life) -> None:
        used = [each for each in [*under_way.values(), *([retained] if retained else [])] if each.state]
        paths = {file.path for each in used for file in (each.state or OperatorSubtaskState()).shared_files()}
        for file in (ended.state or OperatorSubtaskState()).shared_files():
            if file.path not in paths and file.path not in deleted:
                deleted.add(file.path)
                delete_shared(file)

    for number in range(1, 60):
        first = chance.randrange(400)
        keys = range(first, first + chance.randrange(1, 100))
        fill(backend, keys, f"step {number}")
        model.update((key, f"step {number}") for key in keys)
        if chance.random() < 0.6:
            under_way[number] = Life(snapshot_of(backend, checkpoint_id=number), dict(model))
        for checkpoint in chance.sample(sorted(under_way), chance.randrange(len(under_way) + 1)):
            life = under_way.get(checkpoint)
            if life is None:
                continue
            if life.state is None and chance.random() < 0.8:
                writer = RecordingStateWriter()
                life.state = write_snapshot(life.snapshot, writer)
                reused += len(life.state.parts[0].shared) - len(writer.uploaded)
            elif life.state is not None and chance.random() < 0.6:
                former, retained = retained, life
                subsumed = [under_way.pop(other) for other in sorted(under_way) if other <= checkpoint]
                for other in [*subsumed, *([former] if former else [])]:
                    other.snapshot.discard()
                    if other is not life:
                        clean(other)
                if chance.random() < 0.8:
                    backend.notify_checkpoint_complete(checkpoint)
            elif chance.random() < 0.3:
                del under_way[checkpoint]
                life.snapshot.discard()
                clean(life)
                if chance.random() < 0.8:
                    backend.notify_checkpoint_aborted(checkpoint)
        if retained and number % 10 == 0:
            after = factory.make("rocksdb")
            after.restore(restored_from([retained.snapshot], ALL_GROUPS))
            expected = retained.expected
            assert {key: read(after, key) for key in range(500)} == {
                key: (expected[key], key) if key in expected else None for key in range(500)
            }
    for life in under_way.values():
        life.snapshot.discard()
    assert reused


def uploaded(path: str) -> SharedFile:
    return SharedFile("1.sst", f"/shared/{path}", 1, 0)


def test_what_a_checkpoint_has_uploaded_is_named_by_others_once_it_is_complete() -> None:
    files = UploadedFiles()
    assert files.begin(1, ["1.sst"], "memory:///shared") == {}
    files.written(1, [uploaded("a")])
    assert files.begin(2, ["1.sst"], "memory:///shared") == {}, "checkpoint 1 may be given up, and its file deleted"
    files.abort(2)
    files.complete(1)
    assert files.begin(3, ["1.sst", "2.sst"], "memory:///shared") == {"1.sst": uploaded("a")}


@pytest.mark.parametrize(
    ("directory", "path"),
    [
        ("/checkpoints/job/shared", "/checkpoints/job/shared"),
        ("file:///checkpoints/job/shared", "/checkpoints/job/shared"),
        ("hdfs://namenode:8020/checkpoints/job/shared", "/checkpoints/job/shared"),
        ("s3://key:secret@bucket/checkpoints/job/shared?region=eu", "bucket/checkpoints/job/shared"),
        ("gs://bucket/job/shared", "bucket/job/shared"),
        ("memory://name/job/shared", "job/shared"),
    ],
)
def test_a_file_of_the_job_is_known_in_every_file_system(directory: str, path: str) -> None:
    files = UploadedFiles()
    file = SharedFile("1.sst", f"{path}/a-1.sst", 1, 0)
    files.restored([file])
    assert files.begin(1, ["1.sst"], directory) == {"1.sst": file}
    assert files.begin(1, ["1.sst"], directory.replace("/job/", "/other-job/")) == {}


def test_a_file_that_the_next_completed_checkpoint_may_not_have_is_not_named() -> None:
    files = UploadedFiles()
    files.begin(1, ["1.sst"], "memory:///shared")
    files.written(1, [uploaded("a")])
    files.begin(2, ["1.sst"], "memory:///shared")  # before 1 is complete, so it uploads its own
    files.complete(1)
    assert files.begin(3, ["1.sst"], "memory:///shared") == {}, "with 2 complete, the file of 1 is deleted"
    files.written(2, [uploaded("b")])
    files.written(3, [uploaded("c")])
    files.complete(3)
    files.complete(2)  # the notice comes late
    assert files.begin(4, ["1.sst"], "memory:///shared") == {"1.sst": uploaded("c")}


@pytest.mark.parametrize(
    ("options", "is_incremental", "kind"),
    [
        (CHECKPOINT, True, PartKind.NATIVE),
        (CHECKPOINT, False, PartKind.KEYED),
        (SAVEPOINT, True, PartKind.KEYED),
        (CheckpointOptions(), True, PartKind.KEYED),
    ],
)
def test_only_incremental_checkpoints_with_a_place_for_shared_files_are_in_rocksdbs_format(
    factory: BackendFactory, options: CheckpointOptions, is_incremental: bool, kind: PartKind
) -> None:
    backend = factory.make("rocksdb", is_incremental=is_incremental)
    fill(backend, range(10), "first")
    (part,) = write_snapshot(snapshot_of(backend, options)).parts
    assert part.kind is kind


def test_elements_added_after_a_restore_come_after_those_before_it(factory: BackendFactory) -> None:
    former = []
    for index in range(2):
        backend = factory.make("rocksdb", index, 2)
        owned = key_group_range(index, 2, MAX_PARALLELISM)
        key = next(key for key in range(100) if group_of(key) in owned)
        backend.set_current_key(key, group_of(key))
        backend.get_list_state(ListStateDescriptor("list")).add_all(range(index * 50))
        former.append((key, snapshot_of(backend)))
    after = factory.make("rocksdb")
    after.restore(restored_from([snapshot for _, snapshot in former], ALL_GROUPS))
    elements = after.get_list_state(ListStateDescriptor("list"))
    for index, (key, _) in enumerate(former):
        after.set_current_key(key, group_of(key))
        elements.add("last")
        assert list(elements.get()) == [*range(index * 50), "last"]


def test_a_backend_that_was_never_used_makes_no_files(factory: BackendFactory) -> None:
    backend = factory.make("rocksdb")
    assert backend.snapshot(CHECKPOINT) == []
    assert not factory.directory.exists()


def test_without_the_package_one_sentence_says_what_to_install(
    factory: BackendFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'flinkray\[rocksdb\]'"):
        factory.make("rocksdb")


# -- bytes of keys and values ------------------------------------------------------------------------------------

UTC = datetime.UTC
KEYS: list[Any] = [
    None,
    True,
    0,
    1.0,
    -0.0,
    2**70,
    0.5,
    float("inf"),
    "",
    "a",
    "aa",
    b"",
    b"a",
    (),
    (1,),
    (1.0, "a"),
    ((1,), 2),
]
KEYS += [Decimal("1.50"), Decimal("3.00"), datetime.datetime(2024, 1, 1, tzinfo=UTC), datetime.date(2024, 1, 1)]
KEYS += [("ab", "ab"), ("ab" * 1, "".join("ab")), frozenset({"x", "y"}), frozenset({"y", "x"}), ("a", None), "a\0"]


def test_keys_have_equal_bytes_exactly_where_they_are_equal() -> None:
    pickler = KeyPickler()
    pickled = [pickler.dumps(key) for key in KEYS]
    for key, one in zip(KEYS, pickled, strict=True):
        for other, two in zip(KEYS, pickled, strict=True):
            assert (one == two) == (key == other), (key, other)
            assert one == two or not two.startswith(one), (key, other)


def test_numpys_numbers_have_the_bytes_of_those_they_equal() -> None:
    pickler = KeyPickler()
    for key in (np.float64(0.5), np.float32(2.0), np.int64(0), np.bool_(True), np.str_("aa"), ("a", np.float64(1.0))):
        equal = ("a", 1) if isinstance(key, tuple) else key.item()
        assert key == equal
        assert pickler.dumps(key) == pickler.dumps(equal)


def test_every_nan_has_the_same_bytes() -> None:
    pickler, nan, negative_nan = KeyPickler(), float("nan"), float("-nan")
    for keys in ([nan, negative_nan, np.float32("nan")], [("a", nan), ("a", negative_nan)]):
        assert len({pickler.dumps(key) for key in keys}) == 1


def test_times_of_one_moment_have_the_same_bytes_whatever_their_zones() -> None:
    pickler, noon = KeyPickler(), datetime.datetime(2024, 1, 1, 12, tzinfo=UTC)
    for zone in (ZoneInfo("Europe/Berlin"), datetime.timezone(datetime.timedelta(hours=5, minutes=30))):
        there = noon.astimezone(zone)
        assert there == noon
        assert pickler.dumps(there) == pickler.dumps(noon)
        assert pickler.dumps(("k", there)) == pickler.dumps(("k", noon))
        assert pickler.dumps(there) != pickler.dumps(there.replace(tzinfo=None))
        assert pickler.canonical(datetime.datetime.min.replace(tzinfo=zone)).tzinfo is zone


NOON = datetime.datetime(2024, 1, 1, 12, 0, 0, 5)
EQUAL_KEYS: list[tuple[Any, ...]] = [
    (NOON, pd.Timestamp(NOON), pd.Timestamp(NOON).as_unit("ns"), np.datetime64(NOON), np.datetime64(NOON, "ns")),
    (NOON.replace(tzinfo=UTC), pd.Timestamp(NOON, tz="UTC"), pd.Timestamp(NOON, tz="UTC").tz_convert("Asia/Tokyo")),
    (pd.Timestamp(NOON) + pd.Timedelta(1, "ns"),),
    (datetime.timedelta(1), pd.Timedelta(1, "D"), np.timedelta64(24, "h"), np.timedelta64(86_400 * 10**9, "ns")),
    (np.timedelta64(5, "ns"),),
    (5, np.uint8(5), np.float32(5), Decimal("5.0")),
    (0.5, np.float16(0.5), Decimal("0.50")),
    (float("inf"), Decimal("inf")),
    (Decimal("0.1"), Decimal("0.10")),
    (Decimal("0." + 38 * "1"), Decimal("0." + 38 * "1" + "0")),
    (Decimal("0." + 37 * "1"),),
    (0.1,),
    (b"a", np.bytes_(b"a")),
    (pd.NaT,),
    (without_unit(np.datetime64),),
    (None,),
    ((1, 2), (True, Decimal(2))),
    (Row(1, 2), Row(1.0, 2)),
    (Row(a=1, b=2), Row(a=True, b=2.0)),
]


def test_keys_of_different_types_have_the_same_bytes_where_they_are_equal() -> None:
    pickler = KeyPickler()
    seen: set[bytes] = set()
    for keys in EQUAL_KEYS:
        (pickled,) = {pickler.dumps(key) for key in keys}
        assert len({pickler.dumps(("a", key)) for key in keys}) == 1
        assert pickled not in seen
        seen.add(pickled)


def test_the_length_of_a_key_is_found_again() -> None:
    pickler = KeyPickler()
    for key in KEYS:
        pickled = pickler.dumps(key)
        assert pickled_length(pickled + b"\0rest.") == len(pickled)
        assert loads(pickled) == (key if not isinstance(key, frozenset) else pickler.canonical(key))


@pytest.mark.parametrize("has_ttl", [False, True])
@pytest.mark.parametrize(("kind", "map_key"), [("value", None), ("map", None), ("map", dumps(1.0))])
def test_what_is_stored_comes_apart_again(kind: str, has_ttl: bool, map_key: bytes | None) -> None:
    codec, renewed = Codec(kind, has_ttl), 2**62 if has_ttl else None
    stored = codec.encode(b"\0value", renewed, map_key)
    assert (codec.value(stored), codec.renewed(stored)) == (b"\0value", renewed)
    assert kind != "map" or codec.map_key(stored) == map_key


def test_a_store_that_is_closed_while_a_snapshot_reads_it_leaves_no_file_and_fails_nobody(tmp_path: Path) -> None:
    """RocksDB's own threads flush and compact until the last reader is done."""
    for number in range(30):
        store = RocksDbStore(str(tmp_path / f"db-{number}"), 1 << 20)
        for key in range(3_000):
            store.put(b"%08d" % key, b"before" * 30)
        frozen = store.frozen()
        store.checkpoint(str(tmp_path / f"copy-{number}"))
        for key in range(3_000):
            store.put(b"%08d" % (key * 7), b"after" * 40)
        store.close()
        assert not (tmp_path / f"db-{number}").exists()
        assert [value for _, value in frozen(b"", b"")] == [b"before" * 30] * 3_000


# -- what was deleted, which RocksDB passes over until files are merged -------------------------------------------


class WatchedDatabase:
    """Counts iterators. Those with a limit fail where they pass over more than so many deleted entries in a row."""

    def __init__(self, database: Any, most_deleted: int = 0) -> None:
        self._database = database
        self._most_deleted = most_deleted
        self.iterators = 0

    def iter(self, *given: Any) -> Any:
        self.iterators += 1
        (options,) = given or (load_rocksdict().ReadOptions(),)
        if self._most_deleted:
            options.set_max_skippable_internal_keys(self._most_deleted)
        return self._database.iter(options)


@pytest.mark.parametrize("kind", ["list", "map"])
def test_state_that_is_filled_and_cleared_again_and_again_does_not_pass_over_all_that_was_in_it(
    kind: str, factory: BackendFactory
) -> None:
    backend: Any = factory.make("rocksdb")
    backend.set_current_key("key", group_of("key"))
    elements, entries = (
        backend.get_list_state(ListStateDescriptor("list")),
        backend.get_map_state(MapStateDescriptor("map")),
    )

    def fill_and_clear(rounds: int) -> None:
        for number in range(rounds):
            values = list(range(10 * number, 10 * number + 10))
            if kind == "list":
                elements.add_all(values)
                assert elements.get() == values
                elements.clear()
                continue
            for value in values:
                entries.put(value, str(value))
            assert dict(entries.items()) == {value: str(value) for value in values}
            assert not entries.is_empty()
            entries.clear()
            assert entries.is_empty()

    fill_and_clear(300)
    store = backend._store
    database, store._db = store._db, WatchedDatabase(store._db)
    fill_and_clear(100)
    assert store._db.iterators < 10
    store._db = database


def bytes_read() -> int:
    """What this process has read from files so far, be they in the system's memory or not."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("rchar:")))


@pytest.mark.parametrize("is_partitioned", [True, False])
def test_a_read_takes_a_few_blocks_of_a_file_however_many_keys_it_has(tmp_path: Path, is_partitioned: bool) -> None:
    store: Any = RocksDbStore(str(tmp_path / "db"), 1 << 20, is_partitioned)
    keys = range(500_000)
    for key in keys:
        store.put(key.to_bytes(8), b"value")
    store._db.compact_range(None, None)
    assert len(list((tmp_path / "db").glob("*.sst"))) == 1
    chosen = random.Random(0).sample(keys, 100)
    before = bytes_read()
    assert all(store.get(key.to_bytes(8)) == b"value" for key in chosen)
    of_each = (bytes_read() - before) / len(chosen)
    store.close()
    assert (of_each < 50_000) == is_partitioned, f"{of_each:,.0f} bytes are read for an entry"


def test_reading_ends_with_the_prefix_and_not_with_the_next_entry_that_is_left(tmp_path: Path) -> None:
    store: Any = RocksDbStore(str(tmp_path / "db"), 1 << 20)
    store.put(b"a1", b"value")
    for number in range(5_000):
        store.put(b"b%d" % number, b"")
        store.delete(b"b%d" % number)
    database, store._db = store._db, WatchedDatabase(store._db, most_deleted=100)
    assert list(store.items(b"a", b"a")) == list(store.all_of(b"a")) == [(b"a1", b"value")]
    store._db = database
    store.close()


@pytest.mark.parametrize("seed", range(5))
def test_a_prefix_has_what_was_written_and_not_deleted_however_much_was(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, most in (("_MOST_DELETED", 3), ("_MOST_CROWDED", 2), ("_MOST_KEYS", 5)):
        monkeypatch.setattr(disk_store, name, most)
    chance = random.Random(seed)
    store = RocksDbStore(str(tmp_path / "db"), 1 << 20)
    prefixes = (b"a", b"b\xff", b"\xff", b"c")
    expected: dict[bytes, dict[bytes, bytes]] = {prefix: {} for prefix in prefixes}
    for step in range(2_000):
        prefix = chance.choice(prefixes)
        key, value = prefix + b"%02d" % chance.randrange(20), b"%d" % step
        match chance.randrange(12):
            case 0:
                store.clear(prefix)
                expected[prefix].clear()
            case 1 | 2 | 3 | 4:
                store.delete(key)
                expected[prefix].pop(key, None)
            case 5:
                before = dict(expected[prefix])
                entries = store.all_of(prefix, stay=True)
                store.add(prefix, key, value)
                expected[prefix][key] = value
                assert dict(entries) == before
            case 6 | 7:
                assert dict(store.all_of(prefix)) == dict(store.items(prefix, prefix)) == expected[prefix]
            case _:
                store.add(prefix, key, value)
                expected[prefix][key] = value
    store.close()
