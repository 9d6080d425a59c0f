"""Collects the results of user functions as Python values, and encodes them as Arrow once per batch and output."""

from __future__ import annotations

from collections.abc import Iterable
from types import GeneratorType
from typing import Any

import pyarrow as pa

from actors.operators.contract.operator import OperatorContext, Output, label_of
from actors.operators.functions.flush_policy import FlushPolicy
from flinkray.batches.row_codec import RowEncoder, short_repr
from flinkray.errors import TypeMismatchError
from flinkray.functions.type_hints import record_type
from flinkray.types.records import OutputTag, RecordType
from flinkray.types.rows import Row


class ResultCollector:
    """Takes results with their event times, and emits them as batches of at most `batch_rows` rows.

    Main and side results each keep their order. To be flushed after each batch, firing or watermark.
    """

    def __init__(self, context: OperatorContext, output: Output, declared: RecordType | None) -> None:
        self._context = context
        self._output = output
        encoder = RowEncoder(context.operator_name, context.subtask, declared)
        self._main = _OutputBuffer(context, encoder, output.emit)
        self._sides: dict[OutputTag, _OutputBuffer] = {}

    def add(self, value: Any, timestamp: int | None, kind: int | None = None) -> None:
        """One row for the main output.

        Args:
            kind: what it does in a changelog; None: it is an insert.
        """
        self._main.add(value, timestamp)
        if kind is not None:
            self._main.set_kind(kind)

    def collect(self, results: Any, timestamp: int | None) -> None:
        """Takes all results of one call of a process function: a generator, an iterable or None.

        A tuple of two of which the first is an OutputTag is a row for that side output. Runs the user's generator,
        so call it where the user's errors are caught; of many results emits those that are due.
        """
        if results is None:
            return
        if type(results) is tuple and len(results) == 2 and isinstance(results[0], OutputTag):
            results = (results,)
        elif type(results) is not GeneratorType and (
            isinstance(results, str | bytes | dict | Row) or not isinstance(results, Iterable)
        ):
            raise TypeMismatchError(
                f"{label_of(self._context)}: the function must yield "
                f"its results (or return a list of them, or None), not return {short_repr(results)} "
                f"({type(results).__name__})"
            )
        main = self._main
        for result in results:
            buffer = main
            if type(result) is tuple and len(result) == 2 and isinstance(result[0], OutputTag):
                buffer, result = self._side(result[0]), result[1]
            buffer.add(result, timestamp)
            if len(buffer.values) >= buffer.flush_policy.check_at:  # a generator may have no end
                self.flush_if_full()

    def flush_if_full(self) -> None:
        """Emits the results if they make a batch, or have waited for long: keeps memory bounded while many rows or
        timers are processed."""
        main = self._main
        is_due = len(main.values) >= main.flush_policy.check_at and main.is_due()
        if is_due or (self._sides and any(side.is_due() for side in self._sides.values())):
            self.flush()

    def flush(self) -> None:
        """Emits all results."""
        self._main.flush()
        for side in self._sides.values():
            side.flush()

    def _side(self, tag: OutputTag) -> _OutputBuffer:
        side = self._sides.get(tag)
        if side is None:
            declared = None if tag.output_type is None else record_type(tag.output_type)
            argument = f"OutputTag({tag.name!r}, output_type)"
            encoder = RowEncoder(self._context.operator_name, self._context.subtask, declared, argument)
            side = _OutputBuffer(self._context, encoder, lambda batch: self._output.emit_side(tag, batch))
            self._sides[tag] = side
        return side


class _OutputBuffer:
    """The results of one output. In one batch either all rows have an event time or none has."""

    def __init__(self, context: OperatorContext, encoder: RowEncoder, emit: Any) -> None:
        self._rows = context.batch_rows
        self.flush_policy = FlushPolicy(context)
        self._encoder = encoder
        self._emit = emit
        self._reset()

    def _reset(self) -> None:
        self.values: list[Any] = []
        self._timestamps: list[int | None] = []
        self._kinds: dict[int, int] = {}
        """Index of a value -> its kind, where it has one."""
        self._append = self._encoder.appender(self.values)  # copies what the function could still change

    def is_due(self) -> bool:
        return self.flush_policy.is_due(len(self.values))

    def add(self, value: Any, timestamp: int | None) -> None:
        self._append(value)
        self._timestamps.append(timestamp)

    def set_kind(self, kind: int) -> None:
        """Says of which kind the value is that was added last."""
        self._kinds[len(self.values) - 1] = kind

    def flush(self) -> None:
        values, timestamps = self.values, self._timestamps
        if not values:
            return
        start = nbytes = 0
        while start < len(values):
            end = self._end_of_batch(timestamps, start)
            times = None if timestamps[start] is None else pa.array(timestamps[start:end], pa.int64())
            batch = self._encoder.encode(values[start:end], times, self._kinds_of(start, end))
            nbytes += batch.nbytes
            self._emit(batch)
            start = end
        self._reset()
        self.flush_policy.passed(len(values), nbytes)

    def _kinds_of(self, start: int, end: int) -> pa.Array | None:
        if not self._kinds:
            return None
        return pa.array([self._kinds.get(index, 0) for index in range(start, end)], pa.int8())

    def _end_of_batch(self, timestamps: list[int | None], start: int) -> int:
        end = min(start + self._rows, len(timestamps))
        if timestamps[start] is None:
            return next((index for index in range(start, end) if timestamps[index] is not None), end)
        try:
            return timestamps.index(None, start, end)
        except ValueError:
            return end
