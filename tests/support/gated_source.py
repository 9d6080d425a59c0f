"""A script that stands still, without holding checkpoints up, until the test lets it go on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.connectors.source import SourceReader, SourceReaderContext
from flinkray.connectors.threaded_splits import ThreadedSplitReader
from flinkray.testing import ScriptedSource
from flinkray.testing.scripted_source import Script
from tests.support.waiting import eventually

TARGET_ROWS = {"flinkray.batch.target-rows": 10}
"""The options of a job in which the rows before the gate do not wait for those behind it."""


class GatedSource(ScriptedSource):
    """Rows, a multiple of 20 with `TARGET_ROWS`: half of them come at once, the rest when a file is there.

    Args:
        gate: the file.
    """

    def __init__(self, rows: Sequence[Any], gate: Path) -> None:
        super().__init__(rows)
        self._gate = gate

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _GatedReader(context, [each for each in self._items if isinstance(each, Batch)], self._gate)


class _GatedReader(ThreadedSplitReader[Script]):
    def __init__(self, context: SourceReaderContext, rows: Sequence[Batch], gate: Path) -> None:
        super().__init__(context, rows[0].kind)
        self._rows = rows
        self._gate = gate

    def parts(self, split: Script) -> Iterator[tuple[pa.RecordBatch, Script]]:
        for position in range(split.position, len(self._rows)):
            if position == len(self._rows) // 2:
                eventually(self._gate.exists, deadline_s=60)
            yield self._rows[position].data, Script(position + 1)
