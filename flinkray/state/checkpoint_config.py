"""How an environment takes checkpoints: its `checkpoint_config`, after PyFlink's CheckpointConfig."""

from __future__ import annotations

import enum
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Generic, TypeVar, overload

from flinkray.config.configuration import Configuration
from flinkray.config.option import ConfigOption
from flinkray.config.options import (
    ALIGNED_CHECKPOINT_TIMEOUT,
    CHECKPOINT_DIRECTORY,
    CHECKPOINT_INTERVAL,
    CHECKPOINT_MIN_PAUSE,
    CHECKPOINT_MODE,
    CHECKPOINT_RETENTION,
    CHECKPOINT_TIMEOUT,
    FINAL_CHECKPOINT,
    FORCE_UNALIGNED_CHECKPOINTS,
    INCREMENTAL_CHECKPOINTS,
    INLINE_STATE_BYTES,
    INTERRUPTIBLE_TIMERS,
    MAX_CONCURRENT_CHECKPOINTS,
    MIN_CHECKPOINT_INTERVAL_MS,
    RETAINED_CHECKPOINTS,
    SAVEPOINT_DIRECTORY,
    TOLERABLE_FAILED_CHECKPOINTS,
    UNALIGNED_CHECKPOINTS,
)
from flinkray.errors import ConfigurationError
from flinkray.state.backends import CheckpointStorage, FileSystemCheckpointStorage, JobManagerCheckpointStorage
from flinkray.time.durations import Duration


class CheckpointingMode(enum.Enum):
    """What a failure may do to the effects of rows on state."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    """No channel waits for the barriers of others, and rows may count twice after a failure."""


class ExternalizedCheckpointRetention(enum.Enum):
    """What a job that has ended leaves of its checkpoints."""

    NO_EXTERNALIZED_CHECKPOINTS = "no-externalized-checkpoints"
    DELETE_ON_CANCELLATION = "delete-on-cancellation"
    """They stay when the job fails."""
    RETAIN_ON_CANCELLATION = "retain-on-cancellation"
    """They stay when the job fails or is cancelled."""


T = TypeVar("T")


class _Setting(Generic[T]):
    """An attribute that is an option of the environment's Configuration: read from it, and written into it."""

    def __init__(self, option: ConfigOption[Any], convert: Callable[[Any], T]) -> None:
        self._option = option
        self._convert = convert
        self.__doc__ = option.doc

    @overload
    def __get__(self, config: None, owner: type) -> _Setting[T]: ...

    @overload
    def __get__(self, config: CheckpointConfig, owner: type) -> T: ...

    def __get__(self, config: CheckpointConfig | None, owner: type) -> _Setting[T] | T:
        return self if config is None else self._convert(config.configuration.get(self._option))

    # Any: the option reads what a user may write, such as "10 s", and names what it does not take.
    def __set__(self, config: CheckpointConfig, value: Any) -> None:
        config.configuration.set(self._option, value.value if isinstance(value, enum.Enum) else value)


