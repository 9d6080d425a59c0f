"""Formats of tables: their options, and the messages that rows of each type are."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from flinkray import InvalidProgramError, MessageFormat, StreamExecutionEnvironment
from flinkray.tables.connectors.contract import physical_columns
from flinkray.tables.connectors.formats import message_format, schema_of
from flinkray.tables.connectors.options import ConnectorOptions
from flinkray.tables.plans.tables import Table

EPOCH = datetime.datetime(1970, 1, 1)


def formatted(columns: str, **options: str) -> tuple[MessageFormat, pa.Schema]:
    """The format of a table, and the types of its columns."""
    tables = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local"}).tables
    tables.execute_sql(f"CREATE TABLE t ({columns}) WITH ('connector' = 'x')")
    found = tables.catalog.get(("t",))
    assert isinstance(found, Table)
    given = {key if key == "format" else f"{options['format']}.{key}": value for key, value in options.items()}
    physical = physical_columns(found)
    read = message_format(ConnectorOptions("t", given), "format", physical)
    return read, schema_of(physical)


def test_a_delimiter_may_be_written_with_an_escape() -> None:
    for given, delimiter in {
        "\\t": "\t",
        "\\u0001": "\x01",
        "\\1": "\x01",
        "\\\\": "\\",
        "\t": "\t",
        "\\;": ";",
    }.items():
        lines, _ = formatted("a INT, b STRING", format="csv", **{"field-delimiter": given})
        assert lines.decode(pa.array([f"1{delimiter}x,y".encode()], pa.large_binary())).to_pylist() == [
            {"a": 1, "b": "x,y"}
        ]
    with pytest.raises(InvalidProgramError, match="is one ASCII character"):
        formatted("a INT", format="csv", **{"field-delimiter": "\\t\\t"})


def test_messages_of_avro_have_values_of_all_types() -> None:
    columns = {
        "d": ("DECIMAL(10, 3)", Decimal("-1.500"), "0204fa24"),
        "t": ("TIME(3)", datetime.time(3, 4, 5, 678000), "02dcacc40a"),
        "l": ("ARRAY<INT>", [1, None], "020402020000"),
        "m": ("MAP<STRING, INT NOT NULL>", [("k", 2)], "0202026b0400"),
        "r": ("ROW<a INT NOT NULL, b ROW<c TIMESTAMP(3)>>", {"a": 1, "b": {"c": EPOCH}}, "0202020200"),
        "n": ("ROW<a INT> NOT NULL", {"a": None}, "00"),
    }  # fmt: skip
    avro, schema = formatted(", ".join(f"{name} {kind}" for name, (kind, *_) in columns.items()), format="avro")
    rows = pa.RecordBatch.from_pylist([{name: value for name, (_, value, _) in columns.items()}], schema)
    messages = avro.encode(rows)
    assert messages[0].as_py().hex() == "".join(written for *_, written in columns.values())  # as Flink writes them
    read = avro.decode(messages)
    assert (
        pa.RecordBatch.from_arrays([a.cast(b.type) for a, b in zip(read.columns, schema, strict=True)], schema=schema)
        == rows
    )


def test_times_of_avro_have_the_logical_type_that_is_asked_for() -> None:
    for options, kinds in (
        ({}, ["timestamp", "timestamp"]),
        ({"timestamp_mapping.legacy": "false"}, ["local", "timestamp"]),
    ):
        avro: Any = formatted("a TIMESTAMP(0), b TIMESTAMP_LTZ(3)", format="avro", **options)[0]
        assert [field["type"][1]["logicalType"].split("-")[0] for field in avro._schema["fields"]] == kinds
    finer: Any = formatted("a TIMESTAMP(4), b TIMESTAMP_LTZ", format="avro", **{"timestamp_mapping.legacy": "false"})[0]
    kinds = [field["type"][1]["logicalType"] for field in finer._schema["fields"]]
    assert kinds == ["local-timestamp-micros", "timestamp-micros"]
    with pytest.raises(InvalidProgramError, match="of at most 6 digits"):
        formatted("a TIMESTAMP(9)", format="avro", **{"timestamp_mapping.legacy": "false"})


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("a TIMESTAMP", "column 'a' is TIMESTAMP(6): messages of Avro have timestamps of at most 3 digits"),
        ("a ROW<b ARRAY<TIME(6)>>", "messages of Avro have times of at most 3 digits"),
        ("a INTERVAL DAY", "Avro has no type for duration"),
        ("a MAP<INT, INT>", "Avro has no type for map"),
        ("`a b` INT", "names in Avro are of ASCII letters"),
    ],
)
def test_what_avro_has_no_messages_for_is_said(columns: str, words: str) -> None:
    with pytest.raises(InvalidProgramError, match=re.escape(words)):
        formatted(columns, format="avro")


def test_raw_messages_have_the_options_of_flink() -> None:
    for columns, options, message in (
        ("a INT", {}, b"\0\0\0\x01"),
        ("a BIGINT", {"endianness": "little-endian"}, b"\x01\0\0\0\0\0\0\0"),
        ("a STRING", {"charset": "UTF-16BE"}, b"\0001"),
        ("a BYTES", {}, b"1"),
    ):
        raw, schema = formatted(columns, format="raw", **options)
        rows = pa.RecordBatch.from_arrays([pa.array([1]).cast(pa.string()).cast(schema.field("a").type)], schema=schema)
        assert raw.encode(rows).to_pylist() == [message]
        assert raw.decode(pa.array([message], pa.large_binary())).column(0) == rows.column(0)
    with pytest.raises(InvalidProgramError, match=r"column .a. of format .raw. is DATE: RawFormat takes str"):
        formatted("a DATE", format="raw")
