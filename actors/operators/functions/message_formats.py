"""decode and encode: columns of messages to rows and back, a batch at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.operators.contract.operator import Operator, label_of
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.connectors.formats.message_format import Decoded, decode_each, encode_rows, shown
from flinkray.errors import RecordError, TypeMismatchError, UnknownColumnError
from flinkray.transformations.operator_factories import DecodeFactory, EncodeFactory
from flinkray.types.records import SCALAR_COLUMN, Kind, OutputTag

_MESSAGES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_string, pa.types.is_large_string)

REASON_COLUMN = "reason"
"""What rows of messages that could not be read have besides their own columns."""


class DecodeOperator(Operator):
    """Reads the messages in a column. A row keeps the event time of the row that its message was in, and its kind where
    the format gives none."""

    def __init__(self, factory: DecodeFactory) -> None:
        self._factory = factory

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        decoded = decode_each(self._factory.message_format, self._messages(batch))
        if decoded.failures:
            self._handle(decoded, batch)
        from_rows = batch if decoded.rows is None else batch.take(from_numpy(decoded.rows))
        kept = [self._column(from_rows.data, name) for name in self._factory.keep]
        kind = self._factory.message_format.record_type.kind
        data = decoded.data
        if kept:
            data = pa.RecordBatch.from_arrays([*kept, *data.columns], names=[*self._factory.keep, *data.schema.names])
            kind = Kind.ROW
        rows = from_rows.with_data(data, kind)
        self.output.emit(rows if decoded.kinds is None else rows.with_kinds(decoded.kinds))

    def _messages(self, batch: Batch) -> pa.Array:
        column = self._column(batch.data, self._factory.column)
        if not any(is_message(column.type) for is_message in _MESSAGES):
            raise TypeMismatchError(
                f"{label_of(self.context)}: messages are bytes or text, and column {self._factory.column!r} is "
                f"{column.type}"
            )
        return column

    def _column(self, data: pa.RecordBatch, name: str) -> pa.Array:
        index = data.schema.get_field_index(name)
        if index < 0:
            raise UnknownColumnError(name, data.schema.names, label_of(self.context))
        return data.column(index)

    def _handle(self, decoded: Decoded, batch: Batch) -> None:
        bad_messages = self._factory.bad_messages
        if bad_messages == "fail":
            first = decoded.failures[0]
            message = self._messages(batch)[first.index].as_py()
            row = {name: batch.data.column(name)[first.index].as_py() for name in self._others(batch)}
            raise RecordError(
                f"{label_of(self.context)}: a message cannot be read as {self._factory.message_format.record_type}: "
                f"{first.reason}. The message is {shown(message if isinstance(message, bytes) else message.encode())}"
                f"{f', of {row!r}' if row else ''}. decode(..., bad_messages=) skips such messages, or gives them to a "
                "side output"
            )
        self.context.metrics.count("undecodable_messages", len(decoded.failures))
        if isinstance(bad_messages, OutputTag):
            rows: npt.NDArray[np.int64] = np.array([each.index for each in decoded.failures])
            bad = batch.without_keys().take(from_numpy(rows))
            reasons = pa.array([each.reason for each in decoded.failures], pa.string())
            data = pa.RecordBatch.from_arrays(
                [*bad.data.columns, reasons], names=[*bad.data.schema.names, REASON_COLUMN]
            )
            self.output.emit_side(bad_messages, bad.with_data(data))

    def _others(self, batch: Batch) -> list[str]:
        return [name for name in batch.data.schema.names if name != self._factory.column]


class EncodeOperator(Operator):
    """Writes each row as a message: bytes in the one column of the result. Rows keep their kinds, unless these are in
    the messages."""

    def __init__(self, factory: EncodeFactory) -> None:
        self._factory = factory

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        try:
            messages = encode_rows(self._factory.message_format, batch.data, batch.kinds)
        except ValueError as error:
            raise RecordError(f"{label_of(self.context)}: a row cannot be written as a message: {error}") from error
        data = pa.RecordBatch.from_arrays([messages.cast(pa.binary())], names=[SCALAR_COLUMN])
        rows = batch.with_data(data, Kind.SCALAR)
        self.output.emit(rows.with_kinds(None) if self._factory.message_format.is_changelog else rows)
