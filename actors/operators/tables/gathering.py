"""Operators that may wait for more rows than come at once, so that fewer changes come out (Flink's mini-batches)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from actors.operators.contract.operator import OperatorContext, Output
from actors.operators.tables.operator import Factory, TableOperator
from actors.protocol.ports import Cancellable
from flinkray.batches.batch import Batch, concat, is_same_layout
from flinkray.types.records import MAX_TIMESTAMP, Timestamp

_MOST_BYTES = 64 << 20
"""Rows wait in memory, whatever their number is to be."""


class GatheringOperator(TableOperator[Factory]):
    """Processes rows together once there are `least_rows` of the factory, or the first has waited for `wait_ms`.

    A watermark waits with them, since rows before it may still come out. They are processed at once before a barrier,
    so that no snapshot has any of them, before an input turns idle, and at the end of an input.
    """

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._begin_mini_batch()

    def _begin_mini_batch(self) -> None:
        self._gathered: list[list[Batch]] = [[] for _ in range(self.number_of_inputs)]
        self._gathered_rows = 0
        self._gathered_bytes = 0
        self._gathered_watermarks: dict[int, Timestamp] = {}
        self._end_of_wait: Cancellable | None = None

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if self.factory.least_rows <= 1:
            super().process_batch(batch, input_index)
            return
        if self._end_of_wait is None:
            self._end_of_wait = self.context.call_later(
                self.factory.wait_ms, self.process_gathered, "a mini-batch is over"
            )
        self._gathered[input_index].append(batch)
        self._gathered_rows += batch.num_rows
        self._gathered_bytes += batch.nbytes
        if self._gathered_rows >= self.factory.least_rows or self._gathered_bytes >= _MOST_BYTES:
            self.process_gathered()

    def process_gathered(self) -> None:
        """Processes the rows that wait, and then their watermarks."""
        if self._end_of_wait is None:
            return
        self._end_of_wait.cancel()
        gathered, watermarks = self._gathered, self._gathered_watermarks
        self._begin_mini_batch()
        for input_index, batches in enumerate(gathered):
            for batch in _together(batches):
                super().process_batch(batch, input_index)
        for input_index, timestamp in watermarks.items():
            super().process_watermark(timestamp, input_index)

    def process_watermark(self, timestamp: Timestamp, input_index: int = 0) -> None:
        if self._gathered_rows and timestamp < MAX_TIMESTAMP:
            self._gathered_watermarks[input_index] = timestamp
            return
        self.process_gathered()
        super().process_watermark(timestamp, input_index)

    def process_status(self, is_idle: bool, input_index: int = 0) -> None:
        self.process_gathered()
        super().process_status(is_idle, input_index)

    def prepare_barrier(self, checkpoint_id: int) -> None:
        self.process_gathered()
        super().prepare_barrier(checkpoint_id)

    def end_input(self, input_index: int) -> None:
        self.process_gathered()
        super().end_input(input_index)


def _together(batches: Sequence[Batch]) -> Iterator[Batch]:
    """The rows in as few batches as their layouts allow."""
    alike: list[Batch] = []
    for batch in batches:
        if alike and not is_same_layout(alike[0], batch):
            yield concat(alike)
            alike = []
        alike.append(batch)
    if alike:
        yield concat(alike)
