"""How values of a column get into a column of a table: which type they are cast to, and what the server does then."""

from __future__ import annotations

import pyarrow as pa
from msgspec import Struct, structs

from flinkray.connectors.postgres.columns import NUMERIC, copied_type, quoted
from flinkray.connectors.postgres.writing.target import TargetColumn
from flinkray.connectors.postgres.writing.values import longest_text
from flinkray.errors import InvalidProgramError

_BOOLEAN = 16
_TIMES = (1083, 1266)
_SURE = (16, 17, 20, 21, 23, 25, 700, 701, 1042, 1043, 1082, 1083, 1114, 1184, NUMERIC)
"""Types whose bounds are checked here: boolean, bytea, numbers, text, varchar, char, dates and times."""
_NATURAL: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.binary(): "bytea",
    pa.date32(): "date",
    pa.time64("us"): "time",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", "UTC"): "timestamptz",
}
"""What a column is staged as whose type the server has to convert."""


class Way(Struct, frozen=True):
    """How a column's values get into the table: cast to `arrow_type`, staged as `staged_type`, and converted by
    `expression`; `is_direct`: they could be copied into the table itself."""

    column: TargetColumn
    arrow_type: pa.DataType
    staged_type: str
    expression: str
    is_direct: bool
    is_checked: bool = False
    """Values that the server would refuse are to be refused before they are sent."""
    length: int = 0
    """As the column's, where it is to be checked."""

    @property
    def is_sure(self) -> bool:
        """Whether the server takes each value that the checks let pass."""
        read = self.column.element_id or self.column.type_id
        return self.is_checked and self.is_direct and not self.column.is_domain and read in _SURE

    @property
    def key(self) -> str:
        """What keys are compared by: as the column, where that is bounded or has a collation."""
        as_column = self.expression if self.is_direct else f"({self.expression})::{self.column.sql_type}"
        return f"{as_column} COLLATE {self.column.collation}" if self.column.collation else as_column


def way_of(column: TargetColumn, field: pa.Field, where: str) -> Way:
    """How values of the field's type get into the column: by Arrow where it can convert them, else by the server."""
    given = _plain(field.type)
    wanted = copied_type(column.type_id, column.element_id, column.is_enum)
    if _loses(given, column.element_id or column.type_id):
        raise _no_way(column, field, where)
    way = _direct_way(column, given, wanted if wanted is not None and _casts(given, wanted) else None)
    way = way or _converted_way(column, given, column.plain_type)
    if way is None:
        raise _no_way(column, field, where)
    # A text in place of an array has the texts of several elements.
    length = column.length if not column.element_id or pa.types.is_list(given) else 0
    if length and longest_text(given.value_type if column.element_id else given) > length:
        raise _no_way(column, field, where)
    return structs.replace(way, is_checked=True, length=length)


def stored_way(column: TargetColumn, field: pa.Field, where: str) -> Way:
    """How values get into the column that a checkpoint has: as they are, or as the server makes them fit."""
    given = _plain(field.type)
    wanted = copied_type(column.type_id, column.element_id, column.is_enum)
    way = _direct_way(column, given, wanted if given == wanted else None)
    way = way or _converted_way(column, given, column.sql_type)
    if way is None:
        raise _no_way(column, field, where)
    return way


def _direct_way(column: TargetColumn, given: pa.DataType, wanted: pa.DataType | None) -> Way | None:
    """Without the server's help, by a cast to the wanted type; None: there is no such way."""
    if column.type_id == NUMERIC and pa.types.is_integer(given):
        wanted = pa.decimal128(20, 0)
    elif column.type_id == NUMERIC and pa.types.is_decimal(given):
        wanted = given
    return None if wanted is None else Way(column, wanted, column.sql_type, quoted(column.name), is_direct=True)


def _converted_way(column: TargetColumn, given: pa.DataType, sql_type: str) -> Way | None:
    """By a cast of the server to the type; None: there is nothing to stage the values as."""
    natural = _natural(given)
    return None if natural is None else Way(column, given, natural, f"{quoted(column.name)}::{sql_type}", False)


def _no_way(column: TargetColumn, field: pa.Field, where: str) -> InvalidProgramError:
    return InvalidProgramError(
        f"{where}: column {column.name!r} is {field.type} in the rows and {column.sql_type} in the table, and there is "
        "no way from one to the other that keeps each value; give text, such as JSON, which the server converts"
    )


def _loses(given: pa.DataType, type_id: int) -> bool:
    """Whether the server's cast to the type loses something without a word."""
    if pa.types.is_list(given):
        return _loses(given.value_type, type_id)
    if type_id == _BOOLEAN:
        return not (pa.types.is_boolean(given) or pa.types.is_string(given))
    return type_id in _TIMES and pa.types.is_timestamp(given)


def _casts(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Arrow's cast keeps each value or refuses it."""
    if pa.types.is_list(given) and pa.types.is_list(wanted):
        return _casts(given.value_type, wanted.value_type)
    if given == wanted:
        return True
    kinds = (pa.types.is_integer, pa.types.is_timestamp, pa.types.is_time, pa.types.is_floating)
    if pa.types.is_timestamp(given) and pa.types.is_date(wanted):
        return True
    is_number = pa.types.is_floating(given) or pa.types.is_decimal(given)
    return any(kind(given) and kind(wanted) for kind in kinds) or (
        (pa.types.is_integer(given) and pa.types.is_floating(wanted)) or (is_number and pa.types.is_integer(wanted))
    )


def _plain(given: pa.DataType) -> pa.DataType:
    """The type without what makes no difference to a value: dictionaries, large and small, and units of time."""
    types = pa.types
    if types.is_dictionary(given):
        return _plain(given.value_type)
    if types.is_list(given) or types.is_large_list(given) or types.is_fixed_size_list(given):
        return pa.list_(_plain(given.value_type))
    if types.is_large_string(given) or types.is_string_view(given):
        return pa.string()
    if types.is_large_binary(given) or types.is_binary_view(given) or types.is_fixed_size_binary(given):
        return pa.binary()
    if types.is_timestamp(given):
        return pa.timestamp("us", None if given.tz is None else "UTC")
    if types.is_time(given):
        return pa.time64("us")
    if types.is_date(given):
        return pa.date32()
    if types.is_int8(given) or types.is_uint8(given):
        return pa.int16()
    if types.is_uint16(given):
        return pa.int32()
    if types.is_uint32(given) or types.is_uint64(given):
        return pa.int64()
    if types.is_null(given):
        return pa.string()
    return pa.float32() if types.is_float16(given) else given


def _natural(given: pa.DataType) -> str | None:
    if pa.types.is_list(given):
        element = None if pa.types.is_list(given.value_type) else _natural(given.value_type)
        return None if element is None else f"{element}[]"
    if pa.types.is_decimal(given):
        return "numeric"
    return _NATURAL.get(given)
