"""Tables of a lake as sinks and sources, without a job: what is committed when, and what is read from where."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import fs

from flinkray import DeltaSink, DeltaSource, IcebergSink, IcebergSource, InvalidProgramError, Source, TypeMismatchError
from flinkray.batches.batch import Batch
from flinkray.connectors.committer import CommitOutcome
from flinkray.connectors.delta.tables import _GONE, _committed_at, place_of, table_of
from flinkray.connectors.iceberg.partitions import wanted_partitions
from flinkray.connectors.lake.commits import CommitConflictError, LakeFiles
from flinkray.errors import FlinkrayError
from flinkray.types.records import Kind
from tests.support.api import Assignments, FakeSubtaskContext
from tests.support.commits import requests_of
from tests.support.lake import TABLES, DeltaTable, IcebergTable, LakeTable, tuples

UTC = datetime.UTC
SCHEMA = pa.schema({"n": pa.int64(), "word": pa.string()})


def rows(*numbers: int, schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.record_batch({"n": numbers, "word": [f"w{each}" for each in numbers]}, schema=schema)


class Written:
    """A sink in one submission, with a writer."""

    def __init__(self, table: LakeTable, subtask_index: int = 0, **arguments: Any) -> None:
        self.sink: Any = table.sink(**arguments).prepare()
        self.writer = self.sink.create_writer(FakeSubtaskContext(subtask_index, 2))
        self._committer = self.sink.create_global_committer()

    def prepare(self, *batches: pa.RecordBatch, checkpoint_id: int = 1) -> list[LakeFiles]:
        for batch in batches:
            self.writer.write(Batch(batch, Kind.ROW))
        prepared: list[LakeFiles] = self.writer.prepare_commit(checkpoint_id)
        return prepared

    def commit(self, committables: Sequence[LakeFiles], checkpoint_id: int = 1) -> list[CommitOutcome]:
        requests = requests_of(committables, checkpoint_id)
        self._committer.commit(requests)
        return [each.outcome for each in requests]

    def add(self, *batches: pa.RecordBatch, checkpoint_id: int = 1) -> None:
        outcomes = self.commit(self.prepare(*batches, checkpoint_id=checkpoint_id), checkpoint_id)
        assert set(outcomes) <= {CommitOutcome.COMMITTED}

    def close(self) -> None:
        self.writer.close()
        self._committer.close()


class Lake:
    """The tables and sinks of a test, which it closes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: list[Any] = []

    def table(self, name: str) -> Any:
        self._open.append(TABLES[name](self._directory))
        return self._open[-1]

    def written(self, table: LakeTable, **arguments: Any) -> Written:
        self._open.append(Written(table, **arguments))
        written: Written = self._open[-1]
        return written

    def close(self) -> None:
        for each in reversed(self._open):
            each.close()


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    found = Lake(tmp_path)
    yield found
    found.close()


def each_table(test: Callable[..., None]) -> Callable[..., None]:
    return pytest.mark.parametrize("name", TABLES)(test)


def splits_of(source: Source, restored: Any = None) -> Any:
    """The state of an enumerator that has just started, and looked once more if it goes on from another."""
    enumerator: Any = source.prepare().create_enumerator(Assignments(), restored)
    enumerator.start()
    if restored is not None:
        enumerator._look()
    state = enumerator.snapshot_state(1)
    enumerator.close()
    return state


def read(source: Source, splits: Sequence[Any]) -> list[Any]:
    reader: Any = source.prepare().create_reader(FakeSubtaskContext())
    return [tuple(row.values()) for split in splits for data, _ in reader.parts(split) for row in data.to_pylist()]


def numbers(source: Source) -> list[int]:
    return sorted(row[0] for row in read(source, splits_of(source).waiting))


# -- sinks


