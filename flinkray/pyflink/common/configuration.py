"""`pyflink.common.configuration`: a Configuration with a setter and a getter per type."""

from __future__ import annotations

import builtins
import logging
from collections.abc import Mapping
from typing import Any

from flinkray.config import configuration as config
from flinkray.config.option import ConfigOption
from flinkray.config.options import declared_options
from flinkray.errors import InvalidProgramError

__all__ = ["Configuration"]

_LOG = logging.getLogger(__name__)

_JARS = ("pipeline.jars", "pipeline.classpaths")
_OF_THE_JVM = (
    "env.",
    "jobmanager.memory.",
    "jobmanager.rpc.",
    "metrics.reporter.",
    "pipeline.generic-types",
    "pipeline.serialization",
    "python.client.executable",
    "python.executable",
    "python.execution-mode",
    "python.fn-execution.",
    "python.metric.enabled",
    "python.profile.enabled",
    "rest.",
    "taskmanager.memory.",
)
"""What options begin with that say how Flink's JVM and its Python workers run: there are none here."""


class Configuration(config.Configuration):
    """Unknown options and bad values are refused when they are set, whatever setter is used. Options of Flink's JVM and
    of its Python workers are left out, with a warning."""

    def __init__(self, other: Mapping[str, object] | config.Configuration | None = None) -> None:
        super().__init__()
        for key, value in () if other is None else other.items() if isinstance(other, Mapping) else other:
            self.set(key, value)

    @classmethod
    def from_dict(cls, map: Mapping[str, str]) -> Configuration:
        return cls(map)

    def set(self, key: str | ConfigOption[Any], value: object) -> Configuration:
        if isinstance(key, str) and key not in declared_options():
            if key in _JARS:
                raise InvalidProgramError(f"option {key!r}: jars cannot run here; use Python libraries in their place")
            if key.startswith(_OF_THE_JVM):
                _LOG.warning("option %r is about Flink's JVM or its Python workers, and has no effect here", key)
                return self
        super().set(key, value)
        return self

    def set_string(self, key: str, value: str) -> Configuration:
        return self.set(key, value)

    def set_integer(self, key: str, value: int) -> Configuration:
        return self.set(key, value)

    def set_float(self, key: str, value: float) -> Configuration:
        return self.set(key, value)

    def set_boolean(self, key: str, value: bool) -> Configuration:
        return self.set(key, value)

    def get_string(self, key: str, default_value: str | None) -> str | None:
        value = self._value(key, default_value)
        return value if value is None else _text(value)

    def get_integer(self, key: str, default_value: int) -> int:
        return int(self._value(key, default_value))

    def get_float(self, key: str, default_value: float) -> float:
        return float(self._value(key, default_value))

    def get_boolean(self, key: str, default_value: bool) -> bool:
        return bool(self._value(key, default_value))

    def contains_key(self, key: str) -> bool:
        return key in self._values

    def key_set(self) -> builtins.set[str]:
        return {*self._values}

    def to_dict(self) -> dict[str, str]:
        return {key: _text(value) for key, value in self}

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        target_dict.update(self)

    def add_all(self, other: config.Configuration, prefix: str | None = None) -> Configuration:
        for key, value in other:
            self.set(key if prefix is None else prefix + key, value)
        return self

    def remove_config(self, key: str) -> bool:
        """Whether it was set."""
        return self._values.pop(key, None) is not None

    @staticmethod
    def parse_list_value(value: str | None) -> list[str]:
        """The items of "[a, b]", or of "a;b"."""
        text = (value or "").strip()
        items = text[1:-1].split(",") if text.startswith("[") and text.endswith("]") else text.split(";")
        return [item.strip() for item in items if item.strip()]

    def _value(self, key: str, default: Any) -> Any:
        return self._values.get(key, default)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
