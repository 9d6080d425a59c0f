"""State backends and checkpoint storage as programs choose them: where keyed state is kept while a job runs, and where
checkpoints go (PyFlink's names)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from flinkray.config.configuration import Configuration
from flinkray.config.options import CHECKPOINT_DIRECTORY, INCREMENTAL_CHECKPOINTS, STATE_BACKEND, STATE_LOCAL_DIRECTORY
from flinkray.errors import ConfigurationError


class StateBackend(ABC):
    """A choice of state backend for `set_state_backend`; a value."""

    @abstractmethod
    def apply_to(self, configuration: Configuration) -> None:
        """Writes the choice into a configuration; options that it says nothing of stay."""


@dataclass
class HashMapStateBackend(StateBackend):
    """Keyed state in the memory of the workers."""

    def apply_to(self, configuration: Configuration) -> None:
        configuration.set(STATE_BACKEND, "hashmap")


@dataclass
class EmbeddedRocksDBStateBackend(StateBackend):
    """Keyed state on the disks of the workers.

    Args:
        enable_incremental_checkpointing: whether a checkpoint uploads only what is new; None: as configured.
    """

    enable_incremental_checkpointing: bool | None = None
    db_storage_path: str | None = None

    def set_db_storage_path(self, path: str) -> None:
        """Sets where RocksDB keeps its files on each node."""
        self.db_storage_path = path

    def get_db_storage_path(self) -> str | None:
        """Where RocksDB keeps its files on each node; None: as configured."""
        return self.db_storage_path

    def get_db_storage_paths(self) -> list[str]:
        """The same as a list, which is empty where none was set."""
        return [] if self.db_storage_path is None else [self.db_storage_path]

    def set_db_storage_paths(self, *paths: str) -> None:
        """Sets where RocksDB keeps its files on each node.

        Raises:
            ConfigurationError: it is not exactly one path; state is not spread over several disks.
        """
        if len(paths) != 1:
            raise ConfigurationError(f"option {STATE_LOCAL_DIRECTORY.key!r} takes one path, got {paths!r}")
        self.set_db_storage_path(paths[0])

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Whether a checkpoint uploads only what is new; where that was not set here, the default."""
        chosen = self.enable_incremental_checkpointing
        return INCREMENTAL_CHECKPOINTS.default if chosen is None else chosen

    def apply_to(self, configuration: Configuration) -> None:
        configuration.set(STATE_BACKEND, "rocksdb")
        if self.enable_incremental_checkpointing is not None:
            configuration.set(INCREMENTAL_CHECKPOINTS, self.enable_incremental_checkpointing)
        if self.db_storage_path is not None:
            configuration.set(STATE_LOCAL_DIRECTORY, self.db_storage_path)


def configured_state_backend(configuration: Configuration) -> StateBackend:
    """The state backend that a configuration chooses."""
    if configuration.get(STATE_BACKEND) == "hashmap":
        return HashMapStateBackend()
    directory = configuration.get(STATE_LOCAL_DIRECTORY)
    return EmbeddedRocksDBStateBackend(configuration.get(INCREMENTAL_CHECKPOINTS), directory or None)


class CheckpointStorage(ABC):
    """A choice of where checkpoints go, for `set_checkpoint_storage`; a value."""

    @property
    @abstractmethod
    def directory(self) -> str:
        """Path or URI; empty: the JobMaster's memory."""


@dataclass(frozen=True)
class JobManagerCheckpointStorage(CheckpointStorage):
    """Checkpoints in the memory of the JobMaster, which a JobMaster that dies takes along."""

    @property
    def directory(self) -> str:
        return ""


@dataclass(frozen=True)
class FileSystemCheckpointStorage(CheckpointStorage):
    """Checkpoints in a directory that every node can reach."""

    checkpoint_path: str

    def __post_init__(self) -> None:
        if not self.checkpoint_path:
            raise ConfigurationError(
                f"option {CHECKPOINT_DIRECTORY.key!r} is a path or URI for a FileSystemCheckpointStorage, got ''; "
                "JobManagerCheckpointStorage() keeps checkpoints in memory"
            )

    @property
    def directory(self) -> str:
        return self.checkpoint_path

    def get_checkpoint_path(self) -> str:
        """PyFlink's name for `checkpoint_path`."""
        return self.checkpoint_path