@each_table
def test_a_table_gets_a_checkpoint_of_all_subtasks_once_whoever_commits_it(lake: Lake, name: str) -> None:
    table = lake.table(name)
    one = lake.written(table, schema=SCHEMA)
    other = one.sink.create_writer(FakeSubtaskContext(1, 2))
    other.write(Batch(rows(3), Kind.ROW))
    first = [*one.prepare(rows(1, 2)), *other.prepare_commit(1)]
    other.close()
    assert len(table.read()) == 0
    assert one.commit(first) == [CommitOutcome.COMMITTED] * 2
    assert len(table.versions) == 1
    second = one.prepare(rows(4), checkpoint_id=2)
    late, later = one.sink.create_global_committer(), one.sink.create_global_committer()
    assert [late.last_checkpoint(second[0].sink_id), later.last_checkpoint(second[0].sink_id)] == [1, 1]
    late.append(second[0].sink_id, 2, second[0].files)
    with pytest.raises(CommitConflictError):  # of one that was given up, and does not know it
        later.append(second[0].sink_id, 2, second[0].files)
    assert one.commit(first) == [CommitOutcome.ALREADY_COMMITTED] * 2
    assert one.commit(second, 2) == [CommitOutcome.ALREADY_COMMITTED]
    assert tuples(table.read(), ["n", "word"]) == [(each, f"w{each}") for each in (1, 2, 3, 4)]
    assert one.prepare(checkpoint_id=3) == []
    lake.written(table).add(rows(5))  # another submission, whose checkpoints begin anew
    assert len(table.read()) == 5
    late.close()
    later.close()


@each_table
def test_commits_of_others_are_gone_around(lake: Lake, name: str) -> None:
    table = lake.table(name)
    written = lake.written(table, schema=SCHEMA)
    (prepared,) = written.prepare(rows(1))
    committer = written._committer
    committer.last_checkpoint(prepared.sink_id)
    table.append(pa.table(rows(7)))
    committer.last_checkpoint = lambda _: None  # as it was a moment ago
    outcomes = written.commit([prepared])
    del committer.last_checkpoint
    # Delta Lake itself adds the files behind those of the other.
    assert outcomes == [CommitOutcome.COMMITTED if name == "delta" else CommitOutcome.RETRY_LATER]
    written.commit([prepared])
    assert tuples(table.read(), ["n"]) == [(1,), (7,)]


@each_table
def test_files_of_a_table_that_is_another_one_by_now_are_not_added(lake: Lake, name: str) -> None:
    table = lake.table(name)
    sink = lake.written(table, schema=SCHEMA)
    sink.add(rows(1))
    files = sink.prepare(rows(2), checkpoint_id=2)
    table.replace(pa.table({"n": ["x"], "word": ["y"]}))
    with pytest.raises(FlinkrayError, match=r"the table has been replaced by another one while .*parquet was written"):
        sink.commit(files, 2)
    assert tuples(table.read(), ["n", "word"]) == [("x", "y")]


@pytest.mark.parametrize(
    ("columns", "partition_by", "expected"),
    [
        ({"n": [9], "word": ["z"]}, ["word"], r"its partitioning has been changed, from \[\] to \['word'\], while"),
        ({"n": ["9"], "word": ["z"]}, [], r"columns have been taken from it or changed, of n \(int64\), while"),
        ({"n": [9]}, [], r"columns have been taken from it or changed, of word \(string\), while"),
    ],
)
def test_files_are_not_added_to_a_delta_table_whose_columns_are_others_by_now(
    lake: Lake, columns: dict[str, Any], partition_by: list[str], expected: str
) -> None:
    table = lake.table("delta")
    sink = lake.written(table, schema=SCHEMA)
    import deltalake

    files = sink.prepare(rows(1, 2))
    deltalake.write_deltalake(
        table.uri, pa.table(columns), mode="overwrite", schema_mode="overwrite", partition_by=partition_by
    )
    with pytest.raises(FlinkrayError, match=expected):
        sink.commit(files)
    deltalake.DeltaTable(table.uri).restore(0)
    sink.commit(files)
    assert tuples(table.read(), ["n"]) == [(1,), (2,)]


