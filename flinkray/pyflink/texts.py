"""How PyFlink's programs see values as text: in `print()`, and in files of lines.

What has a declared type is text of Java's there, `(a,1.0)` and `true`; rows are `+I[a,1]`; what has none is Python's.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import decode
from flinkray.types.object_type import ObjectType
from flinkray.types.records import Kind
from flinkray.types.rows import Row

_Text = Callable[[Any], str]


def printed_texts(batch: Batch) -> list[str]:
    """What PyFlink's `print()` shows for each value; it makes the text of whole rows in Python."""
    if batch.kind is Kind.ROW:
        return [f"{row.get_row_kind()}[{','.join(map(str, row))}]" for row in decode(batch)]
    return line_texts(batch)


def line_texts(batch: Batch) -> list[str]:
    """What PyFlink's simple string encoder writes for each value (for values without a declared type it writes the
    address of an array; here it is Python's text of them)."""
    values = decode(batch)
    if batch.kind is Kind.OBJECT:
        return list(map(str, values))
    texts = [java_text(field.type) for field in batch.data.schema]
    if batch.kind is Kind.SCALAR:
        return list(map(texts[0], values))
    pattern = "+I[%s]" if batch.kind is Kind.ROW else "(%s)"
    separator = ", " if batch.kind is Kind.ROW else ","
    return [pattern % separator.join(text(item) for text, item in zip(texts, value, strict=True)) for value in values]


def java_text(arrow_type: pa.DataType) -> _Text:
    """A function that makes the text of a value of this type, as Java's toString does."""
    types = pa.types
    if types.is_string(arrow_type) or types.is_large_string(arrow_type) or types.is_integer(arrow_type):
        text: _Text = str
    elif types.is_floating(arrow_type):
        text = _float32_text if types.is_float32(arrow_type) else _double_text
    elif types.is_boolean(arrow_type):
        text = _boolean_text
    elif types.is_decimal(arrow_type):
        text = _decimal_text
    elif types.is_map(arrow_type):
        text = _map_text(java_text(arrow_type.key_type), java_text(arrow_type.item_type))
    elif types.is_list(arrow_type) or types.is_large_list(arrow_type):
        text = _list_text(java_text(arrow_type.value_type))
    elif types.is_struct(arrow_type):
        text = _struct_text([java_text(field.type) for field in arrow_type])
    elif types.is_timestamp(arrow_type):
        text = _timestamp_text if arrow_type.tz is None else _instant_text
    elif types.is_time(arrow_type):
        text = _time_text
    elif types.is_binary(arrow_type):
        text = _bytes_text
    elif isinstance(arrow_type, ObjectType):
        text = _object_text
    else:
        text = str
    return lambda value: "null" if value is None else text(value)


def _boolean_text(value: bool) -> str:
    return "true" if value else "false"


def _double_text(value: float) -> str:
    return _java_float(value, repr(float(value)))


def _float32_text(value: float) -> str:
    return _java_float(value, str(np.float32(value)))


def _java_float(value: float, shortest: str) -> str:
    """Java's text of a number whose shortest digits are these: plain from 0.001 to 10 million, 1.0E7 beyond."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        plain = format(Decimal(shortest), "f")
        return plain if "." in plain else f"{plain}.0"
    sign, digits, exponent = Decimal(shortest).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0")
    power = exponent + len(digits) - 1
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{power}"


def _decimal_text(value: Decimal) -> str:
    """A decimal as text, without the zeros that fill its column's scale."""
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _list_text(item_text: _Text) -> _Text:
    return lambda values: f"[{', '.join(map(item_text, values))}]"


def _map_text(key_text: _Text, item_text: _Text) -> _Text:
    return lambda value: f"{{{', '.join(f'{key_text(key)}={item_text(item)}' for key, item in dict(value).items())}}}"


def _struct_text(texts: list[_Text]) -> _Text:
    def text(value: Any) -> str:
        items = [text(item) for text, item in zip(texts, value, strict=True)]
        return f"+I[{', '.join(items)}]" if isinstance(value, Row) else f"({','.join(items)})"

    return text


def _timestamp_text(value: datetime.datetime) -> str:
    """A datetime as java.sql.Timestamp shows it: with at least one digit after the seconds."""
    fraction = f"{value.microsecond:06d}".rstrip("0") or "0"
    return f"{value:%Y-%m-%d %H:%M:%S}.{fraction}"


def _instant_text(value: datetime.datetime) -> str:
    """A point of time as java.time.Instant shows it: with no digit, three, or six after the seconds."""
    fraction = f".{value.microsecond:06d}" if value.microsecond else ""
    return f"{value:%Y-%m-%dT%H:%M:%S}{fraction.removesuffix('000')}Z"


def _time_text(value: datetime.time) -> str:
    """A time of day as java.sql.Time shows it: without the fraction of its seconds."""
    return f"{value:%H:%M:%S}"


def _object_text(value: object) -> str:
    return _bytes_text(value) if isinstance(value, bytes | bytearray) else str(value)


def _bytes_text(value: bytes | bytearray) -> str:
    """Bytes as an array of Java's bytes shows them, which have a sign."""
    return f"[{', '.join(str(byte - 256 if byte > 127 else byte) for byte in value)}]"
