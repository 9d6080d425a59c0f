"""Files as source and sink: formats, splits, exact positions, and what is visible when."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import fnmatch
import gzip
import io
import itertools
import json
import re
import threading
import weakref
import zoneinfo
from collections.abc import Callable
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
    FileSink,
    FileSource,
    FlinkrayError,
    InvalidProgramError,
    RecordError,
    Row,
    TypeMismatchError,
    UnknownColumnError,
)
from flinkray.batches.batch import Batch
from flinkray.connectors.coalescing import coalesced
from flinkray.connectors.files import paths as file_paths
from flinkray.connectors.files.commits import FileCommitter
from flinkray.connectors.files.formats import TEXT_SCHEMA, CsvFormat, FileSplit, TextFormat, refuse_ambiguous
from flinkray.connectors.files.groups import FileGroup, grouped
from flinkray.connectors.formats.json_lines import from_json_lines, to_json_lines
from flinkray.connectors.source import SourceBatch
from flinkray.types.records import Kind
from tests.support.api import Assignments, FakeSubtaskContext, ThreadedRun, batch_of, rows_of
from tests.support.versions import arrow_array, needs_arrow

TABLE = pa.table({"n": list(range(100)), "word": [f"w{n}" if n % 7 else None for n in range(100)]})
FORMATS = ["parquet", "csv", "json", "arrow"]


def write(path: Path, format: str, table: pa.Table = TABLE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if format == "parquet":
        pq.write_table(table, path, row_group_size=30)
    elif format == "csv":
        pyarrow.csv.write_csv(table, path)
    elif format == "json":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=30)


def splits_of(source: FileSource) -> list[FileSplit]:
    assignments = Assignments()
    enumerator = source.prepare().create_enumerator(assignments)
    while not assignments.ended:
        enumerator.handle_split_request(0)
    return assignments.assigned.get(0, [])


def read(source: FileSource, splits: list[FileSplit] | None = None, batch_rows: int = 8) -> list[Batch]:
    shipped = cloudpickle.loads(cloudpickle.dumps(source.prepare()))
    run = ThreadedRun(
        shipped, FakeSubtaskContext(batch_rows=batch_rows), splits_of(source) if splits is None else splits
    )
    batches = []
    while isinstance(polled := run.poll(), SourceBatch):
        batches.append(polled.batch)
    run.reader.close()
    return batches


def table_of(batches: list[Batch]) -> pa.Table:
    return pa.Table.from_batches([batch.data for batch in batches])


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_is_read_as_it_was_written(tmp_path: Path, format: str) -> None:
    write(tmp_path / f"a.{format}", format)
    source = FileSource(tmp_path / f"a.{format}")
    batches = read(source)
    assert table_of(batches).to_pydict() == TABLE.to_pydict()
    assert max(batch.num_rows for batch in batches) == 8
    assert {batch.record_type for batch in batches} == {source.output_type}


def test_a_csv_field_is_null_where_it_is_empty_or_na_and_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('n,word\n1,\nNA,""\n3,NA\n4,"NA"\n')
    assert table_of(read(FileSource(tmp_path / "a.csv"))).to_pydict() == {
        "n": [1, None, 3, 4],
        "word": [None, "", None, "NA"],
    }


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
    while read_now := list(itertools.islice(TextFormat().read(split, TEXT_SCHEMA, 3), 2)):
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
    ((line, _),) = TextFormat().read(FileSplit("a", "a.txt", system), TEXT_SCHEMA, 10)
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
    monkeypatch.setattr(flinkray.connectors.files.formats, "_SPLIT_BYTES", 100)
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
        assert CsvFormat().schema(fs.LocalFileSystem(), "a") == pa.schema({"a": pa.int64(), "b": pa.int64()})
        assert not file.is_closed_too_early
    finally:
        file.is_over.set()


def test_directories_and_patterns_leave_hidden_files_out(tmp_path: Path) -> None:
    for name in ("b/x.csv", "a.csv", ".hidden.csv", "_logs/c.csv", "a.txt"):
        write(tmp_path / name, "csv")

    def found(path: Any, **options: Any) -> list[str]:
        splits = splits_of(FileSource(path, format="csv", **options))
        return [str(Path(split.path).relative_to(tmp_path)) for split in splits]

    assert found(tmp_path) == ["a.csv", "a.txt", "b/x.csv"]
    assert found(f"{tmp_path}/*.csv") == ["a.csv"]
    assert found(f"{tmp_path}/**.csv") == ["a.csv", "b/x.csv"]
    assert found([tmp_path / "b", f"file://{tmp_path}/a.csv"]) == ["b/x.csv", "a.csv"]
    assert found(str(tmp_path / "a.csv"), filesystem=fs.LocalFileSystem()) == ["a.csv"]


def test_two_stars_match_any_number_of_directories_and_one_star_none(tmp_path: Path) -> None:
    for name in ("a.txt", "b/c.txt", "b/d/e.txt", "b/d/a.log"):
        write(tmp_path / name, "json")

    def found(pattern: str) -> list[str]:
        splits = splits_of(FileSource(f"{tmp_path}/{pattern}", format="text"))
        return [str(Path(split.path).relative_to(tmp_path)) for split in splits]

    assert found("**/*.txt") == ["a.txt", "b/c.txt", "b/d/e.txt"]
    assert found("**/d/**/*.txt") == ["b/d/e.txt"]
    assert found("b/**") == ["b/c.txt", "b/d/a.log", "b/d/e.txt"]
    assert found("**/a.*") == ["a.txt", "b/d/a.log"]
    assert found("*/*.txt") == ["b/c.txt"]
    assert found("b**e.txt") == ["b/d/e.txt"]


def test_a_path_that_exists_is_not_taken_for_a_pattern(tmp_path: Path) -> None:
    for name in ("a[2].txt", "a2.txt", "x [1]/b.txt", "x [1]/c[3].txt", "y3/b.txt"):
        write(tmp_path / name, "json")

    def found(pattern: str) -> list[str]:
        splits = splits_of(FileSource(f"{tmp_path}/{pattern}", format="text"))
        return [str(Path(split.path).relative_to(tmp_path)) for split in splits]

    assert found("a[2].txt") == ["a[2].txt"]
    assert found("[a]2.txt") == ["a2.txt"]
    assert found("x [1]") == ["x [1]/b.txt", "x [1]/c[3].txt"]
    assert found("x [1]/b.*") == ["x [1]/b.txt"]
    assert found("x [1]/c[3].txt") == ["x [1]/c[3].txt"]
    assert found("y[1-3]/*") == ["y3/b.txt"]


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


def test_a_type_that_no_file_has_shown_is_text_and_the_error_of_another_says_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flinkray.connectors.files.source, "_FILES_LOOKED_THROUGH", 2)
    for name, text in (("a", '{"n":null}'), ("b", '{"n":null}'), ("c", '{"n":1}')):
        (tmp_path / f"{name}.json").write_text(text)
    with pytest.raises(
        RecordError, match=r"c\.json as n: string: .*Column\(/n\) changed from string to number.*set schema="
    ):
        read(FileSource(tmp_path))
    assert table_of(read(FileSource(tmp_path, schema={"n": int}))).to_pydict() == {"n": [None, None, 1]}


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


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_a_damaged_file_among_others_is_named_when_the_job_is_submitted(tmp_path: Path, format: str) -> None:
    write(tmp_path / "a", format)
    (tmp_path / "b").write_text("x" * 100)
    with pytest.raises(InvalidProgramError, match=r"cannot read .*/b: "):
        FileSource(tmp_path, format).prepare()


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


# -- the sink


def visible(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if not path.name.startswith("."))


def hidden(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name.startswith("."))


ROWS = [Row(n=1, word="a"), Row(n=2, word=None), Row(n=3, word='q"\\\n')]


@pytest.mark.parametrize("format", FORMATS)
def test_committed_files_read_back_as_they_were_written(tmp_path: Path, format: str) -> None:
    sink = cloudpickle.loads(cloudpickle.dumps(FileSink(tmp_path / "out", format)))
    writer, committer = sink.create_writer(FakeSubtaskContext(1, 2)), sink.create_committer()
    writer.write(batch_of(*ROWS[:2]))
    writer.write(batch_of(ROWS[2]))
    writer.flush(end_of_input=True)
    committables = cloudpickle.loads(cloudpickle.dumps(writer.prepare_commit()))
    assert visible(tmp_path / "out") == []
    committer.commit(committables)
    committer.commit(committables)
    writer.close()
    (name,) = visible(tmp_path / "out")
    assert re.fullmatch(rf"part-01234567-1-0-[0-9a-f]{{8}}-0\.{format}", name)
    assert hidden(tmp_path / "out") == []
    assert rows_of(read(FileSource(tmp_path / "out", format))) == ROWS


def written(directory: Path, format: str, *batches: pa.RecordBatch) -> FileSource:
    """The one file that a sink makes of the batches, as a source."""
    sink = FileSink(directory, format)
    writer, committer = sink.create_writer(FakeSubtaskContext()), sink.create_committer()
    assert committer is not None
    for batch in batches:
        writer.write(Batch(batch))
    committer.commit(writer.prepare_commit())
    (name,) = visible(directory)
    return FileSource(directory / name)


@pytest.mark.parametrize("values", [[1, None, 3, None], ["a", None, "", 'NA\n"'], [None, 0.5]])
def test_nulls_of_a_single_csv_column_are_read_back(tmp_path: Path, values: list[Any]) -> None:
    source = written(tmp_path, "csv", pa.record_batch({"n": values}))
    assert table_of(read(source)).to_pydict() == {"n": values}


def test_arrow_files_take_batches_of_several_dictionaries(tmp_path: Path) -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    nested = pa.struct(
        [("d", kind), ("l", pa.list_(kind)), ("p", pa.list_(kind, 1)), ("m", pa.map_(pa.string(), kind))]
    )
    batches = [
        pa.record_batch({
            "d": pa.array([word, None]).dictionary_encode(),
            "s": pa.array([{"d": word, "l": [word], "p": [word], "m": [(word, word)]}, None], nested),
            "n": [1, 2],
        })
        for word in ("a", "b")
    ]  # fmt: skip
    source = written(tmp_path, "arrow", *batches)
    assert table_of(read(source)).to_pylist() == [row for batch in batches for row in batch.to_pylist()]


def test_doubles_without_a_fraction_are_read_back_as_doubles(tmp_path: Path) -> None:
    values = [1.0, -2.0, -0.0, 1e20, 1e15, None]
    source = written(tmp_path, "json", pa.record_batch({"x": values}))
    assert str(source.output_type) == "row<x: double>"
    assert table_of(read(source)).to_pydict() == {"x": values}
    assert to_json_lines(pa.record_batch({"x": pa.array([1, 2.5], pa.float32())})) == b'{"x":1.0}\n{"x":2.5}\n'


ZONE = zoneinfo.ZoneInfo("Europe/Berlin")
D = decimal.Decimal
WORDS = pa.dictionary(pa.int8(), pa.string())
NUMBERS = pa.dictionary(pa.int32(), pa.int64())
SCALARS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [True, False]),
    (pa.int8(), [-128, 127]),
    (pa.int64(), [-(2**63), 2**63 - 1]),
    (pa.uint64(), [2**64 - 1]),
    (pa.float16(), [1.5]),
    (pa.float32(), [1.5, 16777216.0]),
    (pa.float64(), [0.1, 1e300, 5e-324, -0.0, 1e22, 3.0]),
    (pa.string(), ["", " ", "NA", "null", "1", "true", "2013-01-02", 'q"u,o\n\r\nt\te', "\\", "ä\u2028😀"]),
    (pa.large_string(), ["", 'a"\n']),
    (pa.date32(), [datetime.date(1, 1, 1), datetime.date(2013, 1, 2)]),
    (pa.date64(), [datetime.date(2013, 1, 2)]),
    (pa.time32("s"), [datetime.time(23, 59, 59)]),
    (pa.time32("ms"), [datetime.time(1, 2, 3, 4000)]),
    (pa.time64("us"), [datetime.time(1, 2, 3, 4)]),
    (pa.time64("ns"), [86_399_999_999_999]),
    (pa.timestamp("s"), [datetime.datetime(2013, 1, 2, 3)]),
    (pa.timestamp("ms"), [datetime.datetime(1950, 1, 2, 3, 4, 5, 6000)]),
    (pa.timestamp("us", "Europe/Berlin"), [datetime.datetime(2013, 7, 2, 3, 4, 5, 6, tzinfo=ZONE)]),
    (pa.timestamp("ns", "UTC"), [1, -1]),
    (pa.duration("s"), [datetime.timedelta(-1), 10**13 + 1]),
    (pa.duration("us"), [datetime.timedelta(100_000, 0, 1)]),
    (pa.duration("ns"), [1, -(2**63) + 1]),
    (pa.decimal128(10, 2), [D("1.50"), D("-99999999.99")]),
    (pa.decimal128(38, 0), [D(10**38 - 1)]),
    (pa.decimal128(38, 20), [D("0.00000000000000000001")]),
    (pa.decimal256(50, 10), [D("1.5000000001")]),
    (WORDS, ["a", "b", "a"]),
    (NUMBERS, [1, 2, 1]),
]
BYTES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.binary(), [b"", b"\x00\xff", b"abc"]),
    (pa.large_binary(), [b"\xff\n"]),
    (pa.binary(2), [b"\x00\xff"]),
]
NESTED: list[tuple[pa.DataType, list[Any]]] = [
    (pa.list_(pa.int64()), [[1, None], []]),
    (pa.large_list(pa.string()), [["a\n", None], []]),
    (pa.list_(pa.date32(), 2), [[datetime.date(2013, 1, 2), None]]),
    (pa.list_(pa.time64("us"), 2), [[datetime.time(1), None]]),
    (pa.list_(pa.binary()), [[b"\xff", None]]),
    (pa.list_(pa.list_(pa.float32())), [[[1.0, None], [], None]]),
    (pa.struct([("a", pa.int64()), ("b", WORDS)]), [{"a": 1, "b": "x"}, {"a": None, "b": None}]),
    (
        pa.struct([(f"f{n}", kind) for n, (kind, _) in enumerate([*SCALARS, *BYTES])]),
        [{f"f{n}": values[0] for n, (_, values) in enumerate([*SCALARS, *BYTES])}],
    ),
    (pa.struct([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.int64())]), [{"a": 1, "b": None}]),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1), ('q"', None)], []]),
    (pa.map_(pa.int64(), pa.list_(pa.decimal128(30, 20))), [[(1, [D("1.00000000000000000001"), None])]]),
    (pa.map_(pa.date32(), pa.struct([("x", pa.float64())])), [[(datetime.date(2013, 1, 2), {"x": 2.5})]]),
    (pa.list_(pa.map_(pa.bool_(), pa.binary())), [[[(True, b"\xff")], None]]),
    (pa.map_(pa.string(), pa.map_(pa.string(), pa.duration("ms"))), [[("a", [("b", datetime.timedelta(0, 1, 1000))])]]),
]
PAIRS = [case for case in NESTED if pa.types.is_fixed_size_list(case[0])]
NULL_PAIRS = [needs_arrow(26, "has nulls among lists of a fixed size in Parquet")]
EXTENSIONS = [
    (pa.uuid(), pa.array([b"0123456789abcdef", None], pa.binary(16))),
    (pa.json_(), pa.array(['{"a": 1}', None], pa.string())),
]


def assert_same_read_back(tmp_path: Path, format: str, column: pa.Array) -> None:
    batch = pa.record_batch({"x": column, "n": pa.array(range(len(column)))})
    # In the second batch the values do not begin where their buffers do.
    source = written(tmp_path / "out", format, batch, batch.slice(1))
    (name,) = visible(tmp_path / "out")
    found = table_of(read(FileSource(tmp_path / "out" / name, format, schema=batch.schema)))
    found.validate(full=True)
    assert found.schema.types == batch.schema.types
    assert found.to_pylist() == batch.to_pylist() + batch.slice(1).to_pylist()
    assert source.output_type is not None


@pytest.mark.parametrize(
    ("format", "kind", "values"),
    [(format, *case) for format in FORMATS for case in SCALARS]
    + [
        pytest.param(format, *case, marks=NULL_PAIRS if format == "parquet" and case in PAIRS else [])
        for format in ("json", "parquet", "arrow")
        for case in [*BYTES, *NESTED]
    ],
    ids=str,
)
def test_every_type_is_read_back_as_it_is_declared(
    tmp_path: Path, format: str, kind: pa.DataType, values: list[Any]
) -> None:
    assert_same_read_back(tmp_path, format, arrow_array([*values, None, values[0]], kind))


@pytest.mark.parametrize("format", ["json", "parquet", "arrow"])
@pytest.mark.parametrize(("kind", "storage"), EXTENSIONS, ids=str)
def test_extension_types_are_read_back_as_they_are_declared(
    tmp_path: Path, format: str, kind: pa.BaseExtensionType, storage: pa.Array
) -> None:
    assert_same_read_back(tmp_path, format, pa.ExtensionArray.from_storage(kind, storage))


def test_what_is_not_finite_is_null_where_a_format_does_not_know_it(tmp_path: Path) -> None:
    infinity = float("inf")
    batch = pa.record_batch({"n": [1, 2, 3], "x": [float("nan"), infinity, -infinity]})
    for format, expected in (("json", [None] * 3), ("csv", [None, infinity, -infinity])):
        source = written(tmp_path / format, format, batch)
        assert table_of(read(FileSource(source._paths, schema=batch.schema)))["x"].to_pylist() == expected
    found = table_of(read(written(tmp_path / "parquet", "parquet", batch)))["x"].to_pylist()
    assert found[0] != found[0]
    assert found[1:] == [infinity, -infinity]


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ('{"x":"?"}', pa.binary(), r"column 'x': bytes are read as Base64, and '\?' is none"),
        ('{"x":"25:00:00"}', pa.time64("us"), "column 'x': .*25:00:00"),
        ('{"x":"AP8="}', pa.binary(3), "column 'x': "),
        ('{"x":[1]}', pa.map_(pa.string(), pa.int64()), "x"),
        ('{"x":[1]}', pa.list_(pa.int64(), 2), "column 'x': a list has 1 items, and 2 are declared"),
        ('{"x":{}}', pa.struct([pa.field("a", pa.int64(), nullable=False)]), "column 'x': 'a' is null, .* never null"),
        ('{"x":[null]}', pa.list_(pa.field("i", pa.int64(), nullable=False)), "required field was null|'i' is null"),
    ],
)
def test_json_of_another_form_than_declared_names_the_column(
    tmp_path: Path, text: str, kind: pa.DataType, message: str
) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(RecordError, match=rf"cannot read .*/a\.json as x: .*{message}"):
        read(FileSource(tmp_path / "a.json", schema=pa.schema([("x", kind)])))


@pytest.mark.parametrize(
    ("format", "column", "message"),
    [
        ("csv", [[1]], r"csv files cannot hold the column 'x' of type list<item: int64>: .*json or parquet"),
        ("csv", [{"a": 1}], r"'x' of type struct<a: int64>: .*write json or parquet, or map it to text"),
        ("csv", pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), "'x' of type map<string, int64>: "),
        ("csv", [b"\xff"], "'x' of type binary: .*write json or parquet"),
        ("json", pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64())), "'x' of type map.* one key twice"),
        ("json", pa.array([], pa.map_(pa.struct([("a", pa.int64())]), pa.int64())), "'x' of type map.*no objects with"),
        ("parquet", pa.array([D(100)], pa.decimal128(5, -2)), r"'x' of type decimal128\(5, -2\): .*write arrow"),
    ],
)
def test_a_column_that_a_format_cannot_hold_is_named_with_a_way_out(
    tmp_path: Path, format: str, column: Any, message: str
) -> None:
    writer = FileSink(tmp_path, format).create_writer(FakeSubtaskContext())
    batch = pa.record_batch({"n": pa.array(range(len(column))), "x": column})
    with pytest.raises(TypeMismatchError, match=rf"operator 'Source: test': .*{message}"):
        writer.write(Batch(batch))
    writer.close()
    assert list(tmp_path.iterdir()) == []


def test_rows_without_columns_are_lines_of_json() -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))
    lines = to_json_lines(batch)
    assert lines == b"{}\n{}\n"
    assert from_json_lines(lines, batch.schema).num_rows == 2


def test_zoned_times_are_one_form_of_iso_8601() -> None:
    times = pa.array([datetime.datetime(2013, 1, 2, 3), None], pa.timestamp("s", "Europe/Berlin"))
    assert to_json_lines(pa.record_batch({"t": times})) == b'{"t":"2013-01-02T04:00:00+01:00"}\n{"t":null}\n'


def put_file(directory: Path) -> Path:
    directory.write_text("")
    return directory


@pytest.mark.parametrize("place", [lambda path: put_file(path / "a"), lambda path: put_file(path / "a") / "b"])
def test_a_directory_that_cannot_be_is_refused_for_good_when_the_writer_starts(
    tmp_path: Path, place: Callable[[Path], Path]
) -> None:
    sink = FileSink(place(tmp_path))
    with pytest.raises(
        InvalidProgramError, match=r"operator 'Source: test': .*/a.* there is a file there, or above it"
    ):
        sink.create_writer(FakeSubtaskContext())


def test_text_files_have_one_bare_value_per_line_and_the_suffix_that_is_given(tmp_path: Path) -> None:
    sink = FileSink(tmp_path, "text", suffix=".log")
    writer, committer = sink.create_writer(FakeSubtaskContext()), sink.create_committer()
    assert committer is not None
    writer.write(batch_of("a", "b", "c").slice(1))
    writer.write(batch_of("d").slice(1))
    writer.write(batch_of("ä, with spaces", None))
    committer.commit(writer.prepare_commit())
    (name,) = visible(tmp_path)
    assert re.fullmatch(r"part-01234567-0-0-[0-9a-f]{8}-0\.log", name)
    assert (tmp_path / name).read_text(encoding="utf-8") == "b\nc\nä, with spaces\nnull\n"
    with pytest.raises(FlinkrayError, match=r"operator 'Source: test': text files have one value per line.*\['n'\]"):
        writer.write(batch_of(Row(n=1)))


def test_each_checkpoint_has_a_file_of_its_own_and_nothing_gives_none(tmp_path: Path) -> None:
    writer = FileSink(tmp_path).create_writer(FakeSubtaskContext())
    for _ in range(2):
        writer.write(batch_of(1))
        (committable,) = writer.prepare_commit()
        assert committable.final.startswith(str(tmp_path / "part-01234567-0-0-"))
        assert writer.prepare_commit() == []
    assert len(hidden(tmp_path)) == 2
    writer.close()
    assert len(hidden(tmp_path)) == 2  # prepared files belong to the committer


@pytest.mark.parametrize("format", FORMATS)
def test_a_closed_writer_leaves_nothing_that_was_not_prepared(tmp_path: Path, format: str) -> None:
    writer = FileSink(tmp_path, format).create_writer(FakeSubtaskContext())
    writer.write(batch_of(Row(a=1)))
    writer.write(batch_of(Row(a="another type")))
    assert len(hidden(tmp_path)) == 2
    writer.close()
    assert list(tmp_path.iterdir()) == []


def test_aborted_files_are_removed(tmp_path: Path) -> None:
    sink = FileSink(tmp_path)
    writer, committer = sink.create_writer(FakeSubtaskContext()), sink.create_committer()
    assert committer is not None
    writer.write(batch_of(1))
    committables = writer.prepare_commit()
    committer.abort(committables)
    committer.abort(committables)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FlinkrayError, match="is gone"):
        committer.commit(committables)


def test_small_batches_make_large_row_groups(tmp_path: Path) -> None:
    sink = FileSink(tmp_path)
    writer, committer = sink.create_writer(FakeSubtaskContext()), sink.create_committer()
    assert committer is not None
    for _ in range(50):
        writer.write(batch_of(*range(10)))
    committer.commit(writer.prepare_commit())
    (file,) = tmp_path.iterdir()
    assert pq.ParquetFile(file).num_row_groups == 1


def test_objects_have_no_columns_to_write(tmp_path: Path) -> None:
    with pytest.raises(FlinkrayError, match="Python objects"):
        FileSink(tmp_path).create_writer(FakeSubtaskContext()).write(batch_of({1, 2}))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "parket"}, "did you mean 'parquet'"),
        ({"prefix": ".x"}, "hidden"),
        ({"prefix": "a/b"}, "cannot begin"),
        ({"suffix": "/a"}, "cannot end with '/a'"),
    ],
)
def test_wrong_file_sinks(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        FileSink(tmp_path, **arguments)


# -- JSON


def test_json_lines_hold_what_python_reads_back() -> None:
    zone = datetime.UTC
    table = pa.table(
        {
            'na"me': [1, None],
            "text": ['a"\\ä', "line\nbreak\x01"],
            "plain": ["x", 'q"'],
            "float": [0.5, float("nan")],
            "flag": [True, False],
            "decimal": [decimal.Decimal("1.50"), None],
            "date": [datetime.date(2013, 1, 2), None],
            "naive": [datetime.datetime(2013, 1, 2, 3), None],
            "aware": [datetime.datetime(2013, 1, 2, 3, tzinfo=zone), None],
            "list": [[1, None], [float("inf")]],
            "struct": [{"a": datetime.date(2013, 1, 2)}, None],
            "bytes": [b"\x00\xff", None],
        }
    )
    lines = [json.loads(line) for line in to_json_lines(table.to_batches()[0]).decode().splitlines()]
    assert lines[0] == {
        'na"me': 1,
        "text": 'a"\\ä',
        "plain": "x",
        "float": 0.5,
        "flag": True,
        "decimal": 1.5,
        "date": "2013-01-02",
        "naive": "2013-01-02T03:00:00.000000",
        "aware": "2013-01-02T03:00:00.000000Z",
        "list": [1, None],
        "struct": {"a": "2013-01-02"},
        "bytes": "AP8=",
    }
    values = {"text": "line\nbreak\x01", "plain": 'q"', "flag": False, "list": [None]}
    assert lines[1] == dict.fromkeys(table.column_names) | values
    assert to_json_lines(table.to_batches()[0].slice(0, 0)) == b""


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

    def counted(paths: Any, filesystem: Any) -> Any:
        listings.append(paths)
        return list_files(paths, filesystem)

    monkeypatch.setattr(flinkray.connectors.files.source, "list_files", counted)
    source = FileSource(tmp_path)
    types = [source.output_type for _ in range(10)]
    assert source.prepare().output_type == types[0]
    assert len(listings) == 3


def test_a_pattern_with_many_stars_is_matched_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    matches, fnmatchcase = 0, fnmatch.fnmatchcase

    def counted(name: str, part: str) -> bool:
        nonlocal matches
        matches += 1
        return fnmatchcase(name, part)

    monkeypatch.setattr(fnmatch, "fnmatchcase", counted)
    assert not file_paths._is_match(["a"] * 12, ["**", "a"] * 5 + ["b"])
    assert file_paths._is_match(["a"] * 12, ["**", "a"] * 5 + ["a"])
    assert matches < 2_000


def test_tiny_batches_that_wait_for_their_row_group_do_not_hold_what_they_are_slices_of(tmp_path: Path) -> None:
    writer = FileSink(tmp_path).create_writer(FakeSubtaskContext())
    written: list[weakref.ref[pa.RecordBatch]] = []
    for number in range(200):
        data = pa.record_batch({"n": [number] * 10}).slice(3, 1)
        writer.write(Batch(data))
        written.append(weakref.ref(data))
        del data
    assert sum(batch() is not None for batch in written) < 65
    FileCommitter(fs.LocalFileSystem()).commit(writer.prepare_commit())
    assert pq.read_table(tmp_path).column("n").to_pylist() == list(range(200))


def test_dictionaries_that_have_too_many_values_together_are_written_one_by_one(tmp_path: Path) -> None:
    writer = FileSink(tmp_path).create_writer(FakeSubtaskContext())
    kind = pa.dictionary(pa.int8(), pa.string())
    for number in range(200):
        words = pa.array([f"w{number}-{each}" for each in range(100)], kind)
        writer.write(Batch(pa.record_batch({"word": words})))
    FileCommitter(fs.LocalFileSystem()).commit(writer.prepare_commit())
    assert pq.read_metadata(tmp_path / visible(tmp_path)[0]).num_rows == 20_000


@pytest.mark.parametrize("format", FORMATS)
def test_rows_of_two_schemas_that_take_turns_go_into_two_files(tmp_path: Path, format: str) -> None:
    writer = FileSink(tmp_path, format).create_writer(FakeSubtaskContext())
    for number in range(20):
        writer.write(Batch(pa.record_batch({"n": [number if number % 2 else number + 0.5]})))
    committables = writer.prepare_commit()
    FileCommitter(fs.LocalFileSystem()).commit(committables)
    files = [table_of(read(FileSource(tmp_path / name))).column("n").to_pylist() for name in visible(tmp_path)]
    assert files == [[number + 0.5 for number in range(0, 20, 2)], list(range(1, 20, 2))]


def test_rows_of_many_schemas_are_never_in_many_open_files(tmp_path: Path) -> None:
    writer = FileSink(tmp_path, "json").create_writer(FakeSubtaskContext())
    for number in range(10):
        writer.write(Batch(pa.record_batch({f"c{number}": [number]})))
    finished = [path for path in tmp_path.iterdir() if path.stat().st_size]
    assert len(finished) >= 6
    writer.close()
    assert list(tmp_path.iterdir()) == []


def small_files(directory: Path, format: str, count: int = 100, rows: int = 3) -> list[int]:
    """Their rows."""
    for number in range(count):
        numbers = list(range(number * rows, (number + 1) * rows))
        write(directory / f"{number:03}.{format}", format, pa.table({"n": numbers}))
    return list(range(count * rows))


@pytest.mark.parametrize("format", FORMATS)
def test_many_small_files_are_few_splits_and_batches(tmp_path: Path, format: str) -> None:
    numbers = small_files(tmp_path, format)
    source = FileSource(tmp_path)
    assert len(splits_of(source)) == 17  # of six files each, so that subtasks end together
    batches = read(source, batch_rows=1_000)
    assert len(batches) == 17
    assert table_of(batches).column("n").to_pylist() == numbers


def test_few_files_and_parts_of_files_and_larger_files_are_splits_of_their_own() -> None:
    splits = [(FileSplit(str(number), str(number), fs.LocalFileSystem()), 100) for number in range(64)]
    assert grouped(splits[:31], 1) == [split for split, _ in splits[:31]]
    assert grouped(splits, 3) == [split for split, _ in splits]
    assert grouped([(split, None) for split, _ in splits], 1) == [split for split, _ in splits]
    assert grouped([(split, 1 << 20) for split, _ in splits], 1) == [split for split, _ in splits]
    groups = grouped(splits, 1)
    assert [len(group.files) for group in groups if isinstance(group, FileGroup)] == [4] * 16
    assert len({group.split_id for group in groups}) == 16


@pytest.mark.parametrize("taken", range(0, 20, 3))
def test_a_group_of_files_is_read_on_with_the_next_row(tmp_path: Path, taken: int) -> None:
    numbers = small_files(tmp_path, "json", rows=5)
    source = FileSource(tmp_path).prepare()
    run = ThreadedRun(source, FakeSubtaskContext(batch_rows=3), splits_of(FileSource(tmp_path)))
    before = [run.poll() for _ in range(taken)]
    state = cloudpickle.loads(cloudpickle.dumps(run.reader.snapshot_state(1)))
    run.reader.close()
    rest = ThreadedRun(source, FakeSubtaskContext(batch_rows=7), state).read()
    assert [row.n for item in before if isinstance(item, SourceBatch) for row in rows_of([item.batch])] == (
        numbers[: len(numbers) - len(rest)]
    )
    assert [row.n for row in rest] == numbers[len(numbers) - len(rest) :]


def test_what_cannot_be_read_in_a_group_names_its_file_behind_the_rows_before_it(tmp_path: Path) -> None:
    small_files(tmp_path, "csv")
    (tmp_path / "003.csv").write_text("n\nx\n")
    run = ThreadedRun(FileSource(tmp_path).prepare(), FakeSubtaskContext(), splits_of(FileSource(tmp_path)))
    first = run.poll()
    assert isinstance(first, SourceBatch)
    assert [row.n for row in rows_of([first.batch])] == [0, 1, 2]
    with pytest.raises(RecordError, match=r"cannot read .*003\.csv"):
        run.read()
    run.reader.close()


def test_rows_do_not_wait_long_for_those_of_further_files() -> None:
    group = FileGroup("group", ())
    clock = itertools.count(0, 8)
    batches = [(pa.record_batch({"n": [number]}), group) for number in range(6)]
    read = coalesced(iter(batches), 1_000, lambda: next(clock))
    assert [data.column("n").to_pylist() for data, _ in read] == [[0, 1, 2], [3, 4, 5]]


def test_files_of_several_dictionaries_are_read_as_a_group(tmp_path: Path) -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    words = [f"w{number}" for number in range(200)]
    for number, word in enumerate(words):
        (tmp_path / f"{number:03}.json").write_text(json.dumps({"word": word}))
    batches = read(FileSource(tmp_path, schema={"word": kind}))
    assert [row.word for row in rows_of(batches)] == words
