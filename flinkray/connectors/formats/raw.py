"""Messages that are a value themselves: text, bytes or a number."""

from __future__ import annotations

import codecs
from typing import Literal

import numpy as np
import pyarrow as pa

from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.types.records import SCALAR_COLUMN, Kind, RecordType

_NUMBERS = {
    pa.bool_(): "u1",
    pa.int8(): "i1",
    pa.int16(): "i2",
    pa.int32(): "i4",
    pa.int64(): "i8",
    pa.float32(): "f4",
    pa.float64(): "f8",
}
"""What numpy calls the bytes of a message."""
_TYPES: dict[object, pa.DataType] = {str: pa.string(), bytes: pa.binary()}
_BYTE_ORDER_MARKS = (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE)


class RawFormat(MessageFormat):
    """Each message is a bare value (Flink's `raw` format, and SimpleStringSchema).

    Args:
        value_type: str, which messages are the text of, bytes, or the Arrow type of a truth or number, which messages
            are the bytes of.
        charset: what text is encoded in; a name that Python knows.
        byteorder: which byte of a number comes first.
    """

    # Of the class, too: formats that were stored before there was any of this are without it.
    _charset = "UTF-8"
    _byteorder: Literal["big", "little"] = "big"

    def __init__(
        self,
        value_type: type[str] | type[bytes] | pa.DataType = str,
        charset: str = "UTF-8",
        byteorder: Literal["big", "little"] = "big",
    ) -> None:
        kind = value_type if isinstance(value_type, pa.DataType) else _TYPES.get(value_type)
        if kind not in (*_TYPES.values(), *_NUMBERS):
            raise ValueError(f"RawFormat takes str, bytes or the Arrow type of a number, not {value_type!r}")
        try:
            "".encode(charset)
        except LookupError as error:
            raise ValueError(f"RawFormat(charset=...): {error}") from error
        if byteorder not in ("big", "little"):
            raise ValueError(f"RawFormat(byteorder=...) is 'big' or 'little', not {byteorder!r}")
        self._type = kind
        self._charset = charset
        self._byteorder = byteorder

    @property
    def record_type(self) -> RecordType:
        return RecordType(Kind.SCALAR, pa.schema([(SCALAR_COLUMN, self._type)]))

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([self._values(messages)], names=[SCALAR_COLUMN])

    def _values(self, messages: pa.Array) -> pa.Array:
        if self._type in _NUMBERS:
            return self._numbers(messages.to_pylist())
        if self._is_recoded():
            try:
                return pa.array([self._text_of(each) for each in messages.to_pylist()], self._type)
            except UnicodeError as error:
                raise ValueError(f"no {self._charset} text ({error})") from error
        try:
            return messages.cast(self._type)
        except pa.ArrowInvalid as error:
            raise ValueError(f"no UTF-8 text ({error})") from error

    def _text_of(self, message: bytes) -> str:
        charset = "utf-16-be" if self._is_utf_16() and not message.startswith(_BYTE_ORDER_MARKS) else self._charset
        return message.decode(charset)

    def _bytes_of(self, text: str) -> bytes:
        return _BYTE_ORDER_MARKS[0] + text.encode("utf-16-be") if self._is_utf_16() else text.encode(self._charset)

    def _is_utf_16(self) -> bool:
        """Whether the highest byte comes first, as in Java, unless a message says otherwise; in Python the lowest."""
        return codecs.lookup(self._charset).name == "utf-16"

    def _numbers(self, messages: list[bytes]) -> pa.Array:
        kind = self._numpy_type()
        wrong = next((each for each in messages if len(each) != kind.itemsize), None)
        if wrong is not None:
            raise ValueError(f"{len(wrong)} bytes, and {self._type} has {kind.itemsize}")
        return pa.array(np.frombuffer(b"".join(messages), kind).astype(kind.newbyteorder("="))).cast(self._type)

    def _numpy_type(self) -> np.dtype:
        return np.dtype(_NUMBERS[self._type]).newbyteorder(self._byteorder)

    @property
    def takes_any_bytes(self) -> bool:
        """Whether messages may begin with what would be the mark of UTF-16 in text."""
        return not pa.types.is_string(self._type) or (self._is_recoded() and not self._is_utf_16())

    def _is_recoded(self) -> bool:
        return bool(pa.types.is_string(self._type)) and self._charset.upper() not in ("UTF-8", "UTF8")

    def encode(self, data: pa.RecordBatch) -> pa.Array:
        if data.num_columns != 1:
            raise ValueError(f"a raw message is one value, and rows have the columns {', '.join(data.schema.names)}")
        column, name = data.column(0), data.schema.names[0]
        if column.null_count:
            raise ValueError(f"column {name!r} is null, which is no message")
        if self._type in _NUMBERS:
            kind = self._numpy_type()
            values = _cast(column, name, self._type).cast(pa.from_numpy_dtype(kind.newbyteorder("="))).to_numpy()
            written = values.astype(kind).tobytes()
            return pa.Array.from_buffers(pa.binary(kind.itemsize), len(values), [None, pa.py_buffer(written)]).cast(
                pa.large_binary()
            )
        if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
            column = _cast(column, name, pa.string())
        if self._is_recoded():
            try:
                return pa.array([self._bytes_of(each) for each in column.to_pylist()], pa.large_binary())
            except UnicodeError as error:
                raise ValueError(f"column {name!r} is no {self._charset} text ({error})") from error
        return column.cast(pa.large_binary())


def _cast(column: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(f"column {name!r} of {column.type} is neither text nor bytes; map it to one") from error
