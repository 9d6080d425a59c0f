"""Files as a sink: what is written reads back the same, and what is visible when."""

from __future__ import annotations

import datetime
import decimal
import re
import weakref
import zoneinfo
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from flinkray import (
    FileSink,
    FileSource,
    FlinkrayError,
    InvalidProgramError,
    RawFormat,
    RecordError,
    Row,
    TypeMismatchError,
)
from flinkray.batches.batch import Batch
from flinkray.connectors.files.writing.commits import FileCommittable, FileCommitter
from flinkray.connectors.files.writing.open_files import _CODECS, FileKind
from flinkray.connectors.formats.json_lines import from_json_lines, to_json_lines
from tests.support.api import FakeSubtaskContext, batch_of, rows_of
from tests.support.commits import requests_of
from tests.support.files import FORMATS, read, table_of
from tests.support.versions import arrow_array, needs_arrow

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
    committables = cloudpickle.loads(cloudpickle.dumps(writer.prepare_commit(1)))
    assert visible(tmp_path / "out") == []
    committer.commit(requests_of(committables))
    committer.commit(requests_of(committables))
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
    committer.commit(requests_of(writer.prepare_commit(1)))
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
TYPED = ["parquet", "csv", "json", "arrow"]
"""Formats that hold all types."""
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
    [(format, *case) for format in TYPED for case in SCALARS]
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


