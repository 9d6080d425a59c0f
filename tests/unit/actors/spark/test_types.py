"""Every Spark type has a way to Arrow and back, or an error that names the column."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from flinkray.errors import InvalidProgramError, TypeMismatchError

pytest.importorskip("pyspark")

from pyspark.ml.linalg import VectorUDT
from pyspark.sql import types as spark

from actors.spark.types import arrow_schema, cast_batch, spark_schema

SIMPLE = [
    (spark.NullType(), pa.null()),
    (spark.BooleanType(), pa.bool_()),
    (spark.ByteType(), pa.int8()),
    (spark.ShortType(), pa.int16()),
    (spark.IntegerType(), pa.int32()),
    (spark.LongType(), pa.int64()),
    (spark.FloatType(), pa.float32()),
    (spark.DoubleType(), pa.float64()),
    (spark.StringType(), pa.string()),
    (spark.BinaryType(), pa.binary()),
    (spark.DateType(), pa.date32()),
    (spark.TimestampType(), pa.timestamp("us", tz="UTC")),
    (spark.TimestampNTZType(), pa.timestamp("us")),
    (spark.DayTimeIntervalType(), pa.duration("us")),
    (spark.DecimalType(38, 18), pa.decimal128(38, 18)),
    (spark.DecimalType(5, 0), pa.decimal128(5, 0)),
]


@pytest.mark.parametrize(("kind", "arrow"), SIMPLE, ids=[kind.simpleString() for kind, _ in SIMPLE])
def test_type_goes_to_arrow_and_back_alone_and_nested(kind: spark.DataType, arrow: pa.DataType) -> None:
    schema = spark.StructType().add("plain", kind).add("list", spark.ArrayType(kind))
    schema.add("map", spark.MapType(spark.StringType(), kind))
    schema.add("struct", spark.StructType().add("inner", spark.ArrayType(spark.StructType().add("deep", kind))))
    converted = arrow_schema(schema)
    assert converted.field("plain").type == arrow
    assert converted.field("list").type.value_type == arrow
    back, target = spark_schema(converted)
    assert back == schema
    assert target == converted


@pytest.mark.parametrize("kind", [spark.CharType(3), spark.VarcharType(9)])
def test_text_of_limited_length_is_text(kind: spark.DataType) -> None:
    assert arrow_schema(spark.StructType().add("text", kind)).field("text").type == pa.string()


@pytest.mark.parametrize("kind", [spark.YearMonthIntervalType(), VectorUDT()])
def test_type_without_arrow_type_is_refused_with_the_columns_name(kind: spark.DataType) -> None:
    with pytest.raises(InvalidProgramError, match="column 'term'"):
        arrow_schema(spark.StructType().add("term", kind))
    nested = spark.ArrayType(spark.StructType().add("term", kind))
    with pytest.raises(InvalidProgramError, match=r"column 'loans\[\].term'"):
        arrow_schema(spark.StructType().add("loans", nested))


def test_two_columns_of_one_name_are_refused_with_the_name() -> None:
    with pytest.raises(InvalidProgramError, match="two columns are called 'x'"):
        arrow_schema(spark.StructType().add("x", spark.LongType()).add("x", spark.LongType()))


def test_all_columns_may_be_null_inside_streams() -> None:
    converted = arrow_schema(spark.StructType().add("id", spark.LongType(), nullable=False))
    assert converted.field("id").nullable


@pytest.mark.parametrize(
    ("values", "kind", "simple"),
    [
        ([1, 255], pa.uint8(), "smallint"),
        ([65535], pa.uint16(), "int"),
        ([2**32 - 1], pa.uint32(), "bigint"),
        ([2**64 - 1], pa.uint64(), "decimal(20,0)"),
        (["a"], pa.large_string(), "string"),
        (["a", "b", "a"], pa.dictionary(pa.int32(), pa.string()), "string"),
        ([b"ab"], pa.binary(2), "binary"),
        ([datetime.date(2013, 1, 1)], pa.date64(), "date"),
        ([1_000], pa.timestamp("ms", tz="America/New_York"), "timestamp"),
        ([1_000], pa.timestamp("s"), "timestamp_ntz"),
        ([5], pa.duration("s"), "interval day to second"),
        ([[1, 2]], pa.list_(pa.uint8(), 2), "array<smallint>"),
        ([[1, 2]], pa.large_list(pa.int32()), "array<int>"),
        ([{"a": 1}], pa.struct([("a", pa.uint16())]), "struct<a:int>"),
        ([[("k", 1)]], pa.map_(pa.large_string(), pa.uint16()), "map<string,int>"),
    ],
)
def test_arrow_type_that_spark_lacks_becomes_the_next_that_holds_it(
    values: list[object], kind: pa.DataType, simple: str
) -> None:
    batch = pa.record_batch({"x": pa.array(values, kind)})
    types, target = spark_schema(batch.schema)
    assert types["x"].dataType.simpleString() == simple
    cast = cast_batch(batch, target)
    assert cast.schema == target
    as_before = batch.column(0).cast(pa.string()) if pa.types.is_primitive(kind) else None
    if as_before is not None and not pa.types.is_temporal(kind):
        assert cast.column(0).cast(pa.string()).equals(as_before)
    assert cast.column(0).null_count == 0


@pytest.mark.parametrize("kind", [pa.time64("us"), pa.decimal256(60, 2), pa.month_day_nano_interval()])
def test_arrow_type_without_spark_type_is_refused_with_the_columns_name(kind: pa.DataType) -> None:
    with pytest.raises(InvalidProgramError, match=r"column 'a\.b\[\]'"):
        spark_schema(pa.schema([("a", pa.struct([("b", pa.list_(kind))]))]))


def test_nanoseconds_that_microseconds_cannot_hold_are_an_error_that_names_the_column() -> None:
    batch = pa.record_batch({"at": pa.array([1_001], pa.timestamp("ns"))})
    with pytest.raises(TypeMismatchError, match="column 'at'"):
        cast_batch(batch, spark_schema(batch.schema)[1])
