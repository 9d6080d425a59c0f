"""Files as a source: formats, splits, and exact positions."""

from __future__ import annotations

import dataclasses
import datetime
import gzip
import io
import itertools
import json
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cloudpickle
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import flinkray.connectors.files.formats
import flinkray.connectors.files.source
from flinkray import (
    CsvFormat,
    DebeziumJsonFormat,
    FileSource,
    InvalidProgramError,
    JsonFormat,
    RecordError,
    Row,
    UnknownColumnError,
)
from flinkray.connectors.files.formats import TEXT_SCHEMA, CsvFiles, FileSplit, TextFiles, refuse_ambiguous
from flinkray.connectors.files.small_files import FileGroup
from flinkray.connectors.source import SourceBatch
from flinkray.types.records import Kind
from tests.support.api import FakeSubtaskContext, ThreadedRun, rows_of
from tests.support.files import FORMATS, TABLE, read, splits_of, table_of, write
from tests.support.versions import needs_arrow


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_is_read_as_it_was_written(tmp_path: Path, format: str) -> None:
    write(tmp_path / f"a.{format}", format)
    source = FileSource(tmp_path / f"a.{format}")
    batches = read(source)
    assert table_of(batches).to_pydict() == TABLE.to_pydict()
    assert max(batch.num_rows for batch in batches) == 8
    assert {batch.record_type for batch in batches} == {source.output_type}


def test_a_file_of_changes_is_one_split_and_its_rows_have_kinds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flinkray.connectors.files.formats, "_RANGE_BYTES", 50)
    changes: list[dict[str, Any]] = [{"op": "c", "before": None, "after": {"n": n}} for n in range(9)]
    changes += [{"op": "u", "before": {"n": 1}, "after": {"n": 10}}, {"op": "d", "before": {"n": 2}, "after": None}]
    lines = [*map(json.dumps, changes), "none"]
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "a.json").write_text("\n".join(lines))
    source = FileSource(tmp_path, DebeziumJsonFormat({"n": int}), partition_columns=["day"], bad_lines="skip")
    assert source.is_changelog
    assert len(splits_of(source)) == 1
    batches = read(source)
    found = [(kind, *row.values()) for each in batches for kind, row in
             zip(each.row_kinds.to_pylist(), each.data.to_pylist(), strict=True)]  # fmt: skip
    assert found == [*((0, n, "1") for n in range(9)), (1, 1, "1"), (2, 10, "1"), (3, 2, "1")]


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_only_the_fields_that_are_looked_at_are_read_and_the_others_are_null(tmp_path: Path, format: str) -> None:
    person = pa.struct({"name": pa.string(), "home": pa.struct({"city": pa.string(), "zip": pa.int64()})})
    ada, nobody = {"name": "Ada", "home": {"city": "Oslo", "zip": 1}}, {"name": None, "home": None}
    schema = pa.schema({"n": pa.int64(), "person": person, "more": pa.string()})
    first = pa.table({"n": [1, 2, 3], "person": [ada, None, nobody]}, schema=schema.remove(2))
    write(tmp_path / "a", format, first)
    write(tmp_path / "b", format, pa.table({"n": [4], "person": [ada], "more": ["x"]}, schema=schema))
    for fields, expected in (
        ({"person.home.zip"}, [None, {"name": None, "home": {"city": None, "zip": 1}}, None]),
        ({"n", "person.name"}, [4, {"name": "Ada", "home": None}, None]),
        ({"person", "more"}, [None, ada, "x"]),
    ):
        source = FileSource([tmp_path / "a", tmp_path / "b"], format, schema=schema).reading(frozenset(fields))
        assert source.output_type == FileSource(tmp_path / "b", format).output_type
        rows = table_of(read(source)).to_pylist()
        assert [list(row.values()) for row in rows][3] == expected
        assert [row["person"] is None for row in rows] == [False, True, False, False]
    assert table_of(read(source.reading(frozenset({"other"})))).num_rows == 4


def test_a_csv_field_is_null_where_it_is_empty_or_na_and_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('n,word\n1,\nNA,""\n3,NA\n4,"NA"\n')
    assert table_of(read(FileSource(tmp_path / "a.csv"))).to_pydict() == {
        "n": [1, None, 3, 4],
        "word": [None, "", None, "NA"],
    }


