"""State backends and checkpoint storage as programs choose them: where keyed state is kept while a job runs, and where
checkpoints go (PyFlink's names)."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NoReturn

from flinkray.config.configuration import Configuration
from flinkray.config.options import (
    CHECKPOINT_DIRECTORY,
    INCREMENTAL_CHECKPOINTS,
    INLINE_STATE_BYTES,
    STATE_BACKEND,
    STATE_LOCAL_DIRECTORY,
)
from flinkray.errors import ConfigurationError, InvalidProgramError


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


class PredefinedOptions(enum.Enum):
    """Flink's names for RocksDB settings that suit kinds of disks. Taken for PyFlink's programs: RocksDB has its own
    defaults here, and the memory that the options give it."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


@dataclass
class EmbeddedRocksDBStateBackend(StateBackend):
    """Keyed state on the disks of the workers.

    Args:
        enable_incremental_checkpointing: whether a checkpoint uploads only what is new; None: as configured.
    """

    enable_incremental_checkpointing: bool | None = None
    db_storage_path: str | None = None
    predefined_options: PredefinedOptions = PredefinedOptions.DEFAULT
    number_of_transfer_threads: int = 4

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

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Keeps what PyFlink's programs set; see `PredefinedOptions`."""
        self.predefined_options = options

    def get_predefined_options(self) -> PredefinedOptions:
        """What `set_predefined_options` set."""
        return self.predefined_options

    def set_options(self, options_factory_class_name: str) -> NoReturn:
        """
        Raises:
            InvalidProgramError: always, as the factory is a class of Java.
        """
        raise InvalidProgramError(
            f"RocksDB takes no options from {options_factory_class_name!r}, which is a class of Java; its memory is "
            "the option state.backend.rocksdb.memory"
        )

    def get_options(self) -> None:
        """None: there is no factory of options."""

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Keeps what PyFlink's programs set: here one thread beside the task's writes and reads files.

        Raises:
            ConfigurationError: it is below 1.
        """
        if number_of_transfering_threads < 1:
            raise ConfigurationError(
                f"a RocksDB backend transfers files with at least 1 thread, got {number_of_transfering_threads}"
            )
        self.number_of_transfer_threads = number_of_transfering_threads

    def get_number_of_transfer_threads(self) -> int:
        """What `set_number_of_transfer_threads` set."""
        return self.number_of_transfer_threads

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

    def apply_to(self, configuration: Configuration) -> None:
        """Writes the choice into a configuration; options that it says nothing of stay."""
        configuration.set(CHECKPOINT_DIRECTORY, self.directory)

    def get_savepoint_path(self) -> str | None:
        """None: the environment says where savepoints go, `set_default_savepoint_directory`."""
        return None


@dataclass(frozen=True)
class JobManagerCheckpointStorage(CheckpointStorage):
    """Checkpoints in the memory of the JobMaster, which a JobMaster that dies takes along; with a path in that
    directory, where they outlive it."""

    DEFAULT_MAX_STATE_SIZE: ClassVar = 5 * 1024 * 1024

    checkpoint_path: str | None = None
    max_state_size: int = DEFAULT_MAX_STATE_SIZE
    """Taken for PyFlink's programs: nothing limits state here but the memory that there is."""

    def __post_init__(self) -> None:
        if self.checkpoint_path is not None:
            object.__setattr__(self, "checkpoint_path", _without_slash(self.checkpoint_path))

    @property
    def directory(self) -> str:
        return self.checkpoint_path or ""

    def get_checkpoint_path(self) -> str | None:
        """PyFlink's name for `checkpoint_path`."""
        return self.checkpoint_path

    def get_max_state_size(self) -> int:
        """PyFlink's name for `max_state_size`."""
        return self.max_state_size


@dataclass(frozen=True)
class FileSystemCheckpointStorage(CheckpointStorage):
    """Checkpoints in a directory that every node can reach.

    Raises:
        ConfigurationError: there is no path, or the threshold is above the highest.
    """

    MAX_FILE_STATE_THRESHOLD: ClassVar = 1024 * 1024

    checkpoint_path: str
    file_state_size_threshold: int | None = None
    """State of at most so many bytes is in the metadata, and not in files of its own; None: as configured."""
    write_buffer_size: int = -1
    """Taken for PyFlink's programs: state is written in one piece."""

    def __post_init__(self) -> None:
        if not self.checkpoint_path:
            raise ConfigurationError(
                f"option {CHECKPOINT_DIRECTORY.key!r} is a path or URI for a FileSystemCheckpointStorage, got "
                f"{self.checkpoint_path!r}; JobManagerCheckpointStorage() keeps checkpoints in memory"
            )
        object.__setattr__(self, "checkpoint_path", _without_slash(self.checkpoint_path))
        if (self.file_state_size_threshold or 0) > self.MAX_FILE_STATE_THRESHOLD:
            raise ConfigurationError(
                f"file_state_size_threshold of a FileSystemCheckpointStorage is at most "
                f"{self.MAX_FILE_STATE_THRESHOLD} bytes, got {self.file_state_size_threshold}"
            )

    @property
    def directory(self) -> str:
        return self.checkpoint_path

    def apply_to(self, configuration: Configuration) -> None:
        super().apply_to(configuration)
        if self._has_threshold:
            configuration.set(INLINE_STATE_BYTES, self.file_state_size_threshold)

    def get_checkpoint_path(self) -> str:
        """PyFlink's name for `checkpoint_path`."""
        return self.checkpoint_path

    def get_min_file_size_threshold(self) -> int:
        """State of at most so many bytes is in the metadata; where that was not set here, the default."""
        chosen = self.file_state_size_threshold
        return INLINE_STATE_BYTES.default if chosen is None or not self._has_threshold else chosen

    def get_write_buffer_size(self) -> int:
        """What was given, or Flink's own size."""
        return max(self.get_min_file_size_threshold(), self.write_buffer_size if self.write_buffer_size >= 0 else 4096)

    @property
    def _has_threshold(self) -> bool:
        return self.file_state_size_threshold is not None and self.file_state_size_threshold >= 0  # -1 is Flink's None


def _without_slash(path: str) -> str:
    return path.rstrip("/") or path
