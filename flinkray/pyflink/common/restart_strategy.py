"""`pyflink.common.restart_strategy`: flinkray's strategies, as the classes that PyFlink has."""

from __future__ import annotations

from collections.abc import Callable

from flinkray.config.options import (
    FAILURE_RATE_DELAY,
    FAILURE_RATE_FAILURES,
    FAILURE_RATE_INTERVAL,
    FIXED_DELAY,
    FIXED_DELAY_ATTEMPTS,
)
from flinkray.state import restart_strategies
from flinkray.state.restart_strategies import RestartStrategyConfiguration
from flinkray.time.durations import Duration

__all__ = ["RestartStrategies", "RestartStrategyConfiguration"]


class _Made(RestartStrategyConfiguration):
    """A strategy made by its class; equal to one of the same settings that is made in another way."""

    def __init__(self, made: RestartStrategyConfiguration) -> None:
        super().__init__(made.type, made.settings)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RestartStrategyConfiguration):
            return False
        return (self.type, self.settings) == (other.type, other.settings)

    __hash__ = None  # type: ignore[assignment]  # its settings are a dict, as those of its base


class _NoRestart(_Made):
    def __init__(self) -> None:
        super().__init__(restart_strategies.RestartStrategies.no_restart())


class _Fallback(_Made):
    def __init__(self) -> None:
        super().__init__(restart_strategies.RestartStrategies.fall_back_restart())


class _FixedDelay(_Made):
    def __init__(self, restart_attempts: int = 1, delay_between_attempts_interval: Duration = 1_000) -> None:
        make = restart_strategies.RestartStrategies.fixed_delay_restart
        super().__init__(make(restart_attempts, delay_between_attempts_interval))

    def get_restart_attempts(self) -> object:
        return self.settings[FIXED_DELAY_ATTEMPTS.key]

    def get_delay_between_attempts_interval(self) -> object:
        """Milliseconds."""
        return self.settings[FIXED_DELAY.key]


class _FailureRate(_Made):
    def __init__(
        self,
        max_failure_rate: int = 1,
        failure_interval: Duration = 60_000,
        delay_between_attempts_interval: Duration = 1_000,
    ) -> None:
        make = restart_strategies.RestartStrategies.failure_rate_restart
        super().__init__(make(max_failure_rate, failure_interval, delay_between_attempts_interval))

    def get_max_failure_rate(self) -> object:
        return self.settings[FAILURE_RATE_FAILURES.key]

    def get_failure_interval(self) -> object:
        """Milliseconds."""
        return self.settings[FAILURE_RATE_INTERVAL.key]

    def get_delay_between_attempts_interval(self) -> object:
        """Milliseconds."""
        return self.settings[FAILURE_RATE_DELAY.key]


class RestartStrategies(restart_strategies.RestartStrategies):
    NoRestartStrategyConfiguration = _NoRestart
    FallbackRestartStrategyConfiguration = _Fallback
    FixedDelayRestartStrategyConfiguration = _FixedDelay
    FailureRateRestartStrategyConfiguration = _FailureRate

    @staticmethod
    def no_restart() -> _NoRestart:
        return _NoRestart()

    @staticmethod
    def fall_back_restart() -> _Fallback:
        return _Fallback()

    @staticmethod
    def fixed_delay_restart(restart_attempts: int, delay_between_attempts: Duration) -> _FixedDelay:
        return _FixedDelay(restart_attempts, delay_between_attempts)

    @staticmethod
    def failure_rate_restart(failure_rate: int, failure_interval: Duration, delay_interval: Duration) -> _FailureRate:
        return _FailureRate(failure_rate, failure_interval, delay_interval)


_CLASSES: dict[str, Callable[..., _Made]] = {
    "none": _NoRestart,
    "fixed-delay": _FixedDelay,
    "failure-rate": _FailureRate,
}


def restart_strategy_of(strategy: RestartStrategyConfiguration) -> RestartStrategyConfiguration:
    """The same strategy as one of PyFlink's classes, where it has one."""
    found = _CLASSES.get(strategy.type, _Fallback if strategy.type == "default" else None)
    return strategy if found is None else found(*strategy.settings.values())
