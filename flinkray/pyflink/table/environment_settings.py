"""`pyflink.table.environment_settings`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["EnvironmentSettings"]


class EnvironmentSettings:
    """Whether programs stream, and their options."""

    def __init__(self, options: Mapping[str, object]) -> None:
        self.options = dict(options)

    def is_streaming_mode(self) -> bool:
        return self.options.get("execution.runtime-mode", "streaming") == "streaming"

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

        def in_streaming_mode(self) -> EnvironmentSettings.Builder:
            self._options["execution.runtime-mode"] = "streaming"
            return self

        def in_batch_mode(self) -> EnvironmentSettings.Builder:
            self._options["execution.runtime-mode"] = "batch"
            return self

        def with_configuration(self, config: Any) -> EnvironmentSettings.Builder:
            self._options.update(config.to_dict() if hasattr(config, "to_dict") else dict(config))
            return self

        def build(self) -> EnvironmentSettings:
            return EnvironmentSettings(self._options)
