"""Columns as lines of JSON, a column at a time."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_CONTROL = "[\x00-\x1f]"
_WHOLE_NUMBER = "^(-?[0-9]+)$"
"""Readers take it for an integer, and then the next one that is none for an error."""
_OFFSET = "([+-][0-9]{2})([0-9]{2})$"
"""Of a zone, as Arrow writes it; beside a date with dashes, ISO 8601 has it with a colon."""


def to_json_lines(batch: pa.RecordBatch) -> bytes:
    """One JSON object per row, each on a line of its own, in UTF-8.

    Times are ISO 8601 text, bytes Base64, and doubles always have a point or an exponent; NaN and infinity, which JSON
    does not know, are null.
    """
    if not batch.num_rows:
        return b""
    pieces: list[Any] = []
    for index, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        opening = ("{" if index == 0 else ",") + json.dumps(name, ensure_ascii=False) + ":"
        pieces += [opening, pc.fill_null(_json_texts(column), "null")]
    pieces.append("}\n")
    lines = pc.binary_join_element_wise(*pieces, "")
    return "".join(lines.to_pylist()).encode()


def _json_texts(column: pa.Array) -> pa.Array:
    """Each value as JSON; null where it is null."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.string())
    if pa.types.is_floating(kind):
        texts = pc.if_else(pc.is_finite(column), column.cast(pa.string()), None)
        return pc.replace_substring_regex(texts, _WHOLE_NUMBER, r"\1.0")
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return _quoted(column.cast(pa.string()))
    if pa.types.is_timestamp(kind):
        texts = pc.replace_substring(column.cast(pa.string()), " ", "T")
        return _quoted(texts if kind.tz is None else pc.replace_substring_regex(texts, _OFFSET, r"\1:\2"))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = column.cast(pa.string())
        if not pc.any(pc.match_substring_regex(text, _CONTROL)).as_py():
            return _quoted(pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), '"', '\\"'))
    # Nested values, bytes, and text with control characters: value by value.
    values = column.to_pylist(maps_as_pydicts="strict")
    texts = [None if v is None else json.dumps(_finite(v), ensure_ascii=False, default=_plain) for v in values]
    return pa.array(texts, pa.string())


def _quoted(text: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', text, '"', "")


def _finite(value: Any) -> Any:
    if isinstance(value, float) and value - value != 0:  # NaN and infinity
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, decimal.Decimal):
        return str(value)
    raise TypeError(f"no JSON for {type(value).__name__}")
