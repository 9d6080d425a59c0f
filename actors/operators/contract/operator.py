"""The contract of operators: batches, watermarks and statuses in, the same out. The task's thread calls all of it."""

from __future__ import annotations

import random
from abc import ABC
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Protocol

from msgspec import Struct

from actors.operators.contract.cancellation import Cancellation
from actors.operators.contract.chunking import ChunkLimit
from actors.operators.contract.held_rows import HeldRows
from actors.operators.contract.pieces import Pieces
from actors.protocol.elements import CheckpointOptions, LatencyMarker
from actors.protocol.ports import Clock, Loop
from actors.state.keyed.options import StateOptions
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from flinkray.batches.batch import Batch
from flinkray.errors import operator_label
from flinkray.types.keys import KeySelector
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP, OutputTag, Timestamp


class Output(Protocol):
    """Where an operator's results go: the next operator of the chain, the network, or several of both."""

    def emit(self, batch: Batch) -> None:
        """Rows for the main output; an empty batch is dropped."""

    def emit_side(self, tag: OutputTag, batch: Batch) -> None:
        """Rows for a side output; dropped where nobody reads that tag."""

    def emit_watermark(self, timestamp: Timestamp) -> None: ...

    def emit_status(self, is_idle: bool) -> None: ...

    def emit_latency_marker(self, marker: LatencyMarker) -> None: ...


class OperatorMetrics(Protocol):
    """What one operator counts and measures."""

    def count(self, name: str, increase: float = 1) -> None:
        """Adds to a counter, for example `late_records_dropped`."""

    def gauge(self, name: str, value: float) -> None: ...

    def gauge_function(self, name: str, read: Callable[[], float | None]) -> None:
        """A gauge that is read when figures are reported, by another thread; None: there is nothing to report."""

    def watermark_in(self, input_index: int, timestamp: int) -> None:
        """A watermark came on that input."""

    def watermark_out(self, timestamp: int) -> None:
        """The operator has given a watermark on."""

    def latency(self, marker: LatencyMarker, latency_ms: float) -> None:
        """A latency marker came, so long after its source made it."""


