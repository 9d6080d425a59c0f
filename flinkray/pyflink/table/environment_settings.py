"""`pyflink.table.environment_settings`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flinkray.pyflink.common.configuration import Configuration
from flinkray.tables.catalog import DEFAULT_CATALOG, DEFAULT_DATABASE

__all__ = ["EnvironmentSettings"]


class EnvironmentSettings:
    """Whether programs stream, their options, and what the first catalog and its database are called."""

    def __init__(
        self, options: Mapping[str, object], catalog: str = DEFAULT_CATALOG, database: str = DEFAULT_DATABASE
    ) -> None:
        self.options = dict(options)
        self._catalog = catalog
        self._database = database

    def is_streaming_mode(self) -> bool:
        return self.options.get("execution.runtime-mode", "streaming") == "streaming"

    def get_built_in_catalog_name(self) -> str:
        return self._catalog

    def get_built_in_database_name(self) -> str:
        return self._database

    def get_configuration(self) -> Configuration:
        """The options."""
        return Configuration(self.options)

    @staticmethod
    def new_instance() -> EnvironmentSettings.Builder:
        return EnvironmentSettings.Builder()

    @staticmethod
    def in_streaming_mode() -> EnvironmentSettings:
        return EnvironmentSettings.new_instance().in_streaming_mode().build()

    @staticmethod
    def in_batch_mode() -> EnvironmentSettings:
        return EnvironmentSettings.new_instance().in_batch_mode().build()

    class Builder:
        """Adds to settings; each method gives the builder."""

        def __init__(self) -> None:
            self._options: dict[str, object] = {}
            self._catalog = DEFAULT_CATALOG
            self._database = DEFAULT_DATABASE

        def in_streaming_mode(self) -> EnvironmentSettings.Builder:
            self._options["execution.runtime-mode"] = "streaming"
            return self

        def in_batch_mode(self) -> EnvironmentSettings.Builder:
            self._options["execution.runtime-mode"] = "batch"
            return self

        def use_blink_planner(self) -> EnvironmentSettings.Builder:
            """As before PyFlink 1.14: it asks for the planner that became the only one."""
            return self

        use_any_planner = use_blink_planner

        def with_configuration(self, config: Any) -> EnvironmentSettings.Builder:
            self._options.update(config.to_dict() if hasattr(config, "to_dict") else dict(config))
            return self

        def with_built_in_catalog_name(self, built_in_catalog_name: str) -> EnvironmentSettings.Builder:
            self._catalog = built_in_catalog_name
            return self

        def with_built_in_database_name(self, built_in_database_name: str) -> EnvironmentSettings.Builder:
            self._database = built_in_database_name
            return self

        def build(self) -> EnvironmentSettings:
            return EnvironmentSettings(self._options, self._catalog, self._database)
