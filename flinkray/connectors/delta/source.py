"""Tables of Delta Lake as a source."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Literal

import pyarrow as pa

from flinkray.connectors.delta.log import LATEST, DeltaLog, DeltaStart
from flinkray.connectors.delta.reader import DeltaReader
from flinkray.connectors.delta.tables import columns_of, open_table, place_of
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

_NAME = "DeltaSource"


class DeltaSource(Source):
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
        if sum(each is not None for each in (version, timestamp, after)) > 1:
            raise InvalidProgramError(f"{_NAME} takes one of version=, timestamp= and after=")
        if timestamp is not None and timestamp.tzinfo is None:
            raise InvalidProgramError(f"{_NAME}(timestamp=...) needs a time zone: {timestamp!r} has none")
        if after is not None and after != "latest" and not (isinstance(after, int) and after >= 0):
            raise InvalidProgramError(f"{_NAME}(after=...) is a version or 'latest', not {after!r}")
        if changes not in ("fail", "skip"):
            raise InvalidProgramError(f"{_NAME}(changes=...) is 'fail' or 'skip', not {changes!r}")
        self._place = place_of(table, storage_options)
        self._columns = columns
        self._start = DeltaStart(version, timestamp, LATEST if after == "latest" else after)
        self._monitor_ms = None if monitor is None else to_millis(monitor, f"{_NAME}(monitor=...)")
        if self._monitor_ms == 0:
            raise InvalidProgramError(f"{_NAME}(monitor=...) is the time between two looks, and at least 1 ms")
        self._skips_changes = changes == "skip"
        self._fields: frozenset[str] | None = None
        """What is read of the columns; None: all."""
        self._schema: pa.Schema | None = None

    def __repr__(self) -> str:
        return f"{_NAME}({self._place.uri!r})"

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self._monitor_ms is None else Boundedness.UNBOUNDED

    @property
    def output_type(self) -> RecordType:
        """The table's columns, for which it is opened."""
        if self._schema is None:
            self._schema = chosen(columns_of(open_table(self._place, self._start.version)), self._columns, _NAME)
        return RecordType(Kind.ROW, self._schema)

    def prepare(self) -> DeltaSource:
        prepared = copy.copy(self)
        prepared._schema = self.output_type.schema
        return prepared

    def reading(self, fields: frozenset[str]) -> DeltaSource:
        other = copy.copy(self)
        other._fields = fields
        return other

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        opened = partial(DeltaLog, self._place, self._start, self._skips_changes)
        return TableEnumerator(context, opened, self._monitor_ms, restored)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return DeltaReader(context, self._place, self.output_type.schema, self._fields)
