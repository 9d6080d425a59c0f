"""Changes of a table of PostgreSQL as a source."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import pyarrow as pa

from flinkray.connectors.postgres.changes import slots
from flinkray.connectors.postgres.changes.enumerator import ChangesEnumerator
from flinkray.connectors.postgres.changes.metadata import METADATA
from flinkray.connectors.postgres.changes.reader import ChangesReader
from flinkray.connectors.postgres.changes.settings import ChangesSettings
from flinkray.connectors.postgres.columns import chosen, columns_of
from flinkray.connectors.postgres.connections import control, refuse, shown
from flinkray.connectors.postgres.source import DescribedSource
from flinkray.connectors.source import (
    Boundedness,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.errors import InvalidProgramError, UnknownColumnError, did_you_mean
from flinkray.types.records import Kind, RecordType

_NAME = "PostgresChangesSource"
_LONGEST_NAME = 63


class PostgresChangesSource(DescribedSource[ChangesSettings]):
    """A table as it is and then each change of it, as a changelog, exactly once (change data capture). Comes with
    `flinkray[postgres]`.

    The rows that are there come first, as +I, in parallel and without locks, while the table is written to; then one
    subtask reads the server's log. With REPLICA IDENTITY FULL an update is -U and +U, or -D and +I where it changes the
    key, and a deletion has the whole row. Else the log does not have rows as they were: an update is +U alone, and a
    deletion has the columns of the key, and nulls.

    The position in the log is in checkpoints, and the server keeps its log from the last complete one on. The event
    time of a row is the time of its commit, or of the start of the snapshot, unless the watermark strategy has a
    timestamp assigner.

    The server needs wal_level = 'logical', and the user the attribute REPLICATION.

    Args:
        uri: "postgresql://host:5432/database", or "host=... dbname=...", with options of libpq; shown nowhere.
        table: its name as SQL has it, such as "orders" or 'sales."Orders"'. A partitioned one has its partitions' rows.
        columns: read only these; all but generated ones by custom. Such as are added later are read from the next start
            of the program on.
        key: the column that the snapshot is split by, best with an index on it; the first one of the primary key by
            custom.
        start: "snapshot", or "latest": changes alone, from the moment when the slot is made on.
        stop: "latest": the source ends with what is committed when the snapshot is read; None: it does not end.
        slot: the name of the replication slot, which is made if it is not there; each job needs its own. Named after
            the table by custom.
        publication: the name of the publication, which is made if it is not there; named after the table by custom.
        truncated: "fail" ends the job where the table is truncated, as the log does not say which rows it had; "skip"
            gives nothing for that.
        needs_before: refuse a table whose log does not have rows as they were.
        metadata: columns that rows have in front: of "database_name", "schema_name", "table_name", "op_ts" (when the
            change was committed; of the snapshot's rows 1970) and "row_kind" ("+I", "-U", "+U" or "-D"); a mapping
            gives them other names: {"changed": "op_ts"}. A deletion has the "op_ts" and "row_kind" of itself, and so
            differs in them from the row that goes.
    """

    _needs_before = False

    def __init__(
        self,
        uri: str,
        table: str,
        columns: Iterable[str] | None = None,
        key: str | None = None,
        start: Literal["snapshot", "latest"] = "snapshot",
        stop: Literal["latest"] | None = None,
        slot: str | None = None,
        publication: str | None = None,
        truncated: Literal["fail", "skip"] = "fail",
        needs_before: bool = False,
        metadata: Iterable[str] | Mapping[str, str] = (),
    ) -> None:
        if not table:
            raise InvalidProgramError(f"{_NAME}(table=...) names no table")
        if start not in ("snapshot", "latest"):
            raise InvalidProgramError(f"{_NAME}(start=...) is 'snapshot' or 'latest', not {start!r}")
        if stop not in (None, "latest"):
            raise InvalidProgramError(f"{_NAME}(stop=...) is 'latest' or None, not {stop!r}")
        if truncated not in ("fail", "skip"):
            raise InvalidProgramError(f"{_NAME}(truncated=...) is 'fail' or 'skip', not {truncated!r}")
        if slot is not None and not re.fullmatch(r"[a-z0-9_]{1,63}", slot):
            raise InvalidProgramError(f"{_NAME}(slot=...) has lower-case letters, digits and _, not {slot!r}")
        pairs = tuple(metadata.items()) if isinstance(metadata, Mapping) else tuple((name, name) for name in metadata)
        for _, kind in pairs:
            if kind not in METADATA:
                hint = did_you_mean(kind, METADATA)
                raise InvalidProgramError(f"{_NAME}(metadata=...) knows {', '.join(METADATA)}, not {kind!r}{hint}")
        super().__init__(uri)
        self._table = table
        self._columns = None if columns is None else tuple(columns)
        self._key = key
        self._start = start
        self._stop = stop
        self._slot = slot or _default_name(table)
        self._publication = publication or _default_name(table)
        self._has_own_publication = publication is None
        self._truncated = truncated
        self._needs_before = needs_before
        self._metadata = pairs

    def __repr__(self) -> str:
        return f"{_NAME}({self._table!r}, slot={self._slot!r})"

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.UNBOUNDED if self._stop is None else Boundedness.BOUNDED

    @property
    def output_type(self) -> RecordType:
        """The type of the rows, for which the server is asked."""
        rows = super().output_type
        fields = [pa.field(name, METADATA[kind]) for name, kind in self._metadata]
        names = [*rows.schema.names, *(field.name for field in fields)]
        for field in fields:
            if names.count(field.name) > 1:
                raise InvalidProgramError(
                    f"{_NAME} would make two columns named {field.name!r}; give that of metadata= another name"
                )
        return RecordType(Kind.ROW, pa.schema([*fields, *rows.schema]))

    @property
    def is_changelog(self) -> bool:
        return True

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        return ChangesEnumerator(context, self._described(), restored)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return ChangesReader(context, self._described())

    def drop(self) -> None:
        """Drops the slot, and the publication unless its name was given, where no job is to go on from its checkpoints
        any more. Until then the server keeps its log for it, also while no job runs: a slot that is forgotten fills the
        server's disk.

        Raises:
            PostgresError: a job still reads from the slot, or the user may not drop them.
        """
        with control(self._uri, _NAME, delays_s=()) as connection:
            try:
                slots.drop(connection, self._slot, self._publication if self._has_own_publication else None)
            except Exception as error:
                refuse(error, _NAME, f"cannot drop slot {self._slot!r} of {shown(self._uri)}")

    # -- asking the server

    @property
    def _subject(self) -> str:
        return f"the changes of table {self._table!r}"

    def _describe(self, connection: Any) -> ChangesSettings:
        ((relation,),) = connection.execute("SELECT %s::regclass::text", (self._table,)).fetchall()
        table_id, key, is_full = slots.check_table(connection, relation, _NAME)
        slots.check_server(connection, _NAME)
        if self._needs_before and not is_full:
            raise InvalidProgramError(
                f"{_NAME}: the log of table {relation} does not have rows as they were before an update: ALTER TABLE "
                f"{relation} REPLICA IDENTITY FULL, or take changes by key (of SQL, 'changelog-mode' = 'upsert')"
            )
        in_log = dict(
            connection.execute(
                "SELECT attname::text, atttypid FROM pg_attribute WHERE attrelid = %s AND attnum > 0 "
                "AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
                (table_id,),
            ).fetchall()
        )
        columns = chosen(
            [each for each in columns_of(connection, relation) if each.name in in_log], self._columns, _NAME
        )
        split_key = self._key or (key[0] if key else None)
        if self._start == "snapshot" and split_key is None:
            raise InvalidProgramError(
                f"{_NAME}: table {relation} has no primary key; name a column that the snapshot is split by (key=), "
                "which is NOT NULL, or take changes alone (start='latest')"
            )
        if split_key is not None and split_key not in in_log:
            raise UnknownColumnError(split_key, list(in_log), f"{_NAME}(key=...)")
        found = None
        if split_key is not None and self._start == "snapshot":
            is_sure = is_full or split_key in key
            found = slots.split_key(connection, table_id, split_key, is_sure, key == (split_key,), _NAME)
        return ChangesSettings(
            uri=self._uri,
            relation=relation,
            table_id=table_id,
            columns=columns,
            type_ids=tuple(in_log[column.name] for column in columns),
            key=key,
            is_full=is_full,
            split_key=found,
            slot=self._slot,
            publication=self._publication,
            is_bounded=self._stop is not None,
            skips_truncations=self._truncated == "skip",
            metadata=self._metadata,
            names=slots.names_of(connection, table_id),
        )


def _default_name(table: str) -> str:
    """A name for what is made for a table: its own, as far as names of slots can have it, and else with a number."""
    plain = re.sub(r"[^a-z0-9_]", "_", table.lower())
    number = "" if plain == table and len(plain) < _LONGEST_NAME - 9 else f"_{zlib.crc32(table.encode()):08x}"
    return f"flinkray_{plain}"[: _LONGEST_NAME - len(number)] + number