@each_table
def test_a_reader_of_a_table_that_is_another_one_by_now_ends_the_job(lake: Lake, name: str) -> None:
    table = lake.table(name)
    lake.written(table, schema=SCHEMA).add(rows(1))
    table.append(pa.Table.from_batches([rows(2)]))
    source = table.source(monitor="1 s")
    enumerator: Any = source.prepare().create_enumerator(Assignments(), None)
    enumerator.start()
    state = enumerator.snapshot_state(1)
    table.replace(pa.table({"n": ["x"], "word": ["y"]}))
    with pytest.raises(InvalidProgramError, match="start anew with all rows of the table"):
        enumerator._look()
    enumerator.close()
    with pytest.raises(InvalidProgramError, match="start anew with all rows of the table"):
        splits_of(source, state)
    for number in range(3):  # as many versions as the former table had, and more
        table.append(pa.table({"n": [f"{number}"], "word": ["y"]}))
    with pytest.raises(InvalidProgramError, match="start anew with all rows of the table"):
        splits_of(source, state)


def test_an_iceberg_table_that_was_made_anew_without_rows_is_no_table_without_news(lake: Lake) -> None:
    table = lake.table("iceberg")
    lake.written(table, schema=SCHEMA).add(rows(1))
    source = table.source(monitor="1 s")
    state = splits_of(source)
    table.replace(None)
    with pytest.raises(InvalidProgramError, match="rolled back or replaced"):
        splits_of(source, state)


def test_a_delta_table_takes_times_that_python_cannot_hold_and_long_values_of_partitions(lake: Lake) -> None:
    table = lake.table("delta")
    schema = pa.schema({"at": pa.timestamp("us", "UTC"), "day": pa.date32(), "long": pa.string()})
    late = pa.array([253_402_300_800_000_000]).cast(schema.field("at").type)  # the year 10000
    days = pa.array([3_000_000], pa.int32()).cast(pa.date32())
    lake.written(table, schema=schema, partition_by=["long"]).add(
        pa.record_batch([late, days, pa.array(["x" * 300])], schema=schema)
    )
    found = table.read()
    assert found["at"].cast(pa.int64()).to_pylist() == [253_402_300_800_000_000]
    assert found["long"].to_pylist() == ["x" * 300]


@each_table
def test_what_does_not_fit_a_table_is_refused_with_column_and_both_types(lake: Lake, name: str) -> None:
    table = lake.table(name)
    writer = lake.written(table, schema=pa.schema({"n": pa.int64(), "word": pa.string()})).writer
    cases = [
        ({"n": ["1"]}, "column 'n' is string, and int64 in the table"),
        ({"n": [1.5]}, "column 'n' is double, and int64 in the table"),
        ({"word": [1]}, "column 'word' is int64, and string in the table"),
        ({"n": [1], "m": [2]}, "have a column 'm' of type int64, and the table has none.* add_columns=True"),
    ]
    for columns, says in cases:
        with pytest.raises(TypeMismatchError, match=says):
            writer.write(Batch(pa.record_batch(columns), Kind.ROW))
    with pytest.raises(TypeMismatchError, match="Python objects"):
        writer.write(Batch(pa.record_batch({"value": [b""]}), Kind.OBJECT))
    writer.write(Batch(pa.record_batch({"n": pa.array([1], pa.int8())}), Kind.ROW))  # and null in the rest


@each_table
def test_columns_are_added_where_that_is_asked_for(lake: Lake, name: str) -> None:
    table = lake.table(name)
    one, other = lake.written(table, schema=SCHEMA, add_columns=True), lake.written(table, add_columns=True)
    one.add(rows(1), rows(2).append_column("more", pa.array([0.5])))
    other.add(rows(3).append_column("more", pa.array([1.5])))
    assert tuples(table.read(), ["n", "more"]) == [(1, None), (2, 0.5), (3, 1.5)]
    late = lake.written(table, add_columns=True)
    one.add(rows(4).append_column("last", pa.array(["a"])), checkpoint_id=2)
    with pytest.raises(TypeMismatchError, match="column 'last' is int64, and string in the table"):
        late.prepare(rows(5).append_column("last", pa.array([1])))


