"""Records by an Avro schema in PyFlink's files of Avro and Parquet."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flinkray import InvalidProgramError, Row, TypeMismatchError, Types
from flinkray.batches.row_codec import RowEncoder
from flinkray.connectors.files.formats import FileSplit
from flinkray.connectors.files.source import FileSource as FilesOfRows
from flinkray.pyflink.common.serialization import BulkWriterFactory
from flinkray.pyflink.datastream import StreamExecutionEnvironment
from flinkray.pyflink.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    FileSource,
)
from flinkray.pyflink.datastream.formats.avro import (
    AvroBulkWriters,
    AvroInputFormat,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from flinkray.pyflink.datastream.formats.avro_records import AvroRecordFiles
from flinkray.pyflink.datastream.formats.parquet import AvroParquetReaders, AvroParquetWriters
from tests.support.api import FakeSubtaskContext, batch_of
from tests.support.commits import requests_of

OBJECTS = RowEncoder("op", "1 of 1", Types.PICKLED_BYTE_ARRAY().record_type)


def schema_of(**fields: Any) -> AvroSchema:
    named = [{"name": name, "type": kind} for name, kind in fields.items()]
    return AvroSchema.parse_string(json.dumps({"type": "record", "name": "visit", "fields": named}))


PLAIN: dict[str, Any] = {
    "nothing": "null",
    "flag": "boolean",
    "n": "int",
    "x": "double",
    "suit": {"type": "enum", "name": "Suit", "symbols": ["SPADES", "HEARTS"]},
    "items": {
        "type": "array",
        "items": {"type": "record", "name": "item", "fields": [{"name": "id", "type": "long"}]},
    },
    "counts": {"type": "map", "values": "long"},
}
RECORDS: list[dict[str, Any]] = [
    {"nothing": None, "flag": True, "n": 1, "x": 2.5, "suit": "HEARTS", "items": [{"id": 5}], "counts": {"a": 1}},
    {"nothing": None, "flag": False, "n": 4, "x": -1.0, "suit": "SPADES", "items": [], "counts": {}},
]


def write(directory: Path, writers: BulkWriterFactory, *batches: list[Any]) -> Path:
    """The file that a sink has made of them."""
    builder = FileSink.for_bulk_format(directory, writers)
    sink = pickle.loads(pickle.dumps(builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()))
    writer = sink.create_writer(FakeSubtaskContext())
    for values in batches:
        writer.write(OBJECTS.encode(values, None) if type(values[0]) in (dict, tuple) else batch_of(*values))
    sink.create_committer().commit(requests_of(writer.prepare_commit(1)))
    (file,) = directory.iterdir()
    return file


def records_of(source: Any) -> list[Any]:
    assert isinstance(source, FilesOfRows)
    return [pickle.loads(value) for value in source.read_all()["value"].to_pylist()]


def test_records_go_to_files_of_avro_with_the_schema_that_was_given_and_come_back(tmp_path: Path) -> None:
    schema = schema_of(**PLAIN, key=["int", "double", "null"])
    records = [{**RECORDS[0], "key": 1}, {**RECORDS[1], "key": 1.5}, {**RECORDS[1], "key": None}]
    file = write(tmp_path, AvroBulkWriters.for_generic_record(schema), records[:2], records[2:])
    with file.open("rb") as stream:
        reader = fastavro.reader(stream)
        assert list(reader) == records
        assert json.loads(reader.metadata["avro.schema"]) == json.loads(str(schema))
    format = AvroInputFormat(str(tmp_path), schema)
    assert records_of(pickle.loads(pickle.dumps(format.to_source()))) == records
    assert format.get_produced_type() == GenericRecordAvroTypeInfo(schema)


def test_records_of_files_are_read_by_the_schema_that_is_asked_for_behind_those_that_were_read(tmp_path: Path) -> None:
    rows = [[Row(n=1, word="a"), Row(n=2, word="b")], [Row(n=3, word="c")]]
    file = write(tmp_path, AvroBulkWriters.for_generic_record(schema_of(n="int", word="string")), *rows)
    wider = json.loads(str(schema_of(n="long", word="string")))
    wider["fields"].append({"name": "new", "type": "int", "default": 7})
    files = AvroRecordFiles(AvroSchema.parse_string(json.dumps(wider)))
    split = FileSplit("s", str(file), pa.fs.LocalFileSystem(), row=1)
    found = [
        (pickle.loads(each), left.row) for data, left in files.read(split, None, 1) for each in data[0].to_pylist()
    ]
    assert found == [({"n": 2, "word": "b", "new": 7}, 2), ({"n": 3, "word": "c", "new": 7}, 3)]


def test_records_go_to_parquet_files_in_columns_and_come_back(tmp_path: Path) -> None:
    schema = schema_of(**PLAIN, day=["null", {"type": "int", "logicalType": "date"}])
    records = [{**each, "day": None} for each in RECORDS]
    file = write(tmp_path, AvroParquetWriters.for_generic_record(schema), records)
    assert pq.read_schema(file).field("items").type == pa.list_(pa.struct([pa.field("id", pa.int64(), False)]))
    source = FileSource.for_record_stream_format(AvroParquetReaders.for_generic_record(schema), tmp_path).build()
    assert records_of(source) == records


def test_a_record_that_does_not_fit_is_named_with_the_operator(tmp_path: Path) -> None:
    schema = schema_of(n="int", words={"type": "array", "items": "string"})
    for number, (writers, value, words) in enumerate(
        [
            (AvroBulkWriters, {"n": "one", "words": []}, "the record {'n': 'one', 'words': []} does not fit the Avro"),
            (AvroBulkWriters, {"n": 1}, "the record {'n': 1} does not fit the Avro"),
            (AvroBulkWriters, (1, []), "Avro records are dicts or rows, not (1, []) (tuple)"),
            (AvroParquetWriters, {"n": 1}, "the record {'n': 1} does not fit the Avro"),
            (AvroParquetWriters, {"n": "one", "words": []}, "field 'n' of int32"),
        ]
    ):
        with pytest.raises(TypeMismatchError) as raised:
            write(tmp_path / str(number), writers.for_generic_record(schema), [value, value])
        assert words in str(raised.value)
        assert "operator" in str(raised.value)


def test_a_schema_that_cannot_be_is_refused_in_the_program(tmp_path: Path) -> None:
    for text in ("{", '{"type": "recor"}'):
        with pytest.raises(InvalidProgramError, match="no Avro schema"):
            AvroSchema.parse_string(text)
    union = tmp_path / "union.avsc"
    union.write_text(str(schema_of(key=["int", "double"])), encoding="utf-8")
    for makes in (AvroParquetWriters, AvroParquetReaders):
        with pytest.raises(InvalidProgramError, match="field key: a column has one type, and this union 2"):
            makes.for_generic_record(AvroSchema.parse_file(str(union)))
    builder = FileSink.for_bulk_format(tmp_path, AvroBulkWriters.for_generic_record(schema_of(n="int")))
    strategy = FileCompactStrategy.builder().set_size_threshold(1024).build()
    builder.enable_compact(strategy, FileCompactor.identical_file_compactor())
    with pytest.raises(InvalidProgramError, match="leave out enable_compact"):
        builder.enable_compact(strategy, FileCompactor.concat_file_compactor())


def test_create_input_takes_avro_files_and_none_of_javas(tmp_path: Path) -> None:
    schema = schema_of(n="int")
    write(tmp_path, AvroBulkWriters.for_generic_record(schema), [{"n": 1}, {"n": 2}])
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.create_input(AvroInputFormat(str(tmp_path), schema))
    assert stream.get_name() == "Custom File Source"
    assert GenericRecordAvroTypeInfo(schema) != GenericRecordAvroTypeInfo(schema_of(n="long"))
    with pytest.raises(InvalidProgramError, match="FileSource reads files"):
        env.create_input(object())
