"""Values of JSON that are of another type than their column: a number in quotes, a number where text is wanted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import types

from flinkray.connectors.formats.nested_columns import is_list

_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")
_NUMBER = re.compile(r"\s*[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*")
"""As Flink reads one; Python's `float` would also take `1_000`, digits of other scripts, and `inf`."""
_TRUTHS = {"true": True, "false": False}
_WIDE = Context(prec=400, Emax=400, Emin=-400)  # more digits than a double's exponent makes, and than any decimal has
_FRACTION = re.compile(r"(?<=:\d\d)\.(\d+)")
_CONTROL = re.compile(rb"[\x00-\x09\x0b-\x1f]")
"""What Flink reads in text as it is, and JSON has escapes for."""
_PLACES = {"s": 0, "ms": 3, "us": 6, "ns": 9}


class NumberText(str):
    """The text of a number with a point or an exponent, as it is in the file."""

    __slots__ = ()


def converted_lines(lines: bytes, schema: pa.Schema, rounds: bool = False) -> bytes | None:
    """The lines with each value in the type of its column, where there is exactly one such value; others are left.
    Control characters of text get their escapes.

    Args:
        rounds: whether a value with more digits than its type has is first `rounded`.
    Returns: None where nothing is converted, or a line cannot be read as JSON.
    """
    try:
        rows = [json_object(line) for line in lines.split(b"\n") if line.strip()]
        fit = partial(in_type, convert=_rounded_and_fitting if rounds else _fitting)
        fitting = [{each.name: fit(row[each.name], each.type) for each in schema if each.name in row} for row in rows]
        is_same = all(found[name] is row[name] for found, row in zip(fitting, rows, strict=True) for name in found)
        if is_same and not _CONTROL.search(lines):
            return None
        return "\n".join(map(json_text, fitting)).encode()
    except (ValueError, RecursionError):
        return None


def json_object(line: bytes) -> dict[str, Any]:
    """A line as an object, with numbers as they are written.

    Raises:
        ValueError: it is none, or a name is there twice.
    """
    row = json.loads(line, parse_float=NumberText, object_pairs_hook=_unique, strict=False)
    if not isinstance(row, dict):
        raise ValueError("no object")
    return row


def array_elements(message: bytes, of_objects: bool) -> list[bytes]:
    """The elements of an array, as they are written; null is none.

    Args:
        of_objects: whether those that are no objects are left out.

    Raises:
        ValueError: the message is no array.
    """
    try:
        try:
            elements = [bytes(each) for each in msgspec.json.decode(message, type=list[msgspec.Raw])]
        except msgspec.DecodeError:  # also of what is read nevertheless: control characters in text, NaN
            found = json.loads(message, parse_float=NumberText, object_pairs_hook=_unique, strict=False)
            elements = [json_text(each).encode() for each in found]
    except RecursionError as error:
        raise ValueError("an array is nested too deeply") from error
    return [each for each in elements if (each.startswith(b"{") if of_objects else each != b"null")]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; Arrow's reader refuses one in which a name is twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def in_type(value: Any, kind: pa.DataType, convert: Callable[[Any, pa.DataType], Any]) -> Any:
    """The value with all that is in it converted; itself where nothing is."""
    if value is None:
        return None
    if isinstance(value, dict) and types.is_struct(kind):
        return _same({f.name: in_type(value[f.name], f.type, convert) for f in kind if f.name in value}, value)
    if isinstance(value, dict) and types.is_map(kind):
        return _same({key: in_type(item, kind.item_type, convert) for key, item in value.items()}, value)
    if isinstance(value, list) and is_list(kind):
        items = [in_type(item, kind.value_type, convert) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    return convert(value, kind)


def _fitting(value: Any, kind: pa.DataType) -> Any:
    """The value in the type; itself where it is of the type, or has no place in it."""
    for is_kind, convert in _CONVERSIONS:
        if is_kind(kind):
            return convert(value)
    return value


def _rounded_and_fitting(value: Any, kind: pa.DataType) -> Any:
    is_number = isinstance(value, int | NumberText) and not isinstance(value, bool)
    if is_number and types.is_decimal(kind):
        text = rounded_text(str(value), kind)
        return None if text is None else NumberText(text)
    if isinstance(value, NumberText) and types.is_integer(kind):
        number = Decimal(value)
        return int(number) if number.adjusted() < 20 else value
    return _fitting(rounded_text(value, kind) if isinstance(value, str) and not is_number else value, kind)


def rounded_text(text: str, kind: pa.DataType) -> str | None:
    """The text of a value with no more digits than the type has, as Flink's tables read it: decimals are rounded, and
    NULL where they are too large, and times are cut; itself where it has no more, or is no such value."""
    if types.is_decimal(kind):
        if not _NUMBER.fullmatch(text) or not (number := Decimal(text)).is_finite() or abs(number.adjusted()) > 300:
            return text
        rounded = number.quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, _WIDE)
        if rounded.adjusted() >= kind.precision - kind.scale and rounded:
            return None
        return text if rounded == number else f"{rounded:f}"
    if types.is_timestamp(kind) or types.is_time(kind):
        places = _PLACES[kind.unit]
        found = _FRACTION.search(text)
        if found is not None and len(found[1]) > places:
            return text[: found.start()] + (f".{found[1][:places]}" if places else "") + text[found.end() :]
    return text


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
    return value if isinstance(value, str) and not isinstance(value, NumberText) else json_text(value)


_CONVERSIONS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]], ...] = (
    (types.is_integer, _as_whole),
    (types.is_floating, _as_float),
    (types.is_boolean, _as_truth),
    (types.is_string, _as_text),
    (types.is_large_string, _as_text),
)


def json_text(value: Any) -> str:
    """The value as JSON, with numbers as they were written."""
    if isinstance(value, NumberText):
        return str(value)
    if isinstance(value, dict):
        return (
            "{"
            + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{json_text(each)}" for key, each in value.items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
