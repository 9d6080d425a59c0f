"""Holds the rows of an upsert back for a moment, so that of many changes of a key only the last is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinkray.batches.batch import Batch, concat, is_same_layout
from flinkray.connectors.sink import SinkWriter, SinkWriterContext


class ReducingWriter(SinkWriter):
    """Hands the last change of each key to another writer: when there are so many keys, after so long, and at
    checkpoints (Flink's ReducingUpsertWriter).

    Args:
        last_changes: the last row of each key of a batch, in order.
        most_rows: how many may be held back.
        interval_ms: for how long.
    """

    def __init__(
        self,
        writer: SinkWriter,
        last_changes: Callable[[Batch], Batch],
        most_rows: int,
        interval_ms: int,
        context: SinkWriterContext,
    ) -> None:
        self._writer = writer
        self._last_changes = last_changes
        self._most_rows = most_rows
        self._interval_ms = interval_ms
        self._call_later = context.call_later
        self._held: list[Batch] = []
        self._call_later(interval_ms, self._on_time)

    def write(self, batch: Batch) -> None:
        if self._held and not is_same_layout(self._held[-1], batch):
            self._write_held()
        self._held.append(batch)
        if sum(each.num_rows for each in self._held) < self._most_rows:
            return
        self._held = [self._last_changes(concat(self._held))]
        if self._held[0].num_rows >= self._most_rows:
            self._write_held()

    def _on_time(self) -> None:
        self._write_held()
        self._call_later(self._interval_ms, self._on_time)

    def _write_held(self) -> None:
        held, self._held = self._held, []
        if held:
            self._writer.write(concat(held))

    def flush(self, end_of_input: bool) -> None:
        self._write_held()
        self._writer.flush(end_of_input)

    def prepare_commit(self, checkpoint_id: int) -> list[Any]:
        return self._writer.prepare_commit(checkpoint_id)

    def snapshot_state(self, checkpoint_id: int) -> Any:
        return self._writer.snapshot_state(checkpoint_id)

    def close(self) -> None:
        self._writer.close()
