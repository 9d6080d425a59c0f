"""Columns of tables and queries: which Arrow types they are read as, and which ones they take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from flinkray.errors import InvalidProgramError, RecordError, UnknownColumnError

NUMERIC = 1700
_JSON = 114
_XML = 142
_OID = 26
_TEXTS = (25, 1043, 1042, 19)
_READ_AS_THEY_ARE: dict[int, pa.DataType] = {
    16: pa.bool_(),
    21: pa.int16(),
    23: pa.int32(),
    20: pa.int64(),
    700: pa.float32(),
    701: pa.float64(),
    **dict.fromkeys(_TEXTS, pa.string()),
    17: pa.binary(),
    1082: pa.date32(),
    1083: pa.time64("us"),
    1114: pa.timestamp("us"),
    1184: pa.timestamp("us", "UTC"),
}
"""Types by the ids that PostgreSQL has given them for good (pg_type.dat)."""
INTEGERS = (21, 23, 20)
_EARLIEST = {pa.timestamp("us").id: -211_000_000_000_000_000, pa.date32().id: -2_450_000}
"""A little before 4713 BC, where PostgreSQL's times begin, as Arrow counts them. What the driver makes of infinity, and
of times that are too late for Arrow, is before that."""
_LARGEST_PRECISION = 38


class Column(Struct, frozen=True):
    """A column of a table or query: its name, the id of its type, the type's modifier (-1: none), and for an array the
    id of its elements' type (else 0)."""

    name: str
    type_id: int
    modifier: int
    element_id: int = 0

    @property
    def arrow_type(self) -> pa.DataType:
        """What it is read as. Whatever Arrow has nothing for is text: exact, and as the server writes it."""
        if self.element_id:
            return pa.list_(Column(self.name, self.element_id, self.modifier).arrow_type)
        if self.type_id == NUMERIC:
            return _decimal(self.modifier) or pa.string()
        if self.type_id == _OID:
            return pa.int64()
        return _READ_AS_THEY_ARE.get(self.type_id, pa.string())

    @property
    def expression(self) -> str:
        """What to select, so that ADBC gives it as a type that Arrow can cast to `arrow_type` and nothing is lost."""
        name = quoted(self.name)
        read = self.element_id or self.type_id
        as_type = "" if read in _READ_AS_THEY_ARE else "::int8" if read == _OID else "::text"
        # A cast of XML keeps the declaration that the log, and whoever else reads it, does not get.
        shown = f"concat({name})" if read == _XML else name
        if self.element_id:
            # The driver would make one long list of an array of several dimensions; appending to one is an error.
            array = f"{shown}{as_type and as_type + '[]'}"
            return f"CASE WHEN {name} IS NOT NULL THEN trim_array(array_append({array}, NULL), 1) END AS {name}"
        if read == _XML:
            return f"CASE WHEN {name} IS NOT NULL THEN {shown} END AS {name}"
        return f"{name}{as_type} AS {name}" if as_type else name


def _decimal(modifier: int) -> pa.DataType | None:
    """The type of numeric(precision, scale); None: it says no precision, or Arrow has not so many digits."""
    if modifier < 0:
        return None
    precision, scale = digits_of(modifier)
    return pa.decimal128(precision, scale) if 0 <= scale <= precision <= _LARGEST_PRECISION else None


def digits_of(modifier: int) -> tuple[int, int]:
    """Precision and scale of numeric(precision, scale); a scale may be negative."""
    scale = (modifier - 4) & 0x7FF
    return (modifier - 4) >> 16 & 0xFFFF, scale - 0x800 if scale > 0x3FF else scale


def copied_type(type_id: int, element_id: int, is_enum: bool) -> pa.DataType | None:
    """What COPY takes a column of the type as; None: only the server can convert to it."""
    if element_id:
        element = copied_type(element_id, 0, is_enum=False)
        return None if element is None else pa.list_(element)
    return pa.string() if is_enum or type_id == _JSON else _READ_AS_THEY_ARE.get(type_id)


def quoted(name: str) -> str:
    """A name as SQL has it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def columns_of(connection: Any, relation: str) -> tuple[Column, ...]:
    """The columns of what can stand after FROM.

    Args:
        connection: of psycopg.
        relation: a table's name in SQL, or a query in parentheses with a name.
    """
    cursor = connection.execute(f"SELECT * FROM {relation} LIMIT 0")
    found = [
        (column.name, column.type_code, cursor.pgresult.fmod(index)) for index, column in enumerate(cursor.description)
    ]
    elements = dict(
        connection.execute(
            "SELECT typarray, oid FROM pg_type WHERE typarray = ANY(%s)", ([each[1] for each in found],)
        ).fetchall()
    )
    return tuple(Column(name, type_id, modifier, elements.get(type_id, 0)) for name, type_id, modifier in found)


def chosen(columns: Sequence[Column], names: Sequence[str] | None, where: str) -> tuple[Column, ...]:
    """The columns of those names, in their order; None: all.

    Raises:
        UnknownColumnError: there is none of such a name.
        InvalidProgramError: there is nothing to read, or two columns have one name.
    """
    known = {column.name: column for column in columns}
    if names is None:
        names = [column.name for column in columns]
    for name in names:
        if name not in known:
            raise UnknownColumnError(name, list(known), where)
    if not names or len(set(names)) < len(names) or len(known) < len(columns):
        raise InvalidProgramError(f"{where} wants columns, each of a name of its own, not {', '.join(names)}")
    return tuple(known[name] for name in names)


def as_arrow(
    values: pa.Array | pa.ChunkedArray, field: pa.Field, where: str, way_out: str = ""
) -> pa.Array | pa.ChunkedArray:
    """Values of a column as they came from the driver, in the type that is declared.

    Args:
        way_out: what to do about values that have no place in it.
    Raises:
        RecordError: there is one that Arrow cannot hold.
    """
    way_out = way_out or f'cast it, as in PostgresSource(query="SELECT {field.name}::text ...")'
    try:
        cast = values.cast(field.type)
    except pa.ArrowException as error:
        raise RecordError(
            f"{where}: a value of column {field.name!r} is no {field.type}: {error}. What to do: {way_out}"
        ) from error
    times = pc.list_flatten(cast) if pa.types.is_list(field.type) else cast
    earliest = _EARLIEST.get(times.type.id)
    if earliest is not None:
        lowest = pc.min(times.cast(pa.int64() if times.type.bit_width == 64 else pa.int32())).as_py()
        if lowest is not None and lowest < earliest:
            raise RecordError(
                f"{where}: a value of column {field.name!r} is infinity, or so late that {field.type} has no number "
                f"for it. Leave such rows out with isfinite({field.name}), or {way_out}"
            )
    return cast


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """What is read as Arrow has it."""
    return pa.schema([pa.field(column.name, column.arrow_type) for column in columns])
