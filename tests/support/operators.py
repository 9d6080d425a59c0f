"""One operator on its own: the test pushes batches, watermarks and time, and reads what came out, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from actors.keys.hashes import key_columns
from actors.operators.contract.operator import Operator
from actors.protocol.elements import CheckpointOptions, Watermark
from actors.state.snapshots.snapshot import OperatorSnapshot
from actors.testing.context import HarnessContext, RecordingOutput
from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import RowEncoder, decode
from flinkray.testing.clock import ManualClock as ManualClock
from flinkray.transformations.operator_factories import OperatorFactory
from flinkray.types.keys import ColumnKey, FunctionKey, KeySelector
from flinkray.types.records import Kind, RecordType, Timestamp
from graphs.job_graph import OperatorCode

FakeContext = HarnessContext


class RecordedOutput(RecordingOutput):
    """Checks what it keeps, and shows it."""

    def emit(self, batch: Batch) -> None:
        batch.data.validate(full=True)
        assert batch.timestamps is None or len(batch.timestamps) == batch.num_rows
        super().emit(batch)

    @property
    def batches(self) -> list[Batch]:
        return [element for element in self.elements if isinstance(element, Batch)]

    @property
    def rows(self) -> list[Any]:
        """All rows of the main output, as row functions would see them."""
        return [row for batch in self.batches for row in decode(batch)]

    @property
    def dicts(self) -> list[dict[str, Any]]:
        """All rows of the main output by column name."""
        return [row for batch in self.batches for row in batch.data.to_pylist()]

    @property
    def timestamps(self) -> list[int | None]:
        return [time for batch in self.batches for time in _times(batch)]

    @property
    def watermarks(self) -> list[int]:
        return [element.timestamp for element in self.elements if isinstance(element, Watermark)]

    def side(self, name: str) -> list[Any]:
        """All rows of the side output of that name."""
        pairs = [element for element in self.elements if isinstance(element, tuple)]
        return [row for tag, batch in pairs if tag.name == name for row in decode(batch)]


class OperatorHarness:
    """An operator set up, restored and opened. Use as a context manager, so that it is closed."""

    def __init__(
        self,
        operator: Operator,
        *,
        keys: Sequence[KeySelector | None] = (None,),
        restored: Any = None,
        context: FakeContext | None = None,
        output: RecordedOutput | None = None,
        **settings: Any,
    ) -> None:
        self.context = context or FakeContext(keys=tuple(keys), **settings)
        self.output = output or RecordedOutput()
        self.operator = operator
        operator.setup(self.context, self.output)
        operator.initialize_state(restored)
        operator.open()

    def __enter__(self) -> OperatorHarness:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.operator.close()

    def push(self, rows: Any, timestamps: Sequence[int] | None = None, input_index: int = 0) -> None:
        """A Batch, a dict of columns (kind ROW), or a list of values; what keys it is computed as a sender would."""
        batch = as_batch(rows, timestamps)
        selector = self.context.keys[input_index] if input_index < len(self.context.keys) else None
        if isinstance(selector, FunctionKey) and batch.keys is None:
            batch = Batch(batch.data, batch.kind, batch.timestamps, key_columns(batch, selector, "test"))
        self.operator.process_batch(batch, input_index)

    def watermark(self, timestamp: int, input_index: int = 0) -> None:
        self.operator.process_watermark(Timestamp(timestamp), input_index)

    def status(self, is_idle: bool, input_index: int = 0) -> None:
        self.operator.process_status(is_idle, input_index)

    def advance(self, milliseconds: int) -> None:
        """Moves processing time on, running timers and mails."""
        self.context.advance(milliseconds)

    def end(self) -> None:
        """The end of data on all inputs, then finish."""
        for index in range(self.operator.number_of_inputs):
            self.operator.end_input(index)
        self.operator.finish()

    def snapshot(self, checkpoint_id: int = 1, options: CheckpointOptions | None = None) -> OperatorSnapshot | None:
        return self.operator.snapshot_state(checkpoint_id, options or CheckpointOptions())


def as_batch(rows: Any, timestamps: Sequence[int] | None = None) -> Batch:
    """A Batch from a Batch, a dict of columns, a pa.RecordBatch, or a list of values."""
    times = None if timestamps is None else pa.array(timestamps, pa.int64())
    if isinstance(rows, Batch):
        return rows if times is None else rows.with_times(times)
    if isinstance(rows, dict):
        return Batch(pa.RecordBatch.from_pydict(rows), Kind.ROW, times)
    if isinstance(rows, pa.RecordBatch):
        return Batch(rows, Kind.ROW, times)
    return RowEncoder("test", "1 of 1", None).encode(rows, times)


def code(factory: OperatorFactory, *keys: KeySelector | str | None) -> OperatorCode:
    """The OperatorCode of a factory; a text is the key column of that name."""
    selectors = tuple(ColumnKey((key,)) if isinstance(key, str) else key for key in keys)
    return OperatorCode(factory, selectors or (None,), ())


def scalar(arrow_type: pa.DataType) -> RecordType:
    return RecordType(Kind.SCALAR, pa.schema([("value", arrow_type)]))


def _times(batch: Batch) -> list[int | None]:
    return [None] * batch.num_rows if batch.timestamps is None else list(batch.timestamps.to_pylist())
