"""The hint LOOKUP: how a table is asked that is joined as it is when rows come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from flinkray.config.parsers import truth, whole_number
from flinkray.errors import did_you_mean
from flinkray.time.durations import to_millis
from flinkray.types.records import Millis

NAMES_OF_TABLE = ("table", "lookup-table")
"""What Flink calls the option that names the table."""


class LookupRetry(Struct, frozen=True):
    """A table that has no row for a key is asked for it again."""

    delay_ms: Millis
    """How long after it was asked last."""
    attempts: int
    """How often at most."""


class LookupHint(Struct, frozen=True):
    """What a hint says of one table."""

    table: str
    retry: LookupRetry | None
    without_effect: tuple[str, ...]
    """Its options that change nothing here."""


def lookup_hint(options: Sequence[tuple[str | None, str]]) -> LookupHint:
    """What the options of a hint say.

    Raises:
        ValueError: there is no such option, one is missing, or one does not take its value.
    """
    given: dict[str, str] = {}
    for name, value in options:
        if name is None:
            raise ValueError(f"LOOKUP takes 'table' = 'customers' and other options, not {value!r}")
        known = "table" if name in NAMES_OF_TABLE else name
        if known not in _OPTIONS:
            raise ValueError(
                f"LOOKUP has no option {name!r}{did_you_mean(name, _OPTIONS)}; it has {', '.join(_OPTIONS)}"
            )
        given[known] = value
    values = {name: _read(name, value) for name, value in given.items()}
    if "table" not in values:
        raise ValueError("LOOKUP needs the name of the table that is asked: 'table' = 'customers'")
    without_effect = tuple(name for name in _OF_ASYNC if name in values)
    return LookupHint(str(values["table"]), _retry(values), without_effect)


def _retry(values: Mapping[str, object]) -> LookupRetry | None:
    missing = [name for name in _OF_RETRY if name not in values]
    if len(missing) == len(_OF_RETRY):
        return None
    if missing:
        raise ValueError(f"LOOKUP needs {missing[0]!r}, too: {', '.join(_OF_RETRY)} are given together")
    delay, attempts = values["fixed-delay"], values["max-attempts"]
    assert isinstance(delay, int)
    assert isinstance(attempts, int)
    return LookupRetry(Millis(delay), attempts)


def _read(name: str, value: str) -> object:
    try:
        return _OPTIONS[name](value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name!r} of LOOKUP is {value!r}: {error}") from None


def _above_zero(read: Callable[[str], int]) -> Callable[[str], int]:
    def checked(value: str) -> int:
        found = read(value)
        if found <= 0:
            raise ValueError("expected more than 0")
        return found

    return checked


def _one_of(*words: str) -> Callable[[str], str]:
    def checked(value: str) -> str:
        word = value.strip().lower().replace("-", "_")
        if word not in words:
            raise ValueError(f"expected {' or '.join(words)}")
        return word

    return checked


_OF_ASYNC: Mapping[str, Callable[[str], object]] = {
    "async": truth,
    "output-mode": _one_of("ordered", "allow_unordered"),
    "capacity": _above_zero(whole_number),
    "timeout": _above_zero(to_millis),
}
_OF_RETRY: Mapping[str, Callable[[str], object]] = {
    "retry-predicate": _one_of("lookup_miss"),
    "retry-strategy": _one_of("fixed_delay"),
    "fixed-delay": _above_zero(to_millis),
    "max-attempts": _above_zero(whole_number),
}
_OPTIONS: Mapping[str, Callable[[str], object]] = {"table": str, **_OF_ASYNC, **_OF_RETRY}
