"""The table that a sink writes to, and how rows get into it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, structs

from flinkray.batches.numpy_arrays import from_numpy
from flinkray.connectors.postgres.columns import NUMERIC, copied_type, quoted
from flinkray.connectors.postgres.staging import Staging
from flinkray.errors import InvalidProgramError, RecordError, UnknownColumnError
from flinkray.types.rows import RowKind

KIND = "flinkray_kind"
"""The last column of rows of a changelog: what each does."""
_NUMBER = "flinkray_n"
_VARCHAR = 1043
_EXACT_KEYS = (16, 17, 20, 21, 23, 25, _VARCHAR, 1082)
"""Types whose values are equal to the server just where Arrow's are: boolean, bytea, integers, text, varchar, date.
Others round, pad, or have several texts for a value."""
_BOOLEAN = 16
_TIMES = (1083, 1266)
_LONGEST_TEXTS: dict[pa.DataType, int] = {pa.float32(): 16, pa.float64(): 24, pa.timestamp("us", "UTC"): 48}
"""See `_longest_text`."""
_EXACT_SCALE = 6
"""Up to it Arrow writes decimals as the server does."""
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


class TargetColumn(Struct, frozen=True):
    """A column of the table: `sql_type` as SQL has it; `type_id` and `element_id` as in `Column`, of the base type
    where it is a domain; `is_required`: rows must have a value for it."""

    name: str
    sql_type: str
    type_id: int
    element_id: int
    is_enum: bool
    is_required: bool
    is_generated: bool
    plain_type: str = ""
    """The base type without what bounds its values, such as a length: a cast to that cuts nothing off, and the server
    refuses what is too long when it comes into the column."""
    collation: str = ""
    """In SQL, where texts that differ may be equal by it."""
    length: int = 0
    """Characters that a text, or one in an array, has at most, without blanks at its end; 0: any number."""


class Target(Struct, frozen=True):
    """A table, and the columns by which a row replaces a former one (none: it never does)."""

    schema: str
    table: str
    columns: tuple[TargetColumn, ...]
    key: tuple[str, ...]

    @property
    def name(self) -> str:
        """As SQL has it."""
        return f"{quoted(self.schema)}.{quoted(self.table)}"

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


def described(connection: Any, table: str, key: Sequence[str]) -> Target:
    """The table.

    Args:
        connection: of psycopg.
        table: its name as a user gives it.
    Raises:
        InvalidProgramError: rows cannot replace others by such a key.
        Exception: of psycopg, where there is no such table.
    """
    table_id, schema, name = connection.execute(
        "SELECT pg_class.oid, nspname, relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
        "WHERE pg_class.oid = %s::regclass",
        (table,),
    ).fetchone()
    rows = connection.execute(
        """
        SELECT attname, format_type(atttypid, atttypmod), base.oid, base.typelem, base.typcategory, attnotnull,
            atthasdef OR attidentity <> '', attgenerated <> '' OR attidentity = 'a', format_type(base.oid, -1),
            (SELECT quote_ident(nspname) || '.' || quote_ident(collname) FROM pg_collation JOIN pg_namespace
                ON pg_namespace.oid = collnamespace WHERE pg_collation.oid = attcollation AND NOT collisdeterministic),
            CASE WHEN CASE base.typcategory WHEN 'A' THEN base.typelem ELSE base.oid END IN (1042, 1043)
                THEN greatest(0, CASE given.typtype WHEN 'd' THEN given.typtypmod ELSE atttypmod END - 4) ELSE 0 END
        FROM pg_attribute JOIN pg_type given ON given.oid = atttypid
            JOIN pg_type base ON base.oid = CASE given.typtype WHEN 'd' THEN given.typbasetype ELSE given.oid END
        WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum
        """,
        (table_id,),
    ).fetchall()
    columns = tuple(
        TargetColumn(
            name=column,
            sql_type=sql_type,
            type_id=type_id,
            element_id=element_id if category == "A" else 0,
            is_enum=category == "E",
            is_required=is_required and not has_default,
            is_generated=is_generated,
            plain_type=plain_type,
            collation=collation or "",
            length=length,
        )
        for column, sql_type, type_id, element_id, category, is_required, has_default, is_generated, *others in rows
        for plain_type, collation, length in (others,)
    )
    target = Target(schema, name, columns, tuple(key))
    if key:
        _check_key(connection, target, table_id)
    return target


def _check_key(connection: Any, target: Target, table_id: int) -> None:
    names = [column.name for column in target.columns]
    for column in target.key:
        if column not in names:
            raise UnknownColumnError(column, names, f"PostgresSink(key=...) of table {target}")
    uniques = connection.execute(
        """
        SELECT array_agg(attname::text) FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey)
        WHERE indrelid = %s AND indisunique AND indpred IS NULL AND indexprs IS NULL AND indimmediate
            AND array_position(indkey::int2[], attnum) < indnkeyatts
        GROUP BY indexrelid
        """,
        (table_id,),
    ).fetchall()
    if not any(set(found) == set(target.key) for (found,) in uniques):
        columns = ", ".join(map(quoted, target.key))
        raise InvalidProgramError(
            f"PostgresSink(key=...): table {target} has no unique index on exactly {columns}, so that nothing says "
            f"which row is replaced: CREATE UNIQUE INDEX ON {target.name} ({columns})"
        )


class _Way(Struct, frozen=True):
    """How a column's values get into the table: cast to `arrow_type`, staged as `staged_type`, and converted by
    `expression`; `is_direct`: they could be copied into the table itself."""

    column: TargetColumn
    arrow_type: pa.DataType
    staged_type: str
    expression: str
    is_direct: bool
    length: int = 0
    """As the column's, where it is to be checked."""

    @property
    def key(self) -> str:
        """What keys are compared by: as the column, where that is bounded or has a collation."""
        as_column = self.expression if self.is_direct else f"({self.expression})::{self.column.sql_type}"
        return f"{as_column} COLLATE {self.column.collation}" if self.column.collation else as_column


