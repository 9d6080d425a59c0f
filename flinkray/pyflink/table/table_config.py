"""`pyflink.table.table_config`."""

from __future__ import annotations

from typing import Any

from flinkray.config.configuration import Configuration
from flinkray.config.option import REGISTRY
from flinkray.errors import ConfigurationError
from flinkray.streams.settings.environment_settings import EnvironmentSettings

__all__ = ["TableConfig"]


class TableConfig:
    """The options of a TableEnvironment, which are those of its StreamExecutionEnvironment."""

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._settings = settings

    def set(self, key: str, value: Any) -> TableConfig:
        """Sets an option.

        Raises:
            ConfigurationError: there is no such option, or it does not take the value.
        """
        self._settings.configure({key: value})
        return self

    def get(self, key: str, default_value: Any) -> Any:
        """The value that was set, else `default_value`."""
        if key not in REGISTRY:
            raise ConfigurationError(f"unknown option {key!r}")
        configuration = self._settings.configuration
        return str(configuration.get(REGISTRY[key])) if configuration.is_set(REGISTRY[key]) else default_value

    def get_configuration(self) -> Configuration:
        """A copy of all options."""
        return self._settings.configuration

    def set_local_timezone(self, timezone_id: str) -> None:
        self.set("table.local-time-zone", timezone_id)

    def get_local_timezone(self) -> str:
        return str(self.get("table.local-time-zone", "UTC"))
