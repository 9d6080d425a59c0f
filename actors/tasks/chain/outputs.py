"""Where an operator's results go: into the next operator of the chain, to the network, or to several of both.

An operator has one output for each edge of the graph. Rows emitted with a tag go only over edges with an equal tag,
rows without a tag only over edges without one. Watermarks and statuses go over all edges, a latency marker over one of
them at random.
"""

from __future__ import annotations

import contextlib
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from actors.operators.contract.chunking import ChunkConsumer
from actors.operators.contract.operator import Operator, Output, label_of
from actors.protocol.elements import ACTIVE, IDLE, Event, LatencyMarker, Watermark
from actors.user_code.functions import OpenedPartitioner
from flinkray.batches.batch import Batch
from flinkray.errors import IncompatibleStateError
from flinkray.types.records import OutputTag, Timestamp


class ResultWriter(ChunkConsumer, Protocol):
    """What a network output needs of `actors.network.producer.record_writer.RecordWriter`."""

    def emit(self, batch: Batch) -> None:
        """Spreads the rows over the channels."""

    def broadcast_event(self, event: Event) -> None:
        """Sends an event to every channel, behind the rows that were emitted before."""

    def emit_latency_marker(self, marker: LatencyMarker) -> None:
        """Sends a latency marker to one channel at random."""


class EdgeOutput(ABC):
    """An Output over one edge."""

    def __init__(self, tag: OutputTag | None) -> None:
        self.tag = tag

    def emit(self, batch: Batch) -> None:
        if self.tag is None and batch.data.num_rows:
            self.deliver(batch)

    def emit_side(self, tag: OutputTag, batch: Batch) -> None:
        if self.tag == tag and batch.data.num_rows:
            self.deliver(batch)

    @abstractmethod
    def deliver(self, batch: Batch) -> None:
        """Passes on rows that may go over this edge; never an empty batch."""

    @abstractmethod
    def emit_watermark(self, timestamp: Timestamp) -> None: ...

    @abstractmethod
    def emit_status(self, is_idle: bool) -> None: ...

    @abstractmethod
    def emit_latency_marker(self, marker: LatencyMarker) -> None: ...


class ChainingOutput(EdgeOutput):
    """Calls the next operator directly, in the same thread and with the same (immutable) batch."""

    def __init__(self, operator: Operator, input_index: int = 0, tag: OutputTag | None = None) -> None:
        super().__init__(tag)
        self._operator = operator
        self._input_index = input_index

    def deliver(self, batch: Batch) -> None:
        try:
            if self._operator.is_firing:  # the task takes no input then, but a mail may have brought rows
                self._operator.finish_firing()
            self._operator.process_batch(batch, self._input_index)
        except Exception as error:
            name_operator(error, self._operator)
            raise

    def emit_watermark(self, timestamp: Timestamp) -> None:
        self._operator.context.metrics.watermark_in(self._input_index, timestamp)
        try:
            self._operator.process_watermark(timestamp, self._input_index)
        except Exception as error:
            name_operator(error, self._operator)
            raise

    def emit_status(self, is_idle: bool) -> None:
        self._operator.process_status(is_idle, self._input_index)

    def emit_latency_marker(self, marker: LatencyMarker) -> None:
        context = self._operator.context
        context.metrics.latency(marker, context.clock.now_ms() - marker.marked_ms)
        self._operator.process_latency_marker(marker)


class RecordWriterOutput(EdgeOutput):
    """Sends to another task, through a record writer."""

    def __init__(self, writer: ResultWriter, tag: OutputTag | None = None) -> None:
        super().__init__(tag)
        self._writer = writer
        self._is_idle = False

    def deliver(self, batch: Batch) -> None:
        self._writer.emit(batch)

    def emit_watermark(self, timestamp: Timestamp) -> None:
        # After IDLE the next thing must be ACTIVE; receivers ignore watermarks of an idle channel anyway.
        if not self._is_idle:
            self._writer.broadcast_event(Watermark(timestamp))

    def emit_status(self, is_idle: bool) -> None:
        if is_idle != self._is_idle:
            self._is_idle = is_idle
            self._writer.broadcast_event(IDLE if is_idle else ACTIVE)

    def emit_latency_marker(self, marker: LatencyMarker) -> None:
        self._writer.emit_latency_marker(marker)


class CountingOutput(EdgeOutput):
    """Counts the rows that pass another output, and changes nothing."""

    def __init__(self, inner: EdgeOutput, count: Callable[[Batch], None]) -> None:
        super().__init__(inner.tag)
        self._inner = inner
        self._count = count

    def deliver(self, batch: Batch) -> None:
        self._count(batch)
        self._inner.deliver(batch)

    def emit_watermark(self, timestamp: Timestamp) -> None:
        self._inner.emit_watermark(timestamp)

    def emit_status(self, is_idle: bool) -> None:
        self._inner.emit_status(is_idle)

    def emit_latency_marker(self, marker: LatencyMarker) -> None:
        self._inner.emit_latency_marker(marker)


