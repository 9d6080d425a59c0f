"""What goes wrong with connectors without a server, as docs/connectors/errors.md lists it."""

from __future__ import annotations

import contextlib
import errno
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.user_code.errors import NO_VALUE, raise_attributed
from flinkray import (
    AvroFormat,
    CanalJsonFormat,
    ConnectorError,
    CsvFormat,
    DebeziumJsonFormat,
    FileSink,
    FileSource,
    JsonFormat,
    MaxwellJsonFormat,
    OggJsonFormat,
    ProtobufFormat,
    RawFormat,
    RecordError,
    SchemaRegistry,
)
from flinkray.batches.batch import Batch
from flinkray.connectors import fetcher
from flinkray.connectors.fetcher import Patience
from flinkray.connectors.files.monitoring import FileMonitor
from flinkray.connectors.files.paths import FoundFile
from flinkray.connectors.formats.message_format import MessageFormat, decode_each, first_refused
from tests.support.api import Assignments, FakeSubtaskContext
from tests.support.bad_cases import check, committed, enumerated, listed, polled, written
from tests.support.commits import requests_of
from tests.support.lake import DeltaTable, IcebergTable, LakeTable
from tests.support.operators import as_batch


def test_the_page_has_sixty_cases_and_more_and_each_says_something() -> None:
    pages = listed()
    assert sum(map(len, pages.values())) > 60
    assert all(seen for section in pages.values() for seen in section.values())


# -- formats


def decoded(message_format: MessageFormat, message: bytes) -> None:
    """A message is read as the source of a job does: what cannot be is an error with its reason."""
    found = decode_each(message_format, pa.array([message], pa.large_binary()))
    for failure in found.failures:
        raise RecordError(failure.reason)


def encoded(message_format: MessageFormat, rows: dict[str, list[Any]]) -> None:
    try:
        message_format.encode(pa.RecordBatch.from_pydict(rows))
    except ValueError as error:
        raise RecordError(str(error)) from error


AVRO = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}


def test_formats() -> None:
    ints = {"n": int}
    timestamp = ProtobufFormat("google.protobuf.timestamp_pb2.Timestamp")
    registry = SchemaRegistry("http://127.0.0.1:1")
    check(
        "Formats of messages",
        {
            "no JSON": lambda: decoded(JsonFormat(ints), b"x"),
            "another type in JSON": lambda: decoded(JsonFormat(ints), b'{"n":"x"}'),
            "a number in JSON that is too large": lambda: decoded(JsonFormat({"n": pa.int32()}), b'{"n":3000000000}'),
            "more fields in CSV": lambda: decoded(CsvFormat(ints), b"1,2"),
            "another type in CSV": lambda: decoded(CsvFormat(ints), b"x"),
            "text that is not UTF-8": lambda: decoded(RawFormat(), b"\xff\xfe"),
            "an Avro record that ends too early": lambda: decoded(AvroFormat(AVRO), b""),
            "an Avro record with more behind it": lambda: decoded(AvroFormat(AVRO), b"\x02\x02"),
            "an Avro record without the number of its schema": lambda: decoded(
                AvroFormat(AVRO, registry=registry), b"\x02"
            ),
            "a registry that does not answer": lambda: decoded(AvroFormat(AVRO, registry=registry), b"\0\0\0\0\1\2"),
            "a row that does not fit its Avro schema": lambda: encoded(AvroFormat(AVRO), {"n": ["x"]}),
            "no protobuf message": lambda: decoded(timestamp, b"\xff\xff"),
            "a row that is no protobuf message": lambda: encoded(timestamp, {"seconds": ["x"], "nanos": [1]}),
            "no change of Debezium's": lambda: decoded(DebeziumJsonFormat(ints), b'{"n":1}'),
            "an update of Debezium's without the row before": lambda: decoded(
                DebeziumJsonFormat(ints), b'{"op":"u","after":{"n":1}}'
            ),
            "no change of Canal's": lambda: decoded(CanalJsonFormat(ints), b'{"n":1}'),
            "no change of Maxwell's": lambda: decoded(MaxwellJsonFormat(ints), b'{"n":1}'),
            "no change of OGG's": lambda: decoded(OggJsonFormat(ints), b'{"n":1}'),
            "a column that is not there": lambda: encoded(JsonFormat({"m": int}), {"n": [1]}),
        },
    )


