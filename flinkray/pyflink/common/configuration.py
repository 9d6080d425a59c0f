"""`pyflink.common.configuration`: a Configuration with a setter and a getter per type."""

from __future__ import annotations

import builtins
import logging
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import yaml

from flinkray.config import configuration as config
from flinkray.config.option import ConfigOption
from flinkray.config.options import declared_options
from flinkray.errors import did_you_mean
from flinkray.pyflink.archives import leave_out
from flinkray.redaction import redacted_value

__all__ = ["Configuration"]

_LOG = logging.getLogger(__name__)

_JARS = ("pipeline.jars", "pipeline.classpaths")
_OF_THE_JVM = (
    "akka.",
    "blob.",
    "classloader.",
    "cluster.",
    "env.",
    "fs.",
    "historyserver.",
    "jobmanager.",
    "kubernetes.",
    "metrics.reporter",
    "metrics.scope.",
    "pekko.",
    "pipeline.generic-types",
    "pipeline.serialization",
    "python.",
    "rest.",
    "security.",
    "state.backend.rocksdb.",
    "task.",
    "taskmanager.",
    "web.",
    "yarn.",
)
"""What options begin with that say how Flink's JVM and its Python workers run: there are none here."""

_FORMER = {
    "execution.buffer-timeout": "execution.buffer-timeout.interval",
    "execution.checkpointing.alignment-timeout": "execution.checkpointing.aligned-checkpoint-timeout",
    "execution.checkpointing.checkpoints-after-tasks-finish.enabled": (
        "execution.checkpointing.checkpoints-after-tasks-finish"
    ),
    "execution.checkpointing.unaligned": "execution.checkpointing.unaligned.enabled",
    "execution.savepoint.ignore-unclaimed-state": "execution.state-recovery.ignore-unclaimed-state",
    "execution.savepoint.path": "execution.state-recovery.path",
    "high-availability.zookeeper.storageDir": "high-availability.storageDir",
    "pipeline.operator-chaining": "pipeline.operator-chaining.enabled",
    "recovery.zookeeper.storageDir": "high-availability.storageDir",
    "restart-strategy": "restart-strategy.type",
    "savepoints.state.backend.fs.dir": "execution.checkpointing.savepoint-dir",
    "state.backend": "state.backend.type",
    "state.backend.fs.checkpointdir": "execution.checkpointing.dir",
    "state.backend.fs.memory-threshold": "execution.checkpointing.data-inline-threshold",
    "state.backend.incremental": "execution.checkpointing.incremental",
    "state.backend.rocksdb.checkpointdir": "state.backend.rocksdb.localdir",
    "state.checkpoints.dir": "execution.checkpointing.dir",
    "state.checkpoints.num-retained": "execution.checkpointing.num-retained",
    "state.savepoints.dir": "execution.checkpointing.savepoint-dir",
    "state.storage.fs.memory-threshold": "execution.checkpointing.data-inline-threshold",
    "taskmanager.tmp.dirs": "io.tmp.dirs",
}
"""Flink's deprecated names of options, which Flink 2.3 takes, and the names that took their place."""

_BACKEND_OF_FACTORY = {
    "EmbeddedRocksDBStateBackendFactory": "rocksdb",
    "HashMapStateBackendFactory": "hashmap",
}
"""What Flink's classes that make state backends are called where their short names are given."""


def _paths(value: object) -> list[str]:
    """Those of a list, which a text has with semicolons or, in brackets, with commas."""
    if isinstance(value, str):
        text = value.strip()
        value = text[1:-1].split(",") if text.startswith("[") else text.split(";")
    paths = value if isinstance(value, Sequence) else (value,)
    return [path for each in paths if (path := str(each).strip(" \n'\""))]


class _Given(NamedTuple):
    """A setting as the program gave it."""

    key: str
    value: Any


