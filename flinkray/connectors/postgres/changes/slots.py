"""What the server needs for changes to be captured: a publication that says of which table, and a slot in its log."""

from __future__ import annotations

import logging
from typing import Any, NoReturn

from flinkray.connectors.postgres.changes.settings import ChangesSettings, SplitKey
from flinkray.connectors.postgres.changes.splits import lsn_of, shown_lsn
from flinkray.connectors.postgres.columns import quoted
from flinkray.connectors.postgres.connections import PostgresError, psycopg
from flinkray.errors import InvalidProgramError

log = logging.getLogger(__name__)

_SAMPLED_PAGES = 2_000
"""Keys of about so many pages say where to split a table."""
_PLUGIN = "pgoutput"


# -- the table


def check_table(connection: Any, relation: str, where: str) -> tuple[int, tuple[str, ...], bool]:
    """The table's id, its key, and whether the log has rows as they were before.

    Raises:
        InvalidProgramError: its changes cannot be captured.
    """
    table_id, kind, identity, has_children = connection.execute(
        "SELECT oid, relkind, relreplident, EXISTS (SELECT 1 FROM pg_inherits WHERE inhparent = pg_class.oid) "
        "FROM pg_class WHERE oid = %s::regclass",
        (relation,),
    ).fetchone()
    if kind not in ("r", "p") or (kind == "r" and has_children):
        what = "other tables that inherit from it" if kind == "r" else "no log of its own, as it is no table"
        raise InvalidProgramError(f"{where}: {relation} has {what}; name a table, or a partitioned one")
    others = connection.execute(
        "SELECT relid::regclass::text FROM pg_partition_tree(%s) JOIN pg_class ON pg_class.oid = relid "
        "WHERE isleaf AND relreplident <> %s",
        (table_id, identity),
    ).fetchall()
    key = _key(connection, table_id, identity)
    is_full = identity == "f"
    if others or (not key and not is_full):
        name = others[0][0] if others else relation
        what = "another REPLICA IDENTITY than the table it is a partition of" if others else "neither a primary key nor"
        raise InvalidProgramError(
            f"{where}: table {name} has {what}{'' if others else ' a REPLICA IDENTITY'}, so that the log would not say "
            f"which rows are updated and deleted: ALTER TABLE {name} REPLICA IDENTITY FULL"
        )
    return table_id, key, is_full


def _key(connection: Any, table_id: int, identity: str) -> tuple[str, ...]:
    """The columns of the index by which the log says which row it means; else those of the primary key."""
    rows = connection.execute(
        """
        SELECT attname::text FROM pg_index CROSS JOIN unnest(indkey::int2[]) WITH ORDINALITY AS keys (number, place)
            JOIN pg_attribute ON attrelid = indrelid AND attnum = keys.number
        WHERE indrelid = %s AND CASE WHEN %s THEN indisreplident ELSE indisprimary END AND place <= indnkeyatts
        ORDER BY place
        """,
        (table_id, identity == "i"),
    ).fetchall()
    return () if identity == "n" else tuple(name for (name,) in rows)


def split_key(connection: Any, table_id: int, name: str, is_sure: bool, is_unique: bool, where: str) -> SplitKey:
    """A column that the snapshot can be split by.

    Args:
        is_sure: the log says of each row which value it has in this column.
    """
    sql_type, is_required, collation = connection.execute(
        """
        SELECT format_type(atttypid, atttypmod), attnotnull, CASE WHEN attcollation NOT IN (0, 100)
            THEN (SELECT quote_ident(nspname) || '.' || quote_ident(collname) FROM pg_collation
                JOIN pg_namespace ON pg_namespace.oid = collnamespace WHERE pg_collation.oid = attcollation) ELSE '' END
        FROM pg_attribute WHERE attrelid = %s AND attname = %s
        """,
        (table_id, name),
    ).fetchone()
    if not is_required or not is_sure:
        what = "may be null" if not is_required else "is not in what the log has of deleted rows"
        raise InvalidProgramError(
            f"{where}(key={name!r}): the column {what}; take one of the primary key, or with REPLICA IDENTITY FULL one "
            "that is NOT NULL"
        )
    return SplitKey(name, sql_type, collation, is_unique)


