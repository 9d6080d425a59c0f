"""The inputs of a task: gates and chained sources, from which operators get one element at a time, in turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from actors.network.consumer.input_gate import InputGate
from actors.network.flow.debloating import BufferDebloater
from actors.operators.contract.chunking import ChunkSizer
from actors.operators.contract.input_status import InputStatus
from actors.operators.contract.operator import Output
from actors.operators.sources.operator import SourceOperator
from actors.operators.time.watermark_valve import StatusWatermarkValve
from actors.protocol.elements import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    Element,
    EndOfData,
    EndOfPartition,
    LatencyMarker,
    StopMode,
    Watermark,
    WatermarkStatus,
)
from flinkray.batches.batch import Batch
from flinkray.errors import FlinkrayError
from flinkray.types.records import MAX_TIMESTAMP, Timestamp

_STATUSES_WITHOUT_END = (InputStatus.MORE_AVAILABLE, InputStatus.NOTHING_AVAILABLE)


class TaskInput(Protocol):
    """One logical input of a task."""

    def emit_next(self) -> InputStatus:
        """Processes the next element if there is one; never waits."""

    def on_available(self, listener: Callable[[], None]) -> None:
        """Calls `listener` once, as soon as `emit_next` may find something, perhaps at once. On any thread."""

    @property
    def should_drain(self) -> bool:
        """Whether the end of the input is an end of event time too. Valid after END_OF_DATA."""


class ChannelEvents(Protocol):
    """Hears of what happens on a task's channels that concerns checkpoints.

    Channels are numbered through all inputs of the task.
    """

    def on_barrier(self, channel: int, barrier: CheckpointBarrier) -> None: ...

    def on_cancel(self, channel: int, checkpoint_id: int) -> None: ...

    def on_end_of_data(self, channel: int) -> None:
        """The last row of a channel was processed; called before the task itself acts on it."""

    def on_end(self, channel: int) -> None: ...


class SourceTaskInput:
    """An input from a source operator of the same chain: the head of a source task, or a chained source.

    Args:
        is_firing: whether what is due in the task's operators has fired in part only.
    """

    def __init__(self, source: SourceOperator, is_firing: Callable[[], bool]) -> None:
        self._source = source
        self._is_firing = is_firing
        self._is_ending = False
        """Whether the source has given its last watermark, and ends when all that is due with it has fired."""
        self._is_stopped = False
        self._end: InputStatus | None = None
        """The next status of a source that the task has ended; None for one that ends by itself."""
        self.should_drain = True
        self.has_data = True

    def emit_next(self) -> InputStatus:
        if self._end is not None:
            status, self._end = self._end, InputStatus.END_OF_INPUT
            return status
        if self._is_stopped:
            return InputStatus.NOTHING_AVAILABLE
        status = InputStatus.END_OF_DATA if self._is_ending else self._source.emit_next()
        if status is InputStatus.END_OF_DATA:
            self._is_ending = self._is_firing()
            if self._is_ending:
                return InputStatus.MORE_AVAILABLE
            self.has_data = False
        return status

    def on_available(self, listener: Callable[[], None]) -> None:
        """A stopped source has nothing, whatever it announces; the task is woken when it ends the source."""
        if not self._is_stopped or self._end is not None:
            self._source.on_available(listener)

    def stop(self) -> None:
        """Reads nothing any more, until `end_stopped`. Without effect on a source that has ended by itself."""
        self._is_stopped = self.has_data

    def end_stopped(self) -> None:
        """Ends a source that was stopped; event time stays where it is. Without effect on any other source."""
        if self._is_stopped and self.has_data:
            self.has_data = self.should_drain = False
            self._end = InputStatus.END_OF_DATA

    def drain(self) -> None:
        """Ends the source and event time, as if the source had returned END_OF_DATA."""
        output = self._source.output
        output.emit_status(False)
        output.emit_watermark(MAX_TIMESTAMP)
        self.has_data = self._is_ending = False
        self._end = InputStatus.END_OF_INPUT


class EndedTaskInput:
    """The input in place of a source whose rows were all read in an earlier attempt."""

    should_drain = True

    def __init__(self) -> None:
        self._status = InputStatus.END_OF_DATA

    def emit_next(self) -> InputStatus:
        status, self._status = self._status, InputStatus.END_OF_INPUT
        return status

    def on_available(self, listener: Callable[[], None]) -> None:
        listener()


class NetworkTaskInput:
    """An input from a gate: batches go to the operator, watermarks and statuses to the valve.

    The valve combines all channels of the gate, which may be a union of several gates.

    Args:
        events: hears of what concerns checkpoints, with channels numbered from `first_channel`.
        now_ms: a clock that never goes back.
        debloater: says how many rows buffers of the producers should have; None: the producers are told nothing.
    """

    def __init__(
        self,
        gate: InputGate,
        output: Output,
        set_watermark: Callable[[Timestamp], None],
        events: ChannelEvents,
        first_channel: int,
        now_ms: Callable[[], float],
        chunk_sizer: ChunkSizer,
        debloater: BufferDebloater | None,
    ) -> None:
        self._gate = gate
        self._output = output
        self._set_watermark = set_watermark
        self._events = events
        self._first_channel = first_channel
        self._now_ms = now_ms
        self._chunk_sizer = chunk_sizer
        self._debloater = debloater
        self._valve = StatusWatermarkValve(gate.number_of_channels)
        self._waiting: deque[tuple[int, EndOfData | EndOfPartition | CheckpointBarrier]] = deque()
        """Events that `process_event` has found and that must wait, with their channels."""
        self._is_held_up = False
        """Whether all that comes behind them, and behind rows that wait in the gate, must wait too."""
        self._channels_with_data = gate.number_of_channels
        self._open_channels = gate.number_of_channels
        self.should_drain = True
        self.on_available = gate.availability.on_available

    def emit_next(self) -> InputStatus:
        if not self._open_channels:
            return InputStatus.END_OF_INPUT
        self._is_held_up = False
        if self._waiting:
            channel, element = self._waiting.popleft()
            if isinstance(element, CheckpointBarrier):
                return self._process_element(channel, element)
            return self._end(element)
        polled = self._gate.poll()
        if polled is None:
            return InputStatus.NOTHING_AVAILABLE
        return self._process_element(*polled)

    def _process_element(self, channel: int, element: Element) -> InputStatus:
        if isinstance(element, Batch):
            self._process(channel, element)
            return InputStatus.MORE_AVAILABLE
        match element:
            case Watermark(timestamp):
                self._pass_on(self._valve.on_watermark(timestamp, channel))
            case WatermarkStatus(is_idle):
                self._pass_on(self._valve.on_status(is_idle, channel))
            case LatencyMarker():
                self._output.emit_latency_marker(element)
            case CheckpointBarrier():
                self._events.on_barrier(self._first_channel + channel, element)
            case CancelCheckpointMarker(checkpoint_id):
                self._events.on_cancel(self._first_channel + channel, checkpoint_id)
            case EndOfData() | EndOfPartition():
                self._tell_of_end(channel, element)
                return self._end(element)
            case _:
                raise FlinkrayError(f"a task cannot handle {element!r} from channel {channel}")
        return InputStatus.MORE_AVAILABLE

    def _tell_of_end(self, channel: int, end: EndOfData | EndOfPartition) -> None:
        if isinstance(end, EndOfData):
            self._events.on_end_of_data(self._first_channel + channel)
        else:
            self._events.on_end(self._first_channel + channel)

    def _end(self, end: EndOfData | EndOfPartition) -> InputStatus:
        if isinstance(end, EndOfPartition):
            self._open_channels -= 1
            return InputStatus.MORE_AVAILABLE if self._open_channels else InputStatus.END_OF_INPUT
        self.should_drain &= end.should_drain
        self._channels_with_data -= 1
        return InputStatus.MORE_AVAILABLE if self._channels_with_data else InputStatus.END_OF_DATA

    def _process(self, channel: int, batch: Batch) -> None:
        """Processes a batch, or the first rows of one that takes long; the others are put back into the gate."""
        chunk, rest = self._chunk_sizer.cut(batch)
        began_ms = self._now_ms()
        self._output.emit(chunk)
        self._chunk_sizer.passed(chunk.num_rows, self._now_ms() - began_ms)
        if self._debloater is not None and self._debloater.passed(chunk.num_rows, self._chunk_sizer.buffer_rows):
            self._gate.set_buffer_rows(self._debloater.rows)
        if rest is not None:
            self._gate.put_back(channel, rest)
        else:
            self._gate.recycle()  # only now may the sender send another buffer in place of this one

    def process_event(self) -> bool:
        """Handles the next element, if it may come between what is due and the rows behind that; never waits.

        Barriers, watermarks and statuses may: operators keep the latter in their place. Rows must wait, and all that
        comes behind them, but for barriers that overtake. So must the end of a channel, but not the barriers behind it,
        except for that of a savepoint which is to have everything fired.
        """
        if self._is_held_up or not self._open_channels:
            return self.process_priority()
        polled = self._gate.poll()
        if polled is None:
            return False
        channel, element = polled
        if isinstance(element, Batch):
            self._is_held_up = True
            self._gate.put_back(channel, element)
            return False
        if isinstance(element, EndOfData | EndOfPartition):
            self._waiting.append((channel, element))
            self._tell_of_end(channel, element)  # so that no checkpoint waits for it
        elif isinstance(element, CheckpointBarrier) and element.options.stop is StopMode.DRAIN:
            self._waiting.append((channel, element))
            self._is_held_up = True
        else:
            self._process_element(channel, element)
        return True

    @property
    def has_waiting(self) -> bool:
        """Whether events wait for what is due before them, or did until now."""
        return bool(self._waiting)

    def process_priority(self) -> bool:
        """Handles a barrier that overtakes rows, if there is one; also called while there is no room for rows."""
        polled = self._gate.poll_priority()
        if polled is None:
            return False
        channel, barrier = polled
        assert isinstance(barrier, CheckpointBarrier), f"{barrier!r} cannot overtake rows"
        self._events.on_barrier(self._first_channel + channel, barrier)
        return True

    def on_priority(self, listener: Callable[[], None]) -> None:
        """Calls `listener` once, as soon as `process_priority` may find something, perhaps at once. On any thread."""
        self._gate.priority.on_available(listener)

    def _pass_on(self, elements: Sequence[Watermark | WatermarkStatus]) -> None:
        for element in elements:
            if isinstance(element, Watermark):
                self._set_watermark(element.timestamp)
                self._output.emit_watermark(element.timestamp)
            else:
                self._output.emit_status(element.is_idle)


class InputProcessor:
    """All logical inputs of a task, even if there is only one (Flink's StreamMultipleInputProcessor).

    Args:
        end_input: called with the index of each input whose last row has been processed, if it drains.
        first: inputs whose data must end before any other input is read; empty: all take turns.
    """

    def __init__(
        self, inputs: Sequence[TaskInput], end_input: Callable[[int], None], first: Collection[int] = ()
    ) -> None:
        self._inputs = tuple(inputs)
        self._end_input = end_input
        self._with_data = set(range(len(inputs)))
        self._first = first
        self._open = [index for index in range(len(inputs)) if not first or index in first]
        self._held_back = [index for index in range(len(inputs)) if index not in self._open]
        self._next = 0

    def process_input(self) -> InputStatus:
        """Processes one element of one input. An input that had one is the last to be asked the next time."""
        if len(self._open) == 1:
            status = self._inputs[self._open[0]].emit_next()
            return status if status in _STATUSES_WITHOUT_END else self._ended(self._open[0], status)
        for offset in range(len(self._open)):
            position = (self._next + offset) % len(self._open)
            index = self._open[position]
            status = self._inputs[index].emit_next()
            if status is InputStatus.NOTHING_AVAILABLE:
                continue
            self._next = position + 1
            if status is InputStatus.MORE_AVAILABLE:
                return status
            return self._ended(index, status)
        return InputStatus.NOTHING_AVAILABLE if self._open else InputStatus.END_OF_INPUT

    def process_event(self) -> bool:
        """Instead of `process_input` while operators fire what is due: handles something that need not wait for that,
        if there is any."""
        return any(
            task_input.process_event() for task_input in self._inputs if isinstance(task_input, NetworkTaskInput)
        )

    @property
    def has_waiting(self) -> bool:
        """Whether `process_event` has found events that must wait, and `process_input` has not come to them yet."""
        return any(each.has_waiting for each in self._inputs if isinstance(each, NetworkTaskInput))

    def process_priority(self) -> bool:
        """Handles a barrier that overtakes rows, if there is one; also called while there is no room for rows."""
        return any(
            task_input.process_priority() for task_input in self._inputs if isinstance(task_input, NetworkTaskInput)
        )

    def on_priority(self, listener: Callable[[], None]) -> None:
        """Calls `listener` at least once when `process_priority` may find something, perhaps at once. On any thread."""
        for task_input in self._inputs:
            if isinstance(task_input, NetworkTaskInput):
                task_input.on_priority(listener)

    def on_available(self, listener: Callable[[], None]) -> None:
        """Calls `listener` at least once when any input may have something, perhaps at once. On any thread."""
        for index in self._open:
            self._inputs[index].on_available(listener)

    def stop_sources(self) -> None:
        """Stops the sources of the chain from reading, until `end_stopped_sources`."""
        for task_input in self._inputs:
            if isinstance(task_input, SourceTaskInput):
                task_input.stop()

    def end_stopped_sources(self) -> None:
        """Ends the sources that were stopped; event time stays where it is."""
        for task_input in self._inputs:
            if isinstance(task_input, SourceTaskInput):
                task_input.end_stopped()

    def drain_sources(self) -> InputStatus:
        """Ends the sources of the chain, and event time with them; END_OF_DATA if no other input has data."""
        status = InputStatus.MORE_AVAILABLE
        for index, task_input in enumerate(self._inputs):
            if isinstance(task_input, SourceTaskInput) and task_input.has_data:
                task_input.drain()
                status = self._ended(index, InputStatus.END_OF_DATA)
        return status

    @property
    def should_drain(self) -> bool:
        """Whether the end of all data is the end of event time, as no input was stopped without draining."""
        return all(task_input.should_drain for task_input in self._inputs)

    def close(self) -> None:
        """Frees what inputs hold that have not ended."""
        for task_input in self._inputs:
            close = getattr(task_input, "close", None)
            if close is not None:
                close()

    def _ended(self, index: int, status: InputStatus) -> InputStatus:
        if status is InputStatus.END_OF_INPUT:
            self._open.remove(index)
            return InputStatus.MORE_AVAILABLE if self._open else InputStatus.END_OF_INPUT
        self._with_data.discard(index)
        if self._inputs[index].should_drain:
            self._end_input(index)
        if self._held_back and self._with_data.isdisjoint(self._first):
            self._open += self._held_back
            self._held_back = []
        return InputStatus.MORE_AVAILABLE if self._with_data else InputStatus.END_OF_DATA
