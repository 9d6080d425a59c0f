"""One operator on its own: the test pushes batches, watermarks and time, and reads what came out, in order."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from actors.elements import CheckpointOptions, LatencyMarker, Watermark, WatermarkStatus
from actors.keys import key_columns
from actors.operators.base import Operator
from actors.state.options import StateOptions
from actors.state.snapshot import OperatorSnapshot
from flinkray.batch import Batch
from flinkray.keys import ColumnKey, FunctionKey, KeySelector
from flinkray.operator_factories import OperatorFactory
from flinkray.row_codec import RowEncoder, decode
from flinkray.types import Kind, OutputTag, RecordType, Timestamp
from graphs.job_graph import OperatorCode
from graphs.key_groups import key_group_range


class ManualClock:
    """Stands still until it is told."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now = now_ms

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> float:
        return float(self.now)


@dataclass
class Timer:
    """A call_later that waits."""

    due_ms: float
    order: int
    mail: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


class CountingMetrics:
    """Counters and gauges of one operator."""

    def __init__(self) -> None:
        self.counters: dict[str, float] = {}
        self.gauges: dict[str, float] = {}
        self.functions: dict[str, Callable[[], float | None]] = {}

    def count(self, name: str, increase: float = 1) -> None:
        self.counters[name] = self.counters.get(name, 0) + increase

    def gauge(self, name: str, value: float) -> None:
        self.gauges[name] = value

    def gauge_function(self, name: str, read: Callable[[], float | None]) -> None:
        self.functions[name] = read


class SummingAccumulator:
    def __init__(self, initial: int | float) -> None:
        self.value = initial

    def add(self, value: int | float) -> None:
        self.value += value


@dataclass
class FakeContext:
    """An OperatorContext whose mails and timers the test runs."""

    operator_name: str = "op"
    keys: tuple[KeySelector | None, ...] = (None,)
    subtask_index: int = 0
    parallelism: int = 1
    max_parallelism: int = 128
    attempt_number: int = 0
    batch_rows: int = 65_536
    batch_bytes: int = 1 << 20
    auto_watermark_interval_ms: int = 200
    latency_interval_ms: int = 0
    state_options: StateOptions = StateOptions()
    has_checkpoints: bool = False
    may_restart: bool = True
    operator_id: str = "0" * 32
    job_id: str = "job"
    job_name: str = "test job"
    clock: ManualClock = field(default_factory=ManualClock)
    metrics: CountingMetrics = field(default_factory=CountingMetrics)
    mails: deque[Callable[[], None]] = field(default_factory=deque)
    timers: list[Timer] = field(default_factory=list)
    sent_to_coordinator: list[Any] = field(default_factory=list)
    accumulators: dict[str, SummingAccumulator] = field(default_factory=dict)
    cached_files: dict[str, str] = field(default_factory=dict)
    job_parameters: dict[str, str] = field(default_factory=dict)

    @property
    def subtask(self) -> str:
        return f"{self.subtask_index + 1} of {self.parallelism}"

    @property
    def key_group_range(self) -> range:
        return key_group_range(self.subtask_index, self.parallelism, self.max_parallelism)

    def random(self, name: str) -> random.Random:
        return random.Random(name)

    def execute(self, mail: Callable[[], None], description: str) -> None:
        self.mails.append(mail)

    def call_later(self, delay_ms: float, mail: Callable[[], None], description: str) -> Timer:
        timer = Timer(self.clock.now + delay_ms, len(self.timers), mail)
        self.timers.append(timer)
        return timer

    def yield_to_mailbox(self) -> None:
        assert self.mails, "the operator waits for a mail, and none will come"
        self.mails.popleft()()

    def send_to_coordinator(self, event: Any) -> None:
        self.sent_to_coordinator.append(event)

    def add_accumulator(self, name: str, initial: int | float) -> SummingAccumulator:
        return self.accumulators.setdefault(name, SummingAccumulator(initial))

    def cached_file(self, name: str) -> str:
        return self.cached_files[name]

    def run_mails(self) -> None:
        while self.mails:
            self.mails.popleft()()

    def advance(self, milliseconds: int) -> None:
        """Moves the clock on; timers run at their due time, in order, and mails after each."""
        end = self.clock.now + milliseconds
        while True:
            self.run_mails()
            due = [timer for timer in self.timers if not timer.is_cancelled and timer.due_ms <= end]
            if not due:
                break
            first = min(due, key=lambda timer: (timer.due_ms, timer.order))
            self.timers.remove(first)
            self.clock.now = max(self.clock.now, int(first.due_ms))
            first.mail()
        self.clock.now = end


class RecordedOutput:
    """An Output that keeps everything in order: batches, (tag, batch) pairs, watermarks, statuses, markers."""

    def __init__(self) -> None:
        self.elements: list[Any] = []

    def emit(self, batch: Batch) -> None:
        if batch.num_rows:
            batch.data.validate(full=True)
            assert batch.timestamps is None or len(batch.timestamps) == batch.num_rows
            self.elements.append(batch)

    def emit_side(self, tag: OutputTag, batch: Batch) -> None:
        if batch.num_rows:
            self.elements.append((tag, batch))

    def emit_watermark(self, timestamp: Timestamp) -> None:
        self.elements.append(Watermark(timestamp))

    def emit_status(self, is_idle: bool) -> None:
        self.elements.append(WatermarkStatus(is_idle))

    def emit_latency_marker(self, marker: LatencyMarker) -> None:
        self.elements.append(marker)

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

    def clear(self) -> None:
        self.elements.clear()


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
        return rows if times is None else rows.with_timestamps(times)
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
