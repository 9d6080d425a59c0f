"""What happens after a failure: what `set_restart_strategy` takes (PyFlink's RestartStrategies)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flinkray.config.configuration import Configuration
from flinkray.config.option import ConfigOption
from flinkray.config.options import (
    EXPONENTIAL_ATTEMPTS,
    EXPONENTIAL_FACTOR,
    EXPONENTIAL_INITIAL,
    EXPONENTIAL_JITTER,
    EXPONENTIAL_MAX,
    EXPONENTIAL_RESET,
    FAILURE_RATE_DELAY,
    FAILURE_RATE_FAILURES,
    FAILURE_RATE_INTERVAL,
    FIXED_DELAY,
    FIXED_DELAY_ATTEMPTS,
    RESTART_STRATEGY,
)
from flinkray.time.durations import Duration

_OPTIONS: dict[str, tuple[ConfigOption[Any], ...]] = {
    "default": (),
    "none": (),
    "fixed-delay": (FIXED_DELAY_ATTEMPTS, FIXED_DELAY),
    "failure-rate": (FAILURE_RATE_FAILURES, FAILURE_RATE_INTERVAL, FAILURE_RATE_DELAY),
    "exponential-delay": (
        EXPONENTIAL_INITIAL,
        EXPONENTIAL_MAX,
        EXPONENTIAL_FACTOR,
        EXPONENTIAL_RESET,
        EXPONENTIAL_JITTER,
        EXPONENTIAL_ATTEMPTS,
    ),
}


@dataclass(frozen=True)
class RestartStrategyConfiguration:
    """A strategy with its settings; a value, made by `RestartStrategies`."""

    type: str
    """A value of the option `restart-strategy.type`."""
    settings: Mapping[str, object]
    """The values of all of its options, by their keys."""

    @staticmethod
    def of(configuration: Configuration, default: str = "default") -> RestartStrategyConfiguration:
        """The strategy that a configuration has.

        Args:
            default: the type that `default` stands for.
        """
        name = configuration.get(RESTART_STRATEGY)
        name = default if name == "default" else name
        return RestartStrategyConfiguration(name, {option.key: configuration.get(option) for option in _OPTIONS[name]})

    def apply_to(self, configuration: Configuration) -> None:
        """Writes the strategy and its settings into a configuration."""
        configuration.set(RESTART_STRATEGY, self.type)
        for key, value in self.settings.items():
            configuration.set(key, value)

    def get_description(self) -> str:
        """For example `fixed-delay (attempts=3, delay=1000)`."""
        settings = ", ".join(f"{key.rpartition('.')[2]}={value}" for key, value in self.settings.items())
        return f"{self.type} ({settings})" if settings else self.type


class RestartStrategies:
    """Makes the strategies that `set_restart_strategy` takes. Durations are milliseconds, timedelta or text such as "10
    s".

    Raises:
        ConfigurationError: a value that the option behind it does not take; names option, value, and range.
    """

    @staticmethod
    def no_restart() -> RestartStrategyConfiguration:
        """The first failure ends the job."""
        return _strategy("none")

    @staticmethod
    def fall_back_restart() -> RestartStrategyConfiguration:
        """As if nothing had been set: exponential delay with checkpoints, and no restart without."""
        return _strategy("default")

    @staticmethod
    def fixed_delay_restart(restart_attempts: int, delay_between_attempts: Duration) -> RestartStrategyConfiguration:
        """Up to `restart_attempts` restarts in the life of the job, each `delay_between_attempts` after the failure."""
        return _strategy("fixed-delay", restart_attempts, delay_between_attempts)

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: Duration, delay_interval: Duration
    ) -> RestartStrategyConfiguration:
        """Restarts as long as no more than `failure_rate` failures are within one `failure_interval`."""
        return _strategy("failure-rate", failure_rate, failure_interval, delay_interval)

    @staticmethod
    def exponential_delay_restart(
        initial_backoff: Duration = EXPONENTIAL_INITIAL.default,
        max_backoff: Duration = EXPONENTIAL_MAX.default,
        backoff_multiplier: float = EXPONENTIAL_FACTOR.default,
        reset_backoff_threshold: Duration = EXPONENTIAL_RESET.default,
        jitter_factor: float = EXPONENTIAL_JITTER.default,
        attempts_before_reset_backoff: int = EXPONENTIAL_ATTEMPTS.default,
    ) -> RestartStrategyConfiguration:
        """Waits longer from failure to failure, until the job has run `reset_backoff_threshold` without any."""
        return _strategy(
            "exponential-delay",
            initial_backoff,
            max_backoff,
            backoff_multiplier,
            reset_backoff_threshold,
            jitter_factor,
            attempts_before_reset_backoff,
        )


def _strategy(name: str, *values: object) -> RestartStrategyConfiguration:
    settings = {option.key: option.read(value) for option, value in zip(_OPTIONS[name], values, strict=True)}
    return RestartStrategyConfiguration(name, settings)
