"""Sources that go on with a pace of their own, by the clock of their host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa

from flinkray import Batch, Boundedness, Source, SourceReader, SplitEnumerator
from flinkray.connectors.source import SourceReaderContext, SplitEnumeratorContext
from flinkray.connectors.split_list import SplitListEnumerator, SplitListReader

POSITIONS: dict[str, int] = {}
"""How far each source has come in event time, for jobs that run in this process."""


@dataclass(frozen=True)
class Position:
    split_id: str
    row: int = 0


class Pace(NamedTuple):
    name: str
    rows: int
    step_ms: int
    """Between two rows."""
    event_time_step: int
    split_ids: tuple[str, ...] = ("0",)


class PacedSource(Source):
    """Rows (name, at, positions), one at a time: event time, and how far all sources were then."""

    def __init__(self, pace: Pace) -> None:
        self._chunk_sizer = pace

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def is_parallel(self) -> bool:
        return False

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        splits = [Position(split_id) for split_id in self._chunk_sizer.split_ids]
        return SplitListEnumerator(context, splits if restored is None else restored)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _PacedReader(context, self._chunk_sizer)


class _PacedReader(SplitListReader[Position]):
    def __init__(self, context: SourceReaderContext, pace: Pace) -> None:
        super().__init__(context)
        self._context = context
        self._chunk_sizer = pace

    def read_split(self, split: Position) -> Iterator[tuple[Batch | None, Position]]:
        pace = self._chunk_sizer
        for row in range(split.row, pace.rows):
            due = self._context.now_ms() + pace.step_ms
            self._context.call_later(pace.step_ms, self._context.notify_available)
            while self._context.now_ms() < due:
                yield None, split
            at = row * pace.event_time_step
            POSITIONS[pace.name] = at
            split = replace(split, row=row + 1)
            yield Batch(pa.record_batch({"name": [pace.name], "at": [at], "positions": [dict(POSITIONS)]})), split
