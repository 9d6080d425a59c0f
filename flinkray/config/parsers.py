"""How the values of options are read from what users write; a TypeError or ValueError says what was expected."""

from __future__ import annotations

import contextlib
import json
import math
import numbers
from collections.abc import Mapping

from flinkray.time.durations import to_millis
from flinkray.types.records import Millis

# Flink's long. Beyond it, NumPy and what waits in C raise errors of their own, or hang, far from the option.
_LARGEST = 2**63 - 1


def whole_number(raw: object) -> int:
    if not isinstance(raw, bool) and isinstance(raw, str | numbers.Integral):
        with contextlib.suppress(ValueError):
            number = int(raw)
            if abs(number) > _LARGEST:
                raise TypeError(f"expected a whole number of at most {_LARGEST}")
            return number
    raise TypeError("expected a whole number")


def number(raw: object) -> float:
    if not isinstance(raw, bool) and isinstance(raw, str | numbers.Real):
        with contextlib.suppress(ValueError, OverflowError):
            number = float(raw)
            if math.isfinite(number):
                return number
    raise TypeError("expected a number")


def text(raw: object) -> str:
    if not isinstance(raw, str):
        raise TypeError("expected text")
    return raw


def truth(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.lower() in ("true", "false"):
        return raw.lower() == "true"
    raise TypeError("expected true or false")


def duration(raw: object) -> Millis:
    if not isinstance(raw, int | str) and not hasattr(raw, "total_seconds"):
        raise TypeError("expected a duration such as '10 s'")
    return to_millis(raw)  # type: ignore[arg-type]


def texts(raw: object) -> dict[str, str]:
    """Names and values, or text such as `first:1,second:2`."""
    if isinstance(raw, Mapping):
        return {str(key): str(value) for key, value in raw.items()}
    pairs: dict[str, str] = {}
    for pair in filter(None, map(str.strip, text(raw).split(","))):
        key, colon, value = pair.partition(":")
        if not colon or not key.strip():
            raise ValueError(f"expected key:value pairs with commas between them, found {pair!r}")
        pairs[key.strip()] = value.strip()
    return pairs


def word(raw: object) -> str:
    """Names in any spelling of theirs: EXACTLY_ONCE, exactly-once."""
    return text(raw).strip().lower().replace("_", "-")


def json_object(raw: object) -> str:
    """A JSON object, as text whose keys are sorted; empty where there is nothing in it. Takes a mapping too."""
    parsed = raw if isinstance(raw, Mapping) else json.loads(text(raw) or "{}")
    if not isinstance(parsed, Mapping):
        raise TypeError("expected a JSON object")
    return json.dumps(parsed, sort_keys=True) if parsed else ""


def plain_text(raw: object) -> str:
    """Text, or a number or truth value as text."""
    return (
        str(raw).lower() if isinstance(raw, bool) else str(raw) if isinstance(raw, int | float) else text(raw).strip()
    )


def constant(raw: object) -> str:
    """The name of one of several values, in any spelling of its: TRIM_PAD, trim-pad."""
    return text(raw).strip().upper().replace("-", "_")