@each_table
def test_files_end_at_a_size_and_those_that_no_checkpoint_has_are_deleted(lake: Lake, name: str) -> None:
    table = lake.table(name)
    written = lake.written(table, schema=SCHEMA, part_size=1)
    (prepared,) = written.prepare(rows(1), rows(2), rows(3))
    assert len(prepared.files) == len(table.data_files) == 3
    written._committer.abort([prepared])
    assert table.data_files == []
    for batch in (rows(1), rows(2)):
        written.writer.write(Batch(batch, Kind.ROW))
    open_one = lake.written(table)
    open_one.writer.write(Batch(rows(4), Kind.ROW))
    written.writer.close()
    open_one.writer.close()
    assert table.data_files == []


def test_a_delta_table_knows_values_of_partitions_whatever_is_in_them(lake: Lake) -> None:
    table: DeltaTable = lake.table("delta")
    schema = pa.schema({"n": pa.int64(), "at": pa.timestamp("us", "UTC"), "word": pa.string(), "day": pa.date32()})
    at, day = datetime.datetime(2024, 1, 2, 3, 4, 5, 6, UTC), datetime.date(2024, 1, 2)
    values = [(1, at, "a/b c%é=", day), (2, None, None, None), (3, at, "a/b c%é=", day)]
    batch = pa.record_batch(list(zip(*values, strict=True)), schema=schema)
    lake.written(table, schema=schema, partition_by=["at", "word", "day"]).add(batch)
    assert tuples(table.read(), schema.names) == values
    assert len(table.data_files) == 2
    assert sorted(read(table.source(), splits_of(table.source()).waiting), key=repr) == values
    assert read(table.source(columns=["day"]), splits_of(table.source()).waiting).count((day,)) == 2
    with pytest.raises(InvalidProgramError, match=r"partitioned by \['at', 'word', 'day'\]"):
        table.sink(schema=schema, partition_by=["day"]).prepare()
    add = table.opened.get_add_actions(flatten=True)
    assert sorted(pa.table(add).column("max.n").to_pylist()) == [2, 3]


def test_bytes_partition_a_delta_table_by_the_text_that_the_log_has_for_them(lake: Lake) -> None:
    table: DeltaTable = lake.table("delta")
    schema = pa.schema({"n": pa.int64(), "of": pa.binary()})
    values = [(1, b"ab"), (2, b"\xff\x00"), (3, None), (4, b"ab")]
    batch = pa.record_batch(list(zip(*values, strict=True)), schema=schema)
    lake.written(table, schema=schema, partition_by=["of"]).add(batch)
    assert sorted(read(table.source(), splits_of(table.source()).waiting)) == values
    table.append(pa.Table.from_batches([batch]))
    assert sorted(read(table.source(), splits_of(table.source()).waiting)) == sorted(values * 2)
    for arguments in ({}, {"schema": schema, "partition_by": ["of"]}):
        with pytest.raises(InvalidProgramError, match="partitioned by 'of' of type binary cannot be compacted"):
            table.sink(compact_after=1, **arguments).prepare()