def bounds_of(connection: Any, settings: ChangesSettings, splits: int) -> list[str]:
    """Keys, in order, between which there are about equally many rows."""
    key = settings.split_key
    assert key is not None
    ((pages,),) = connection.execute(
        "SELECT sum(pg_relation_size(relid)) / current_setting('block_size')::int FROM pg_partition_tree(%s)",
        (settings.table_id,),
    ).fetchall()
    if pages is None:  # it is no partition, and has none
        ((pages,),) = connection.execute(
            "SELECT pg_relation_size(%s) / current_setting('block_size')::int", (settings.table_id,)
        ).fetchall()
    fractions = [number / splits for number in range(1, splits)]
    percent = min(100.0, 100.0 * _SAMPLED_PAGES / max(1, int(pages)))
    sampled = "" if percent == 100 else f" TABLESAMPLE SYSTEM ({percent})"
    # Not as a parameter: names may have signs in them that would stand for one.
    asked = ", ".join(map(repr, fractions))
    ((found,),) = connection.execute(
        f"SELECT (percentile_disc(ARRAY[{asked}]::float8[]) WITHIN GROUP (ORDER BY {key.column}))::text[] "
        f"FROM {settings.relation}{sampled}"
    ).fetchall()
    return list(dict.fromkeys(found or ()))


# -- publication and slot


def check_server(connection: Any, where: str) -> None:
    """
    Raises:
        PostgresError: the server does not keep what is needed in its log.
    """
    ((level,),) = connection.execute("SELECT current_setting('wal_level')").fetchall()
    if level != "logical":
        raise PostgresError(
            f"{where}: the server's log lacks what is needed to capture changes, as wal_level is {level!r} there; set "
            "it to 'logical', and start the server again"
        )


def ensure_publication(connection: Any, settings: ChangesSettings, where: str) -> None:
    """Makes the publication, if there is none.

    Raises:
        PostgresError: the one that is there lacks the table, or some of its changes.
    """
    found = _lacking(connection, settings)
    if found is None:
        connection.execute(
            f"CREATE PUBLICATION {quoted(settings.publication)} FOR TABLE {settings.relation} "
            "WITH (publish_via_partition_root = true)"
        )
    elif found:
        raise PostgresError(
            f"{where}: publication {settings.publication!r} does not publish all changes of table "
            f"{settings.relation}: ALTER PUBLICATION {quoted(settings.publication)} {found}, or give the source "
            "another one (publication=)"
        )


def check_published(connection: Any, settings: ChangesSettings, where: str) -> None:
    """
    Raises:
        PostgresError: the table or its place in the publication are not there any more; the log just has no changes
            then.
    """
    ((table_id,),) = connection.execute("SELECT to_regclass(%s)::oid::int8", (settings.relation,)).fetchall()
    if table_id != settings.table_id:
        refuse_other_table(settings, where)
    try:
        # Since version 16 the answer waits for whoever locks any table of the publication; the log does not.
        connection.execute("SET lock_timeout = '1s'")
        lacking = _lacking(connection, settings)
    except psycopg().errors.LockNotAvailable:
        return  # the next look says it
    if lacking != "":
        raise PostgresError(
            f"{where}: publication {settings.publication!r} does not publish all changes of table "
            f"{settings.relation} any more, and those since are lost: let it (ALTER PUBLICATION, or drop it), and "
            "start without the state of this source, so that the table is read anew"
        )


def refuse_other_table(settings: ChangesSettings, where: str) -> NoReturn:
    """Raises a PostgresError."""
    raise PostgresError(
        f"{where}: table {settings.relation} is not there any more, or another one than when the source began to read: "
        "it was dropped or renamed. Start without the state of this source, so that what has the name is read anew"
    )


def _lacking(connection: Any, settings: ChangesSettings) -> str | None:
    """What the publication lacks, as ALTER PUBLICATION gives it; empty: nothing; None: it is not there."""
    found = connection.execute(
        """
        SELECT pubinsert AND pubupdate AND pubdelete, pubviaroot,
            EXISTS (SELECT 1 FROM pg_publication_tables AS t WHERE t.pubname = p.pubname
                AND (schemaname, tablename) = (SELECT nspname, relname FROM pg_class
                    JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE pg_class.oid = %(table)s)
                -- Conditions on rows are there since version 15.
                AND to_jsonb(t) ->> 'rowfilter' IS NULL),
            (SELECT relkind FROM pg_class WHERE oid = %(table)s)
        FROM pg_publication AS p WHERE pubname = %(name)s
        """,
        {"table": settings.table_id, "name": settings.publication},
    ).fetchone()
    if found is None:
        return None
    has_all, is_via_root, has_table, kind = found
    if not has_all:
        return "SET (publish = 'insert, update, delete, truncate')"
    if kind == "p" and not is_via_root:
        return "SET (publish_via_partition_root = true)"
    return "" if has_table else f"ADD TABLE {settings.relation}"


