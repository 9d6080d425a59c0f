"""Options and their values. An option is declared once, with type, unit, default, valid range and a sentence.

Precedence: code > `-D key=value` > `FLINKRAY_<KEY>` environment > YAML file > default (Flink's, plus the environment).
Values are read at start-up and handed on as typed objects; nothing below reads configuration while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from flinkray.errors import ConfigurationError, did_you_mean

T = TypeVar("T")

_REGISTRY: dict[str, ConfigOption[Any]] = {}


@dataclass(frozen=True, slots=True)
class Valid:
    """A range or set of values, with the words that an error uses for it."""

    test: Callable[[Any], bool]
    words: str


def at_least(lowest: float, unit: str = "") -> Valid:
    return Valid(lambda value: value >= lowest, f"at least {lowest} {unit}".rstrip())


def one_of(*values: str) -> Valid:
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

    def read(self, raw: object) -> T:
        """The typed value of what a user wrote.

        Raises:
            ConfigurationError: not of the option's type, or outside its range.
        """
        try:
            value = self.parse(raw)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"option {self.key!r} cannot take {raw!r}: {error}") from error
        if not self.valid.test(value):
            raise ConfigurationError(f"option {self.key!r} must be {self.valid.words}, got {raw!r}")
        return value


def option(
    key: str, parse: Callable[[object], T], default: T, doc: str, *, valid: Valid = ANY, unit: str = ""
) -> ConfigOption[T]:
    """Declares an option; its key must be new."""
    if key in _REGISTRY:
        raise ValueError(f"option {key!r} is declared twice")
    declared = ConfigOption(key, parse, default, valid, unit, doc)
    _REGISTRY[key] = declared
    return declared


def declared_options() -> Mapping[str, ConfigOption[Any]]:
    """All options by key."""
    import flinkray.options  # noqa: F401  (declaring them is its effect)

    return _REGISTRY


class Configuration:
    """Settings by option key. Unknown keys and bad values are refused when they are set."""

    def __init__(self, values: Mapping[str, object] | None = None) -> None:
        self._values: dict[str, Any] = {}
        for key, value in (values or {}).items():
            self.set(key, value)

    def set(self, key: str | ConfigOption[Any], value: object) -> Configuration:
        """Sets an option; gives itself back, so that calls chain."""
        name = key.key if isinstance(key, ConfigOption) else key
        options = declared_options()
        if name not in options:
            raise ConfigurationError(f"unknown option {name!r}{did_you_mean(name, options)}")
        self._values[name] = options[name].read(value)
        return self

    def get(self, option: ConfigOption[T]) -> T:
        """The value that was set, or the option's default."""
        value: T = self._values.get(option.key, option.default)
        return value

    def is_set(self, option: ConfigOption[Any]) -> bool:
        return option.key in self._values

    def with_fallback(self, lower: Configuration) -> Configuration:
        """This configuration, and `lower`'s values where this one has none."""
        merged = Configuration()
        merged._values = {**lower._values, **self._values}
        return merged

    def copy(self) -> Configuration:
        return self.with_fallback(Configuration())

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(sorted(self._values.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._values == other._values

    def __hash__(self) -> int:
        raise TypeError("a Configuration can change, so it has no hash")

    def __repr__(self) -> str:
        return f"Configuration({self._values!r})"
