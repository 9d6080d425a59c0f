"""The shape of JSON: which keys there are, and what kind of value each has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_ID = re.compile(r"[0-9a-f]{32}")

ANY_ID = "<id>"
"""Stands for keys that are ids, as of vertices."""


def shape_of(value: Any) -> Any:
    """Keys with the shapes of their values; lists as one of the shapes of all their items together; kinds as text.

    "NaN" is a number: JSON has no other way to say it.
    """
    match value:
        case dict():
            shape: dict[str, Any] = {}
            for key, each in value.items():
                name = ANY_ID if _ID.fullmatch(key) else key
                shape[name] = _merged(shape.get(name), shape_of(each))
            return shape
        case list():
            merged: Any = None
            for each in value:
                merged = _merged(merged, shape_of(each))
            return [] if merged is None else [merged]
        case bool():
            return "boolean"
        case int() | float() | "NaN":
            return "number"
        case str():
            return "text"
    return "null"


def _merged(one: Any, other: Any) -> Any:
    if one is None or one == "null":
        return other
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: _merged(one.get(key), other.get(key, one.get(key))) for key in {**one, **other}}
    if isinstance(one, list) and isinstance(other, list):
        return one or other
    return one


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """How two shapes differ, a line for each place. What is null or empty in one of them may be anything."""
    if "null" in (ours, theirs) or ours == [] or theirs == [] or ours is None or theirs is None:
        return
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            where = f"{path}.{key}"
            if key not in ours:
                yield f"-{where}"
            elif key not in theirs:
                yield f"+{where}"
            else:
                yield from differences(ours[key], theirs[key], where)
    elif isinstance(ours, list) and isinstance(theirs, list):
        yield from differences(ours[0], theirs[0], f"{path}[]")
    elif ours != theirs:
        yield f"{path}: {_kind(ours)}, not {_kind(theirs)}"


def _kind(shape: Any) -> str:
    return shape if isinstance(shape, str) else "object" if isinstance(shape, dict) else "list"