class TargetRows:
    """How rows with one schema get into the table, or out of it.

    Args:
        schema: of the rows; those of a changelog have their kinds in a column `KIND`.
        where: names the operator and its subtask in errors.
        is_stored: a checkpoint has the rows. No restart would mend what is refused then, and former versions kept
            values as they were given, so that it is the server which converts and rounds them.
    Raises:
        UnknownColumnError, InvalidProgramError: the rows do not fit the table.
    """

    def __init__(self, target: Target, schema: pa.Schema, where: str, is_stored: bool = False) -> None:
        self._target = target
        self._where = where
        known = {column.name: column for column in target.columns}
        if taken := known.keys() & {KIND, _NUMBER}:
            raise InvalidProgramError(
                f"{where}: table {target} has a column {min(taken)!r}, a name that is used for what is sent beside "
                "rows; rename it"
            )
        names = [name for name in schema.names if name != KIND]
        for name in names:
            if name not in known:
                raise UnknownColumnError(name, list(known), f"{where}: table {target}")
            if known[name].is_generated:
                raise InvalidProgramError(
                    f"{where}: column {name!r} of table {target} is generated by the server; leave it out of the rows"
                )
        missing = [each.name for each in target.columns if each.is_required and each.name not in names]
        missing += [each for each in target.key if each not in names and each not in missing]
        if missing:
            raise InvalidProgramError(
                f"{where}: table {target} wants a value for {', '.join(missing)}, and the rows have none; their "
                f"columns are {', '.join(names)}"
            )
        if is_stored:
            self._ways = [_stored_way(known[name], schema.field(name), where) for name in names]
        else:
            self._ways = [_way(known[name], schema.field(name), where) for name in names]
        self._key_ways = [way for way in self._ways if way.column.name in target.key]
        self._has_exact_keys = all(
            way.is_direct
            and way.column.type_id in _EXACT_KEYS
            and not way.column.collation
            # Blanks at the end are cut off where there is a length.
            and (way.column.type_id != _VARCHAR or way.column.sql_type == way.column.plain_type)
            for way in self._key_ways
        )
        sent = [(way.column.name, way.arrow_type) for way in self._ways]
        self._schema = pa.schema([*sent, (KIND, pa.int8())] if KIND in schema.names else sent)

    def fitted(self, data: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the columns as they are sent; of rows with one key only the last.

        Raises:
            RecordError: a value does not fit its column.
        """
        columns = [self._cast(data.column(index), way) for index, way in enumerate(self._ways)]
        columns += data.columns[len(columns) :]
        fitted = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        return self._last_of_keys(fitted) if self._target.key else fitted

    def write(self, cursor: Any, data: pa.RecordBatch, staging: Staging) -> None:
        """Adds, replaces and deletes rows that are fitted, in the transaction of the cursor, which is one of ADBC."""
        if not self._has_exact_keys:
            self._write_last(cursor, data, staging)
        elif KIND in data.schema.names:
            rows = data.select(range(len(self._ways)))
            is_deleted = pc.equal(data.column(len(self._ways)), RowKind.DELETE.value)
            # First, so that a row which is added may have a value that is unique, and that a deleted one had.
            self._delete(cursor, rows.filter(is_deleted), staging)
            self._insert(cursor, rows.filter(pc.invert(is_deleted)), staging)
        else:
            self._insert(cursor, data, staging)

    def _write_last(self, cursor: Any, data: pa.RecordBatch, staging: Staging) -> None:
        """Has the server find the last row of each key, as only it knows which keys are equal."""
        numbers = from_numpy(np.arange(data.num_rows))
        declared = f"{_declared(self._ways)}, {_NUMBER} bigint"
        columns = [*data.columns[: len(self._ways)], numbers]
        deleted = None
        if KIND in data.schema.names:
            declared += f", {KIND} boolean"
            deleted = pc.equal(data.column(len(self._ways)), RowKind.DELETE.value)
            columns.append(deleted)
        names = [*(way.column.name for way in self._ways), _NUMBER, KIND][: len(columns)]
        staged = staging.filled(cursor, declared, pa.RecordBatch.from_arrays(columns, names=names))
        keys = ", ".join(way.key for way in self._key_ways)
        last = f"(SELECT DISTINCT ON ({keys}) * FROM {staged} ORDER BY {keys}, {_NUMBER} DESC) AS rows_"
        if deleted is not None:
            cursor.execute(self._deletion(f"{last} WHERE {KIND}"))
            last += f" WHERE NOT {KIND}"
        cursor.execute(self._insertion(last))

    def _insert(self, cursor: Any, data: pa.RecordBatch, staging: Staging) -> None:
        if not data.num_rows:
            return
        if not self._target.key and all(way.is_direct for way in self._ways):
            cursor.adbc_ingest(self._target.table, data, mode="append", db_schema_name=self._target.schema)
            return
        cursor.execute(self._insertion(staging.filled(cursor, _declared(self._ways), data)))

    def _delete(self, cursor: Any, data: pa.RecordBatch, staging: Staging) -> None:
        if not data.num_rows:
            return
        keys = data.select([way.column.name for way in self._key_ways])
        cursor.execute(self._deletion(staging.filled(cursor, _declared(self._key_ways), keys)))

    def _insertion(self, staged: str) -> str:
        names = ", ".join(quoted(way.column.name) for way in self._ways)
        expressions = ", ".join(way.expression for way in self._ways)
        return f"INSERT INTO {self._target.name} ({names}) SELECT {expressions} FROM {staged}{self._conflict()}"

    def _deletion(self, staged: str) -> str:
        names = ", ".join(quoted(way.column.name) for way in self._key_ways)
        expressions = ", ".join(way.key for way in self._key_ways)
        return f"DELETE FROM {self._target.name} WHERE ({names}) IN (SELECT {expressions} FROM {staged})"

    def _conflict(self) -> str:
        key = self._target.key
        if not key:
            return ""
        replaced = [quoted(way.column.name) for way in self._ways if way.column.name not in key]
        action = f"UPDATE SET {', '.join(f'{each} = EXCLUDED.{each}' for each in replaced)}" if replaced else "NOTHING"
        return f" ON CONFLICT ({', '.join(map(quoted, key))}) DO {action}"

    def _cast(self, column: pa.Array, way: _Way) -> pa.Array:
        try:
            cast = column.cast(way.arrow_type)
            _check_kept(column, cast)
            if way.length:
                _check_length(cast, way.length)
        except pa.ArrowException as error:
            raise RecordError(
                f"{self._where}: a value does not fit column {way.column.name!r} of table {self._target}, which is "
                f"{way.column.sql_type}: {error}"
            ) from error
        return cast

    def _last_of_keys(self, data: pa.RecordBatch) -> pa.RecordBatch:
        for name in self._target.key:
            if data.column(data.schema.get_field_index(name)).null_count:
                raise RecordError(
                    f"{self._where}: a row has null as {name!r}, which is a key of table {self._target}; null equals "
                    "nothing, so that it would say of no row that it is to be replaced or deleted"
                )
        numbered = pa.table([*data.columns, from_numpy(np.arange(len(data)))], names=[*data.schema.names, _NUMBER])
        last = numbered.group_by(list(self._target.key)).aggregate([(_NUMBER, "max")])[f"{_NUMBER}_max"]
        return data if len(last) == len(data) else data.take(last.combine_chunks().sort())


def _declared(ways: Sequence[_Way]) -> str:
    """The columns of a table that rows are staged in."""
    return ", ".join(f"{quoted(way.column.name)} {way.staged_type}" for way in ways)


def _way(column: TargetColumn, field: pa.Field, where: str) -> _Way:
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
    if length and _longest_text(given.value_type if column.element_id else given) > length:
        raise _no_way(column, field, where)
    return structs.replace(way, length=length)


def _stored_way(column: TargetColumn, field: pa.Field, where: str) -> _Way:
    """How values get into the column that a checkpoint has: as they are, or as the server makes them fit."""
    given = _plain(field.type)
    wanted = copied_type(column.type_id, column.element_id, column.is_enum)
    way = _direct_way(column, given, wanted if given == wanted else None)
    way = way or _converted_way(column, given, column.sql_type)
    if way is None:
        raise _no_way(column, field, where)
    return way


def _direct_way(column: TargetColumn, given: pa.DataType, wanted: pa.DataType | None) -> _Way | None:
    """Without the server's help, by a cast to the wanted type; None: there is no such way."""
    if column.type_id == NUMERIC and pa.types.is_integer(given):
        wanted = pa.decimal128(20, 0)
    elif column.type_id == NUMERIC and pa.types.is_decimal(given):
        wanted = given
    return None if wanted is None else _Way(column, wanted, column.sql_type, quoted(column.name), is_direct=True)


def _converted_way(column: TargetColumn, given: pa.DataType, sql_type: str) -> _Way | None:
    """By a cast of the server to the type; None: there is nothing to stage the values as."""
    natural = _natural(given)
    return None if natural is None else _Way(column, given, natural, f"{quoted(column.name)}::{sql_type}", False)


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


def _longest_text(given: pa.DataType) -> float:
    """Characters that the server's text for a value has at most, where Arrow's text is another one; 0: it is none."""
    if pa.types.is_decimal(given):
        digits = max(given.precision, given.scale, given.precision - given.scale)
        # Beside them a sign, a point, and a zero before it.
        return 0 if 0 <= given.scale <= _EXACT_SCALE else digits + 3
    return math.inf if pa.types.is_binary(given) or pa.types.is_list(given) else _LONGEST_TEXTS.get(given, 0)


def _check_length(values: pa.Array, length: int) -> None:
    """Refuses texts that are too long, and other values whose texts are.

    Raises:
        ArrowInvalid: there is one; says which.
    """
    values = pc.list_flatten(values) if pa.types.is_list(values.type) else values
    if _longest_text(values.type):
        return
    texts = values.cast(pa.string())
    if pa.types.is_time(values.type) or pa.types.is_timestamp(values.type):
        texts = pc.replace_substring_regex(texts, r"\.?0*$", "")
    texts = pc.utf8_rtrim(texts, " ")
    is_too_long = pc.greater(pc.utf8_length(texts), length)
    if pc.any(is_too_long).as_py():
        raise pa.ArrowInvalid(f"{texts.filter(is_too_long)[0].as_py()!r} has more than {length} characters")


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


def _check_kept(given: pa.Array, cast: pa.Array) -> None:
    """Refuses what Arrow's casts lose without a word.

    Raises:
        ArrowInvalid: a time of day, or a number that is too large for a narrower type.
    """
    while pa.types.is_dictionary(given.type) or pa.types.is_list(cast.type):
        if pa.types.is_dictionary(given.type):
            given = given.dictionary_decode()
        else:
            given, cast = pc.list_flatten(given), pc.list_flatten(cast)
    is_day = pa.types.is_timestamp(given.type) and pa.types.is_date(cast.type)
    if is_day and pc.any(pc.not_equal(cast.cast(given.type), given)).as_py():
        raise pa.ArrowInvalid("a time of day would be lost")
    if pa.types.is_float64(given.type) and pa.types.is_float32(cast.type):
        is_too_large = pc.and_(pc.is_inf(cast), pc.invert(pc.is_inf(given)))
        if pc.any(is_too_large).as_py():
            raise pa.ArrowInvalid("a number is too large for it")


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
