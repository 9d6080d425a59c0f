"""The base of sources that read tables."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, Self

import pyarrow as pa

from flinkray.connectors.lake.columns import chosen
from flinkray.connectors.lake.enumerator import TableEnumerator, TableLog
from flinkray.connectors.source import Boundedness, Source, SplitEnumerator, SplitEnumeratorContext
from flinkray.errors import InvalidProgramError
from flinkray.time.durations import Duration, to_millis
from flinkray.types.records import Kind, RecordType


class LakeSource(Source):
    """The rows of a table, and with `monitor` those that are added to it later. A subclass says what each argument is.

    Args:
        place: shown as where the table is.
        position: the version or snapshot with all of whose rows reading begins, named `position_argument`.
    """

    position_argument: ClassVar[str]
    position_is: ClassVar[str]
    """What the position is, in errors."""

    def __init__(
        self,
        place: Any,
        columns: Sequence[str] | None,
        position: int | None,
        timestamp: datetime | None,
        after: int | str | None,
        monitor: Duration | None,
        changes: str,
    ) -> None:
        name = type(self).__name__
        if sum(each is not None for each in (position, timestamp, after)) > 1:
            raise InvalidProgramError(f"{name} takes one of {self.position_argument}=, timestamp= and after=")
        if timestamp is not None and timestamp.tzinfo is None:
            raise InvalidProgramError(f"{name}(timestamp=...) needs a time zone: {timestamp!r} has none")
        if after is not None and after != "latest" and not (isinstance(after, int) and after >= 0):
            raise InvalidProgramError(f"{name}(after=...) is {self.position_is} or 'latest', not {after!r}")
        if changes not in ("fail", "skip"):
            raise InvalidProgramError(f"{name}(changes=...) is 'fail' or 'skip', not {changes!r}")
        self._place = place
        self._columns = columns
        self._monitor_ms = None if monitor is None else to_millis(monitor, f"{name}(monitor=...)")
        if self._monitor_ms == 0:
            raise InvalidProgramError(f"{name}(monitor=...) is the time between two looks, and at least 1 ms")
        self._skips_changes = changes == "skip"
        self._fields: frozenset[str] | None = None
        """What is read of the columns; None: all."""
        self._schema: pa.Schema | None = None

    @abstractmethod
    def _columns_of_table(self) -> pa.Schema:
        """The columns that the table has where reading begins, for which it is asked."""

    @abstractmethod
    def _open_log(self) -> TableLog:
        """What the enumerator asks for files."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._place)!r})"

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self._monitor_ms is None else Boundedness.UNBOUNDED

    @property
    def output_type(self) -> RecordType:
        """The table's columns, for which it is asked."""
        if self._schema is None:
            self._schema = chosen(self._columns_of_table(), self._columns, type(self).__name__)
        return RecordType(Kind.ROW, self._schema)

    def prepare(self) -> Self:
        schema = self.output_type.schema  # the table is asked here, and not where the source is shipped to
        prepared = copy.copy(self)
        prepared._schema = schema
        return prepared

    def reading(self, fields: frozenset[str]) -> Self:
        other = copy.copy(self)
        other._fields = fields
        return other

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        return TableEnumerator(context, self._open_log, self._monitor_ms, restored)
