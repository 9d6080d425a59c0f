"""Tables of Delta Lake as a source."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

import pyarrow as pa

from flinkray.connectors.delta.log import DeltaLog, DeltaStart
from flinkray.connectors.delta.reader import DeltaReader
from flinkray.connectors.delta.tables import columns_of, place_of, table_of
from flinkray.connectors.lake.enumerator import LATEST, TableLog
from flinkray.connectors.lake.source import LakeSource
from flinkray.connectors.source import SourceReader, SourceReaderContext
from flinkray.time.durations import Duration


class DeltaSource(LakeSource):
    """The rows of a table of Delta Lake, and with `monitor` those that are added to it later, exactly once. Comes with
    `flinkray[delta]`.

    Each file is a split, and the position in it is in checkpoints. The columns are those that the table has when the
    job is submitted; what later files have besides is not read. Versions that only arrange rows anew, in larger files,
    say, are passed over.

    Args:
        table: a local path or a URI ("s3://bucket/orders").
        columns: read only these.
        version: begins with all rows of that version; None: of the newest.
        timestamp: begins with all rows of the version that was the newest then; a datetime with a time zone.
        after: begins with the rows that were added after that version; "latest": after the newest at the start.
        monitor: how often to look for new versions, for ever; None: the source ends with what is there at the start.
        changes: what becomes of versions that delete or change rows, as only added ones can be told: "fail" ends the
            job, "skip" passes over them, with what they add. Of no effect on the rows that reading begins with.
        storage_options: keys, regions and the like, as the package deltalake takes them; shown nowhere.
    """

    position_argument, position_is = "version", "a version"

    def __init__(
        self,
        table: str | os.PathLike[str],
        columns: Sequence[str] | None = None,
        version: int | None = None,
        timestamp: datetime | None = None,
        after: int | Literal["latest"] | None = None,
        monitor: Duration | None = None,
        changes: Literal["fail", "skip"] = "fail",
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(place_of(table, storage_options), columns, version, timestamp, after, monitor, changes)
        self._start = DeltaStart(version, timestamp, LATEST if after == "latest" else after)

    def _columns_of_table(self) -> pa.Schema:
        return columns_of(table_of(self._place, self._start.version, self._start.timestamp))

    def _open_log(self) -> TableLog:
        return DeltaLog(self._place, self._start, self._skips_changes)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return DeltaReader(context, self._place, self.output_type.schema, self._fields)