@each_table
def test_times_are_microseconds_and_what_no_table_has_names_the_column(lake: Lake, name: str) -> None:
    table = lake.table(name)
    at = datetime.datetime(2024, 1, 2, 3, 4, 5)
    schema = pa.schema({"at": pa.timestamp("s"), "all": pa.list_(pa.timestamp("ms"))})
    day = {} if name == "delta" else {"time": pa.time32("s")}
    whole = pa.schema([*schema, *day.items()])
    row = {"at": at, "all": [at], "time": at.time()}
    written = lake.written(table, schema=whole, add_columns=True)
    written.add(pa.RecordBatch.from_pylist([row], schema=whole))
    written.add(pa.RecordBatch.from_pylist([{"more": at}], pa.schema({"more": pa.timestamp("s")})), checkpoint_id=2)
    found = read(table.source(columns=[*whole.names, "more"]), splits_of(table.source()).waiting)
    assert sorted(found, key=repr)[1] == (at, [at], *[at.time() for _ in day], None)
    late = pa.duration("us")
    with pytest.raises(TypeMismatchError, match="cannot add column 'late' of type duration"):
        written.prepare(pa.record_batch({"late": pa.array([1], late)}), checkpoint_id=3)
    other = IcebergSink("shop.other", table.catalog, schema={"late": late}) if name == "iceberg" else None
    with pytest.raises(InvalidProgramError, match=r"(?s)cannot create .*olumn 'late'.*duration.us.") as refused:
        (other or DeltaSink(f"{table.uri}-other", {"late": late})).prepare()
    assert "\n" not in str(refused.value)


def test_a_delta_table_whose_rows_a_writer_has_to_check_or_complete_is_not_written(lake: Lake) -> None:
    from deltalake import DeltaTable as Opened
    from deltalake import Schema
    from deltalake.schema import Field

    table: DeltaTable = lake.table("delta")
    kept = lake.written(table, schema=SCHEMA)
    table.opened.alter.add_constraint({"positive": "n > 0"})
    with pytest.raises(InvalidProgramError, match=r"delta\.constraints\.positive = 'n > 0'"):
        table.sink().prepare()
    with pytest.raises(InvalidProgramError, match=r"delta\.constraints\.positive"):
        kept.sink.create_writer(FakeSubtaskContext())  # of an attempt after it came
    assert numbers(table.source()) == []
    invariant = '{"expression": {"expression": "m > 1"}}'
    says_what = {"delta.generationExpression": "n + 1", "delta.invariants": invariant, "delta.identity.start": 1}
    for says, what in says_what.items():
        uri = f"{table.uri}-{says}"
        Opened.create(uri, Schema([Field("n", "long"), Field("m", "long", metadata={says: what})]))
        with pytest.raises(InvalidProgramError, match=f"{says} of column 'm'"):
            DeltaSink(uri).prepare()
    with pytest.raises(InvalidProgramError, match="partitioned by all of its columns"):
        DeltaSink(f"{table.uri}-all", SCHEMA, partition_by=SCHEMA.names).prepare()


def test_decimals_in_messages_are_partitioned_by_icebergs_transforms(lake: Lake) -> None:
    table: IcebergTable = lake.table("iceberg")
    schema = pa.schema({"n": pa.int64(), "price": pa.decimal128(10, 2)})
    values = [(1, Decimal("1.50")), (2, None), (3, Decimal("-0.01"))]
    batch = pa.record_batch(list(zip(*values, strict=True)), schema=schema)
    raw = batch["price"].buffers()[1].to_pybytes()
    held = np.zeros(len(raw) + 16, np.uint8)
    start = (8 - held.ctypes.data) % 16  # an eighth byte that is no sixteenth
    held[start : start + len(raw)] = np.frombuffer(raw, np.uint8)
    buffers = [batch["price"].buffers()[0], pa.py_buffer(held).slice(start)]
    prices = pa.Array.from_buffers(schema.field("price").type, len(values), buffers)
    partition_by = ["bucket(4, price)", "truncate(2, price)"]
    lake.written(table, schema=schema, partition_by=partition_by).add(pa.record_batch([batch["n"], prices], schema))
    assert tuples(table.read(), schema.names) == sorted(values, key=repr)
    assert sorted(read(table.source(), splits_of(table.source()).waiting), key=repr) == sorted(values, key=repr)


