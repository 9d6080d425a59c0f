"""Settings of state backends, as one value that tasks hand to their operators."""

from __future__ import annotations

from msgspec import Struct

from flinkray.config import options
from flinkray.config.configuration import Configuration


class StateOptions(Struct, frozen=True):
    """Which backend keeps keyed state, and how."""

    backend: str = options.STATE_BACKEND.default
    """hashmap or rocksdb."""
    is_incremental: bool = options.INCREMENTAL_CHECKPOINTS.default
    local_directory: str = options.STATE_LOCAL_DIRECTORY.default
    memory_bytes: int = options.STATE_MEMORY.default

    @staticmethod
    def of(configuration: Configuration) -> StateOptions:
        return StateOptions(
            configuration.get(options.STATE_BACKEND),
            configuration.get(options.INCREMENTAL_CHECKPOINTS),
            configuration.get(options.STATE_LOCAL_DIRECTORY),
            configuration.get(options.STATE_MEMORY),
        )