# -- files


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher, "AWAY_S", 0.0)

    def file(name: str, content: bytes) -> Path:
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    def read(path: Path, *arguments: Any, changed: bytes | None = None, **given: Any) -> Any:
        source = FileSource(path, *arguments, **given).prepare()
        if changed is not None:
            path.write_bytes(changed)
        assignments = Assignments()
        enumerator = source.create_enumerator(assignments)
        enumerator.start()
        enumerator.handle_split_request(0)
        return polled(source, assignments.assigned[0])

    def gone() -> Any:
        source = FileSource(file("gone.csv", b"n\n1\n")).prepare()
        assignments = Assignments()
        enumerator = source.create_enumerator(assignments)
        enumerator.handle_split_request(0)
        (tmp_path / "gone.csv").unlink()
        return polled(source, assignments.assigned[0])

    def unlisted() -> None:
        def place() -> list[FoundFile]:
            raise OSError(errno.EIO, "the disk is gone")

        FileMonitor(Assignments(), [place], lambda _: None, 10).start()

    def full() -> None:
        sink = FileSink(tmp_path / "full", "json").prepare()
        writer: Any = sink.create_writer(FakeSubtaskContext())

        def refuse(*_: Any, **__: Any) -> None:
            raise OSError(errno.ENOSPC, "Error writing bytes to file")

        monkeypatch.setattr(writer, "_new_file", refuse)
        writer.write(batch_of_numbers())

    def committed_away() -> None:
        sink = FileSink(tmp_path / "lost", "json").prepare()
        writer = sink.create_writer(FakeSubtaskContext())
        writer.write(batch_of_numbers())
        prepared = writer.prepare_commit(1)
        shutil.rmtree(tmp_path / "lost")
        committer = sink.create_committer()
        assert committer is not None
        committer.commit(requests_of(prepared))

    table = pa.table({"n": [1, 2]})
    pq.write_table(table, tmp_path / "n.parquet")
    whole = (tmp_path / "n.parquet").read_bytes()
    check(
        "Files",
        {
            "no file": lambda: FileSource(tmp_path / "absent.csv").prepare(),
            "a format that the name does not tell": lambda: FileSource(file("data", b"n\n1\n")).prepare(),
            "a file that is gone": gone,
            "another type in CSV": lambda: read(file("a.csv", b"n\n1\nx\n"), schema={"n": int}),
            "another type in JSON": lambda: read(file("a.json", b'{"n":1}\n{"n":"x"}\n'), schema={"n": int}),
            "lines that are no JSON": lambda: read(file("b.json", b'{"n":1}\nx\n'), schema={"n": int}),
            "text that is not UTF-8": lambda: read(file("a.txt", b"\xff\xff\n")),
            "a Parquet file that is broken": lambda: FileSource(file("broken.parquet", b"PAR1 no")).prepare(),
            "a file that is cut off while it is read": lambda: read(file("c.parquet", whole), changed=whole[:20]),
            "other columns": lambda: read(file("o.csv", b"m\n1\n"), schema={"n": int}),
            "a directory that cannot be listed": unlisted,
            "a bucket or disk that is unknown": lambda: FileSource("nothing://bucket/x.csv").prepare(),
            "a directory that is a file": lambda: written(FileSink(file("is-file", b""), "json"), {"n": [1]}),
            "a full disk": full,
            "a column that the format cannot hold": lambda: written(FileSink(tmp_path / "csv", "csv"), {"n": [[1]]}),
            "a file that is gone before it is committed": committed_away,
        },
    )


def batch_of_numbers() -> Batch:
    return as_batch({"n": [1]})


# -- tables of lakes


TYPES = {"n": int, "word": str}


