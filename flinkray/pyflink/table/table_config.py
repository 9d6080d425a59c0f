"""`pyflink.table.table_config`."""

from __future__ import annotations

import datetime
import sys
from typing import Any

from flinkray.config.option import REGISTRY
from flinkray.errors import InvalidProgramError
from flinkray.pyflink.common.configuration import Configuration
from flinkray.pyflink.table.sql_dialect import SqlDialect
from flinkray.streams.settings.environment_settings import EnvironmentSettings
from flinkray.time.durations import to_millis

__all__ = ["TableConfig"]

_STATE_TTL = "table.exec.state.ttl"


class TableConfig:
    """The options of a TableEnvironment, which are those of its StreamExecutionEnvironment; or, made on its own,
    options to give it later."""

    def __init__(self, settings: EnvironmentSettings | None = None) -> None:
        self._settings = settings
        self._given: dict[str, str] = {}

    @staticmethod
    def get_default() -> TableConfig:
        return TableConfig()

    def set(self, key: str, value: Any) -> TableConfig:
        """Sets an option. Those of Flink's JVM and its Python workers are kept, and have no effect.

        Raises:
            ConfigurationError: the option does not take the value.
        """
        self._given[key] = str(value)
        return self.add_configuration(Configuration().set_string(key, str(value)))

    def add_configuration(self, configuration: Configuration) -> TableConfig:
        """Sets several options."""
        self._given.update(configuration.to_dict())
        if self._settings is not None:
            self._settings.configure(configuration)
        return self

    def get(self, key: str, default_value: Any) -> Any:
        """The value that was set, else `default_value`."""
        if self._settings is not None and key in REGISTRY and self._settings.configuration.is_set(REGISTRY[key]):
            return str(self._settings.configuration.get(REGISTRY[key]))
        return self._given.get(key, default_value)

    def get_configuration(self) -> Configuration:
        """A copy of all options."""
        return Configuration(self._given if self._settings is None else self._settings.configuration)

    def to_map(self) -> dict[str, str]:
        """All options that were set."""
        return self.get_configuration().to_dict()

    def set_local_timezone(self, timezone_id: str) -> None:
        self.set("table.local-time-zone", timezone_id)

    def get_local_timezone(self) -> str:
        return str(self.get("table.local-time-zone", "UTC"))

    def set_idle_state_retention(self, duration: datetime.timedelta) -> None:
        """How long state is kept that is not written; 0: for ever."""
        self.set(_STATE_TTL, f"{duration // datetime.timedelta(milliseconds=1)} ms")

    def get_idle_state_retention(self) -> datetime.timedelta:
        return datetime.timedelta(milliseconds=to_millis(self.get(_STATE_TTL, "0 ms")))

    def set_max_generated_code_length(self, max_generated_code_length: int) -> None:
        """Kept, and without effect: no code is generated."""
        self.set("table.generated-code.max-length", max_generated_code_length)

    def get_max_generated_code_length(self) -> int:
        return int(self.get("table.generated-code.max-length", 4000))

    def set_sql_dialect(self, sql_dialect: SqlDialect) -> None:
        """Takes Flink's own dialect, which is the only one."""
        if sql_dialect is not SqlDialect.DEFAULT:
            raise InvalidProgramError(f"statements are in Flink's dialect, not in {sql_dialect.name}")

    def get_sql_dialect(self) -> SqlDialect:
        return SqlDialect.DEFAULT

    def set_python_executable(self, python_exec: str) -> None:
        """Takes the running Python, which functions are called in."""
        if python_exec not in ("python", "python3", sys.executable):
            raise InvalidProgramError(
                f"functions run in the Python of the program, {sys.executable}, not {python_exec}"
            )

    def get_python_executable(self) -> str:
        return sys.executable