class OperatorContext(Protocol):
    """What an operator may use of its task."""

    @property
    def job_id(self) -> str: ...

    @property
    def job_name(self) -> str: ...

    @property
    def operator_id(self) -> str: ...

    @property
    def operator_name(self) -> str: ...

    @property
    def uid(self) -> str | None:
        """As the program gave it; None: it gave none."""

    @property
    def subtask_index(self) -> int: ...

    @property
    def parallelism(self) -> int: ...

    @property
    def max_parallelism(self) -> int: ...

    @property
    def attempt_number(self) -> int: ...

    @property
    def subtask(self) -> str:
        """Which subtask this is, for errors: "1 of 2"."""

    @property
    def keys(self) -> tuple[KeySelector | None, ...]:
        """The key selector of each logical input; None: that input is not keyed."""

    @property
    def key_group_range(self) -> range:
        """The key groups whose rows come to this subtask, where the operator is keyed."""

    @property
    def state_options(self) -> StateOptions:
        """Which state backend to use, and how."""

    @property
    def has_checkpoints(self) -> bool:
        """Whether checkpoints commit what a sink prepares; one of them follows the end of data then."""

    @property
    def may_restart(self) -> bool:
        """Whether the job has periodic checkpoints, or a strategy by which it begins again after a failure."""

    @property
    def is_batch(self) -> bool:
        """Whether the program runs in stages: rows end, no checkpoints, and event time moves once, at the end."""

    @property
    def fires_in_pieces(self) -> bool:
        """Whether the task looks at its mailbox between timers and windows that are due at once."""

    @property
    def clock(self) -> Clock: ...

    @property
    def metrics(self) -> OperatorMetrics: ...

    @property
    def batch_rows(self) -> int:
        """How many rows a batch aims at."""

    @property
    def batch_bytes(self) -> int:
        """How many bytes a batch aims at."""

    @property
    def auto_watermark_interval_ms(self) -> int: ...

    @property
    def allows_unaligned_splits(self) -> bool:
        """Whether a source whose reader cannot hold single splits back may take part in watermark alignment."""

    @property
    def chunk_limit(self) -> ChunkLimit:
        """How many rows the task may take at a time."""

    @property
    def cancellation(self) -> Cancellation:
        """True once the task is cancelled. The output checks it; a loop over the results of a function, which may have
        no end, has to check it too while it emits nothing."""

    @property
    def backpressured_ms(self) -> float:
        """Time that the task has spent so far waiting for room at its outputs."""

    @property
    def latency_interval_ms(self) -> int:
        """Time between the latency markers of a source; 0: none."""

    @property
    def commit_retries(self) -> int:
        """How often a commit may be put off before the job fails."""

    def random(self, name: str) -> random.Random:
        """A generator of random numbers for this use alone, seeded where the host is."""

    def execute(self, mail: Callable[[], None], description: str) -> None:
        """Runs `mail` in the task's thread; may be called from any thread."""

    def call_later(
        self, delay_ms: float, mail: Callable[[], None], description: str, *, even_after_data: bool = False
    ) -> Any:
        """Runs `mail` in the task's thread after `delay_ms`, unless the task has ended by then; gives a Cancellable.

        Args:
            even_after_data: also once all rows are processed and `finish` was called, where the mail emits nothing.
        """

    def yield_to_mailbox(self) -> None:
        """Runs one other mail of this task, and waits for one: so an operator waits for what a mail brings."""

    def run_blocking(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        """Runs `work` on another thread, then `done` with its result or error, on one that must not wait."""

    def start_loop(self, name: str, loop: Loop) -> bool:
        """Runs the loop until it is done; whether on a thread of its own: where there are none, it is stepped."""

    def send_to_coordinator(self, event: Any) -> None:
        """Sends an event, which must be picklable, to this operator's coordinator at the JobMaster."""

    def add_accumulator(self, name: str, initial: int | float) -> Any:
        """A flinkray.functions.interfaces.Accumulator."""

    def cached_file(self, name: str) -> str:
        """The path on this machine of a file that the program registered under that name."""

    @property
    def job_parameters(self) -> Mapping[str, str]:
        """What the user set for functions (pipeline.global-job-parameters)."""


def label_of(context: OperatorContext) -> str:
    """How errors and log lines call the operator's subtask, for example "operator 'fares' (subtask 1 of 2)"."""
    return operator_label(context.operator_name, context.subtask)


def subtask_label(context: OperatorContext) -> str:
    """The name of the operator's subtask, as Flink writes it, for example "fares (1/2)"."""
    return f"{context.operator_name} ({context.subtask_index + 1}/{context.parallelism})"


class _Due(Struct):
    """What is due in an operator, while it fires."""

    steps: Iterator[object]
    """Calls a function of the user for each element; after each what is left is in the operator's snapshot."""
    pause: Callable[[], None]
    """Passes on what the steps so far gave: nothing may stay behind that is in no snapshot."""
    end: Callable[[], None]
    """Called after the last step."""


class Operator(ABC):
    """Base of all operators.

    Life cycle: setup; initialize_state and open from the chain's tail to its head; process_...; end_input per
    input and finish from head to tail at the end of data; close always, also after a failure.
    """

    context: OperatorContext
    output: Output

    FIRES_IN_PIECES: ClassVar[bool] = False
    """Whether `fire_in_pieces` is ever called."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Called once before anything else. Subclasses that override it call this first."""
        self.context = context
        self.output = output
        self._watermarks = [int(MIN_TIMESTAMP)] * max(1, self.number_of_inputs)
        self._idle = [False] * max(1, self.number_of_inputs)
        self._combined = int(MIN_TIMESTAMP)
        self._reached = int(MIN_TIMESTAMP)
        self._is_output_idle = False
        self._due: _Due | None = None
        self._pieces = Pieces(context.clock.monotonic_ms)

    @property
    def number_of_inputs(self) -> int:
        return 1

    @property
    def inputs_before_others(self) -> tuple[int, ...]:
        """The inputs whose rows, in batch mode, all come before those of the other inputs."""
        return ()

    @property
    def is_available(self) -> bool:
        """Whether more input is wanted; while not, the task gets nothing from its inputs and counts as back-pressured.

        Looked at before each chunk of input, and again after each mail of this operator, so that whatever makes it
        True must happen in one (a coordinator event, `execute`, `call_later`).
        """
        return True

    @property
    def may_end(self) -> bool:
        """Whether the task may end when it has no more input; looked at again after each mail of this operator."""
        return True

    @property
    def gives_after_data(self) -> bool:
        """Whether it emits until the task ends, also when `finish` has been called: those behind, which are in tasks of
        their own, hear only then that its data have ended. Asked for before `setup`."""
        return False

    @property
    def held_rows(self) -> HeldRows | None:
        """The rows that the operator has taken and that have not left it; None: it holds none between two calls.

        Such rows have not been processed, however quickly they were taken: buffers to the task are made for what leaves
        it. Asked for once, after `setup`.
        """
        return None

    def initialize_state(self, restored: RestoredState | None) -> None:
        """`restored` has what this subtask gets of the snapshots that the task starts from, if it starts from any.

        The job may have had another parallelism then: keyed state comes by key group, from one or several subtasks.
        """

    def open(self) -> None: ...

    def recover_finished(self, restored: RestoredState) -> None:
        """Instead of `initialize_state`, `open` and everything else, in a subtask that had processed all its rows
        before the checkpoint: does what the checkpoint's completion was to lead to, which may not have happened."""

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        """A non-empty batch on logical input `input_index`."""
        raise TypeError(f"{type(self).__name__} takes no input")

    def process_watermark(self, timestamp: Timestamp, input_index: int = 0) -> None:
        """A watermark on one input: the operator's is the lowest of its active inputs, and never goes back.

        An input that is at MAX_TIMESTAMP has finished, and counts no more: the others may be idle for a while without
        their event time being over (FLINK-38477).
        """
        self._watermarks[input_index] = max(self._watermarks[input_index], timestamp)
        self._follow_inputs()

    def process_status(self, is_idle: bool, input_index: int = 0) -> None:
        """An input turned idle or active; the operator is idle exactly while all its inputs are that have not
        finished."""
        self._idle[input_index] = is_idle
        self._follow_inputs()

    def _follow_inputs(self) -> None:
        """Passes on what the statuses and watermarks of the inputs lead to; while the operator fires, later."""
        inputs = zip(self._watermarks, self._idle, strict=True)
        unfinished = [(mark, idle) for mark, idle in inputs if mark < MAX_TIMESTAMP]
        active = [mark for mark, idle in unfinished if not idle]
        is_idle = bool(unfinished) and not active
        # A watermark travels before IDLE and after ACTIVE: what is idle sends none.
        if self._is_output_idle and not is_idle and self._due is None:
            self._is_output_idle = False
            self._pass_status(is_idle=False)
        # Of inputs that are all idle all that any has promised counts, whichever was the last.
        lowest = max(unfinished)[0] if is_idle else min(active, default=MAX_TIMESTAMP)
        self._reached = max(self._reached, lowest)
        if self._reached > self._combined and self._due is None:
            self._combined = self._reached
            self.on_watermark(Timestamp(self._combined))
        if is_idle and not self._is_output_idle and self._due is None:
            self._is_output_idle = True
            self._pass_status(is_idle=True)

    def _pass_status(self, is_idle: bool) -> None:
        self.output.emit_status(is_idle)

    def on_watermark(self, timestamp: Timestamp) -> None:
        """The operator's own watermark rose: fire what is due, then pass it on."""
        self.output.emit_watermark(timestamp)

    # -- firing

    @property
    def is_firing(self) -> bool:
        """Whether what is due has fired in part only: the task takes no rows, and calls `fire_on` between mails."""
        return self._due is not None

    def fire_in_pieces(
        self, steps: Iterator[object], pause: Callable[[], None], end: Callable[[], None], is_restored: bool = False
    ) -> None:
        """Fires what is due: a piece now, and the others when the task has looked at its mailbox (after Flink's
        interruptible timers, FLIP-443).

        A snapshot may be taken between two pieces. Unlike in Flink no rows come in between: a key's rows are behind the
        timers that its watermark has fired.

        Args:
            steps: does a part of it for each element, and its snapshot has what is left.
            pause: called after each piece; passes on what its steps gave.
            end: called after the last one; passes the watermark on.
            is_restored: the operator opens, and fires what was left when its snapshot was taken, before anything else.
        """
        self._due = _Due(steps, pause, end)
        if not is_restored:
            self.fire_on(to_the_end=not self.context.fires_in_pieces)

    def fire_on(self, to_the_end: bool = False) -> None:
        """Fires the next piece, or all that is left."""
        due = self._due
        if due is None:
            return
        is_left = self._pieces.make(due.steps, to_the_end)
        due.pause()
        self._pieces.end()
        if not is_left:
            self._due = None
            due.end()
            self._follow_inputs()

    def finish_firing(self) -> None:
        """Fires all that is left, also what watermarks that have come meanwhile lead to."""
        while self._due is not None:
            self.fire_on(to_the_end=True)

    def stop_firing(self) -> None:
        """Fires nothing more: what is left is in the savepoint with which the job stops."""
        self._due = None

    def process_latency_marker(self, marker: LatencyMarker) -> None:
        self.output.emit_latency_marker(marker)

    def end_keys(self) -> None:
        """No more rows of the keys so far will come: emits their last results, and may drop their state.

        In batch mode, between batches, where the inputs are sorted by key; the last time before the last watermark.
        """

    def end_input(self, input_index: int) -> None:
        """No more rows on that input (its last watermark has been processed)."""

    def finish(self) -> None:
        """No more rows at all: emit what is buffered."""

    def prepare_barrier(self, checkpoint_id: int) -> None:
        """The barrier comes next: emit what must be before it. From the head to the tail."""

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot | None:
        """What `initialize_state` needs to go on from here; None: nothing. Must be quick (see OperatorSnapshot)."""
        return None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """This checkpoint is complete, and so are all earlier ones, whose own notices may never come, or come later."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None: ...

    def handle_coordinator_event(self, event: Any) -> None:
        """An event that this operator's coordinator at the JobMaster sent."""

    def close(self) -> None: ...

    def forget(self) -> None:
        """Drops all attributes; called after `close`, as the last call.

        A task and its operators refer to each other in circles: state would stay in memory until the next garbage
        collection, beside the state of the next attempt.
        """
        vars(self).clear()