@pytest.mark.parametrize("kind", [DeltaTable, IcebergTable])
def test_tables_of_lakes(kind: type[LakeTable], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher, "AWAY_S", 0.0)
    tables: list[LakeTable] = []

    def table(name: str, *rows: int) -> Any:
        directory = tmp_path / name
        directory.mkdir()
        made: Any = kind(directory)
        tables.append(made)
        if rows:
            committed(made.sink(schema=TYPES), {"n": list(rows), "word": ["w"] * len(rows)})
        return made

    def splits(source: Any) -> list[Any]:
        assignments = Assignments()
        enumerator = source.create_enumerator(assignments)
        with contextlib.closing(enumerator):
            enumerator.start()
            enumerator.handle_split_request(0)
        return assignments.assigned[0]

    def file_lost() -> Any:
        for path in existing.data_files:
            path.unlink()
        return polled(existing.source(), of_existing)

    def file_broken() -> Any:
        for path in existing.data_files:
            path.write_bytes(b"PAR1 no")
        return polled(existing.source(), of_existing)

    def away() -> None:
        context = FakeSubtaskContext()
        enumerator = existing.source(monitor=10).create_enumerator(Watching(context))
        with contextlib.closing(enumerator):
            enumerator.start()

            def refuse(*_: Any) -> None:
                raise OSError("the store is away")

            monkeypatch.setattr(enumerator._log, "after", refuse)
            context.advance(20)

    def conflict() -> None:
        sink = existing.sink().prepare()
        committer = sink.create_global_committer()

        def refuse(*_: Any) -> None:
            raise OSError("the store is away")

        monkeypatch.setattr(type(committer), "last_checkpoint", refuse)
        committed(sink, {"n": [1], "word": ["w"]})

    existing = table("existing", 1)
    of_existing = splits(existing.source())
    try:
        check(
            f"{kind.package.removeprefix('py').capitalize().removesuffix('lake')}",
            {
                "a table that is not there": lambda: table("absent").sink().prepare(),
                "a column that the table has not": lambda: written(existing.sink(), {"n": [1], "more": [1]}),
                "a column of another type": lambda: written(existing.sink(), {"n": ["x"], "word": ["w"]}),
                "other partitions than the table has": lambda: existing.sink(
                    schema=TYPES, partition_by=["word"]
                ).prepare(),
                "a column to read that the table has not": lambda: existing.source(columns=["m"]).output_type,
                "a version or snapshot that is not there": lambda: enumerated(
                    existing.source(**{("version" if kind is DeltaTable else "snapshot_id"): 99})
                ),
                "a table that is away while it is watched": away,
                "a store that is away at a commit": conflict,
                "a file that is broken": file_broken,
                "a file that is gone": file_lost,
            },
        )
    finally:
        for each in tables:
            each.close()


class Watching(Assignments):
    """Has the timers of a context whose clock the test sets."""

    def __init__(self, context: FakeSubtaskContext) -> None:
        super().__init__()
        self.call_later = context.call_later
        self.now_ms = context.now_ms  # type: ignore[method-assign]


# -- what all have in common


def test_an_error_of_ours_names_its_operator_once_on_its_way_out() -> None:
    for error, expected in (
        (ConnectorError("it is away"), "operator 'orders' (subtask 2 of 4): it is away"),
        (ConnectorError("operator 'other': it is away"), "operator 'other': it is away"),
    ):
        for _ in range(2):
            with pytest.raises(ConnectorError) as caught:
                raise_attributed("orders", "2 of 4", NO_VALUE, error)
            assert str(caught.value) == expected


def test_a_system_is_asked_again_for_a_while_which_is_counted_and_anew_after_an_answer() -> None:
    now, counts = [0.0], FakeSubtaskContext()
    patience = Patience(counts.count, lambda: now[0])
    answers = []
    for now[0] in (0.0, fetcher.AWAY_S - 1, fetcher.AWAY_S):
        answers.append(patience.asks_again())
    patience.answered()
    answers.append(patience.asks_again())
    assert answers == [True, True, False, True]
    assert counts.counts == {"reads_retried": 3}


def test_of_many_messages_the_first_that_cannot_be_read_is_found() -> None:
    def decode(messages: Any) -> None:
        if bad := [each for each in messages if each < 0]:
            raise ValueError(f"{bad[0]} is negative")

    for place in (0, 1, 6, 12):
        messages = [number if number < place else -number - 1 for number in range(13)]
        assert first_refused(messages, decode) == (-place - 1, f"{-place - 1} is negative")
