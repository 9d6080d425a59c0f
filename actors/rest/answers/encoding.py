"""Answers as JSON."""

from __future__ import annotations

import json
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode


def encoded(value: Any) -> bytes:
    """The value as JSON in UTF-8. Half of a surrogate pair, as names and headers may have it, becomes an escape."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value, str_keys=True)).encode()