REFUSED: dict[str, list[pa.DataType]] = {
    "orc": [
        *(pa.uint64(), pa.float16(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
        *(pa.duration("s"), pa.duration("us"), pa.duration("ns"), pa.decimal256(50, 10)),
        pa.map_(pa.string(), pa.map_(pa.string(), pa.duration("ms"))),
        pa.list_(pa.time64("us"), 2),
    ],
    "avro": [
        *(pa.uint64(), pa.date64(), pa.time32("s"), pa.time64("ns"), pa.timestamp("ns", "UTC")),
        *(pa.duration("s"), pa.duration("us"), pa.duration("ns"), pa.decimal256(50, 10)),
        *(kind for kind, _ in NESTED if pa.types.is_map(kind) and kind.key_type != pa.string()),
        pa.map_(pa.string(), pa.map_(pa.string(), pa.duration("ms"))),
        pa.list_(pa.map_(pa.bool_(), pa.binary())),
        *(kind for kind, _ in PAIRS),
    ],
}
"""What these formats do not hold of SCALARS and NESTED."""


@pytest.mark.parametrize("format", REFUSED)
def test_orc_and_avro_hold_most_types_and_refuse_the_others_by_name(tmp_path: Path, format: str) -> None:
    small = [case for case in NESTED if not (pa.types.is_struct(case[0]) and case[0].num_fields > 2)]
    for number, (kind, values) in enumerate([*SCALARS, *BYTES, *small]):
        column = arrow_array([*values, None, values[0]], kind)
        if kind in REFUSED[format]:
            writer = FileSink(tmp_path, format).create_writer(FakeSubtaskContext())
            with pytest.raises(
                TypeMismatchError, match=f"{format} files cannot hold the column 'x' .*write parquet or"
            ):
                writer.write(Batch(pa.record_batch({"x": column})))
        elif not (format == "orc" and pa.types.is_struct(kind) and not kind.field(0).nullable):
            assert_same_read_back(tmp_path / str(number), format, column)


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
        ("avro", [{"a": [pa.scalar(1, pa.duration("s")).as_py()]}], "field x.a.item: Avro has no type for duration"),
        *(
            (
                "avro",
                [{"a": {name: 1}}],
                rf"field x\.a\..*: names in Avro are of ASCII .*{re.escape(repr(name))} is none",
            )
            for name in ("my col", "EXPR$0", "1st", "größe", "")
        ),
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


def test_types_in_avro_have_names_of_their_own_where_paths_look_the_same(tmp_path: Path) -> None:
    values = {"a": [{"b_c": {"x": 1}}], "a_b": [{"c": {"y": "z"}}], "a_": [{"b_c": {"q": 1}}]}
    fixed = {"f": pa.array([{"g_h": b"12"}], pa.struct({"g_h": pa.binary(2)}))}
    fixed["f_g"] = pa.array([{"h": b"123"}], pa.struct({"h": pa.binary(3)}))
    batch = pa.record_batch({**values, **fixed})
    assert table_of(read(written(tmp_path, "avro", batch))).to_pylist() == batch.to_pylist()


class _FullStream:
    """A disk without room."""

    closed = False

    def tell(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        raise OSError("no space left on device")

    def close(self) -> None: ...


def test_an_orc_file_that_cannot_be_written_is_an_error_and_ends_no_process() -> None:
    stream: Any = _FullStream()
    file = FileKind.of("orc").open(stream, pa.schema({"n": pa.int64()}), "", FileCommittable("", ""))
    with pytest.raises(OSError, match="no space left"):
        file.write(pa.record_batch({"n": [1]}))
    file.abandon()


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
    committer.commit(requests_of(writer.prepare_commit(1)))
    (name,) = visible(tmp_path)
    assert re.fullmatch(r"part-01234567-0-0-[0-9a-f]{8}-0\.log", name)
    assert (tmp_path / name).read_text(encoding="utf-8") == "b\nc\nä, with spaces\nnull\n"
    with pytest.raises(FlinkrayError, match=r"operator 'Source: test': text files have one value per line.*\['n'\]"):
        writer.write(batch_of(Row(n=1)))


def test_each_checkpoint_has_a_file_of_its_own_and_nothing_gives_none(tmp_path: Path) -> None:
    writer = FileSink(tmp_path).create_writer(FakeSubtaskContext())
    for _ in range(2):
        writer.write(batch_of(1))
        (committable,) = writer.prepare_commit(1)
        assert committable.final.startswith(str(tmp_path / "part-01234567-0-0-"))
        assert writer.prepare_commit(1) == []
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
    committables = writer.prepare_commit(1)
    committer.abort(committables)
    committer.abort(committables)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FlinkrayError, match="is gone"):
        committer.commit(requests_of(committables))


def test_small_batches_make_large_row_groups(tmp_path: Path) -> None:
    sink = FileSink(tmp_path)
    writer, committer = sink.create_writer(FakeSubtaskContext()), sink.create_committer()
    assert committer is not None
    for _ in range(50):
        writer.write(batch_of(*range(10)))
    committer.commit(requests_of(writer.prepare_commit(1)))
    (file,) = tmp_path.iterdir()
    assert pq.ParquetFile(file).num_row_groups == 1


def test_files_are_compressed_as_they_are_asked_to(tmp_path: Path) -> None:
    rows = batch_of(*([Row(word="x" * 50)] * 500))

    def size(format: str, compression: str | None) -> int:
        directory = tmp_path / f"{format}-{compression}"
        sink = cloudpickle.loads(cloudpickle.dumps(FileSink(directory, format, compression=compression)))
        writer, committer = sink.create_writer(FakeSubtaskContext()), sink.create_committer()
        writer.write(rows)
        committer.commit(requests_of(writer.prepare_commit(1)))
        assert rows_of(read(FileSource(directory, format))) == rows_of([rows])
        (file,) = directory.iterdir()
        return file.stat().st_size

    for format, usual in (("parquet", "snappy"), ("orc", "zstd"), ("avro", "deflate"), ("arrow", "none")):
        codecs = _CODECS[format]
        sizes = {each: size(format, each) for each in codecs}
        assert size(format, None) == sizes[usual], format
        assert len(set(sizes.values())) == len(codecs), (format, sizes)
        assert max(sizes, key=lambda each: sizes[each]) == "none", sizes


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
        ({"compression": "snapy"}, "no compression 'snapy' of files; did you mean 'snappy'"),
        ({"format": "csv", "compression": "gzip"}, "there is none for csv"),
    ],
)
def test_wrong_file_sinks(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        FileSink(tmp_path, **arguments)


def test_different_numbers_are_not_written_twice(tmp_path: Path) -> None:
    """Once in a dictionary, and then by their places in it."""
    numbers = np.random.default_rng(1).integers(0, 1 << 62, 131_072)
    writer = FileSink(tmp_path, "parquet").create_writer(FakeSubtaskContext())
    writer.write(Batch(pa.record_batch({"n": numbers})))
    writer.prepare_commit(1)
    (file,) = tmp_path.iterdir()
    writer.close()
    assert file.stat().st_size < 1.1 * numbers.nbytes


def test_tiny_batches_that_wait_for_their_row_group_do_not_hold_what_they_are_slices_of(tmp_path: Path) -> None:
    writer = FileSink(tmp_path).create_writer(FakeSubtaskContext())
    written: list[weakref.ref[pa.RecordBatch]] = []
    for number in range(200):
        data = pa.record_batch({"n": [number] * 10}).slice(3, 1)
        writer.write(Batch(data))
        written.append(weakref.ref(data))
        del data
    assert sum(batch() is not None for batch in written) < 65
    FileCommitter(fs.LocalFileSystem()).commit(requests_of(writer.prepare_commit(1)))
    assert pq.read_table(tmp_path).column("n").to_pylist() == list(range(200))


def test_dictionaries_that_have_too_many_values_together_are_written_one_by_one(tmp_path: Path) -> None:
    writer = FileSink(tmp_path).create_writer(FakeSubtaskContext())
    kind = pa.dictionary(pa.int8(), pa.string())
    for number in range(200):
        words = pa.array([f"w{number}-{each}" for each in range(100)], kind)
        writer.write(Batch(pa.record_batch({"word": words})))
    FileCommitter(fs.LocalFileSystem()).commit(requests_of(writer.prepare_commit(1)))
    assert pq.read_metadata(tmp_path / visible(tmp_path)[0]).num_rows == 20_000


@pytest.mark.parametrize("format", FORMATS)
def test_rows_of_two_schemas_that_take_turns_go_into_two_files(tmp_path: Path, format: str) -> None:
    writer = FileSink(tmp_path, format).create_writer(FakeSubtaskContext())
    for number in range(20):
        writer.write(Batch(pa.record_batch({"n": [number if number % 2 else number + 0.5]})))
    committables = writer.prepare_commit(1)
    FileCommitter(fs.LocalFileSystem()).commit(requests_of(committables))
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


@pytest.mark.parametrize(
    ("limits", "files"),
    [
        ({}, [[1, 2, 3, 4]]),
        ({"part_size": 1 << 20}, [[1, 2, 3, 4]]),
        ({"part_size": 1}, [[1], [2], [3], [4]]),
        ({"rollover_interval": "3 s"}, [[1, 2], [3, 4]]),
        ({"inactivity_interval": "2 s"}, [[1, 2], [3], [4]]),
    ],
)
@pytest.mark.parametrize("format", FORMATS)
def test_files_end_at_a_size_and_before_rows_that_come_late(
    tmp_path: Path, format: str, limits: dict[str, Any], files: list[list[int]]
) -> None:
    sink, context = FileSink(tmp_path, format, **limits), FakeSubtaskContext()
    writer, committer = sink.create_writer(context), sink.create_committer()
    assert committer is not None
    for n, context.now in ((1, 0), (2, 1_999), (3, 4_000), (4, 6_000)):
        writer.write(batch_of(Row(n=n)))
    committer.commit(requests_of(writer.prepare_commit(1)))
    paths = sorted(tmp_path.iterdir(), key=lambda path: int(path.stem.rpartition("-")[2]))
    assert [table_of(read(FileSource(path)))["n"].to_pylist() for path in paths] == files
    writer.close()


def test_a_part_has_a_byte_at_least(tmp_path: Path) -> None:
    with pytest.raises(InvalidProgramError, match="at least 1 byte"):
        FileSink(tmp_path, part_size=0)


@pytest.mark.parametrize(("kind", "value"), [(bytes, b"a\nb"), (str, "a\nb")])
def test_a_message_with_a_line_break_is_no_line_of_a_file(kind: Any, value: Any, tmp_path: Path) -> None:
    file_kind = FileKind.of(RawFormat(kind))
    with pa.OSFile(str(tmp_path / "a"), "wb") as stream:
        rows = pa.record_batch([pa.array([value[:1]])], ["value"])
        file = file_kind.open(stream, rows.schema, "a", FileCommittable("a", "a"))
        file.write(rows)
        with pytest.raises(ValueError, match=r"a message has a line break in it, .*a.nb"):
            file.write(pa.record_batch([pa.array([value])], ["value"]))
    assert (tmp_path / "a").read_bytes() == b"a\n"
