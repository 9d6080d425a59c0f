"""Finds the files of a table: those of a version, and those that later ones have added."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import unquote

import msgspec
import pyarrow as pa
from msgspec import Struct

from flinkray.connectors.delta.tables import DeltaPlace, WatchedTable, file_system, table_of
from flinkray.connectors.lake.enumerator import LATEST, TableLog, TablePosition
from flinkray.errors import InvalidProgramError


class DeltaSplit(Struct, frozen=True):
    """A file, with the number of its rows that have been read.

    Args:
        path: in the table.
        partition_values: of each column that the table is partitioned by, as text.
    """

    path: str
    partition_values: dict[str, str | None]
    row: int = 0

    @property
    def split_id(self) -> str:
        return self.path


class DeltaStart(Struct, frozen=True):
    """Where reading begins.

    Args:
        version, timestamp: all rows of that version, or of the one that was the newest at a point in time; None of
            both: of the newest.
        after: nothing that this version has; LATEST: that is in the newest one at the start.
    """

    version: int | None = None
    timestamp: datetime | None = None
    after: int | None = None


class _Add(Struct, rename="camel"):
    path: str
    partition_values: dict[str, str | None] = {}
    data_change: bool = True
    deletion_vector: Any = None


class _Remove(Struct, rename="camel"):
    path: str
    data_change: bool = True


class _Action(Struct):
    """A line of a commit. Others than these say nothing of rows."""

    add: _Add | None = None
    remove: _Remove | None = None


class DeltaLog(TableLog):
    """The log of a table.

    Args:
        skips_changes: whether versions that delete or change rows are passed over; else they are an error.
    """

    def __init__(self, place: DeltaPlace, start: DeltaStart, skips_changes: bool) -> None:
        self.name = place.uri
        self._place = place
        self._start = start
        self._skips_changes = skips_changes
        self._system = file_system(place)
        self._table = WatchedTable(place)

    def first(self) -> TablePosition:
        start = self._start
        table = table_of(self._place, start.version, start.timestamp)
        version: int = table.version()
        table_id: str = table.metadata().id
        if start.after is None:
            return TablePosition(version, tuple(self._files_of(table)), table_id)
        if start.after == LATEST:
            return TablePosition(version, (), table_id)
        if start.after > version:
            raise InvalidProgramError(f"{self._place.uri} has no version {start.after} yet: its newest is {version}")
        return self._between(start.after, version, table_id)

    def after(self, position: int | None, table_id: str) -> TablePosition:
        assert position is not None, "a table has a version from its beginning"
        table = self._table.now()
        version, found_id = table.version(), table.metadata().id
        if version < position or table_id not in ("", found_id):
            raise InvalidProgramError(
                f"{self._place.uri} has been replaced by another table since its version {position} was read; start "
                "anew with all rows of the table: give the source another uid"
            )
        return self._between(position, version, found_id)

    def close(self) -> None: ...

    def _between(self, before: int, last: int, table_id: str) -> TablePosition:
        """What the versions after `before`, up to `last`, have added."""
        splits = [split for version in range(before + 1, last + 1) for split in self._added_by(version)]
        return TablePosition(last, tuple(splits), table_id)

    def _files_of(self, table: Any) -> Iterator[DeltaSplit]:
        if any(table.deletion_vectors()):
            raise _has_deletion_vectors(self._place)
        actions = pa.table(table.get_add_actions())
        paths = actions.column("path").to_pylist()
        values = {}
        if "partition" in actions.column_names:
            partition = actions.column("partition").combine_chunks()
            values = {
                field.name: column.cast(pa.string()).to_pylist()
                for field, column in zip(partition.type, partition.flatten(), strict=True)
            }
        for row in sorted(range(len(paths)), key=paths.__getitem__):
            yield DeltaSplit(unquote(paths[row]), {name: texts[row] for name, texts in values.items()})

    def _added_by(self, version: int) -> list[DeltaSplit]:
        name = f"_delta_log/{version:020}.json"
        try:
            with self._system.open_input_stream(name) as stream:
                lines = stream.read().splitlines()
        except FileNotFoundError as error:
            raise InvalidProgramError(
                f"{self._place.uri}: the log has no version {version} any more, whose rows have not been read; keep it "
                "longer (delta.logRetentionDuration), or start anew with all rows of the table: give the source "
                "another uid"
            ) from error
        actions = [msgspec.json.decode(line, type=_Action) for line in lines if line.strip()]
        changed = [each.remove.path for each in actions if each.remove is not None and each.remove.data_change]
        if changed:
            if self._skips_changes:
                return []
            raise InvalidProgramError(
                f"{self._place.uri}: version {version} deletes or changes rows (of {changed[0]} and perhaps other "
                "files), and a stream of added rows cannot say so; pass over such versions with changes='skip'"
            )
        added = [each.add for each in actions if each.add is not None and each.add.data_change]
        if any(each.deletion_vector is not None for each in added):
            raise _has_deletion_vectors(self._place)
        return [DeltaSplit(unquote(each.path), each.partition_values) for each in added]


def _has_deletion_vectors(place: DeltaPlace) -> InvalidProgramError:
    return InvalidProgramError(
        f"{place.uri} has rows deleted by deletion vectors, which are not read here; rewrite the files without them "
        "(REORG TABLE ... APPLY (PURGE))"
    )
