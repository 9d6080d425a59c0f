"""Tables of Iceberg as a source."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Literal

import pyarrow as pa

from flinkray.connectors.iceberg.log import LATEST, IcebergLog, IcebergStart, snapshot_of
from flinkray.connectors.iceberg.reader import IcebergReader
from flinkray.connectors.iceberg.tables import columns_of, opened, place_of
from flinkray.connectors.lake.columns import chosen
from flinkray.connectors.lake.enumerator import TableEnumerator
from flinkray.connectors.source import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.errors import InvalidProgramError
from flinkray.time.durations import Duration, to_millis
from flinkray.types.records import Kind, RecordType

_NAME = "IcebergSource"


class IcebergSource(Source):
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
        monitor: how often to look for new snapshots, for ever; None: the source ends with what is there at the start.
        changes: what becomes of snapshots that delete or change rows, as only added ones can be told: "fail" ends the
            job, "skip" passes over them, with what they add. Of no effect on the rows that reading begins with.
    """

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
    ) -> None:
        if sum(each is not None for each in (snapshot_id, timestamp, after)) > 1:
            raise InvalidProgramError(f"{_NAME} takes one of snapshot_id=, timestamp= and after=")
        if timestamp is not None and timestamp.tzinfo is None:
            raise InvalidProgramError(f"{_NAME}(timestamp=...) needs a time zone: {timestamp!r} has none")
        if after is not None and after != "latest" and not (isinstance(after, int) and after >= 0):
            raise InvalidProgramError(f"{_NAME}(after=...) is the id of a snapshot or 'latest', not {after!r}")
        if changes not in ("fail", "skip"):
            raise InvalidProgramError(f"{_NAME}(changes=...) is 'fail' or 'skip', not {changes!r}")
        self._place = place_of(table, catalog or {}, catalog_name, _NAME)
        self._columns = columns
        self._start = IcebergStart(snapshot_id, timestamp, LATEST if after == "latest" else after)
        self._monitor_ms = None if monitor is None else to_millis(monitor, f"{_NAME}(monitor=...)")
        if self._monitor_ms == 0:
            raise InvalidProgramError(f"{_NAME}(monitor=...) is the time between two looks, and at least 1 ms")
        self._skips_changes = changes == "skip"
        self._fields: frozenset[str] | None = None
        """What is read of the columns; None: all."""
        self._schema: pa.Schema | None = None
        self._table_schema = ""
        """The table's columns with their ids, as JSON of Iceberg."""

    def __repr__(self) -> str:
        return f"{_NAME}({str(self._place)!r})"

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self._monitor_ms is None else Boundedness.UNBOUNDED

    @property
    def output_type(self) -> RecordType:
        """The table's columns, for which its catalog is asked."""
        if self._schema is None:
            with opened(self._place) as table:
                snapshot_id = snapshot_of(table, self._start, self._place)
                is_current = self._start.snapshot_id is None and self._start.timestamp is None
                schema = table.schema() if is_current else table.scan(snapshot_id=snapshot_id).projection()
            self._table_schema = schema.model_dump_json()
            self._schema = chosen(columns_of(schema), self._columns, _NAME)
        return RecordType(Kind.ROW, self._schema)

    def prepare(self) -> IcebergSource:
        prepared = copy.copy(self)
        prepared._schema = self.output_type.schema
        prepared._table_schema = self._table_schema
        return prepared

    def reading(self, fields: frozenset[str]) -> IcebergSource:
        other = copy.copy(self)
        other._fields = fields
        return other

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        opened_log = partial(IcebergLog, self._place, self._start, self._skips_changes)
        return TableEnumerator(context, opened_log, self._monitor_ms, restored)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return IcebergReader(context, self._place, self.output_type.schema, self._table_schema, self._fields)