class BroadcastingOutput:
    """Passes everything to several outputs, in order; without outputs it is the end of a chain, where results are
    dropped.

    Args:
        generator: chooses the output that a latency marker goes to, as markers must not multiply.
    """

    def __init__(self, outputs: Sequence[Output], generator: random.Random | None = None) -> None:
        self._outputs = tuple(outputs)
        self._generator = generator or random.Random(0)

    def emit(self, batch: Batch) -> None:
        for output in self._outputs:
            output.emit(batch)

    def emit_side(self, tag: OutputTag, batch: Batch) -> None:
        for output in self._outputs:
            output.emit_side(tag, batch)

    def emit_watermark(self, timestamp: Timestamp) -> None:
        for output in self._outputs:
            output.emit_watermark(timestamp)

    def emit_status(self, is_idle: bool) -> None:
        for output in self._outputs:
            output.emit_status(is_idle)

    def emit_latency_marker(self, marker: LatencyMarker) -> None:
        if self._outputs:
            self._generator.choice(self._outputs).emit_latency_marker(marker)


class OperatorOutput:
    """The output that an operator itself uses: notes its watermark, and passes everything on.

    Args:
        check_canceled: raises if the task is cancelled, so that an operator is stopped whose function never returns,
            but emits row after row.
    """

    def __init__(
        self, inner: Output, set_watermark: Callable[[Timestamp], None], check_canceled: Callable[[], None]
    ) -> None:
        self._inner = inner
        self._set_watermark = set_watermark
        self._check_canceled = check_canceled
        self.emit_status = inner.emit_status
        self.emit_latency_marker = inner.emit_latency_marker

    def emit(self, batch: Batch) -> None:
        self._check_canceled()
        self._inner.emit(batch)

    def emit_side(self, tag: OutputTag, batch: Batch) -> None:
        self._check_canceled()
        self._inner.emit_side(tag, batch)

    def emit_watermark(self, timestamp: Timestamp) -> None:
        self._set_watermark(timestamp)
        self._inner.emit_watermark(timestamp)


class SourceOutput:
    """Counts the rows of a source and notes its watermark, before both go to its outputs."""

    def __init__(
        self, inner: Output, count: Callable[[Batch], None], set_watermark: Callable[[Timestamp], None]
    ) -> None:
        self._inner = inner
        self._count = count
        self._set_watermark = set_watermark
        self.emit_side = inner.emit_side
        self.emit_status = inner.emit_status
        self.emit_latency_marker = inner.emit_latency_marker

    def emit(self, batch: Batch) -> None:
        self._count(batch)
        self._inner.emit(batch)

    def emit_watermark(self, timestamp: Timestamp) -> None:
        self._set_watermark(timestamp)
        self._inner.emit_watermark(timestamp)


_NOTE = "raised in operator"
"""How the note of an operator begins (see `flinkray.errors.operator_label`)."""


def combined(outputs: Sequence[Output], generator: random.Random | None = None) -> Output:
    """One output for all of them, which is the only one itself if there is one. For `generator` see
    BroadcastingOutput."""
    return outputs[0] if len(outputs) == 1 else BroadcastingOutput(outputs, generator)


def name_operator(error: Exception, operator: Operator) -> None:
    """Adds a note to an error that names the innermost operator which it passes; and to one about its state, the uid
    by which that is found."""
    if not any(note.startswith(_NOTE) for note in getattr(error, "__notes__", ())):
        error.add_note(f"raised in {label_of(operator.context)}")
        uid = operator.context.uid
        if isinstance(error, IncompatibleStateError) and uid is not None:
            error.args = (f"{error} (its uid is {uid!r})",)


@contextlib.contextmanager
def naming_operator(operator: Operator) -> Iterator[None]:
    """A context in which errors get a note that names the operator."""
    try:
        yield
    except Exception as error:
        name_operator(error, operator)
        raise


def close_all(operators: list[Operator], partitioners: list[OpenedPartitioner]) -> Exception | None:
    """Closes all of both, the last ones first, even if one fails, and takes them off the lists; gives the first
    failure."""
    first: Exception | None = None
    while operators:
        operator = operators.pop()
        try:
            operator.close()
        except Exception as error:
            name_operator(error, operator)
            first = first or error
    while partitioners:
        try:
            partitioners.pop().close()
        except Exception as error:
            first = first or error
    return first
