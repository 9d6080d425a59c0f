"""Files as source and sink: formats, splits, exact positions, and what is visible when."""

from __future__ import annotations

import datetime
import decimal
import gzip
import itertools
import json
import re
import threading
import weakref
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import flinkray.connectors.file_formats
from flinkray import FileSink, FileSource, FlinkrayError, InvalidProgramError, RecordError, Row, UnknownColumnError
from flinkray.batch import Batch
from flinkray.connectors.file_formats import TEXT_SCHEMA, FileSplit, TextFormat
from flinkray.connectors.json_lines import to_json_lines
from flinkray.connectors.source import SourceBatch
from flinkray.types import Kind
from tests.support.api import Assignments, SubtaskContext, ThreadedRun, batch_of, rows_of

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
    run = ThreadedRun(shipped, SubtaskContext(batch_rows=batch_rows), splits_of(source) if splits is None else splits)
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
    monkeypatch.setattr(flinkray.connectors.file_formats, "_READ_BYTES", 100)
    write(tmp_path / "a", "json" if format == "text" else format)
    source = FileSource(tmp_path / "a", format=format)
    everything = rows_of(read(source))
    for position in (1, 4, 9):
        run = ThreadedRun(source.prepare(), SubtaskContext(batch_rows=8), splits_of(source))
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
    monkeypatch.setattr(flinkray.connectors.file_formats, "_RANGE_BYTES", range_bytes)
    monkeypatch.setattr(flinkray.connectors.file_formats, "_READ_BYTES", read_bytes)
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
    monkeypatch.setattr(flinkray.connectors.file_formats, "_READ_BYTES", 64)
    lines = ["a" * 31, "b" * 120, *(f"{number:03}" for number in range(100))]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    (split,) = splits_of(FileSource(tmp_path / "a.txt"))
    found: list[str] = []
    while read_now := list(itertools.islice(TextFormat().read(split, TEXT_SCHEMA, 3), 2)):
        found += [line for piece, _ in read_now for line in piece.column(0).to_pylist()]
        split = read_now[-1][1]
    assert found == lines


def test_windows_line_ends_are_no_part_of_a_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a\r\nb\r\n\r\nc")
    assert rows_of(read(FileSource(tmp_path / "a.txt"))) == ["a", "b", "", "c"]


def test_compressed_lines_are_one_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flinkray.connectors.file_formats, "_RANGE_BYTES", 10)
    monkeypatch.setattr(flinkray.connectors.file_formats, "_READ_BYTES", 20)
    with gzip.open(tmp_path / "a.json.gz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in TABLE.to_pylist())
    source = FileSource(tmp_path / "a.json.gz")
    (split,) = splits_of(source)
    assert table_of(read(source)).to_pydict() == TABLE.to_pydict()
    run = ThreadedRun(source.prepare(), SubtaskContext(), [split])
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


def test_row_groups_and_batches_are_splits(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", "parquet")
    assert [(s.start, s.stop) for s in splits_of(FileSource(tmp_path / "a.parquet"))] == [
        (0, 1),
        (1, 2),
        (2, 3),
        (3, 4),
    ]
    with pa.ipc.new_file(tmp_path / "a.arrow", TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=10)
    assert [(s.start, s.stop) for s in splits_of(FileSource(tmp_path / "a.arrow"))] == [(0, 8), (8, 10)]


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
    with pytest.raises(RecordError, match=r"c\.parquet"):
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
    run = ThreadedRun(source.prepare(), SubtaskContext(batch_rows=1), splits_of(source))
    assert isinstance(run.poll(), SourceBatch)
    run.reader.close()
    assert [thread for thread in threading.enumerate() if thread.name.startswith("read ")] == []


def test_a_reader_holds_no_batch_that_it_has_given(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", "parquet")
    source = FileSource(tmp_path / "a.parquet")
    run = ThreadedRun(source.prepare(), SubtaskContext(batch_rows=1), splits_of(source))
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
    writer, committer = sink.create_writer(SubtaskContext(1, 2)), sink.create_committer()
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
    writer, committer = sink.create_writer(SubtaskContext()), sink.create_committer()
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


def test_zoned_times_are_one_form_of_iso_8601() -> None:
    times = pa.array([datetime.datetime(2013, 1, 2, 3), None], pa.timestamp("s", "Europe/Berlin"))
    assert to_json_lines(pa.record_batch({"t": times})) == b'{"t":"2013-01-02T04:00:00+01:00"}\n{"t":null}\n'


def test_text_files_have_one_bare_value_per_line_and_the_suffix_that_is_given(tmp_path: Path) -> None:
    sink = FileSink(tmp_path, "text", suffix=".log")
    writer, committer = sink.create_writer(SubtaskContext()), sink.create_committer()
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
    writer = FileSink(tmp_path).create_writer(SubtaskContext())
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
    writer = FileSink(tmp_path, format).create_writer(SubtaskContext())
    writer.write(batch_of(Row(a=1)))
    writer.write(batch_of(Row(a="another type")))
    assert len(hidden(tmp_path)) == 2
    writer.close()
    assert list(tmp_path.iterdir()) == []


def test_aborted_files_are_removed(tmp_path: Path) -> None:
    sink = FileSink(tmp_path)
    writer, committer = sink.create_writer(SubtaskContext()), sink.create_committer()
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
    writer, committer = sink.create_writer(SubtaskContext()), sink.create_committer()
    assert committer is not None
    for _ in range(50):
        writer.write(batch_of(*range(10)))
    committer.commit(writer.prepare_commit())
    (file,) = tmp_path.iterdir()
    assert pq.ParquetFile(file).num_row_groups == 1


def test_objects_have_no_columns_to_write(tmp_path: Path) -> None:
    with pytest.raises(FlinkrayError, match="Python objects"):
        FileSink(tmp_path).create_writer(SubtaskContext()).write(batch_of({1, 2}))


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