def slot_position(connection: Any, settings: ChangesSettings, where: str) -> int | None:
    """The position before which the slot has forgotten the log; None: there is no such slot.

    Raises:
        PostgresError: it is for something else, or has lost what it kept.
    """
    found = connection.execute(
        "SELECT plugin, database = current_database(), wal_status, confirmed_flush_lsn::text FROM pg_replication_slots "
        "WHERE slot_name = %s",
        (settings.slot,),
    ).fetchone()
    if found is None:
        return None
    plugin, is_here, status, position = found
    if plugin != _PLUGIN or not is_here:
        raise PostgresError(
            f"{where}: slot {settings.slot!r} is for {plugin or 'physical replication'}, or for another database; give "
            "the source another one (slot=)"
        )
    if status == "lost" or position is None:
        raise PostgresError(
            f"{where}: slot {settings.slot!r} has lost a part of the log, as the server keeps no more of it than "
            f"max_slot_wal_keep_size: SELECT pg_drop_replication_slot('{settings.slot}'), and start without the state "
            "of this source, so that the table is read anew"
        )
    return lsn_of(position)


def check_position(connection: Any, settings: ChangesSettings, lsn: int, where: str) -> None:
    """
    Raises:
        PostgresError: the slot does not have the log behind this position.
    """
    kept = slot_position(connection, settings, where)
    if kept is not None and kept > lsn:
        ((session,),) = connection.execute(
            "SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s", (settings.slot,)
        ).fetchall()
        if session is not None:
            raise PostgresError(
                f"{where}: slot {settings.slot!r} moves on, as somebody else reads from it (PID {session}); give each "
                "job a slot of its own (slot=)"
            )
    if kept is None or kept > lsn:
        what = "is not there any more" if kept is None else f"has let go of the log before {shown_lsn(kept)}"
        raise PostgresError(
            f"{where}: slot {settings.slot!r} {what}, and the job is to go on at {shown_lsn(lsn)}: changes between are "
            "lost. Start without the state of this source, so that the table is read anew"
            + ("" if kept is None else ", or from the latest checkpoint; slots move on with each of them")
        )


def create_slot(connection: Any, settings: ChangesSettings) -> int:
    """Makes the slot; gives the position from which it keeps the log. Waits for transactions that are running.

    Raises:
        Exception: of psycopg; with SQLSTATE 55P03 where these take longer than lock_timeout.
    """
    ((position,),) = connection.execute(
        "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, %s)", (settings.slot, _PLUGIN)
    ).fetchall()
    return lsn_of(position)


def drop(connection: Any, slot: str, publication: str | None) -> None:
    """Drops slot and publication, those that are there."""
    connection.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", (slot,)
    )
    if publication is not None:
        connection.execute(f"DROP PUBLICATION IF EXISTS {quoted(publication)}")


# -- moments


def running(connection: Any) -> tuple[int, int]:
    """The lowest id of a transaction that may be running, and the next that will be given."""
    ((lowest, following),) = connection.execute(
        "SELECT pg_snapshot_xmin(s)::text::int8, pg_snapshot_xmax(s)::text::int8 FROM pg_current_snapshot() AS s"
    ).fetchall()
    return lowest, following


def names_of(connection: Any, table_id: int) -> tuple[str, ...]:
    """The names of the database, the schema and the table."""
    query = (
        "SELECT current_database()::text, nspname::text, relname::text FROM pg_class "
        "JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE pg_class.oid = %s"
    )
    (found,) = connection.execute(query, (table_id,)).fetchall()
    return tuple(found)


def now_ms(connection: Any) -> int:
    ((now,),) = connection.execute("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::int8").fetchall()
    return int(now)


def mark_log(connection: Any) -> int:
    """A position behind all that is committed now; the log goes on behind it."""
    ((position,),) = connection.execute("SELECT pg_logical_emit_message(true, 'flinkray', '')::text").fetchall()
    return lsn_of(position)
