"""Finds the files of a table: those of a snapshot, and those that later ones have added."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from msgspec import Struct

from flinkray.connectors.iceberg.tables import IcebergPlace, load_table, open_catalog
from flinkray.connectors.lake.enumerator import LATEST, TableLog, TablePosition
from flinkray.errors import InvalidProgramError


class IcebergSplit(Struct, frozen=True):
    """A file, with the number of its rows that have been read.

    Args:
        format: of the file, in PyIceberg's words.
        spec_id, partition: the partitioning that it was written with, and its values.
        deletes: path and format of the files that say which of its rows are deleted.
        row: does not count those.
    """

    path: str
    format: str
    spec_id: int
    partition: tuple[Any, ...]
    rows: int
    size: int
    deletes: tuple[tuple[str, str], ...] = ()
    row: int = 0

    @property
    def split_id(self) -> str:
        return self.path


class IcebergStart(Struct, frozen=True):
    """Where reading begins.

    Args:
        snapshot_id, timestamp: all rows of that snapshot, or of the one that was current then; None of both: of the
            current one.
        after: nothing that this snapshot has; LATEST: that the current one has at the start.
        since: what that snapshot has added, or the first one at that time or later; "earliest", "latest": the first one
            that the table knows, or the current one at the start.
    """

    snapshot_id: int | None = None
    timestamp: datetime | None = None
    after: int | None = None
    since: int | datetime | str | None = None


class IcebergLog(TableLog):
    """The snapshots of a table.

    Args:
        skips_changes: whether snapshots that delete or change rows are passed over; else they are an error.
    """

    def __init__(self, place: IcebergPlace, start: IcebergStart, skips_changes: bool) -> None:
        self.name = str(place)
        self._place = place
        self._start = start
        self._skips_changes = skips_changes
        self._catalog = open_catalog(place)

    def first(self) -> TablePosition:
        table = load_table(self._catalog, self._place)
        current = table.current_snapshot()
        if self._start.after == LATEST:
            return TablePosition(None if current is None else current.snapshot_id, ())
        if self._start.after is not None:
            return self._between(table, self._start.after)
        if self._start.since is not None:
            begins = _first_since(table, self._start.since, self._place)
            return TablePosition(None, ()) if begins is None else self._between(table, begins.parent_snapshot_id)
        snapshot_id = snapshot_of(table, self._start, self._place)
        if snapshot_id is None:
            return TablePosition(None, ())
        return TablePosition(snapshot_id, _splits(table.scan(snapshot_id=snapshot_id).plan_files()))

    def after(self, position: int | None, table_id: str) -> TablePosition:
        return self._between(load_table(self._catalog, self._place), position)

    def close(self) -> None:
        self._catalog.close()

    def _between(self, table: Any, position: int | None) -> TablePosition:
        """What the snapshots after that one, up to the current one, have added."""
        current = table.current_snapshot()
        if (None if current is None else current.snapshot_id) == position:
            return TablePosition(position, ())
        splits: list[IcebergSplit] = []
        for snapshot in self._snapshots_after(table, position):
            operation = "append" if snapshot.summary is None else snapshot.summary.operation.value
            if operation == "append":
                added = table.incremental_append_scan(
                    from_snapshot_id_exclusive=snapshot.parent_snapshot_id,
                    to_snapshot_id_inclusive=snapshot.snapshot_id,
                )
                splits.extend(_splits(added.plan_files()))
            elif operation != "replace" and not self._skips_changes:
                raise InvalidProgramError(
                    f"{self._place}: snapshot {snapshot.snapshot_id} deletes or changes rows ({operation}), and a "
                    "stream of added rows cannot say so; pass over such snapshots with changes='skip'"
                )
        return TablePosition(None if current is None else current.snapshot_id, tuple(splits))

    def _snapshots_after(self, table: Any, position: int | None) -> list[Any]:
        """The snapshots after that one, the oldest first."""
        found = []
        for snapshot in _history(table):
            if snapshot.snapshot_id == position:
                break
            found.append(snapshot)
            if snapshot.parent_snapshot_id == position:
                return found[::-1]
        raise InvalidProgramError(
            f"{self._place}: snapshot {position or 'before the first one'}, up to which rows have been read, is not "
            "followed by the current one any more: those in between have expired, or the table was rolled back or "
            "replaced; keep snapshots longer, or start anew with all rows of the table: give the source another uid"
        )


def _history(table: Any) -> Iterator[Any]:
    """The current snapshot and those before it, as far as they have not expired."""
    by_id = {each.snapshot_id: each for each in table.snapshots()}
    snapshot = table.current_snapshot()
    while snapshot is not None:
        yield snapshot
        snapshot = by_id.get(snapshot.parent_snapshot_id)


def _first_since(table: Any, since: int | datetime | str, place: IcebergPlace) -> Any:
    """The snapshot with whose rows reading begins; None: the table has none yet.

    Raises:
        InvalidProgramError: there is none such.
    """
    if since == "latest":
        return table.current_snapshot()
    found, wanted = None, str(since)
    for snapshot in _history(table):
        if isinstance(since, datetime):
            wanted = f"of {since.isoformat()} or later"
            is_since = snapshot.timestamp_ms >= since.timestamp() * 1_000
        else:
            is_since = since in ("earliest", snapshot.snapshot_id)
        found = snapshot if is_since else found
    if found is None and since != "earliest":
        raise InvalidProgramError(f"the history of table {place} has no snapshot {wanted} (any more)")
    return found


def snapshot_of(table: Any, start: IcebergStart, place: IcebergPlace) -> int | None:
    """The snapshot with all whose rows reading begins; None: the table has none.

    Raises:
        InvalidProgramError: there is none such.
    """
    if start.snapshot_id is not None:
        found = table.snapshot_by_id(start.snapshot_id)
    elif start.timestamp is not None:
        found = table.snapshot_as_of_timestamp(int(start.timestamp.timestamp() * 1_000))
    else:
        current = table.current_snapshot()
        return None if current is None else int(current.snapshot_id)
    if found is None:
        wanted = start.snapshot_id if start.timestamp is None else f"of {start.timestamp.isoformat()}"
        raise InvalidProgramError(f"the table {place} has no snapshot {wanted} (any more)")
    return int(found.snapshot_id)


def _splits(tasks: Iterable[Any]) -> tuple[IcebergSplit, ...]:
    return tuple(
        IcebergSplit(
            path=task.file.file_path,
            format=task.file.file_format.value,
            spec_id=task.file.spec_id,
            partition=tuple(task.file.partition[index] for index in range(len(task.file.partition))),
            rows=task.file.record_count,
            size=task.file.file_size_in_bytes,
            deletes=tuple((each.file_path, each.file_format.value) for each in task.delete_files),
        )
        for task in tasks
    )