def test_an_iceberg_table_is_partitioned_by_several_transforms_of_one_column(lake: Lake) -> None:
    table: IcebergTable = lake.table("iceberg")
    schema = pa.schema({"n": pa.int64(), "at": pa.timestamp("us"), "time": pa.time64("us")})
    at = datetime.datetime(1969, 12, 31, 23)
    values = [(1, at, at.time()), (2, None, None), (3, at + datetime.timedelta(days=400), at.time())]
    batch = pa.record_batch(list(zip(*values, strict=True)), schema=schema)
    partition_by = ["year(at)", "bucket(4, at)", "bucket(4, time)", "time"]
    lake.written(table, schema=schema, partition_by=partition_by).add(batch)
    assert tuples(table.read(), schema.names) == sorted(values, key=repr)
    assert table.opened.scan(row_filter="at < '1970-01-01T00:00:00'").to_arrow().column("n").to_pylist() == [1]
    assert sorted(read(table.source(), splits_of(table.source()).waiting), key=repr) == values


def test_an_iceberg_table_is_partitioned_by_transforms(lake: Lake) -> None:
    table: IcebergTable = lake.table("iceberg")
    schema = pa.schema({"n": pa.int64(), "at": pa.timestamp("us", "UTC"), "word": pa.string()})
    at = datetime.datetime(2024, 1, 2, 3, tzinfo=UTC)
    later = at + datetime.timedelta(days=1)
    values = [(1, at, "abcd"), (2, later, "abce"), (3, None, None), (4, at, "abcf")]
    batch = pa.record_batch(list(zip(*values, strict=True)), schema=schema)
    partition_by = ["day(at)", "truncate(3, word)", "bucket(1, n)"]
    lake.written(table, schema=schema, partition_by=partition_by).add(batch)
    assert tuples(table.read(), schema.names) == values
    assert len(table.data_files) == 3
    assert sorted(read(table.source(), splits_of(table.source()).waiting), key=repr) == values
    found = table.opened.scan(row_filter="at < '2024-01-03T00:00:00+00:00' and word = 'abcd'").to_arrow()
    assert found.column("n").to_pylist() == [1]
    with pytest.raises(InvalidProgramError, match=r"partitioned by \['day\(at\)', 'truncate\[3\]\(word\)'"):
        table.sink(schema=schema, partition_by=["day(at)"]).prepare()
    for wrong in ("days(", "bucket(word)", "day(3, at)", "week(at)"):
        with pytest.raises(InvalidProgramError, match="partition_by"):
            wanted_partitions([wrong], schema.names)


# -- sources


def check_times(table: DeltaTable) -> None:
    """The time that a version says is its own, also where its file is younger, as on a slow machine or of a copy."""
    for late in (0, 5_000):
        for version in [0, *table.versions]:
            os.utime(f"{table.uri}/_delta_log/{version:020}.json", (time.time() + late,) * 2)
        for entry in table.opened.history():
            version, at = entry["version"], datetime.datetime.fromtimestamp(entry["timestamp"] / 1_000, UTC)
            newest = max(each["version"] for each in table.opened.history() if each["timestamp"] <= entry["timestamp"])
            assert table_of(place_of(table.uri, None), None, at).version() == newest, (version, late)


