"""The settings of a StreamExecutionEnvironment."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from flinkray.config.configuration import Configuration
from flinkray.config.options import (
    BUFFER_TIMEOUT,
    MAX_PARALLELISM,
    OPERATOR_CHAINING,
    PARALLELISM,
    RUNTIME_MODE,
    SAVEPOINT_DIRECTORY,
)
from flinkray.errors import ConfigurationError
from flinkray.state.backends import StateBackend, configured_state_backend
from flinkray.state.checkpoint_config import CheckpointConfig, CheckpointingMode
from flinkray.state.restart_strategies import RestartStrategyConfiguration
from flinkray.streams.settings.operator_settings import check_parallelism
from flinkray.streams.settings.program_code import ProgramCode
from flinkray.time.durations import Duration, without_minus_one


class RuntimeExecutionMode(enum.Enum):
    """What `set_runtime_mode` takes (PyFlink's)."""

    STREAMING = "streaming"
    BATCH = "batch"
    AUTOMATIC = "automatic"


class EnvironmentSettings(ProgramCode):
    """Reads and writes one Configuration. Setters give the environment back, so that calls chain.

    Raises:
        ConfigurationError: from a setter, a value that its option does not take; names option, value, and range.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._checkpoint_config = CheckpointConfig(configuration)

    @property
    def configuration(self) -> Configuration:
        """A copy of the settings as they are now."""
        return self._configuration.copy()

    def configure(self, config: Configuration | Mapping[str, object]) -> Self:
        """Sets options; others stay."""
        new = config if isinstance(config, Configuration) else Configuration(config)
        for key, value in new:
            self._configuration.set(key, value)
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Subtasks of each operator that sets no parallelism of its own."""
        self._configuration.set(PARALLELISM, check_parallelism(parallelism))
        return self

    def get_parallelism(self) -> int:
        """Subtasks of each operator that sets no parallelism of its own."""
        return self._configuration.get(PARALLELISM)

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Number of key groups: the limit of later rescaling."""
        self._configuration.set(MAX_PARALLELISM, check_parallelism(max_parallelism, "max parallelism"))
        return self

    def get_max_parallelism(self) -> int:
        """Number of key groups; 0: chosen from the parallelism when the program is compiled."""
        return self._configuration.get(MAX_PARALLELISM)

    def set_buffer_timeout(self, timeout: Duration) -> Self:
        """Sets how long rows may wait for more before they are sent; 0: not at all; -1: until a buffer is full."""
        self._configuration.set(BUFFER_TIMEOUT, without_minus_one(timeout))
        return self

    def get_buffer_timeout(self) -> int:
        """How long rows may wait for more before they are sent, in milliseconds."""
        return self._configuration.get(BUFFER_TIMEOUT)

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode | str) -> Self:
        """How a program of bounded sources runs: "streaming", "batch" or "automatic".

        In batch, tasks run stage after stage, each reading results that are complete; keyed aggregates and reduce give
        one result per key; there are no checkpoints, and event time moves once, at the end. "automatic" is batch where
        all sources are bounded. A program in batch with an unbounded source is refused when it is executed.
        """
        word = execution_mode.value if isinstance(execution_mode, RuntimeExecutionMode) else execution_mode
        self._configuration.set(RUNTIME_MODE, word)
        return self

    def disable_operator_chaining(self) -> Self:
        """Every operator becomes a task of its own."""
        self._configuration.set(OPERATOR_CHAINING, False)
        return self

    def is_chaining_enabled(self) -> bool:
        """Whether operators are chained into one task where they can be."""
        return self._configuration.get(OPERATOR_CHAINING)

    # -- settings of checkpoints and failures

    @property
    def checkpoint_config(self) -> CheckpointConfig:
        """The settings of checkpoints; what is set there is set in this environment."""
        return self._checkpoint_config

    def get_checkpoint_config(self) -> CheckpointConfig:
        """PyFlink's name for `checkpoint_config`."""
        return self._checkpoint_config

    def enable_checkpointing(self, interval: Duration, mode: CheckpointingMode | str | None = None) -> Self:
        """Saves the program's state every `interval`, so that it goes on from there after a failure.

        Args:
            mode: what a failure may do to rows; None: as configured, which is exactly once unless something else is.

        Raises:
            ConfigurationError: the interval is below 10 ms, or an argument is not what it should be.
        """
        self._checkpoint_config.interval = interval
        if mode is not None:
            self._checkpoint_config.mode = mode
        return self

    def get_checkpoint_interval(self) -> int:
        """Milliseconds between the starts of checkpoints; 0: there are none."""
        return self._checkpoint_config.interval

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """What a failure may do to the effects of rows on state."""
        return self._checkpoint_config.mode

    def set_default_savepoint_directory(self, directory: str | Path) -> Self:
        """Sets where savepoints go that are given no directory: a path or URI that every node can reach."""
        self._configuration.set(SAVEPOINT_DIRECTORY, str(directory))
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Where savepoints go that are given no directory; None: they need one."""
        return self._configuration.get(SAVEPOINT_DIRECTORY) or None

    def set_state_backend(self, state_backend: StateBackend) -> Self:
        """Sets where keyed state is kept: `HashMapStateBackend()` or `EmbeddedRocksDBStateBackend()`."""
        if not isinstance(state_backend, StateBackend):
            raise ConfigurationError(
                f"set_state_backend takes HashMapStateBackend() or EmbeddedRocksDBStateBackend(), not {state_backend!r}"
            )
        state_backend.apply_to(self._configuration)
        return self

    def get_state_backend(self) -> StateBackend:
        """Where keyed state is kept, as set or configured."""
        return configured_state_backend(self._configuration)

    def set_restart_strategy(self, restart_strategy: RestartStrategyConfiguration) -> Self:
        """Sets what happens after a failure: one of `RestartStrategies`."""
        if not isinstance(restart_strategy, RestartStrategyConfiguration):
            raise ConfigurationError(
                "set_restart_strategy takes what RestartStrategies makes, such as "
                f"RestartStrategies.fixed_delay_restart(3, '1 s'), not {restart_strategy!r}"
            )
        restart_strategy.apply_to(self._configuration)
        return self

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        """What happens after a failure, as set or configured."""
        return RestartStrategyConfiguration.of(self._configuration)
