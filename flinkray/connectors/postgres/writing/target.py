"""The table that a sink writes to, as the server describes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from flinkray.connectors.postgres.columns import quoted
from flinkray.errors import InvalidProgramError, UnknownColumnError


class TargetColumn(Struct, frozen=True):
    """A column of the table: `sql_type` as SQL has it; `type_id` and `element_id` as in `Column`, of the base type
    where it is a domain; `is_required`: rows must have a value for it."""

    name: str
    sql_type: str
    type_id: int
    element_id: int
    is_enum: bool
    is_domain: bool
    is_nullable: bool
    is_required: bool
    is_generated: bool
    is_numbered: bool
    """The server gives it numbers of a sequence where rows have no value."""
    plain_type: str
    """The base type without what bounds its values, such as a length: a cast to that cuts nothing off, and the server
    refuses what is too long when it comes into the column."""
    collation: str
    """In SQL, where texts that differ may be equal by it."""
    modifier: int
    """Of the base type, such as its length; -1: none."""

    @property
    def length(self) -> int:
        """Characters that a text, or one in an array, has at most, without blanks at its end; 0: any number."""
        return max(0, self.modifier - 4) if (self.element_id or self.type_id) in _BOUNDED_TEXTS else 0


class Target(Struct, frozen=True):
    """A table, and the columns by which a row replaces a former one (none: it never does)."""

    schema: str
    table: str
    columns: tuple[TargetColumn, ...]
    key: tuple[str, ...]
    has_conditions: bool
    """Whether it has CHECK constraints, columns that the server computes, or an encoding without some characters."""
    partitions: str
    """A condition of SQL for the rows that belong to one of its partitions; empty: there are none."""
    has_triggers: bool = False
    """Whether triggers may change a row before it is added, so that only the table itself can say what it refuses."""
    is_copied: bool = True
    """Whether COPY does what INSERT does: it writes into no view, past rules, and not where policies hold."""

    @property
    def name(self) -> str:
        """As SQL has it."""
        return f"{quoted(self.schema)}.{quoted(self.table)}"

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


_BOUNDED_TEXTS = (1042, 1043)
_TABLE = """
    SELECT pg_class.oid, nspname, relname,
        current_setting('server_encoding') <> 'UTF8'
            OR EXISTS (SELECT FROM pg_constraint WHERE conrelid = pg_class.oid AND contype = 'c')
            OR EXISTS (SELECT FROM pg_attribute WHERE attrelid = pg_class.oid AND attgenerated <> ''),
        coalesce((SELECT string_agg('(' || coalesce(pg_get_partition_constraintdef(relid), 'true') || ')', ' OR ')
            FROM pg_partition_tree(pg_class.oid) WHERE isleaf), CASE relkind WHEN 'p' THEN 'false' ELSE '' END),
        EXISTS (SELECT FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D'
            AND (tgtype & 7 = 7 OR tgtype & 69 = 69)
            AND (tgrelid = pg_class.oid OR tgrelid IN (SELECT relid FROM pg_partition_tree(pg_class.oid)))),
        relkind IN ('r', 'p', 'f') AND NOT relhasrules AND NOT row_security_active(pg_class.oid)
    FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE pg_class.oid = %s::regclass
"""
_COLUMNS = """
    SELECT attname AS name, format_type(atttypid, atttypmod) AS sql_type, base.oid AS type_id,
        coalesce((SELECT oid FROM pg_type WHERE typarray = base.oid), 0) AS element_id,
        base.typcategory = 'E' AS is_enum, given.typtype = 'd' AS is_domain, NOT attnotnull AS is_nullable,
        attnotnull AND NOT (atthasdef OR attidentity <> '') AS is_required,
        attgenerated <> '' OR attidentity = 'a' AS is_generated,
        attidentity <> '' OR coalesce(pg_get_expr(adbin, adrelid) LIKE '%%nextval(%%', false) AS is_numbered,
        format_type(base.oid, -1) AS plain_type,
        coalesce((SELECT quote_ident(nspname) || '.' || quote_ident(collname) FROM pg_collation JOIN pg_namespace
            ON pg_namespace.oid = collnamespace WHERE pg_collation.oid = attcollation AND NOT collisdeterministic), '')
            AS collation,
        CASE given.typtype WHEN 'd' THEN given.typtypmod ELSE atttypmod END AS modifier
    FROM pg_attribute JOIN pg_type given ON given.oid = atttypid
        JOIN pg_type base ON base.oid = CASE given.typtype WHEN 'd' THEN given.typbasetype ELSE given.oid END
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
    WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""


def described(connection: Any, table: str, key: Sequence[str]) -> Target:
    """The table.

    Args:
        connection: of psycopg.
        table: its name as a user gives it.
    Raises:
        InvalidProgramError: rows cannot replace others by such a key.
        Exception: of psycopg, where there is no such table.
    """
    table_id, schema, name, *facts = connection.execute(_TABLE, (table,)).fetchone()
    found = connection.execute(_COLUMNS, (table_id,))
    names = [column.name for column in found.description]
    columns = tuple(TargetColumn(**dict(zip(names, row, strict=True))) for row in found.fetchall())
    target = Target(schema, name, columns, tuple(key), *facts)
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