class CheckpointConfig:
    """The settings of checkpoints: one attribute per option, and the methods that PyFlink has.

    Durations are read in milliseconds, and set as milliseconds, timedelta or text such as "10 s".

    Raises:
        ConfigurationError: from whatever sets a value that the option does not take; names option, value, and range.
    """

    DEFAULT_MODE = CheckpointingMode.EXACTLY_ONCE
    DEFAULT_TIMEOUT = CHECKPOINT_TIMEOUT.default
    DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS = CHECKPOINT_MIN_PAUSE.default
    DEFAULT_MAX_CONCURRENT_CHECKPOINTS = MAX_CONCURRENT_CHECKPOINTS.default

    mode = _Setting(CHECKPOINT_MODE, CheckpointingMode)
    timeout = _Setting(CHECKPOINT_TIMEOUT, int)
    min_pause = _Setting(CHECKPOINT_MIN_PAUSE, int)
    max_concurrent = _Setting(MAX_CONCURRENT_CHECKPOINTS, int)
    tolerable_failures = _Setting(TOLERABLE_FAILED_CHECKPOINTS, int)
    retention = _Setting(CHECKPOINT_RETENTION, ExternalizedCheckpointRetention)
    unaligned = _Setting(UNALIGNED_CHECKPOINTS, bool)
    force_unaligned = _Setting(FORCE_UNALIGNED_CHECKPOINTS, bool)
    interruptible_timers = _Setting(INTERRUPTIBLE_TIMERS, bool)
    aligned_timeout = _Setting(ALIGNED_CHECKPOINT_TIMEOUT, int)
    directory = _Setting(CHECKPOINT_DIRECTORY, str)
    savepoint_directory = _Setting(SAVEPOINT_DIRECTORY, str)
    retained = _Setting(RETAINED_CHECKPOINTS, int)
    incremental = _Setting(INCREMENTAL_CHECKPOINTS, bool)
    inline_state_bytes = _Setting(INLINE_STATE_BYTES, int)
    after_tasks_finish = _Setting(FINAL_CHECKPOINT, bool)

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration

    @property
    def interval(self) -> int:
        """Milliseconds between the starts of checkpoints; 0: there are none."""
        return self.configuration.get(CHECKPOINT_INTERVAL)

    @interval.setter
    def interval(self, interval: Duration) -> None:
        if CHECKPOINT_INTERVAL.read(interval) == 0:
            raise ConfigurationError(
                f"option {CHECKPOINT_INTERVAL.key!r} must be at least {MIN_CHECKPOINT_INTERVAL_MS} ms, got "
                f"{interval!r}; leave it out for a program without checkpoints"
            )
        self.configuration.set(CHECKPOINT_INTERVAL, interval)

    # -- PyFlink's methods

    def is_checkpointing_enabled(self) -> bool:
        """Whether an interval is set."""
        return self.interval > 0

    def get_checkpoint_interval(self) -> int:
        """Milliseconds between the starts of checkpoints; 0: there are none."""
        return self.interval

    def set_checkpoint_interval(self, checkpoint_interval: Duration) -> None:
        """Sets the time between the starts of checkpoints; at least 10 ms."""
        self.interval = checkpoint_interval

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """What a failure may do to the effects of rows on state."""
        return self.mode

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode | str) -> None:
        """Sets the mode: "exactly-once" or "at-least-once"."""
        self.mode = checkpointing_mode

    def get_checkpoint_timeout(self) -> int:
        """How long a checkpoint may take before it has failed, in milliseconds."""
        return self.timeout

    def set_checkpoint_timeout(self, checkpoint_timeout: Duration) -> None:
        """Sets how long a checkpoint may take before it has failed."""
        self.timeout = checkpoint_timeout

    def get_min_pause_between_checkpoints(self) -> int:
        """The least time from the end of one checkpoint to the start of the next, in milliseconds."""
        return self.min_pause

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: Duration) -> None:
        """Sets the least time from the end of one checkpoint to the start of the next."""
        self.min_pause = min_pause_between_checkpoints

    def get_max_concurrent_checkpoints(self) -> int:
        """How many checkpoints may be in progress at a time."""
        return self.max_concurrent

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> None:
        """Sets how many checkpoints may be in progress at a time."""
        self.max_concurrent = max_concurrent_checkpoints

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """How many checkpoints in a row may fail before the job does."""
        return self.tolerable_failures

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> None:
        """Sets how many checkpoints in a row may fail before the job does."""
        self.tolerable_failures = tolerable_checkpoint_failure_number

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """What a job that has ended leaves of its checkpoints."""
        return self.retention

    def set_externalized_checkpoint_retention(self, retention_mode: ExternalizedCheckpointRetention | str) -> None:
        """Sets what a job that has ended leaves of its checkpoints."""
        self.retention = retention_mode

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Whether a job that has ended may leave checkpoints."""
        return self.retention is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS

    # PyFlink 1 has these names for it.
    enable_externalized_checkpoints = set_externalized_checkpoint_retention
    set_externalized_checkpoint_cleanup = set_externalized_checkpoint_retention
    get_externalized_checkpoint_cleanup = get_externalized_checkpoint_retention

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether barriers may overtake rows: as in Flink only where the mode is exactly once."""
        return self.unaligned and self.mode is CheckpointingMode.EXACTLY_ONCE

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> None:
        """Lets barriers overtake rows, which are then saved with the checkpoint."""
        self.unaligned = enabled

    def is_force_unaligned_checkpoints(self) -> bool:
        """Whether a program with `partition_custom` may have unaligned checkpoints."""
        return self.force_unaligned

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> None:
        """Allows unaligned checkpoints to a program with `partition_custom`.

        After a rescale the partitioner is asked again for the rows that were in flight, so it must depend on nothing
        but the key and the number of channels.
        """
        self.force_unaligned = force_unaligned_checkpoints

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Whether the first checkpoint that fails fails the job."""
        return self.tolerable_failures == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> None:
        """True: the first checkpoint that fails fails the job. False: none ever does."""
        self.tolerable_failures = 0 if fail_on_checkpointing_errors else 2**31 - 1

    def disable_unaligned_checkpoints(self) -> None:
        """Barriers stay behind the rows that came before them."""
        self.unaligned = False

    def get_aligned_checkpoint_timeout(self) -> timedelta:
        """How long a checkpoint is aligned before it goes on unaligned, where that is enabled; 0: it begins so."""
        return timedelta(milliseconds=self.aligned_timeout)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> None:
        """Sets how long a checkpoint is aligned before it goes on unaligned, where that is enabled."""
        self.aligned_timeout = alignment_timeout

    get_alignment_timeout = get_aligned_checkpoint_timeout
    set_alignment_timeout = set_aligned_checkpoint_timeout

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> None:
        """Sets the directory of checkpoints: a path or URI that every node can reach."""
        self.directory = checkpoint_path

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> None:
        """Sets where checkpoints go."""
        if not isinstance(storage, CheckpointStorage):
            raise ConfigurationError(
                f"set_checkpoint_storage takes FileSystemCheckpointStorage(path) or JobManagerCheckpointStorage(), not "
                f"{storage!r}"
            )
        storage.apply_to(self.configuration)

    def get_checkpoint_storage(self) -> CheckpointStorage:
        """Where checkpoints go."""
        return FileSystemCheckpointStorage(self.directory) if self.directory else JobManagerCheckpointStorage()
