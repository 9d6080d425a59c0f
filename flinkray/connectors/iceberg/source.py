"""Tables of Iceberg as a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

import pyarrow as pa

from flinkray.connectors.iceberg.log import IcebergLog, IcebergStart, snapshot_of
from flinkray.connectors.iceberg.reader import IcebergReader
from flinkray.connectors.iceberg.tables import columns_of, opened, place_of
from flinkray.connectors.lake.enumerator import LATEST, TableLog
from flinkray.connectors.lake.source import LakeSource
from flinkray.connectors.source import SourceReader, SourceReaderContext
from flinkray.errors import InvalidProgramError
from flinkray.time.durations import Duration


class IcebergSource(LakeSource):
    """The rows of a table of Iceberg, and with `monitor` those that are added to it later, exactly once. Comes with
    `flinkray[iceberg]`.

    Each file is a split, and the position in it is in checkpoints. The columns are those that the table, or the
    snapshot that is asked for, has when the job is submitted; what is added later is not read, and what is renamed
    later is read all the same. Snapshots that only arrange rows anew, in larger files, say, are passed over.

    Args:
        table: its name with that of its namespace: "shop.orders".
        catalog: the properties of the catalog, as PyIceberg takes them: `{"type": "rest", "uri": ...}`; shown nowhere.
            Empty: those that PyIceberg's own configuration has under the catalog's name.
        catalog_name: the catalog's name.
        columns: read only these.
        snapshot_id: begins with all rows of that snapshot; None: of the current one.
        timestamp: begins with all rows of the snapshot that was current then; a datetime with a time zone.
        after: begins with the rows that were added after that snapshot; "latest": after the current one at the start.
        since: begins with the rows that this snapshot added, or the first one at that time or later, a datetime with a
            time zone; "earliest": the first one that the table knows; "latest": the current one at the start.
        monitor: how often to look for new snapshots, for ever; None: the source ends with what is there at the start.
        changes: what becomes of snapshots that delete or change rows, as only added ones can be told: "fail" ends the
            job, "skip" passes over them, with what they add. Of no effect on the rows that reading begins with.
    """

    position_argument, position_is = "snapshot_id", "the id of a snapshot"

    def __init__(
        self,
        table: str,
        catalog: Mapping[str, str] | None = None,
        catalog_name: str = "default",
        columns: Sequence[str] | None = None,
        snapshot_id: int | None = None,
        timestamp: datetime | None = None,
        after: int | Literal["latest"] | None = None,
        monitor: Duration | None = None,
        changes: Literal["fail", "skip"] = "fail",
        since: int | datetime | Literal["earliest", "latest"] | None = None,
    ) -> None:
        name = type(self).__name__
        place = place_of(table, catalog or {}, catalog_name, name)
        if since is not None and any(each is not None for each in (snapshot_id, timestamp, after)):
            raise InvalidProgramError(f"{name} takes one of snapshot_id=, timestamp=, after= and since=")
        if isinstance(since, datetime) and since.tzinfo is None:
            raise InvalidProgramError(f"{name}(since=...) needs a time zone: {since!r} has none")
        if isinstance(since, str) and since not in ("earliest", "latest"):
            raise InvalidProgramError(f"{name}(since=...) is a snapshot, a time, 'earliest' or 'latest', not {since!r}")
        super().__init__(place, columns, snapshot_id, timestamp, after, monitor, changes)
        self._start = IcebergStart(snapshot_id, timestamp, LATEST if after == "latest" else after, since)
        self._table_schema = ""
        """The table's columns with their ids, as JSON of Iceberg."""

    def _columns_of_table(self) -> pa.Schema:
        with opened(self._place) as table:
            snapshot_id = snapshot_of(table, self._start, self._place)
            is_current = self._start.snapshot_id is None and self._start.timestamp is None
            schema = table.schema() if is_current else table.scan(snapshot_id=snapshot_id).projection()
        self._table_schema = schema.model_dump_json()
        return columns_of(schema)

    def _open_log(self) -> TableLog:
        return IcebergLog(self._place, self._start, self._skips_changes)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return IcebergReader(context, self._place, self.output_type.schema, self._table_schema, self._fields)
