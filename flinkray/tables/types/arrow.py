"""The Arrow type that holds a logical type's values, and the logical type of an Arrow column.

A timestamp has the unit its precision asks for (0: seconds, to 3: milliseconds, to 6: microseconds, else nanoseconds),
and an instant the time zone UTC. Months of an interval are an int32, and its days to seconds a duration in
milliseconds. A multiset is a map from element to count. Whether a value may be NULL is not in an Arrow type but in a
field of it.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from flinkray.tables.types import logical
from flinkray.tables.types.logical import (
    CollectionType,
    DecimalType,
    LogicalType,
    MapType,
    RowType,
    TimestampType,
    TimeType,
    TypeRoot,
)

_PLAIN = {
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INTEGER: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.CHAR: pa.string(),
    TypeRoot.VARCHAR: pa.string(),
    TypeRoot.BINARY: pa.binary(),
    TypeRoot.VARBINARY: pa.binary(),
    TypeRoot.DATE: pa.date32(),
    TypeRoot.INTERVAL_YEAR_MONTH: pa.int32(),
    TypeRoot.INTERVAL_DAY_TIME: pa.duration("ms"),
    TypeRoot.RAW: pa.binary(),
    TypeRoot.NULL: pa.null(),
}


CARRIER = ""
"""The name of the column that rows without columns have in batches."""


def to_arrow(logical_type: LogicalType) -> pa.DataType:
    """The Arrow type of a column of that type."""
    match logical_type:
        case DecimalType(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case TimeType(precision=precision):
            unit = unit_of(precision)
            return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
        case TimestampType(kind=kind, precision=precision):
            return pa.timestamp(unit_of(precision), "UTC" if kind is TypeRoot.TIMESTAMP_LTZ else None)
        case CollectionType(kind=TypeRoot.MULTISET, element=element):
            return pa.map_(to_arrow(element), pa.field("value", pa.int32(), nullable=False))
        case CollectionType(element=element):
            return pa.list_(_field("item", element))
        case MapType(key=key, value=value):
            return pa.map_(to_arrow(key), _field("value", value))
        case RowType(fields=fields):
            return pa.struct([_field(field.name, field.type) for field in fields])
        case _:
            return _PLAIN[logical_type.root]


def to_arrow_schema(row_type: RowType) -> pa.Schema:
    """The schema of batches of such rows."""
    return pa.schema([_field(field.name, field.type) for field in row_type.fields])


def stored_schema(row_type: RowType) -> pa.Schema:
    """The schema of the batches that operators of tables take and give: as the columns of all streams, they may be
    null. Rows without columns, as COUNT(*) reads them, have one of NULLs, by which they can be counted."""
    columns = [(field.name, to_arrow(field.type)) for field in row_type.fields]
    return pa.schema(columns or [(CARRIER, pa.null())])


def unit_of(precision: int) -> str:
    """Arrow's unit of time that holds so many digits of a second."""
    return "s" if precision == 0 else "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def _field(name: str, logical_type: LogicalType) -> pa.Field:
    return pa.field(name, to_arrow(logical_type), nullable=logical_type.nullable)


_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_LOGICAL: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], LogicalType]], ...] = (
    (pa.types.is_null, lambda _: logical.NULL),
    (pa.types.is_boolean, lambda _: logical.BOOLEAN),
    (pa.types.is_int8, lambda _: logical.TINYINT),
    (lambda t: t in (pa.int16(), pa.uint8()), lambda _: logical.SMALLINT),
    (lambda t: t in (pa.int32(), pa.uint16()), lambda _: logical.INT),
    (lambda t: t in (pa.int64(), pa.uint32()), lambda _: logical.BIGINT),
    (pa.types.is_uint64, lambda _: logical.DECIMAL(20, 0)),
    (lambda t: t in (pa.float16(), pa.float32()), lambda _: logical.FLOAT),
    (pa.types.is_float64, lambda _: logical.DOUBLE),
    (pa.types.is_decimal128, lambda t: logical.DECIMAL(t.precision, t.scale)),
    (lambda t: t in (pa.string(), pa.large_string(), pa.string_view()), lambda _: logical.STRING),
    (lambda t: t in (pa.binary(), pa.large_binary(), pa.binary_view()), lambda _: logical.BYTES),
    (pa.types.is_fixed_size_binary, lambda t: logical.BINARY(t.byte_width)),
    (pa.types.is_date32, lambda _: logical.DATE),
    (pa.types.is_date64, lambda _: logical.TIMESTAMP(3)),
    (pa.types.is_time, lambda t: logical.TIME(_DIGITS[t.unit])),
    (
        pa.types.is_timestamp,
        lambda t: (logical.TIMESTAMP if t.tz is None else logical.TIMESTAMP_LTZ)(_DIGITS[t.unit]),
    ),
    (pa.types.is_duration, lambda _: logical.INTERVAL("DAY", "SECOND", fraction=3)),
    (pa.types.is_dictionary, lambda t: from_arrow(t.value_type)),
    (pa.types.is_map, lambda t: logical.MAP(from_arrow(t.key_type).not_null(), _of_field(t.item_field))),
    (
        lambda t: pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t),
        lambda t: logical.ARRAY(_of_field(t.value_field)),
    ),
    (pa.types.is_struct, lambda t: logical.ROW(*((field.name, _of_field(field)) for field in t))),
)


def from_arrow(arrow_type: pa.DataType) -> LogicalType:
    """The logical type, nullable, of a column of that Arrow type.

    Unsigned integers have the next larger type.

    Raises:
        ValueError: SQL has no type for it.
    """
    for is_it, make in _LOGICAL:
        if is_it(arrow_type):
            return make(arrow_type)
    raise ValueError(f"SQL has no type for Arrow's {arrow_type}; cast the column before it becomes one of a table")


def from_arrow_schema(schema: pa.Schema) -> RowType:
    """The type of the rows of batches with that schema."""
    return logical.ROW(*((field.name, _of_field(field)) for field in schema))


def _of_field(field: pa.Field) -> LogicalType:
    return from_arrow(field.type).with_nullability(field.nullable)
