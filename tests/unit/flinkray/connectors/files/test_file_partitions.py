"""Columns in the names of directories: written as Hive does, and read back for every format."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest

from flinkray import FileSink, FileSource, InvalidProgramError, RecordError, TypeMismatchError, UnknownColumnError
from flinkray.batches.batch import Batch
from flinkray.connectors.files.writing import writer as file_writer
from tests.support.api import FakeSubtaskContext
from tests.support.commits import requests_of
from tests.support.files import read, table_of

DAY = datetime.date(2024, 1, 1)
COLUMNS = pa.schema({"n": pa.int64(), "day": pa.date32(), "word": pa.string(), "hour": pa.int32()})
ROWS: list[dict[str, Any]] = [
    {"n": 1, "day": DAY, "word": "a", "hour": 3},
    {"n": 2, "day": DAY, "word": "b", "hour": 4},
    {"n": 3, "day": DAY, "word": "c", "hour": 3},
    {"n": 4, "day": None, "word": None, "hour": 3},
]


def written(sink: FileSink, *batches: pa.RecordBatch) -> None:
    sink = cloudpickle.loads(cloudpickle.dumps(sink))
    writer, committer = sink.create_writer(FakeSubtaskContext()), sink.create_committer()
    assert committer is not None
    for batch in batches:
        writer.write(Batch(batch))
    prepared = writer.prepare_commit(1)
    committer.commit(requests_of(prepared))
    committer.commit(requests_of(prepared))
    writer.close()


def directories(path: Path) -> list[str]:
    """The directory of each file, hidden ones too."""
    return sorted(str(file.parent.relative_to(path)) for file in path.rglob("*") if file.is_file())


@pytest.mark.parametrize("format", ["parquet", "csv", "json", "arrow"])
def test_partitions_are_read_back_as_they_were_written(tmp_path: Path, format: str) -> None:
    written(FileSink(tmp_path, format, partition_by=["day", "hour"]), pa.RecordBatch.from_pylist(ROWS, COLUMNS))
    no_day = "day=__HIVE_DEFAULT_PARTITION__/hour=3"
    assert directories(tmp_path) == ["day=2024-01-01/hour=3", "day=2024-01-01/hour=4", no_day]
    declared = FileSource(tmp_path, format, COLUMNS, partition_columns=["day", "hour"])
    found = table_of(read(declared))
    assert found.schema == COLUMNS
    assert sorted(found.to_pylist(), key=lambda row: row["n"]) == ROWS
    inferred = FileSource(tmp_path, partition_columns=["hour", "day"])
    assert str(inferred.output_type) == "row<n: int64, word: string, hour: string, day: string>"
    some = FileSource(tmp_path, format, COLUMNS, columns=["hour"], partition_columns=["day", "hour"])
    assert sorted(table_of(read(some))["hour"].to_pylist()) == [3, 3, 3, 4]


def test_lines_of_text_have_partitions_too(tmp_path: Path) -> None:
    batch = pa.record_batch({"kind": ["x", "y", "x"], "line": ["1", "2", "3"]})
    written(FileSink(tmp_path, "text", partition_by=["kind"]), batch)
    found = table_of(read(FileSource(tmp_path, "text", partition_columns=["kind"]))).to_pylist()
    assert found == [{"value": line, "kind": kind} for kind, line in (("x", "1"), ("x", "3"), ("y", "2"))]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("a b", "a b"),
        ("1:30/x=%", "1%3A30%2Fx%3D%25"),
        ("\n\x01\x7f", "%0A%01%7F"),
        ("\"#'*?\\\\{[]^", "%22%23%27%2A%3F%5C%5C%7B%5B%5D%5E"),
        ("ä}.", "ä}."),
    ],
)
def test_values_are_escaped_as_hive_does(tmp_path: Path, value: str, name: str) -> None:
    written(FileSink(tmp_path, "json", partition_by=["v"]), pa.record_batch({"n": [1], "v": [value]}))
    assert directories(tmp_path) == [f"v={name}"]
    assert table_of(read(FileSource(tmp_path, partition_columns=["v"])))["v"].to_pylist() == [value]


def test_null_and_empty_text_are_in_the_default_partition(tmp_path: Path) -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    batch = pa.record_batch({"n": [1, 2], "v": pa.array(["", None], kind)})
    written(FileSink(tmp_path, partition_by=["v"], default_partition="__DEFAULT_PARTITION__"), batch)
    written(FileSink(tmp_path, partition_by=["v"], default_partition="none"), batch)
    assert directories(tmp_path) == ["v=__DEFAULT_PARTITION__", "v=none"]
    for default, values in (("none", [None] * 4), ("other", [None, None, "none", "none"])):
        source = FileSource(tmp_path, partition_columns=["v"], default_partition=default)
        assert table_of(read(source))["v"].to_pylist() == values


def test_a_file_per_partition_and_checkpoint_while_there_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [pa.record_batch({"n": list(range(6)), "p": list(range(6))})] * 3
    written(FileSink(tmp_path / "many", partition_by=["p"]), *batches)
    assert directories(tmp_path / "many") == [f"p={number}" for number in range(6)]
    monkeypatch.setattr(file_writer, "_MOST_OPEN_PARTITIONS", 2)
    written(FileSink(tmp_path / "few", partition_by=["p"]), *batches)
    assert len(directories(tmp_path / "few")) == 18
    source = FileSource(tmp_path / "few", partition_columns=["p"])
    assert sorted(table_of(read(source))["n"].to_pylist()) == sorted([*range(6)] * 3)


def test_what_does_not_fit_names_the_column(tmp_path: Path) -> None:
    batch = pa.record_batch({"n": [1], "l": [[1]]})
    with pytest.raises(UnknownColumnError, match="'m'"):
        written(FileSink(tmp_path, partition_by=["m"]), batch)
    with pytest.raises(TypeMismatchError, match="leaves 0 of the columns"):
        written(FileSink(tmp_path, partition_by=["n", "l"]), batch)
    with pytest.raises(InvalidProgramError, match="'l' of type list"):
        written(FileSink(tmp_path, partition_by=["l"]), batch)
    written(FileSink(tmp_path / "p=x"), batch)
    with pytest.raises(RecordError, match=r"path is called q="):
        read(FileSource(tmp_path, "parquet", partition_columns=["q"]))
    with pytest.raises(RecordError, match="column 'p' is 'x' in its path"):
        read(FileSource(tmp_path, "parquet", pa.schema({"n": pa.int64(), "p": pa.int64()}), partition_columns=["p"]))


def test_sources_and_sinks_from_before_there_were_partitions_go_on(tmp_path: Path) -> None:
    sink = FileSink(tmp_path, "json")
    del sink._partitions, sink._rolling
    written(sink, pa.record_batch({"n": [1]}))
    source = FileSource(tmp_path, "json")
    del source._monitor_ms, source._partition_columns, source._default_partition
    assert table_of(read(source)).to_pydict() == {"n": [1]}
