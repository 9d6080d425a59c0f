"""Converts Spark's types to Arrow's and back, column by column, with errors that name the column.

| Spark | Arrow |
|---|---|
| boolean, byte, short, integer, long, float, double | bool, int8, int16, int32, int64, float, double |
| string, char, varchar; binary | string; binary |
| date; timestamp; timestamp_ntz | date32; timestamp[us, UTC]; timestamp[us] |
| decimal(p, s) | decimal128(p, s) |
| interval day to second (any of its fields) | duration[us] |
| array, map, struct; void | list, map, struct; null |

On the way to Spark also: unsigned integers (as the next wider type), half floats, large and view types, date64, other
timestamp and duration units if no value loses digits, fixed-size lists, dictionaries. Not supported: intervals of
months (pyarrow cannot hold them), user-defined types, times of day (Spark 3.5 has none), decimals of more than 38
digits.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import types as spark

from flinkray.errors import InvalidProgramError, TypeMismatchError

_ARROW_OF: dict[type[spark.DataType], pa.DataType] = {
    spark.NullType: pa.null(),
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int8(),
    spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.StringType: pa.string(),
    spark.CharType: pa.string(),
    spark.VarcharType: pa.string(),
    spark.BinaryType: pa.binary(),
    spark.DateType: pa.date32(),
    spark.TimestampType: pa.timestamp("us", tz="UTC"),
    spark.TimestampNTZType: pa.timestamp("us"),
    spark.DayTimeIntervalType: pa.duration("us"),
}

# The Spark types of Arrow types that Spark takes as they are. Other types are cast first, as `_nearest` says.
_SPARK_OF: dict[pa.DataType, spark.DataType] = {
    _ARROW_OF[kind]: kind() for kind in _ARROW_OF if kind not in (spark.CharType, spark.VarcharType)
}

_NEAREST: dict[pa.DataType, pa.DataType] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """The Arrow schema of a DataFrame's rows inside flinkray.

    All columns are nullable there, as in streams of other sources, so that a union of both has one type.

    Raises:
        InvalidProgramError: a column has a type that Arrow cannot hold, or shares its name with another.
    """
    _refuse_duplicates(schema.names)
    return pa.schema([_arrow_field(field, field.name) for field in schema])


def spark_schema(schema: pa.Schema) -> tuple[spark.StructType, pa.Schema]:
    """The schema of the DataFrame that rows of `schema` become, and the Arrow schema that they are cast to first.

    Raises:
        InvalidProgramError: a column has a type that Spark 3.5 does not have.
    """
    _refuse_duplicates(schema.names)
    target = pa.schema([_nearest_field(field, field.name) for field in schema])
    return spark.StructType([_spark_field(field) for field in target]), target


def cast_batch(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """The rows of `batch` with exactly the schema `target`; columns are matched by position.

    Raises:
        TypeMismatchError: a value does not fit (for example nanoseconds that microseconds cannot hold).
    """
    if batch.schema.equals(target):
        return batch
    columns = []
    for index, field in enumerate(target):
        column = batch.column(index)
        try:
            columns.append(column if column.type.equals(field.type) else column.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise TypeMismatchError(
                f"column {field.name!r} holds a value of type {column.type} that does not fit {field.type}: {error}"
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _refuse_duplicates(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidProgramError(
                f"two columns are called {name!r}: rename one, for example with withColumnRenamed"
            )
        seen.add(name)


def _arrow_field(field: spark.StructField, path: str) -> pa.Field:
    return pa.field(field.name, _arrow_type(field.dataType, path))


def _arrow_type(kind: spark.DataType, path: str) -> pa.DataType:
    simple = _ARROW_OF.get(type(kind))
    if simple is not None:
        return simple
    if isinstance(kind, spark.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, spark.ArrayType):
        return pa.list_(pa.field("element", _arrow_type(kind.elementType, f"{path}[]")))
    if isinstance(kind, spark.MapType):
        value = pa.field("value", _arrow_type(kind.valueType, f"{path}[value]"))
        return pa.map_(pa.field("key", _arrow_type(kind.keyType, f"{path}[key]"), nullable=False), value)
    if isinstance(kind, spark.StructType):
        _refuse_duplicates(kind.names)
        return pa.struct([_arrow_field(field, f"{path}.{field.name}") for field in kind])
    raise InvalidProgramError(
        f"column {path!r} has Spark type {kind.simpleString()!r}, which has no Arrow type here: cast it in Spark first "
        f"(intervals of months to a number of months, user-defined types to their fields)"
    )


def _spark_field(field: pa.Field) -> spark.StructField:
    return spark.StructField(field.name, _spark_type(field.type), field.nullable)


def _spark_type(kind: pa.DataType) -> spark.DataType:
    """The Spark type of a type that `_nearest` gave."""
    simple = _SPARK_OF.get(kind)
    if simple is not None:
        return simple
    if pa.types.is_decimal(kind):
        return spark.DecimalType(kind.precision, kind.scale)
    if pa.types.is_map(kind):
        return spark.MapType(_spark_type(kind.key_type), _spark_type(kind.item_type), kind.item_field.nullable)
    if pa.types.is_list(kind):
        return spark.ArrayType(_spark_type(kind.value_type), kind.value_field.nullable)
    return spark.StructType([_spark_field(field) for field in kind])


def _nearest_field(field: pa.Field, path: str) -> pa.Field:
    return pa.field(field.name, _nearest(field.type, path), nullable=field.nullable)


def _nearest(kind: pa.DataType, path: str) -> pa.DataType:
    """The type that Spark's Arrow reader takes and that holds the values of `kind`."""
    if kind in _SPARK_OF:
        return kind
    if kind in _NEAREST:
        return _NEAREST[kind]
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz=None if kind.tz is None else "UTC")
    if pa.types.is_duration(kind):
        return pa.duration("us")
    if pa.types.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return pa.decimal128(kind.precision, kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_dictionary(kind):
        return _nearest(kind.value_type, path)
    if pa.types.is_map(kind):
        item = pa.field("value", _nearest(kind.item_type, f"{path}[value]"), nullable=kind.item_field.nullable)
        return pa.map_(pa.field("key", _nearest(kind.key_type, f"{path}[key]"), nullable=False), item)
    if _is_list(kind):
        element = kind.value_field
        return pa.list_(pa.field("element", _nearest(element.type, f"{path}[]"), nullable=element.nullable))
    if pa.types.is_struct(kind):
        _refuse_duplicates(field.name for field in kind)
        return pa.struct([_nearest_field(field, f"{path}.{field.name}") for field in kind])
    raise InvalidProgramError(
        f"column {path!r} has Arrow type {kind}, which Spark 3.5 has no type for: cast it before to_spark "
        f"(times of day to a number or text, decimals to at most 38 digits)"
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