class Configuration(config.Configuration):
    """Any keys with any values. Bad values of options that there are here are refused when they are set, whatever
    setter is used. Keys that are no options here are kept, and have no effect on a program; those of Flink's JVM and of
    its Python workers are left out, with a warning."""

    def __init__(self, other: Mapping[str, object] | config.Configuration | None = None) -> None:
        super().__init__()
        self._given: dict[str, _Given] = {}
        """By the name that the option has now."""
        self._left_out: builtins.set[str] = builtins.set()
        """Options that a warning was given for."""
        if isinstance(other, Configuration):
            self.add_all(other)
            return
        for key, value in () if other is None else other.items() if isinstance(other, Mapping) else other:
            self.set(key, value)

    @classmethod
    def from_dict(cls, map: Mapping[str, str]) -> Configuration:
        return cls(map)

    def set(self, key: str | ConfigOption[Any], value: object) -> Configuration:
        """As flinkray's `set`; takes the deprecated names of Flink's options, too.

        Raises:
            ConfigurationError: an option does not take the value.
            InvalidProgramError: it asks for jars of what is not built in here.
        """
        given = key.key if isinstance(key, ConfigOption) else key
        name = _FORMER.get(given, given)
        if name == "state.backend.type" and isinstance(value, str):
            value = _BACKEND_OF_FACTORY.get(value.rpartition(".")[2], value)
        if name in declared_options():
            super().set(name, value)
        elif name in _JARS:
            leave_out(_paths(value), name)
            return self
        elif name.startswith(_OF_THE_JVM):
            if name not in self._left_out:
                _LOG.warning("option %r is about Flink's JVM or its Python workers, and has no effect here", name)
            self._left_out.add(name)
            return self
        self._given[name] = _Given(given, value)
        return self

    def unknown_options(self) -> list[str]:
        """A sentence for each key that is kept and has no effect on a program."""
        known = declared_options()
        unknown = sorted(self._given.keys() - known.keys())
        return [f"option {name!r} has no effect here{did_you_mean(name, known)}" for name in unknown]

    def set_string(self, key: str, value: str) -> Configuration:
        return self.set(key, value)

    def set_integer(self, key: str, value: int) -> Configuration:
        return self.set(key, value)

    def set_float(self, key: str, value: float) -> Configuration:
        return self.set(key, value)

    def set_boolean(self, key: str, value: bool) -> Configuration:
        return self.set(key, value)

    def set_bytearray(self, key: str, value: bytearray) -> Configuration:
        return self.set(key, value)

    def get_string(self, key: str, default_value: str | None) -> str | None:
        value = self._value(key, default_value)
        return value if value is None else _text(value)

    def get_integer(self, key: str, default_value: int) -> int:
        return int(self._value(key, default_value))

    def get_float(self, key: str, default_value: float) -> float:
        return float(self._value(key, default_value))

    def get_boolean(self, key: str, default_value: bool) -> bool:
        value = self._value(key, default_value)
        return value.lower() == "true" if isinstance(value, str) else bool(value)

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        return bytearray(self._value(key, default_value))

    def contains_key(self, key: str) -> bool:
        return _FORMER.get(key, key) in self._given

    def key_set(self) -> builtins.set[str]:
        return {given.key for given in self._given.values()}

    def to_dict(self) -> dict[str, str]:
        return {key: _text(value) for key, value in self._settings()}

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        target_dict.update(self._settings())

    def add_all(self, other: config.Configuration, prefix: str | None = None) -> Configuration:
        for key, value in other._settings() if isinstance(other, Configuration) else other:
            self.set(key if prefix is None else prefix + key, value)
        return self

    def remove_config(self, key: str) -> bool:
        """Whether it was set."""
        name = _FORMER.get(key, key)
        self._values.pop(name, None)
        return self._given.pop(name, None) is not None

    @staticmethod
    def parse_list_value(value: str | None, standard_yaml: bool = True) -> list[str]:  # noqa: ARG004
        """The items of a list in YAML, "[a, b]" or "- a" line by line, or of "a;b".

        Args:
            standard_yaml: taken for programs of earlier versions; both kinds are read in any case.
        """
        if not value:
            return []
        found = yaml.safe_load(value)
        return found if isinstance(found, list) else value.split(";")

    def _settings(self) -> list[tuple[str, Any]]:
        """What the program gave, by its own names."""
        return sorted(((given.key, given.value) for given in self._given.values()), key=itemgetter(0))

    def _value(self, key: str, default: Any) -> Any:
        given = self._given.get(_FORMER.get(key, key))
        return default if given is None else given.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(tuple(self.to_dict().items()))  # as in PyFlink, whose one changes with what is set

    def __str__(self) -> str:
        return f"{{{', '.join(f'{key}={redacted_value(key, _text(value))}' for key, value in self._settings())}}}"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
