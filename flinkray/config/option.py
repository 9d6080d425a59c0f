"""What an option is: declared once, with type, unit, default, valid range and a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from flinkray.errors import ConfigurationError

T = TypeVar("T")

REGISTRY: dict[str, ConfigOption[Any]] = {}
"""All options that have been declared, by key; `flinkray.config.options` declares those that there are."""


@dataclass(frozen=True, slots=True)
class Valid:
    """A range or set of values that an option takes, with the words that an error uses for it."""

    test: Callable[[Any], bool]
    words: str


def at_least(lowest: float, unit: str = "") -> Valid:
    """Values from `lowest` on."""
    return Valid(lambda value: value >= lowest, f"at least {lowest} {unit}".rstrip())


def one_of(*values: str) -> Valid:
    """These values only."""
    return Valid(lambda value: value in values, "one of " + ", ".join(values))


ANY = Valid(lambda _value: True, "anything")


@dataclass(frozen=True, slots=True)
class ConfigOption(Generic[T]):
    """A named, typed setting. Made with `option`, which also registers it."""

    key: str
    parse: Callable[[object], T]
    default: T
    valid: Valid
    unit: str
    doc: str
    no_effect: str = ""
    """Why its value changes nothing; "": it does."""

    def read(self, raw: object) -> T:
        """The typed value of what a user wrote.

        Raises:
            ConfigurationError: it is not of the option's type, or outside its range.
        """
        try:
            value = self.parse(raw)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"option {self.key!r} cannot take {raw!r}: {error}") from error
        if not self.valid.test(value):
            raise ConfigurationError(f"option {self.key!r} must be {self.valid.words}, got {raw!r}")
        return value


def option(
    key: str,
    parse: Callable[[object], T],
    default: T,
    doc: str,
    *,
    valid: Valid = ANY,
    unit: str = "",
    no_effect: str = "",
) -> ConfigOption[T]:
    """Declares an option.

    Args:
        parse: gives the typed value of what a user wrote.
        no_effect: why its value changes nothing, for an option that is taken for the sake of programs of Flink.
    Raises:
        ValueError: an option with that key has been declared.
    """
    if key in REGISTRY:
        raise ValueError(f"option {key!r} is declared twice")
    declared = ConfigOption(key, parse, default, valid, unit, doc, no_effect)
    REGISTRY[key] = declared
    return declared
