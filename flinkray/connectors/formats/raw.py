"""Messages that are a value themselves: text or bytes."""

from __future__ import annotations

import pyarrow as pa

from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.types.records import SCALAR_COLUMN, Kind, RecordType


class RawFormat(MessageFormat):
    """Each message is a bare value (Flink's `raw` format, and SimpleStringSchema).

    Args:
        value_type: str, which messages are the UTF-8 of, or bytes.
    """

    def __init__(self, value_type: type[str] | type[bytes] = str) -> None:
        if value_type not in (str, bytes):
            raise ValueError(f"RawFormat takes str or bytes, not {value_type!r}")
        self._type = pa.string() if value_type is str else pa.binary()

    @property
    def record_type(self) -> RecordType:
        return RecordType(Kind.SCALAR, pa.schema([(SCALAR_COLUMN, self._type)]))

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        try:
            values = messages.cast(self._type)
        except pa.ArrowInvalid as error:
            raise ValueError(f"no UTF-8 text ({error})") from error
        return pa.RecordBatch.from_arrays([values], names=[SCALAR_COLUMN])

    def encode(self, data: pa.RecordBatch) -> pa.Array:
        if data.num_columns != 1:
            raise ValueError(f"a raw message is one value, and rows have the columns {', '.join(data.schema.names)}")
        column = data.column(0)
        if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
            column = _cast(column, data.schema.names[0])
        if column.null_count:
            raise ValueError(f"column {data.schema.names[0]!r} is null, which is no message")
        return column.cast(pa.large_binary())


def _cast(column: pa.Array, name: str) -> pa.Array:
    try:
        return column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(f"column {name!r} of {column.type} is neither text nor bytes; map it to one") from error
