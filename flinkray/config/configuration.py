"""The values of options.

Precedence: code > `-D key=value` > `FLINKRAY_<KEY>` environment > YAML file > default (Flink's, plus the environment).
Values are read at start-up and handed on as typed objects; nothing below reads configuration while it runs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, TypeVar

from flinkray.config.option import ConfigOption
from flinkray.config.options import declared_options
from flinkray.errors import ConfigurationError, did_you_mean
from flinkray.redaction import redacted_value

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Configuration:
    """Settings by option key. Unknown keys and bad values are refused when they are set."""

    def __init__(self, values: Mapping[str, object] | None = None) -> None:
        self._values: dict[str, Any] = {}
        for key, value in (values or {}).items():
            self.set(key, value)

    def set(self, key: str | ConfigOption[Any], value: object) -> Configuration:
        """Sets an option; gives the configuration back, so that calls chain.

        Raises:
            ConfigurationError: there is no such option, or it does not take the value.
        """
        name = key.key if isinstance(key, ConfigOption) else key
        options = declared_options()
        if name not in options:
            raise ConfigurationError(f"unknown option {name!r}{did_you_mean(name, options)}")
        declared = options[name]
        self._values[name] = declared.read(value)
        if declared.no_effect and self._values[name].upper() != declared.default.upper():
            _warn_once(declared)
        return self

    def unset(self, key: str) -> None:
        """Forgets the value that was set, if one was: the option has its default again.

        Raises:
            ConfigurationError: there is no such option.
        """
        options = declared_options()
        if key not in options:
            raise ConfigurationError(f"unknown option {key!r}{did_you_mean(key, options)}")
        self._values.pop(key, None)

    def get(self, option: ConfigOption[T]) -> T:
        """The value that was set, or the option's default."""
        value: T = self._values.get(option.key, option.default)
        return value

    def is_set(self, option: ConfigOption[Any]) -> bool:
        """Whether a value was set, be it the default."""
        return option.key in self._values

    def with_fallback(self, lower: Configuration) -> Configuration:
        """This configuration, and `lower`'s values where this one has none."""
        merged = Configuration()
        merged._values = {**lower._values, **self._values}
        return merged

    def copy(self) -> Configuration:
        """A configuration of its own with the same values."""
        return self.with_fallback(Configuration())

    def shown(self) -> dict[str, str]:
        """All values as text that anybody may read, by key: those of secrets are hidden."""
        found = {key: redacted_value(key, value) for key, value in self}
        return {key: str(each).lower() if isinstance(each, bool) else str(each) for key, each in found.items()}

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(sorted(self._values.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._values == other._values

    def __hash__(self) -> int:
        raise TypeError("a Configuration can change, so it has no hash")

    def __repr__(self) -> str:
        shown = {key: redacted_value(key, value) for key, value in self._values.items()}
        return f"Configuration({shown!r})"


@cache
def _warn_once(option: ConfigOption[Any]) -> None:
    """Says once in this process that an option has no effect."""
    logger.warning("option %r has no effect here: %s", option.key, option.no_effect)
