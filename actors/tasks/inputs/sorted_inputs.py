"""The inputs of a keyed operator in batch mode: all rows are collected first, then the operator gets them key by
key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from actors.operators.contract.input_status import InputStatus
from actors.operators.contract.operator import Output
from actors.protocol.elements import LatencyMarker
from actors.tasks.inputs.input_processor import TaskInput
from actors.tasks.inputs.key_sorter import KeySorter, SortedRows
from flinkray.batches.batch import Batch
from flinkray.types.records import OutputTag, Timestamp


class SorterOutput:
    """The Output of an input that is sorted: adds its rows to the sorter.

    The input's last watermark is held back until the operator has its rows; whether the input was idle does not matter.
    """

    def __init__(self, sorter: KeySorter, input_index: int, output: Output) -> None:
        self._sorter = sorter
        self._input_index = input_index
        self._watermark: Timestamp | None = None
        self.output = output
        """The input of the operator, which gets the rows once they are sorted."""

    def emit(self, batch: Batch) -> None:
        self._sorter.add(batch, self._input_index)

    def emit_side(self, tag: OutputTag, batch: Batch) -> None:
        raise AssertionError(f"rows with the tag {tag.name!r} at an input")

    def emit_watermark(self, timestamp: Timestamp) -> None:
        self._watermark = timestamp

    def emit_status(self, is_idle: bool) -> None: ...

    def emit_latency_marker(self, marker: LatencyMarker) -> None:
        self.output.emit_latency_marker(marker)

    def end(self) -> None:
        """Passes the last watermark on, as the operator has all rows of the input."""
        if self._watermark is not None:
            self.output.emit_watermark(self._watermark)


class SortedTaskInputs:
    """All inputs of a task as one TaskInput.

    Rows of inputs that are not sorted go to the operator at once, and so before all others. When all inputs have ended,
    the operator gets the sorted rows of the others, part by part, and hears when all keys so far are complete.

    Args:
        sorted_outputs: the outputs of inputs that are sorted, by the index of the input.
        end_keys: called when no more rows of any key so far will come.
        end_input: called with the index of each input when its last row has been processed.
    """

    should_drain = True

    def __init__(
        self,
        inputs: Sequence[TaskInput],
        sorter: KeySorter,
        sorted_outputs: dict[int, SorterOutput],
        end_keys: Callable[[], None],
        end_input: Callable[[int], None],
    ) -> None:
        self._inputs = tuple(inputs)
        self._sorter = sorter
        self._sorted_outputs = sorted_outputs
        self._end_keys = end_keys
        self._end_input = end_input
        self._with_data = set(range(len(inputs)))
        self._open = list(range(len(inputs)))
        self._next = 0
        self._sorted_rows: Iterator[SortedRows] | None = None
        """The rest of the sorted rows, while the operator gets them."""

    def emit_next(self) -> InputStatus:
        if self._sorted_rows is not None:
            return self._emit_sorted(self._sorted_rows)
        for offset in range(len(self._open)):
            position = (self._next + offset) % len(self._open)
            index = self._open[position]
            status = self._inputs[index].emit_next()
            if status is InputStatus.NOTHING_AVAILABLE:
                continue
            self._next = position + 1
            return self._after(index, status)
        return InputStatus.NOTHING_AVAILABLE if self._open else InputStatus.END_OF_INPUT

    def on_available(self, listener: Callable[[], None]) -> None:
        if self._sorted_rows is not None:
            listener()
            return
        for index in self._open:
            self._inputs[index].on_available(listener)

    def close(self) -> None:
        """Frees the rows that were to be sorted."""
        self._sorter.close()

    def _after(self, index: int, status: InputStatus) -> InputStatus:
        if status is InputStatus.END_OF_DATA:
            self._with_data.discard(index)
            if index not in self._sorted_outputs:
                self._end_input(index)
            if not self._with_data:
                self._sorted_rows = self._sorter.sorted_rows()
        elif status is InputStatus.END_OF_INPUT:
            self._open.remove(index)
            if not self._open and self._sorted_rows is None:
                return InputStatus.END_OF_INPUT
        return InputStatus.MORE_AVAILABLE

    def _emit_sorted(self, sorted_rows: Iterator[SortedRows]) -> InputStatus:
        rows = next(sorted_rows, None)
        if rows is None:
            self._sorted_rows = None
            self._sorter.close()
            for index, output in self._sorted_outputs.items():
                output.end()
                self._end_input(index)
            return InputStatus.END_OF_DATA
        for input_index, batch in rows.batches:
            self._sorted_outputs[input_index].output.emit(batch)
        if rows.ends_keys:
            self._end_keys()
        return InputStatus.MORE_AVAILABLE
