"""Rows of which the last ones do not come, so that a job does not end before a test stops it, however slow it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flinkray import DataGenSource
from flinkray.connectors.source import SourceReader, SourceReaderContext

_LOOKS_MS = 10


class HeldSource(DataGenSource):
    """The rows of a DataGenSource, which a savepoint takes it for, without their end. Holds no checkpoint up.

    Args:
        most_rows: what comes in one attempt, over all subtasks.
        until: a file with which all others come as well; None: they never do.
    """

    def __init__(
        self,
        fields: Mapping[str, Any],
        rows: int,
        rows_per_second: float,
        most_rows: int,
        until: Path | None = None,
    ) -> None:
        assert most_rows < rows
        super().__init__(fields, rows, rows_per_second)
        self._most_rows = most_rows
        self._until = until

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        reader: Any = super().create_reader(context)
        due_by_time = reader._due

        def due(elapsed_ms: int, made: int, step: int) -> int:
            left = self._most_rows // step - made
            if left > 0 or (self._until is not None and self._until.exists()):
                found: int = due_by_time(elapsed_ms, made, step)
                return found if left <= 0 else min(found, left)
            if not reader._is_waiting:
                reader._is_waiting = True
                context.call_later(_LOOKS_MS, reader._wake)
            return 0

        reader._due = due
        return reader
