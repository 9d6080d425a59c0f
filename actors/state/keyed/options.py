"""The options of state backends, read from the configuration once and handed on to operators."""

from __future__ import annotations

from msgspec import Struct

from flinkray.config import options
from flinkray.config.configuration import Configuration


class StateOptions(Struct, frozen=True):
    """Which backend keeps keyed state, and how."""

    backend: str = options.STATE_BACKEND.default
    """The backend's name: hashmap or rocksdb."""
    is_incremental: bool = options.INCREMENTAL_CHECKPOINTS.default
    """Whether checkpoints of rocksdb upload only files that earlier ones do not have."""
    local_directory: str = options.STATE_LOCAL_DIRECTORY.default
    """Where rocksdb keeps its files; empty: the system's temporary directory."""
    memory_bytes: int = options.STATE_MEMORY.default
    """The size of write buffers and block cache of each RocksDB."""
    may_drop_fields: bool = options.ALLOW_REMOVED_FIELDS.default
    """Whether rows in restored state lose fields that are not declared any more."""
    has_partitioned_index_filters: bool = options.STATE_PARTITIONED_INDEX_FILTERS.default
    """Whether the index and filter of a file of RocksDB are cut into blocks."""

    @staticmethod
    def of(configuration: Configuration) -> StateOptions:
        return StateOptions(
            configuration.get(options.STATE_BACKEND),
            configuration.get(options.INCREMENTAL_CHECKPOINTS),
            configuration.get(options.STATE_LOCAL_DIRECTORY),
            configuration.get(options.STATE_MEMORY),
            configuration.get(options.ALLOW_REMOVED_FIELDS),
            configuration.get(options.STATE_PARTITIONED_INDEX_FILTERS),
        )