@each_table
def test_reading_begins_where_it_is_told_and_finds_what_is_added(lake: Lake, name: str) -> None:
    table = lake.table(name)
    written = lake.written(table, schema=SCHEMA)
    assert numbers(table.source()) == []
    for checkpoint_id in (1, 2, 3):
        written.add(rows(checkpoint_id), checkpoint_id=checkpoint_id)
    first, second, _ = table.versions
    of = "version" if name == "delta" else "snapshot_id"
    now = datetime.datetime.now(UTC) + datetime.timedelta(hours=1)
    cases: list[tuple[dict[str, Any], list[int]]] = [
        ({}, [1, 2, 3]),
        ({of: first}, [1]),
        ({"timestamp": now}, [1, 2, 3]),
        ({"after": first}, [2, 3]),
        ({"after": "latest"}, []),
    ]
    if name == "delta":
        with pytest.raises(InvalidProgramError, match=r"no version of 2000-.*\(any more\)"):
            numbers(table.source(timestamp=datetime.datetime(2000, 1, 1, tzinfo=UTC)))
        check_times(table)
    if name == "iceberg":
        changed = datetime.datetime.fromtimestamp(table.opened.snapshot_by_id(second).timestamp_ms / 1_000, UTC)
        cases += [
            ({"since": "earliest"}, [1, 2, 3]),
            ({"since": second}, [2, 3]),
            ({"since": changed}, [2, 3]),
            ({"since": changed - datetime.timedelta(milliseconds=1)}, [2, 3]),
            ({"since": "latest"}, [3]),
        ]
        for wrong in (77, now):
            with pytest.raises(InvalidProgramError, match=r"has no snapshot .*\(any more\)"):
                numbers(table.source(since=wrong))
    for arguments, expected in cases:
        assert numbers(table.source(**arguments)) == expected, arguments
    monitoring = table.source(monitor="1 s", **{of: second})
    state = splits_of(monitoring)
    assert sorted(read(monitoring, state.waiting)) == [(1, "w1"), (2, "w2")]
    following = splits_of(monitoring, type(state)(state.position, ()))
    assert read(monitoring, following.waiting) == [(3, "w3")]
    assert splits_of(monitoring, type(state)(following.position, ())).waiting == ()
    with pytest.raises(InvalidProgramError, match=r"\(any more\)"):
        numbers(table.source(**{of: 77}))


@each_table
def test_a_reader_goes_on_behind_the_row_that_it_gave_last(lake: Lake, name: str) -> None:
    table = lake.table(name)
    lake.written(table, schema=SCHEMA).add(rows(*range(10)))
    source = table.source().prepare()
    (split,) = splits_of(source).waiting
    (first, left), *_ = source.create_reader(FakeSubtaskContext(batch_rows=4)).parts(split)
    assert first.column("n").to_pylist() == [0, 1, 2, 3]
    assert [row[0] for row in read(source, [left])] == [4, 5, 6, 7, 8, 9]
    unread = source.reading(frozenset({"word"}))
    assert read(unread, [left])[0] == (None, "w4")
    assert len(read(source.reading(frozenset()), [split])) == 10


@each_table
def test_versions_that_change_rows_end_the_job_or_are_passed_over(lake: Lake, name: str) -> None:
    table = lake.table(name)
    written = lake.written(table, schema=SCHEMA)
    written.add(rows(1, 2))
    before = table.versions[-1]
    table.delete("n = 2")
    written.add(rows(3), checkpoint_id=2)
    with pytest.raises(InvalidProgramError, match=r"deletes or changes rows.*changes='skip'"):
        numbers(table.source(after=before))
    assert numbers(table.source(after=before, changes="skip")) == [3]
    assert numbers(table.source()) == [1, 3]


def test_a_delta_table_of_a_time_has_the_columns_of_then(lake: Lake) -> None:
    table: DeltaTable = lake.table("delta")
    written = lake.written(table, schema=SCHEMA, add_columns=True)
    written.add(rows(1))
    then = datetime.datetime.now(UTC) - datetime.timedelta(minutes=1)
    for log in (table.directory / "table" / "_delta_log").glob("*.json"):
        os.utime(log, (0, then.timestamp() - 60))
    written.add(rows(2).append_column("more", pa.array([0.5])), checkpoint_id=2)
    assert table.source(timestamp=then).output_type.schema.names == SCHEMA.names
    assert numbers(table.source(timestamp=then)) == [1]
    assert table.source().output_type.schema.names == [*SCHEMA.names, "more"]


def test_a_delta_table_is_compacted_after_so_many_commits_which_no_reader_sees(lake: Lake) -> None:
    table: DeltaTable = lake.table("delta")
    written = lake.written(table, schema=SCHEMA, compact_after=2)
    for checkpoint_id in (1, 2):
        written.add(rows(checkpoint_id), checkpoint_id=checkpoint_id)
    assert len(table.opened.file_uris()) == 1
    assert numbers(table.source()) == numbers(table.source(after=0)) == [1, 2]
    assert numbers(table.source(after=2)) == []


