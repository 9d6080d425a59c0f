"""The context and output of operators in a test: the test runs clock, timers and mails, and looks at all results."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from actors.operators.contract.cancellation import Cancellation
from actors.operators.contract.chunking import ChunkLimit
from actors.protocol.elements import LatencyMarker, Watermark, WatermarkStatus
from actors.protocol.ports import Loop
from actors.state.keyed.options import StateOptions
from actors.tasks.metrics.figures import TaskAccumulator
from flinkray.batches.batch import Batch
from flinkray.testing.clock import ManualClock
from flinkray.types.keys import KeySelector
from flinkray.types.records import OutputTag, Timestamp
from graphs.key_groups import key_group_range


@dataclass
class HarnessTimer:
    """A timer that runs when the test advances the clock."""

    due_ms: float
    order: int
    mail: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


class CountingMetrics:
    """Counters and gauges of one operator (an OperatorMetrics)."""

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

    def watermark_in(self, input_index: int, timestamp: int) -> None: ...

    def watermark_out(self, timestamp: int) -> None: ...

    def latency(self, marker: LatencyMarker, latency_ms: float) -> None: ...


@dataclass
class HarnessContext:
    """An OperatorContext whose mails and timers the test runs. Several operators may share clock, mails and timers."""

    operator_name: str = "op"
    keys: tuple[KeySelector | None, ...] = (None,)
    subtask_index: int = 0
    parallelism: int = 1
    max_parallelism: int = 128
    attempt_number: int = 0
    batch_rows: int = 65_536
    batch_bytes: int = 1 << 20
    auto_watermark_interval_ms: int = 200
    allows_unaligned_splits: bool = False
    chunk_limit: ChunkLimit = field(default_factory=ChunkLimit)
    cancellation: Cancellation = field(default_factory=Cancellation)
    backpressured_ms: float = 0.0
    latency_interval_ms: int = 0
    commit_retries: int = 10
    state_options: StateOptions = StateOptions()
    has_checkpoints: bool = False
    is_batch: bool = False
    may_restart: bool = True
    operator_id: str = "0" * 32
    uid: str | None = None
    job_id: str = "job"
    job_name: str = "test job"
    clock: ManualClock = field(default_factory=ManualClock)
    metrics: CountingMetrics = field(default_factory=CountingMetrics)
    mails: deque[Callable[[], None]] = field(default_factory=deque)
    timers: list[HarnessTimer] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    sent_to_coordinator: list[Any] = field(default_factory=list)
    accumulators: dict[str, TaskAccumulator] = field(default_factory=dict)
    cached_files: dict[str, str] = field(default_factory=dict)
    job_parameters: dict[str, str] = field(default_factory=dict)

    @property
    def subtask(self) -> str:
        return f"{self.subtask_index + 1} of {self.parallelism}"

    @property
    def fires_in_pieces(self) -> bool:
        return not self.is_batch

    @property
    def key_group_range(self) -> range:
        return key_group_range(self.subtask_index, self.parallelism, self.max_parallelism)

    def random(self, name: str) -> random.Random:
        return random.Random(name)

    def execute(self, mail: Callable[[], None], description: str) -> None:
        self.mails.append(mail)

    def call_later(
        self, delay_ms: float, mail: Callable[[], None], description: str, *, even_after_data: bool = False
    ) -> HarnessTimer:
        timer = HarnessTimer(self.clock.now + delay_ms, len(self.timers), mail)
        self.timers.append(timer)
        return timer

    def yield_to_mailbox(self) -> None:
        while not self.mails and self._step_loops():
            pass
        assert self.mails, "the operator waits for a mail, and none will come"
        self.mails.popleft()()

    def run_blocking(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        def run() -> None:
            try:
                result = work()
            except BaseException as error:
                done(None, error)
            else:
                done(result, None)

        self.mails.append(run)

    def start_loop(self, name: str, loop: Loop) -> bool:
        self.loops.append(loop)
        return False

    def send_to_coordinator(self, event: Any) -> None:
        self.sent_to_coordinator.append(event)

    def add_accumulator(self, name: str, initial: int | float) -> TaskAccumulator:
        return self.accumulators.setdefault(name, TaskAccumulator(initial))

    def cached_file(self, name: str) -> str:
        return self.cached_files[name]

    def run_mails(self) -> None:
        """Runs mails and steps loops until there is nothing to do."""
        while self.mails or self._step_loops():
            while self.mails:
                self.mails.popleft()()

    def _step_loops(self) -> bool:
        return any(loop.step() for loop in self.loops)

    def advance(self, milliseconds: int) -> None:
        """Moves the clock forward; timers run when they are due, in order, and mails after each."""
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


class RecordingOutput:
    """An Output that collects everything in order: batches, (tag, batch) pairs, watermarks, statuses, markers."""

    def __init__(self) -> None:
        self.elements: list[Any] = []

    def emit(self, batch: Batch) -> None:
        if batch.num_rows:
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

    def clear(self) -> None:
        self.elements.clear()
