"""Times in files: with more digits than are declared, and in the 96 bits of old Parquet."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flinkray import FileSource, RecordError
from tests.support.files import read, table_of, write


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_times_with_more_digits_than_declared_are_cut_where_that_is_asked_for(tmp_path: Path, format: str) -> None:
    at = datetime.datetime(2024, 1, 2, 3, 4, 5, 678901)
    cut = at.replace(microsecond=678000)
    rows = pa.array([{"at": at}, None], pa.struct([("at", pa.timestamp("us"))]))
    write(tmp_path / f"a.{format}", format, pa.table({"at": pa.array([at, None], pa.timestamp("us")), "r": rows}))
    kind = pa.timestamp("ms")
    schema = pa.schema([("at", kind), ("r", pa.struct([("at", kind)]))])
    found = read(FileSource(tmp_path / f"a.{format}", schema=schema, cuts_times=True))
    assert table_of(found).to_pylist() == [{"at": cut, "r": {"at": cut}}, {"at": None, "r": None}]
    with pytest.raises(RecordError, match="would lose data"):
        read(FileSource(tmp_path / f"a.{format}", schema=schema))


def test_times_before_1970_are_cut_down(tmp_path: Path) -> None:
    early = datetime.datetime(1500, 1, 1, 0, 0, 0, 500_000)
    pq.write_table(pa.table({"at": pa.array([early, None], pa.timestamp("us"))}), tmp_path / "a.parquet")
    source = FileSource(tmp_path / "a.parquet", schema=pa.schema([("at", pa.timestamp("s"))]), cuts_times=True)
    assert table_of(read(source)).column("at").to_pylist() == [early.replace(microsecond=0), None]


@pytest.mark.parametrize("unit", [None, "ms", "us", "ns"])
def test_times_of_96_bits_are_those_that_were_written(tmp_path: Path, unit: str | None) -> None:
    far = [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)]
    days = [datetime.datetime(2024, 1, 2), *([] if unit == "ns" else far)]
    table = pa.table({"at": pa.array(days, pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    schema = None if unit is None else pa.schema([("at", pa.timestamp(unit))])
    found = table_of(read(FileSource(tmp_path / "a.parquet", schema=schema)))
    assert found.schema.field("at").type == pa.timestamp(unit or "us")
    assert found.column("at").cast(pa.timestamp("us")).to_pylist() == days
