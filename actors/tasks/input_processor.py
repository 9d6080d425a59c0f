"""Feeds a task's operators from its inputs: one element at a time, fairly between inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from actors.elements import EndOfData, EndOfPartition, LatencyMarker, Watermark, WatermarkStatus
from actors.network.input_gate import InputGate
from actors.operators.base import Output
from actors.operators.input_status import InputStatus
from actors.operators.source import SourceOperator
from actors.operators.watermark_valve import StatusWatermarkValve
from flinkray.batch import Batch
from flinkray.errors import FlinkrayError
from flinkray.types import Timestamp


class TaskInput(Protocol):
    """One logical input of a task."""

    def emit_next(self) -> InputStatus:
        """Processes the next element, if there is one; never waits."""

    def on_available(self, listener: Callable[[], None]) -> None:
        """Calls `listener` once, on any thread, as soon as `emit_next` may find something; perhaps at once."""

    @property
    def should_drain(self) -> bool:
        """Whether its end is an end of event time too; means something after END_OF_DATA."""


class SourceTaskInput:
    """An input fed by a source operator of the same chain (the head of a source task, or a chained source)."""

    should_drain = True

    def __init__(self, source: SourceOperator) -> None:
        self.emit_next = source.emit_next
        self.on_available = source.on_available


class NetworkTaskInput:
    """An input fed by a gate: batches to the operator, watermarks and statuses through the valve.

    The channels of all its gates are numbered through, which is how the valve addresses them.
    """

    def __init__(self, gate: InputGate, output: Output, set_watermark: Callable[[Timestamp], None]) -> None:
        self._gate = gate
        self._output = output
        self._set_watermark = set_watermark
        self._valve = StatusWatermarkValve(gate.number_of_channels)
        self._channels_with_data = gate.number_of_channels
        self._open_channels = gate.number_of_channels
        self.should_drain = True
        self.on_available = gate.availability.on_available

    def emit_next(self) -> InputStatus:
        if not self._open_channels:
            return InputStatus.END_OF_INPUT
        polled = self._gate.poll()
        if polled is None:
            return InputStatus.NOTHING_AVAILABLE
        channel, element = polled
        if isinstance(element, Batch):
            self._output.emit(element)
            # Only now may the sender send another one in its place.
            self._gate.recycle()
            return InputStatus.MORE_AVAILABLE
        match element:
            case Watermark(timestamp):
                self._pass_on(self._valve.on_watermark(timestamp, channel))
            case WatermarkStatus(is_idle):
                self._pass_on(self._valve.on_status(is_idle, channel))
            case LatencyMarker():
                self._output.emit_latency_marker(element)
            case EndOfData(should_drain):
                self.should_drain &= should_drain
                self._channels_with_data -= 1
                if not self._channels_with_data:
                    return InputStatus.END_OF_DATA
            case EndOfPartition():
                self._open_channels -= 1
            case _:
                raise FlinkrayError(f"a task cannot handle {element!r} from channel {channel}")
        return InputStatus.MORE_AVAILABLE if self._open_channels else InputStatus.END_OF_INPUT

    def _pass_on(self, elements: Sequence[Watermark | WatermarkStatus]) -> None:
        for element in elements:
            if isinstance(element, Watermark):
                self._set_watermark(element.timestamp)
                self._output.emit_watermark(element.timestamp)
            else:
                self._output.emit_status(element.is_idle)


class InputProcessor:
    """All logical inputs of a task (Flink's StreamMultipleInputProcessor, also for one).

    Args:
        end_input: called with the index of each input whose last row has been processed, if it drains.
    """

    def __init__(self, inputs: Sequence[TaskInput], end_input: Callable[[int], None]) -> None:
        self._inputs = tuple(inputs)
        self._end_input = end_input
        self._with_data = set(range(len(inputs)))
        self._open = list(range(len(inputs)))
        self._next = 0

    def process_input(self) -> InputStatus:
        """One element of one input. An input that just gave something comes last the next time."""
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

    def on_available(self, listener: Callable[[], None]) -> None:
        """Calls `listener` at least once when any input may have something, on any thread, perhaps at once."""
        for index in self._open:
            self._inputs[index].on_available(listener)

    @property
    def should_drain(self) -> bool:
        """Whether the end of all data is the end of event time: no input was stopped without draining."""
        return all(task_input.should_drain for task_input in self._inputs)

    def _ended(self, index: int, status: InputStatus) -> InputStatus:
        if status is InputStatus.END_OF_INPUT:
            self._open.remove(index)
            return InputStatus.MORE_AVAILABLE if self._open else InputStatus.END_OF_INPUT
        self._with_data.discard(index)
        if self._inputs[index].should_drain:
            self._end_input(index)
        return InputStatus.MORE_AVAILABLE if self._with_data else InputStatus.END_OF_DATA