def test_a_delta_table_that_is_partitioned_by_decimals_is_not_compacted(lake: Lake) -> None:
    table = lake.table("delta")
    schema = pa.schema({"cents": pa.decimal128(10, 2), "n": pa.int64()})
    written = lake.written(table, schema=schema, partition_by=["cents"])
    for checkpoint_id in (1, 2):
        row = {"cents": Decimal("-1.05"), "n": checkpoint_id}
        written.add(pa.RecordBatch.from_pylist([row], schema=schema), checkpoint_id=checkpoint_id)
    source = table.source()
    assert sorted(read(source, splits_of(source).waiting)) == [(Decimal("-1.05"), each) for each in (1, 2)]
    with pytest.raises(InvalidProgramError, match=r"partitioned by 'cents' of type decimal128\(10, 2\) cannot be"):
        table.sink(compact_after=1).prepare()


def test_a_delta_log_that_was_cleaned_up_before_it_was_read_is_an_error(lake: Lake) -> None:
    table: DeltaTable = lake.table("delta")
    written = lake.written(table, schema=SCHEMA)
    for checkpoint_id in (1, 2):
        written.add(rows(checkpoint_id), checkpoint_id=checkpoint_id)
    table.opened.create_checkpoint()
    (table.directory / "table" / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(InvalidProgramError, match="no version 1 any more"):
        numbers(table.source(after=0))
    assert numbers(table.source()) == [1, 2]


def test_an_iceberg_table_is_read_by_the_ids_of_its_columns_and_without_deleted_rows(lake: Lake) -> None:
    table: IcebergTable = lake.table("iceberg")
    lake.written(table, schema=SCHEMA).add(rows(1, 2))
    source = table.source(monitor="1 s").prepare()
    with table.opened.update_schema() as update:
        update.rename_column("word", "text")
    assert read(source, splits_of(source).waiting) == [(1, "w1"), (2, "w2")]
    lake.written(table).add(pa.record_batch({"n": [3], "text": ["w3"]}))
    assert (3, "w3") in read(source, splits_of(source).waiting)
    assert table.source().output_type.schema.names == ["n", "text"]


@each_table
def test_a_table_that_is_not_there_is_an_error_that_says_how_it_is_made(lake: Lake, name: str) -> None:
    table = lake.table(name)
    for make in (lambda: table.sink().prepare(), lambda: table.source().output_type):
        with pytest.raises(InvalidProgramError, match=r"there is no .* table .*\(schema=\.\.\.\)"):
            make()


def test_arguments_that_mean_nothing_are_refused() -> None:
    naive = datetime.datetime(2024, 1, 1)
    for make in (
        lambda: DeltaSource("/t", version=1, after=1),
        lambda: DeltaSource("/t", timestamp=naive),
        lambda: DeltaSource("/t", after=-1),
        lambda: DeltaSource("/t", changes="ignore"),  # type: ignore[arg-type]
        lambda: DeltaSource("/t", monitor=0),
        lambda: IcebergSource("orders"),
        lambda: IcebergSource("shop.orders", snapshot_id=1, after=1),
        lambda: IcebergSource("shop.orders", timestamp=naive),
        lambda: IcebergSource("shop.orders", monitor=0),
    ):
        with pytest.raises(InvalidProgramError):
            make()


@pytest.mark.parametrize("info", ["null", '{"timestamp":null}', '{"timestamp":"2020"}', "{}"])
def test_a_version_that_says_no_time_has_that_of_its_file(tmp_path: Path, info: str) -> None:
    (tmp_path / "_delta_log").mkdir()
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    log.write_text(f'{{"protocol":{{}}}}\n{{"commitInfo":{info}}}\n')
    os.utime(log, (1_000, 1_000))
    system = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    assert _committed_at(system, 0) == datetime.datetime.fromtimestamp(1_000, UTC)
    assert _committed_at(system, 1) == _GONE
