"""Values of JSON that are of another type than their column: a number in quotes, a number where text is wanted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types

from flinkray.connectors.formats.nested_columns import is_list

_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")
_NUMBER = re.compile(r"\s*[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*")
"""As Flink reads one; Python's `float` would also take `1_000`, digits of other scripts, and `inf`."""
_TRUTHS = {"true": True, "false": False}


class NumberText(str):
    """The text of a number with a point or an exponent, as it is in the file."""

    __slots__ = ()


def converted_lines(lines: bytes, schema: pa.Schema) -> bytes | None:
    """The lines with each value in the type of its column, where there is exactly one such value; others are left.

    Returns: None where nothing is converted, or a line cannot be read as JSON.
    """
    try:
        rows = [_read(line) for line in lines.split(b"\n") if line.strip()]
        fitting = [
            {each.name: _fitting(row[each.name], each.type) for each in schema if each.name in row} for row in rows
        ]
        if all(found[name] is row[name] for found, row in zip(fitting, rows, strict=True) for name in found):
            return None
        return "\n".join(map(_text, fitting)).encode()
    except (ValueError, RecursionError):
        return None


def _read(line: bytes) -> dict[str, Any]:
    row = json.loads(line, parse_float=NumberText, object_pairs_hook=_unique)
    if not isinstance(row, dict):
        raise ValueError("no object")
    return row


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; Arrow's reader refuses one in which a name is twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _fitting(value: Any, kind: pa.DataType) -> Any:
    """The value in the type; itself where it is of the type, or has no place in it."""
    if value is None:
        return None
    if isinstance(value, dict) and types.is_struct(kind):
        return _same({f.name: _fitting(value[f.name], f.type) for f in kind if f.name in value}, value)
    if isinstance(value, dict) and types.is_map(kind):
        return _same({key: _fitting(item, kind.item_type) for key, item in value.items()}, value)
    if isinstance(value, list) and is_list(kind):
        items = [_fitting(item, kind.value_type) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    for is_kind, convert in _CONVERSIONS:
        if is_kind(kind):
            return convert(value)
    return value


def _same(found: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    return value if all(found[name] is value[name] for name in found) else found


def _as_whole(value: Any) -> Any:
    if isinstance(value, NumberText):
        number = Decimal(value)
        return int(number) if abs(number.adjusted()) < 20 and number == number.to_integral_value() else value
    return int(value) if isinstance(value, str) and _WHOLE.fullmatch(value) else value


def _as_float(value: Any) -> Any:
    if isinstance(value, NumberText) or not isinstance(value, str):
        return value
    return float(value) if _NUMBER.fullmatch(value) else value


def _as_truth(value: Any) -> Any:
    return _TRUTHS.get(value.strip().lower(), value) if isinstance(value, str) else value


def _as_text(value: Any) -> Any:
    return value if isinstance(value, str) and not isinstance(value, NumberText) else _text(value)


_CONVERSIONS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]], ...] = (
    (types.is_integer, _as_whole),
    (types.is_floating, _as_float),
    (types.is_boolean, _as_truth),
    (types.is_string, _as_text),
    (types.is_large_string, _as_text),
)


def _text(value: Any) -> str:
    """The value as JSON, with numbers as they were written."""
    if isinstance(value, NumberText):
        return str(value)
    if isinstance(value, dict):
        return (
            "{" + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{_text(each)}" for key, each in value.items()) + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
