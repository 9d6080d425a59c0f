"""CSV files as a CsvSchema says: what is read of them, and what is written."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from flinkray.errors import InvalidProgramError, JobExecutionError
from flinkray.pyflink.common import Configuration, Row, Types, WatermarkStrategy
from flinkray.pyflink.datastream import StreamExecutionEnvironment
from flinkray.pyflink.datastream.connectors.file_system import FileSink, FileSource
from flinkray.pyflink.datastream.formats.csv import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    CsvSchema,
)
from flinkray.pyflink.table import DataTypes
from tests.support.whole_jobs import ONE_ROW_BATCHES


def environment() -> StreamExecutionEnvironment:
    settings = Configuration({"execution.target": "local", **ONE_ROW_BATCHES})
    return StreamExecutionEnvironment.get_execution_environment(settings)


def stream_of(schema: CsvSchema, text: str, tmp_path: Path) -> Any:
    path = tmp_path / "rows.csv"
    path.write_text(text, newline="")
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(path)).build()
    return environment().from_source(source, WatermarkStrategy.no_watermarks(), "csv")


def read(schema: CsvSchema, text: str, tmp_path: Path) -> list[Any]:
    with stream_of(schema, text, tmp_path).execute_and_collect() as rows:
        return list(rows)


def written(schema: CsvSchema, text: str, tmp_path: Path) -> str:
    stream = stream_of(schema, text, tmp_path)
    stream.sink_to(FileSink.for_bulk_format(str(tmp_path / "out"), CsvBulkWriters.for_schema(schema)).build())
    stream.get_execution_environment().execute()
    with_files = (path for path in sorted((tmp_path / "out").rglob("*")) if path.is_file())
    return "".join(path.read_bytes().decode() for path in with_files)


def two_columns() -> Any:
    return CsvSchema.builder().add_string_column("s").add_number_column("n")


NUMBERS = (
    CsvSchema.builder()
    .add_number_column("tiny", DataTypes.TINYINT())
    .add_number_column("big", DataTypes.BIGINT())
    .add_number_column("float", DataTypes.FLOAT())
    .add_number_column("double", DataTypes.DOUBLE())
    .add_number_column("decimal", DataTypes.DECIMAL(2, 0))
    .add_boolean_column("bool")
    .add_string_column("text")
    .build()
)
ARRAYS = (
    CsvSchema.builder()
    .add_array_column("numbers", separator=";", element_type=DataTypes.INT())
    .add_array_column("booleans", separator=":", element_type=DataTypes.BOOLEAN())
    .add_array_column("texts", separator=",")
    .set_column_separator("|")
    .disable_quote_char()
    .build()
)
PAIR = CsvSchema.builder().add_string_column("a").add_string_column("b").set_column_separator("|")
ONE_COLUMN = CsvSchema.builder().add_columns_from(ARRAYS).clear_columns().add_string_column("a").build()
ESCAPED = CsvSchema.builder().add_string_column("a").add_string_column("b").set_escape_char("\\").build()


@pytest.mark.parametrize(
    ("schema", "text", "rows"),
    [
        (
            NUMBERS,
            "127,-9223372036854775808,0.5,2e-308, 1.5 ,true,x\n",
            [Row(tiny=127, big=-(2**63), float=0.5, double=2e-308, decimal=Decimal(2), bool=True, text="x")],
        ),
        (
            ARRAYS,
            "1;2;3|true:false|a,b,c\n||\n",
            [
                Row(numbers=[1, 2, 3], booleans=[True, False], texts=["a", "b", "c"]),
                Row(numbers=[], booleans=[], texts=[]),
            ],
        ),
        (PAIR.build(), '"x"|"y|z"\n', [Row(a="x", b="y|z")]),
        (PAIR.set_quote_char("`").build(), "`x`|`y|z`\n", [Row(a="x", b="y|z")]),
        (ESCAPED, 'x\\,,"\\"y\\""\n', [Row(a="x,", b='"y"')]),
        (ESCAPED, 'x\\ny,"\\t\\\\n"\n', [Row(a="x\ny", b="\t\\n")]),
        (ESCAPED, 1_500 * "\\\\\\n,\n", 1_500 * [Row(a="\\\n", b="")]),
        (two_columns().build(), 'a,\r\n,2\r\n"b\nc",3', [Row(s="a", n=None), Row(s="", n=2), Row(s="b\nc", n=3)]),
        (
            two_columns().set_null_value("NULL").build(),
            'NULL,1\n"NULL",NULL\n',
            [Row(s=None, n=1), Row(s="NULL", n=None)],
        ),
        (two_columns().set_allow_comments().build(), "# one\na,1\n#two,2\nb,3\n", [Row(s="a", n=1), Row(s="b", n=3)]),
        (two_columns().set_use_header().build(), "other,names\na,1\n", [Row(s="a", n=1)]),
        (two_columns().set_use_header().set_strict_headers().build(), "s,n\na,1\n", [Row(s="a", n=1)]),
        (two_columns().set_skip_first_data_row().build(), "a,1\nb,2\n", [Row(s="b", n=2)]),
        (two_columns().set_use_header().build(), "s,n\n", []),
        (two_columns().build(), "", []),
        (ONE_COLUMN, "x\n", [Row(a="x")]),
    ],
)  # fmt: skip
def test_rows_are_read_by_position(schema: CsvSchema, text: str, rows: list[Row], tmp_path: Path) -> None:
    assert read(schema, text, tmp_path) == rows


def test_a_null_array_is_null_and_one_without_a_separator_has_one_element(tmp_path: Path) -> None:
    builder = CsvSchema.builder().add_array_column("a", "").add_array_column("b", "+").set_null_value("-")
    both = builder.set_array_element_separator("/").build()
    assert read(both, "1/2,-\n", tmp_path) == [Row(a=["1", "2"], b=None)]
    assert (len(both), both.size(), len(builder)) == (2, 2, 2)
    neither = builder.remove_array_element_separator(1).disable_array_element_separator().build()
    assert read(neither, "1/2,3+4\n", tmp_path) == [Row(a=["1/2"], b=["3+4"])]


@pytest.mark.parametrize(
    ("schema", "text", "words"),
    [
        (two_columns().set_use_header().set_strict_headers().build(), "s,m\na,1\n", r"its first line has the names"),
        (two_columns().build(), "a\n", "Expected 2 columns, got 1"),
        (two_columns().build(), "a,b\n", "Failed to parse string: 'b'"),
    ],
)
def test_what_is_no_such_row_is_an_error(schema: CsvSchema, text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(JobExecutionError, match=words):
        read(schema, text, tmp_path)


@pytest.mark.parametrize(
    ("schema", "text", "lines"),
    [
        (NUMBERS, "1,2,3e38,2e-308,1.5,true,x\n", "1,2,3.0E38,2.0E-308,2,true,x\n"),
        (ARRAYS, "1;2|true|a,b\n", "1;2|true|a,b\n"),
        (PAIR.build(), "`x`|`y`\n", "`x`|`y`\n"),
        (ESCAPED, 'x\\,,"\\"y\\""\n', '"x,","""y"""\n'),
        (two_columns().build(), "a,1\nb c,\n,2\n", 'a,1\n"b c",\n,2\n'),
        (two_columns().build(), f"{'a' * 24},1\n{'b' * 25},1\n", f'{"a" * 24},1\n"{"b" * 25}",1\n'),
        (two_columns().set_null_value("NULL").build(), 'NULL,1\n"NULL",NULL\n', 'NULL,1\n"NULL",NULL\n'),
        (two_columns().set_line_separator("\r\n").build(), "a,1\n", "a,1\r\n"),
    ],
)
def test_lines_are_written_as_flink_writes_them(schema: CsvSchema, text: str, lines: str, tmp_path: Path) -> None:
    assert written(schema, text, tmp_path) == lines


def test_a_schema_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="one ASCII character"):
        CsvSchema.builder().set_column_separator("||")
    with pytest.raises(InvalidProgramError, match="have to differ"):
        CsvSchema.builder().set_column_separator('"').build()
    with pytest.raises(InvalidProgramError, match="lines of CSV files end with"):
        CsvSchema.builder().set_line_separator(";")
    with pytest.raises(InvalidProgramError, match="rows have the columns of their schema only"):
        CsvSchema.builder().set_any_property_name("more")


TEXT = Types.STRING()


@pytest.mark.parametrize(
    ("middle", "value", "text"),
    [
        (TEXT, "123'4*", "'123''4**'"),
        (TEXT, "a;b'c", "'a;b''c'"),
        (Types.INT(), 12, "12"),
        (Types.ROW([TEXT, TEXT]), Row("1", "hello"), "'1:hello'"),
        (Types.LIST(Types.INT()), [1, 2], "'1:2'"),
        (TEXT, "null", "null"),
        (Types.BOOLEAN(), True, "true"),
        (TEXT, None, "NIL"),
    ],
)
def test_messages_are_lines_with_the_characters_that_were_set(middle: Any, value: Any, text: str) -> None:
    row_type = Types.ROW([TEXT, middle, TEXT])
    to_bytes = CsvRowSerializationSchema.Builder(row_type).set_escape_character("*").set_quote_character("'")
    to_bytes.set_array_element_delimiter(":").set_field_delimiter(";").set_null_literal("NIL")
    from_bytes = CsvRowDeserializationSchema.Builder(row_type).set_escape_character("*").set_quote_character("'")
    from_bytes.set_array_element_delimiter(":").set_field_delimiter(";").set_null_literal("NIL")
    line = f"BEGIN;{text};END\n".encode()
    assert to_bytes.build().serialize(Row("BEGIN", value, "END")) == line
    read_back = from_bytes.build().deserialize(line)
    assert tuple(read_back[1]) == tuple(value) if isinstance(value, Row) else read_back[1] == value


def test_letters_behind_an_escape_are_characters() -> None:
    row_type = Types.ROW([TEXT, TEXT])
    builder = CsvRowDeserializationSchema.Builder(row_type).set_escape_character("\\")
    assert tuple(builder.build().deserialize(rb'x\ny,"\t\\n"')) == ("x\ny", "\t\\n")
    assert tuple(builder.build().deserialize(b"x,y\\\\\n")) == ("x", "y\\")
    for line in (b"x,\\", b"x,\\\\\\\r\n"):
        with pytest.raises(ValueError, match=r"behind the last .* is nothing"):
            builder.build().deserialize(line)
    assert builder.set_ignore_parse_errors(True).build().deserialize(b"x,\\") is None


def test_an_escape_that_is_the_quote_is_a_quote_that_is_doubled(tmp_path: Path) -> None:
    row_type = Types.ROW([TEXT, TEXT])
    from_bytes = CsvRowDeserializationSchema.Builder(row_type).set_escape_character('"').build()
    to_bytes = CsvRowSerializationSchema.Builder(row_type).set_escape_character('"').build()
    assert tuple(from_bytes.deserialize(b'"name","n""t"')) == ("name", 'n"t')
    assert to_bytes.serialize(Row("a", 'n"t')) == b'a,"n""t"\n'
    schema = CsvSchema.builder().add_string_column("s").add_string_column("t").set_escape_char('"').build()
    assert read(schema, 'a,"n""t"\n', tmp_path) == [Row(s="a", t='n"t')]


def test_messages_that_are_no_rows_are_left_out_where_that_was_asked_for() -> None:
    builder = CsvRowDeserializationSchema.Builder(Types.ROW_NAMED(["n"], [Types.INT()]))
    with pytest.raises(ValueError, match="Failed to parse"):
        builder.build().deserialize(b"x")
    lenient = builder.set_ignore_parse_errors(True).set_allow_comments(True).build()
    assert [lenient.deserialize(message) for message in (b"x", b"1,2", b"# 1", b"3")] == [None, None, None, Row(n=3)]
    unquoted = CsvRowSerializationSchema.Builder(Types.ROW([TEXT])).disable_quote_character().disable_line_delimiter()
    assert unquoted.build().serialize(Row("a b")) == b"a b"