def test_a_decimal_of_csv_has_no_more_digits_than_its_type(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("d\n1.5\n12345\n")
    with pytest.raises(RecordError, match=r"a\.csv.*does not fit in precision of decimal128\(5, 2\)"):
        read(FileSource(tmp_path / "a.csv", schema=pa.schema({"d": pa.decimal128(5, 2)})))


@pytest.mark.parametrize("format", [*FORMATS, "text"])
def test_a_restored_reader_goes_on_with_the_next_row(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flinkray.connectors.files.formats, "_READ_BYTES", 100)
    write(tmp_path / "a", "json" if format == "text" else format)
    source = FileSource(tmp_path / "a", format=format)
    everything = rows_of(read(source))
    for position in (1, 4, 9):
        run = ThreadedRun(source.prepare(), FakeSubtaskContext(batch_rows=8), splits_of(source))
        before = [run.poll() for _ in range(position)]
        state = cloudpickle.loads(cloudpickle.dumps(run.reader.snapshot_state(1)))
        run.reader.close()
        after = read(source, state)
        assert rows_of([each.batch for each in before]) + rows_of(after) == everything  # type: ignore[union-attr]


@pytest.mark.parametrize("range_bytes", [1, 7, 50, 1000])
@pytest.mark.parametrize("read_bytes", [3, 64, 10_000])
def test_ranges_of_lines_cover_each_line_once(
    tmp_path: Path, range_bytes: int, read_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flinkray.connectors.files.formats, "_RANGE_BYTES", range_bytes)
    monkeypatch.setattr(flinkray.connectors.files.formats, "_READ_BYTES", read_bytes)
    lines = ["one", "", "three äöü", "x" * 40, "", "", "last"]
    for end in ("", "\n"):
        (tmp_path / "a.txt").write_text("\n".join(lines) + end)
        source = FileSource(tmp_path / "a.txt")
        splits = splits_of(source)
        assert len(splits) == -(-(tmp_path / "a.txt").stat().st_size // range_bytes)
        assert rows_of([batch for split in splits for batch in read(source, [split])]) == lines


def test_long_lines_are_read_once_however_often_the_reader_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restored reader's blocks are not those of the one before: the first may have fewer rows than were read."""
    monkeypatch.setattr(flinkray.connectors.files.formats, "_READ_BYTES", 64)
    lines = ["a" * 31, "b" * 120, *(f"{number:03}" for number in range(100))]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    (split,) = splits_of(FileSource(tmp_path / "a.txt"))
    found: list[str] = []
    while read_now := list(itertools.islice(TextFiles().read(split, TEXT_SCHEMA, 3), 2)):
        found += [line for piece, _ in read_now for line in piece.column(0).to_pylist()]
        split = read_now[-1][1]
    assert found == lines


@pytest.mark.parametrize("format", ["json", "csv"])
def test_a_row_may_be_longer_than_what_is_read_at_once(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flinkray.connectors.files.formats, "_READ_BYTES", 100)
    rows = [{"n": n, "text": "x\n" * length} for n, length in enumerate((2_000_000, 1, 2, 40, 3_000, 4))]
    write(tmp_path / "a", format, pa.Table.from_pylist(rows))
    for source in (FileSource(tmp_path / "a", format), FileSource(tmp_path / "a", format, {"n": int, "text": str})):
        assert table_of(read(source, batch_rows=2)).to_pylist() == rows


class Handled(bytes):
    """Bytes of a file, which count how many are searched, or copied to be put behind others."""

    count = 0

    def rfind(self, *args: Any) -> int:
        Handled.count += len(self)
        return super().rfind(*args)

    def __radd__(self, before: bytes) -> Handled:
        Handled.count += len(before) + len(self)
        return Handled(bytes(before) + bytes(self))


class OneLine(io.BytesIO):
    def __init__(self) -> None:
        super().__init__(b"x" * (64 << 10))

    def read(self, size: int | None = -1) -> bytes:
        return Handled(super().read(size))


def test_a_line_is_searched_once_however_many_blocks_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flinkray.connectors.files.formats, "_READ_BYTES", 64)
    monkeypatch.setattr(Handled, "count", 0)
    system: Any = SimpleNamespace(open_input_file=lambda _path: OneLine())
    ((line, _),) = TextFiles().read(FileSplit("a", "a.txt", system), TEXT_SCHEMA, 10)
    assert len(line.column(0)[0].as_py()) == 64 << 10
    assert 0 < Handled.count <= 2 * (64 << 10)


def test_a_byte_order_mark_is_no_part_of_a_line(tmp_path: Path) -> None:
    for format, text in (("text", "a\nb\n"), ("json", '{"n":1}\n'), ("csv", "n\n1\n")):
        (tmp_path / "marked").write_text(text, encoding="utf-8-sig")
        (tmp_path / "plain").write_text(text)
        marked = rows_of(read(FileSource(tmp_path / "marked", format)))
        assert marked == rows_of(read(FileSource(tmp_path / "plain", format)))
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbf")
    assert read(FileSource(tmp_path / "marked", "text")) == []


def test_windows_line_ends_are_no_part_of_a_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a\r\nb\r\n\r\nc")
    assert rows_of(read(FileSource(tmp_path / "a.txt"))) == ["a", "b", "", "c"]


def test_compressed_lines_are_one_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flinkray.connectors.files.formats, "_RANGE_BYTES", 10)
    monkeypatch.setattr(flinkray.connectors.files.formats, "_READ_BYTES", 20)
    with gzip.open(tmp_path / "a.json.gz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in TABLE.to_pylist())
    source = FileSource(tmp_path / "a.json.gz")
    (split,) = splits_of(source)
    assert table_of(read(source)).to_pydict() == TABLE.to_pydict()
    run = ThreadedRun(source.prepare(), FakeSubtaskContext(), [split])
    before = [run.poll(), run.poll()]
    rest = read(source, run.reader.snapshot_state(1))
    run.reader.close()
    assert rows_of([each.batch for each in before] + rest) == rows_of(read(source))  # type: ignore[union-attr]


@pytest.mark.parametrize("format", ["json", "csv"])
def test_what_was_compressed_with_brotli_is_decompressed(tmp_path: Path, format: str) -> None:
    write(tmp_path / "plain", format)
    with pa.CompressedOutputStream(str(tmp_path / f"a.{format}.br"), "brotli") as file:
        file.write((tmp_path / "plain").read_bytes())
    assert table_of(read(FileSource(tmp_path / f"a.{format}.br"))).to_pydict() == TABLE.to_pydict()


@pytest.mark.parametrize(("ending", "codec"), [("gz", "gzip"), ("bz2", "bz2"), ("zst", "zstd"), ("lz4", "lz4")])
def test_what_is_compressed_is_known_by_its_ending_in_either_case(tmp_path: Path, ending: str, codec: str) -> None:
    write(tmp_path / "plain", "csv")
    for name in (f"a.csv.{ending}", f"A.CSV.{ending.upper()}"):
        with pa.CompressedOutputStream(str(tmp_path / name), codec) as file:
            file.write((tmp_path / "plain").read_bytes())
        assert table_of(read(FileSource(tmp_path / name))).to_pydict() == TABLE.to_pydict()


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_large_row_groups_and_batches_are_splits_of_their_own(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flinkray.connectors.files.formats, "SPLIT_BYTES", 100)
    table = pa.table({"n": range(1000, 30_000)})
    write(tmp_path / "a", format, table)
    splits = splits_of(FileSource(tmp_path / "a", format))
    starts = [split.start for split in splits]
    assert [split.stop for split in splits] == [*starts[1:], 967]  # of 30 rows each
    assert (format == "parquet") == (len(splits) < 100)  # which has a larger footer than rows
    assert table_of(read(FileSource(tmp_path / "a", format))) == table


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_small_row_groups_and_batches_are_read_together(tmp_path: Path, format: str) -> None:
    table = pa.table({"n": range(3000), "word": pa.array(["a", None, "b"] * 1000).dictionary_encode()})
    with (
        pq.ParquetWriter(tmp_path / "a", table.schema)
        if format == "parquet"
        else pa.ipc.new_file(tmp_path / "a", table.schema)
    ) as writer:
        for row in range(2000):
            writer.write_table(table.slice(row, 1))
        writer.write_table(table.slice(2000))
    source = FileSource(tmp_path / "a", format)
    (split,) = splits_of(source)
    batches = read(source, [split], batch_rows=131_072)
    assert len(batches) < 5
    assert table_of(batches).to_pydict() == table.to_pydict()
    after = read(source, [dataclasses.replace(split, row=1500)])
    assert table_of(after).to_pydict() == table.slice(1500).to_pydict()


@needs_arrow(20, "reads indices of dictionaries as they were written")
def test_row_groups_whose_dictionaries_have_more_values_than_indices_stay_apart(tmp_path: Path) -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    words = [[f"w{number}" for number in range(first, first + 100)] for first in (0, 100, 200)]
    with pq.ParquetWriter(tmp_path / "a", pa.schema({"word": kind})) as writer:
        for some in words:
            writer.write_table(pa.table({"word": pa.array(some).dictionary_encode().cast(kind)}))
    source = FileSource(tmp_path / "a", "parquet")
    (split,) = splits_of(source)
    batches = read(source, [split], batch_rows=131_072)
    assert [batch.data.column(0).to_pylist() for batch in batches] == words
    after = read(source, [dataclasses.replace(split, row=150)], batch_rows=131_072)
    assert [batch.data.column(0).to_pylist() for batch in after] == [words[1][50:], words[2]]


@pytest.mark.parametrize("format", ["arrow", "json"])
def test_large_rows_are_not_put_together(tmp_path: Path, format: str) -> None:
    texts = ["x" * 300_000 if row < 30 else "y" for row in range(3000)]
    table = pa.table({"text": texts})
    if format == "arrow":
        with pa.ipc.new_file(tmp_path / "a", table.schema) as writer:
            writer.write_table(table, max_chunksize=1)
        batches = read(FileSource(tmp_path / "a", format), batch_rows=131_072)
    else:
        for row, text in enumerate(texts[:60]):
            write(tmp_path / f"{row:02}.json", format, pa.table({"text": [text]}))
        splits: list[Any] = splits_of(FileSource(tmp_path))
        files = [file for split in splits for file in getattr(split, "files", (split,))]
        one: Any = FileGroup("all", tuple(files))
        batches = read(FileSource(tmp_path), [one], batch_rows=131_072)
    assert table_of(batches).to_pydict() == {"text": texts if format == "arrow" else texts[:60]}
    assert max(batch.nbytes for batch in batches) < 2 << 20
    assert len(batches) < 40


class ReadAhead(io.BytesIO):
    """A file whose third block takes a second, or until the test is over; tells whether it was closed meanwhile."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self._blocks = 0
        self.is_over, self.is_closed_too_early = threading.Event(), False

    def read(self, size: int | None = -1) -> bytes:
        self._blocks += 1
        if self._blocks == 3:
            self.is_over.wait(1)
        return super().read(size)

    def close(self) -> None:
        self.is_closed_too_early |= not self.is_over.is_set()
        super().close()


def test_a_csv_file_is_not_closed_while_a_thread_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # That thread would read on in the file that is opened next: its descriptor is the same then.
    file = ReadAhead(b"a,b\n" + b"1,2\n" * 1000)
    monkeypatch.setattr(flinkray.connectors.files.formats, "_READ_BYTES", 100)
    monkeypatch.setattr(flinkray.connectors.files.formats, "open_stream", lambda *_: pa.PythonFile(file, "r"))
    try:
        assert CsvFiles().schema(fs.LocalFileSystem(), "a") == pa.schema({"a": pa.int64(), "b": pa.int64()})
        assert not file.is_closed_too_early
    finally:
        file.is_over.set()


def test_columns_and_schema_say_what_is_read(tmp_path: Path) -> None:
    for format in FORMATS:
        write(tmp_path / f"a.{format}", format)
        assert rows_of(read(FileSource(tmp_path / f"a.{format}", columns=["word"])))[1] == Row(word="w1")
        source = FileSource(tmp_path / f"a.{format}", schema={"n": float})
        assert rows_of(read(source))[1] == Row(n=1.0)
        with pytest.raises(UnknownColumnError, match="did you mean 'word'"):
            _ = FileSource(tmp_path / f"a.{format}", columns=["wrod"]).output_type


def test_a_column_that_begins_empty_is_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,\n2,\n")
    assert str(FileSource(tmp_path / "a.csv").output_type) == "row<a: int64, b: string>"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a.json": '{"n":null,"m":1}', "b.json": '{"m":2.5}', "c.json": '{"n":1.5}'}, "n: double, m: int64"),
        ({"a.json": '{"n":null}', "b.json": '{"n":{"a":1}}'}, "n: struct<a: int64>"),
        ({"a.json": '{"n":{"a":null}}', "b.json": '{"n":{"a":1}}'}, "n: struct<a: int64>"),
        ({"a.json": '{"n":[]}', "b.json": '{"n":[2]}'}, "n: list<item: int64>"),
        ({"a.json": '{"n":[]}', "b.json": '{"n":null}'}, "n: list<item: string>"),
        ({"a.csv": "n,m\n,1\n", "b.csv": "m,n\nx,2.5\n"}, "n: double, m: int64"),
        ({"a.csv": "n,m\n", "b.csv": "n,m\n1,true\n"}, "n: int64, m: bool"),
    ],
)  # fmt: skip
def test_a_column_without_a_value_has_its_type_from_the_next_file_that_shows_one(
    tmp_path: Path, files: dict[str, str], expected: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert str(FileSource(tmp_path).output_type) == f"row<{expected}>"


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_a_file_whose_column_has_no_type_does_not_say_that_of_the_others(tmp_path: Path, format: str) -> None:
    write(tmp_path / f"a.{format}", format, pa.table({"n": pa.nulls(1)}))
    assert str(FileSource(tmp_path).output_type) == "row<n: null>"
    write(tmp_path / f"b.{format}", format, pa.table({"n": [1]}))
    assert table_of(read(FileSource(tmp_path))).to_pydict() == {"n": [None, 1]}


@pytest.mark.parametrize(
    ("format", "empty", "value"), [("json", '{"n":null}\n', '{"n":1}\n'), ("csv", "1,\n", "1,2\n")]
)
def test_a_column_without_a_value_has_its_type_from_further_in_the_file(
    tmp_path: Path, format: str, empty: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flinkray.connectors.files.formats, "_READ_BYTES", 100)
    (tmp_path / "a").write_text(("m,n\n" if format == "csv" else "") + empty * 1000 + value)
    source = FileSource(tmp_path / "a", format, columns=["n"])
    assert str(source.output_type) == "row<n: int64>"
    assert table_of(read(source)).column("n").null_count == 1000


def test_a_type_that_no_file_has_shown_is_text_and_a_schema_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flinkray.connectors.files.source, "_FILES_LOOKED_THROUGH", 2)
    for name, text in (("a", '{"n":null}'), ("b", '{"n":null}'), ("c", '{"n":1}')):
        (tmp_path / f"{name}.json").write_text(text)
    assert table_of(read(FileSource(tmp_path))).to_pydict() == {"n": [None, None, "1"]}
    assert table_of(read(FileSource(tmp_path, schema={"n": int}))).to_pydict() == {"n": [None, None, 1]}


def test_the_error_of_a_value_that_does_not_fit_what_files_have_shown_says_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flinkray.connectors.files.source, "_FILES_LOOKED_THROUGH", 1)
    for name, text in (("a", '{"n":1}'), ("b", '{"n":"x"}')):
        (tmp_path / f"{name}.json").write_text(text)
    with pytest.raises(
        RecordError, match=r"b\.json as n: int64: .*Column\(/n\) changed from number to string.*set schema="
    ):
        read(FileSource(tmp_path))


@pytest.mark.parametrize("empty", ["before", "z-behind", "before.gz", "z-behind.gz"])
@pytest.mark.parametrize("format", ["csv", "json", "text"])
def test_an_empty_file_among_others_has_no_rows(tmp_path: Path, format: str, empty: str) -> None:
    (tmp_path / "file").write_text({"csv": "n\n1\n", "json": '{"n": 1}\n', "text": "1\n"}[format])
    (tmp_path / empty).write_bytes(gzip.compress(b"") if empty.endswith(".gz") else b"")
    assert sum(batch.num_rows for batch in read(FileSource(tmp_path, format=format))) == 1


@pytest.mark.parametrize("format", ["csv", "json"])
def test_where_all_files_are_empty_the_columns_must_be_said(tmp_path: Path, format: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidProgramError, match="says nothing about its columns; set schema="):
        _ = FileSource(tmp_path, format=format).output_type
    assert read(FileSource(tmp_path, format=format, schema={"n": int})) == []


def test_a_quoted_line_break_is_part_of_a_csv_value(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('a;b\n1;"x\ny"\n')
    assert rows_of(read(FileSource(tmp_path / "a.csv", delimiter=";"))) == [Row(a=1, b="x\ny")]


def test_a_csv_column_that_is_there_twice_is_refused_where_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b,a\n1,2,3\n")
    with pytest.raises(InvalidProgramError, match=r"cannot read .*/a\.csv: several columns are called 'a'"):
        _ = FileSource(tmp_path / "a.csv").output_type
    assert rows_of(read(FileSource(tmp_path / "a.csv", columns=["b"]))) == [Row(b=2)]
    (tmp_path / "0.csv").write_text("a,b\n1,2\n")
    (tmp_path / "a.csv").write_text('\n"a",b,"a"\n1,2,3\n')
    with pytest.raises(RecordError, match=r"cannot read .*/a\.csv as .*several columns are called 'a'"):
        read(FileSource(tmp_path))
    assert rows_of(read(FileSource(tmp_path, schema={"b": int}))) == [Row(b=2), Row(b=2)]


def test_what_is_no_utf_8_names_the_file_before_the_job_runs(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes('{"é": 1}\n'.encode("latin-1"))
    with pytest.raises(InvalidProgramError, match=r"cannot read .*/a\.json: 'utf-8' codec can't decode"):
        _ = FileSource(tmp_path / "a.json").output_type


@pytest.mark.parametrize(
    ("format", "first", "second"),
    [("text", "a\n", "é\n"), ("json", '{"n":"a"}\n', '{"n":"é"}\n'), ("csv", "n\na\n", "n\né\n")],
)
def test_values_that_are_no_utf_8_name_the_file(tmp_path: Path, format: str, first: str, second: str) -> None:
    (tmp_path / "a").write_text(first)
    (tmp_path / "b").write_bytes(second.encode("latin-1"))
    with pytest.raises(RecordError, match=r"'Source: test' \(subtask 1 of 1\): cannot read .*/b.*(UTF-8|UTF8)"):
        read(FileSource(tmp_path, format))


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_that_has_gone_since_the_job_was_submitted_is_named(tmp_path: Path, format: str) -> None:
    write(tmp_path / "a", format)
    source = FileSource(tmp_path / "a", format)
    splits, prepared = splits_of(source), source.prepare()
    (tmp_path / "a").unlink()
    run = ThreadedRun(prepared, FakeSubtaskContext(), splits)
    with pytest.raises(RecordError, match=r"cannot read .*/a: it was there when the job was submitted"):
        run.poll()
    run.reader.close()


@pytest.mark.parametrize("format", ["parquet", "arrow", "orc"])
def test_a_damaged_file_among_others_is_named_when_the_job_is_submitted(tmp_path: Path, format: str) -> None:
    write(tmp_path / "a", format)
    (tmp_path / "b").write_text("x" * 100)
    with pytest.raises(InvalidProgramError, match=r"cannot read .*/b: "):
        FileSource(tmp_path, format).prepare()


def test_a_damaged_file_of_avro_is_named_where_it_is_read(tmp_path: Path) -> None:
    write(tmp_path / "a", "avro")
    whole = (tmp_path / "a").read_bytes()
    for number, damaged in enumerate((b"x" * 100, whole[:30], whole[:-5], whole[:-40] + b"x" * 40)):
        (tmp_path / f"{number}").write_bytes(damaged)
        with pytest.raises(RecordError, match=rf"cannot read .*/{number} as .*: (it does not|a block behind)"):
            read(FileSource(tmp_path / f"{number}", "avro", schema=TABLE.schema))
    with pytest.raises(InvalidProgramError, match=r"cannot read .*/0: it does not begin as Avro files do"):
        _ = FileSource(tmp_path / "0", "avro").output_type


@pytest.mark.parametrize("delimiter", ["", "||", "\n", '"', "é"])
def test_a_delimiter_is_one_character(tmp_path: Path, delimiter: str) -> None:
    write(tmp_path / "a.csv", "csv")
    with pytest.raises(InvalidProgramError, match=r"delimiter=.* is one ASCII character.* not "):
        _ = FileSource(tmp_path / "a.csv", delimiter=delimiter).output_type


def test_what_cannot_be_read_names_operator_file_and_way_out(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    (tmp_path / "b.csv").write_text("a\nx\n")
    with pytest.raises(
        RecordError, match=r"operator 'Source: test' \(subtask 1 of 1\): cannot read .*b.csv.*set schema="
    ):
        read(FileSource(tmp_path))
    pq.write_table(pa.table({"a": [1.5]}), tmp_path / "c.parquet")
    with pytest.raises(RecordError, match=r"c\.parquet as a: int64: column 'a' is double there: .*set schema="):
        read(FileSource(tmp_path / "c.parquet", schema={"a": int}))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"paths": []}, "at least one path"),
        ({"paths": "x.csv", "format": "cvs"}, "did you mean 'csv'"),
        ({"paths": "/nowhere/x.csv"}, "there is no file at '/nowhere/x.csv'"),
        ({"paths": "nosuch://x/y.csv"}, "no filesystem for"),
    ],
)
def test_wrong_file_sources(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        _ = FileSource(**arguments).output_type


def test_a_name_without_a_known_ending_needs_a_format(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a\n")
    with pytest.raises(InvalidProgramError, match="set format="):
        _ = FileSource(tmp_path / "data").output_type
    assert rows_of(read(FileSource(tmp_path / "data", format="text"))) == ["a"]


def test_closing_a_reader_ends_its_thread(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", "parquet")
    source = FileSource(tmp_path / "a.parquet")
    run = ThreadedRun(source.prepare(), FakeSubtaskContext(batch_rows=1), splits_of(source))
    assert isinstance(run.poll(), SourceBatch)
    run.reader.close()
    assert [thread for thread in threading.enumerate() if thread.name.startswith("read ")] == []


def test_a_reader_holds_no_batch_that_it_has_given(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", "parquet")
    source = FileSource(tmp_path / "a.parquet")
    run = ThreadedRun(source.prepare(), FakeSubtaskContext(batch_rows=1), splits_of(source))
    found = run.poll()
    assert isinstance(found, SourceBatch)
    given = weakref.ref(found.batch.data)
    del found
    assert given() is None
    run.reader.close()


def test_lines_of_text_are_scalars(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x y\n")
    source = FileSource(tmp_path / "a.txt")
    assert source.output_type is not None
    assert source.output_type.kind is Kind.SCALAR


def test_names_of_many_columns_are_compared_once_each() -> None:
    class Name(str):
        compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            Name.compared += 1
            return str.__eq__(self, other)

    names = [Name(f"c{number}") for number in range(500)]
    refuse_ambiguous(names, [str(name) for name in names])
    assert Name.compared < 5_000
    with pytest.raises(ValueError, match="several columns are called 'c7'"):
        refuse_ambiguous([*names, "c7"], ["c1", "c7"])


def test_the_files_are_listed_once_for_the_format_the_columns_and_the_splits_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a.csv", "csv")
    listings, list_files = [], flinkray.connectors.files.source.list_files

    def counted(paths: Any, *more: Any) -> Any:
        listings.append(paths)
        return list_files(paths, *more)

    monkeypatch.setattr(flinkray.connectors.files.source, "list_files", counted)
    source = FileSource(tmp_path)
    types = [source.output_type for _ in range(10)]
    assert source.prepare().output_type == types[0]
    assert len(listings) == 3


def write_both(tmp_path: Path, format: str) -> Path:
    """Two files, of which the first lacks the column `word`, and the second has one more."""
    write(tmp_path / f"1.{format}", format, pa.table({"n": [1]}))
    write(tmp_path / f"2.{format}", format, pa.table({"more": [0], "word": ["x"], "n": [2]}))
    return tmp_path


@pytest.mark.parametrize("format", FORMATS)
def test_a_column_that_a_file_lacks_is_null_and_what_else_it_has_is_not_read(tmp_path: Path, format: str) -> None:
    place = write_both(tmp_path, format)
    schema = pa.schema([("n", pa.int64()), ("word", pa.string())])
    batches = read(FileSource(place, format, schema))
    assert rows_of(batches) == [Row(n=1, word=None), Row(n=2, word="x")]
    assert {batch.data.schema for batch in batches} == {schema}
    assert rows_of(read(FileSource(place, format, schema, columns=["word"]))) == [Row(word=None), Row(word="x")]
    assert rows_of(read(FileSource(place, format))) == [Row(n=1), Row(n=2)]
    newest_first = FileSource([place / f"2.{format}", place / f"1.{format}"], columns=["n", "word"])
    assert rows_of(read(newest_first)) == [Row(n=2, word="x"), Row(n=1, word=None)]


@pytest.mark.parametrize("format", FORMATS)
def test_missing_columns_may_have_any_type(tmp_path: Path, format: str) -> None:
    write(tmp_path / f"1.{format}", format, pa.table({"n": [1]}))
    types = {"n": pa.int64(), "d": pa.dictionary(pa.int8(), pa.string()), "l": pa.list_(pa.int8()), "u": pa.uuid()}
    assert table_of(read(FileSource(tmp_path, format, pa.schema(types)))).to_pylist() == [
        {"n": 1, "d": None, "l": None, "u": None}
    ]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("word", [None, pa.nulls(1, pa.string())], ids=["missing", "null"])
def test_a_column_that_must_not_be_null_has_to_have_values(tmp_path: Path, format: str, word: pa.Array | None) -> None:
    write(tmp_path / f"1.{format}", format, pa.table({"n": [1]} if word is None else {"n": [1], "word": word}))
    schema = pa.schema([("n", pa.int64()), pa.field("word", pa.string(), nullable=False)])
    with pytest.raises(
        RecordError, match=r"column 'word' is null or not there, and .* leave out its nullable=False"
    ) as e:
        read(FileSource(tmp_path, format, schema))
    assert "set schema=" not in str(e.value)


@pytest.mark.parametrize("format", ["parquet", "csv", "arrow"])
def test_a_file_without_any_of_the_columns_is_refused(tmp_path: Path, format: str) -> None:
    write(tmp_path / f"1.{format}", format, pa.table({"N;WORD": [1]}))
    with pytest.raises(RecordError, match=r"none of these columns is there, and the first column is 'N;WORD'"):
        read(FileSource(tmp_path, format, {"n": int, "word": str}))


def test_the_log_says_once_which_column_a_file_lacks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in (1, 2):
        write(tmp_path / f"{number}.parquet", "parquet", pa.table({"n": [number]}))
    read(FileSource(tmp_path, schema={"n": int, "wrod": str}))
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "1.parquet has no column 'wrod', so it is null" in said[0]


def test_the_way_out_of_a_type_that_does_not_fit_works(tmp_path: Path) -> None:
    for number, values in enumerate([[1], ["x"]]):
        pq.write_table(pa.table({"a": values}), tmp_path / f"{number}.parquet")
    with pytest.raises(RecordError, match=r"1\.parquet as a: int64: column 'a' is string there: .*; .*set schema=$"):
        read(FileSource(tmp_path))
    assert rows_of(read(FileSource(tmp_path, schema={"a": str}))) == [Row(a="1"), Row(a="x")]


def test_json_text_that_looks_like_a_date_is_text_unless_a_schema_says_otherwise(tmp_path: Path) -> None:
    day, moment = "2020-01-01", "2020-01-01T10:00:00Z"
    rows = [{"a": day, "b": [moment], "c": {"d": day}}, {"a": "hello", "b": ["x"], "c": {"d": "y"}}]
    (tmp_path / "1.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert table_of(read(FileSource(tmp_path))).to_pylist() == rows
    (tmp_path / "2.json").write_text(json.dumps({"a": moment, "t": day}) + "\n")
    schema = pa.schema({"a": pa.timestamp("us", "UTC"), "t": pa.date32()})
    assert table_of(read(FileSource(tmp_path / "2.json", schema=schema))).to_pylist() == [
        {"a": datetime.datetime(2020, 1, 1, 10, tzinfo=datetime.UTC), "t": datetime.date(2020, 1, 1)}
    ]


@pytest.mark.parametrize("schema", [None, {"n": int, "t": str}])
def test_a_line_of_json_may_be_an_array_of_rows(tmp_path: Path, schema: Any) -> None:
    (tmp_path / "a.json").write_text('[{"n":1,"t":"x"},{"n":2},null]\n{"n":3,"t":"["}\n[]\n[{"n":4}]')
    assert FileSource(tmp_path, schema=schema).read_all().to_pylist() == [
        {"n": 1, "t": "x"},
        {"n": 2, "t": None},
        {"n": 3, "t": "["},
        {"n": 4, "t": None},
    ]
    lines = FileSource(tmp_path / "a.json", JsonFormat({"n": int, "t": str})).read_all()
    assert lines.column("n").to_pylist() == [1, 2, 3, 4]


def test_an_array_that_goes_on_in_the_next_line_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[\n\t{"n":1},\n\t{"n":2}\n]\n')
    for schema in (None, {"n": int}):
        with pytest.raises(
            (InvalidProgramError, RecordError), match="an array is on one line, and this one is not: b'\\['"
        ):
            FileSource(tmp_path, schema=schema).read_all()
    # Objects on several lines are read as before, though lists in them begin a line.
    (tmp_path / "a.json").write_text('{"n":\n[\n1\n]\n}\n')
    assert FileSource(tmp_path).read_all().to_pylist() == [{"n": [1]}]


@pytest.mark.parametrize("charset", ["utf-16-le", "utf-16-be"])
def test_lines_of_utf_16_are_said_to_be_such(tmp_path: Path, charset: str) -> None:
    (tmp_path / "a.json").write_bytes('\ufeff{"n":1}\n'.encode(charset))
    for schema in (None, {"n": int}):
        with pytest.raises((InvalidProgramError, RecordError), match=r"a\.json.*: it is text of UTF-16.*; convert it"):
            FileSource(tmp_path, schema=schema).read_all()


@pytest.mark.parametrize(
    ("name", "charset", "text", "options"),
    [
        ("a.csv", "ISO-8859-1", "n;é\n1;ü\n", {"delimiter": ";"}),
        ("a.csv", "utf-16", "n\té\n1\tü\n", {"delimiter": "\t"}),
        ("a.json", "windows-1252", '{"n":1,"é":"ü"}\n', {}),
        ("a", "cp850", "1,ü", {"format": CsvFormat({"n": int, "é": str})}),
        ("a", "GBK", '{"n":1,"é":"ü"}\n', {"format": JsonFormat({"n": int, "é": str})}),
    ],
)
def test_text_is_read_in_its_charset(
    name: str, charset: str, text: str, options: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(text.encode(charset))
    source = FileSource(tmp_path / name, charset=charset, **options)
    assert table_of(read(source)).to_pylist() == [{"n": 1, "é": "ü"}]


def test_lines_keep_their_charset_and_their_places(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("é\n\nü".encode("latin-1"))
    (tmp_path / "a.parquet").write_bytes(b"")
    source = cloudpickle.loads(cloudpickle.dumps(FileSource(tmp_path / "a.txt", charset="latin1").prepare()))
    assert source.read_all().column("value").to_pylist() == ["é", "", "ü"]
    for charset, name, words in (
        ("nope", "a.txt", "there is no charset 'nope'"),
        ("utf-16", "a.txt", "lines of utf-16 are not told apart by bytes"),
        ("latin-1", "a.parquet", "charset=...\\) is for csv, json, text"),
    ):
        with pytest.raises(InvalidProgramError, match=words):
            FileSource(tmp_path / name, charset=charset).prepare()
    with pytest.raises(RecordError, match=r"a\.txt: 'ascii' codec can't decode byte 0xe9"):
        FileSource(tmp_path / "a.txt", charset="ascii").read_all()


@pytest.mark.parametrize("text", ["[]\n", "[null]", "\n[]\n[null]\n\n"])
def test_arrays_without_a_row_are_no_rows(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flinkray.connectors.files.formats, "_READ_BYTES", 5)
    (tmp_path / "a.json").write_text(text)
    assert FileSource(tmp_path, schema={"n": int}).read_all().num_rows == 0
    with pytest.raises(InvalidProgramError, match="empty"):
        FileSource(tmp_path).read_all()
    (tmp_path / "a.json").write_text(text + '\n[{"n":1}]\n' + text)
    for schema in (None, {"n": int}):
        assert FileSource(tmp_path, schema=schema).read_all().to_pylist() == [{"n": 1}]


def test_the_error_of_an_object_on_several_lines_is_not_that_of_an_array(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"n":\n[1,\n2],"t":x}\n')
    with pytest.raises(RecordError) as raised:
        FileSource(tmp_path, schema={"n": list[int]}).read_all()
    assert "array is on one line" not in str(raised.value)


def test_utf_8_with_a_mark_is_utf_8_and_what_is_no_charset_of_text_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("é\nü\n".encode("utf-8-sig"))
    assert FileSource(tmp_path, "text", charset="utf-8-sig").read_all().column(0).to_pylist() == ["é", "ü"]
    with pytest.raises(InvalidProgramError, match="there is no charset 'rot13'"):
        FileSource(tmp_path, "text", charset="rot13")
