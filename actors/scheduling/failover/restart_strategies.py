"""Whether a job goes on after a failure, and how long it waits first (Flink's RestartBackoffTimeStrategy).

What a program says of its strategy is described by `flinkray.state.restart_strategies`; here each decides. Pure: the
time and the generator of random numbers are handed in. Times are epoch milliseconds.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import deque
from typing import Any

from msgspec import Struct

from flinkray.config.configuration import Configuration
from flinkray.config.options import (
    CHECKPOINT_INTERVAL,
    EXPONENTIAL_ATTEMPTS,
    EXPONENTIAL_INITIAL,
    EXPONENTIAL_JITTER,
    EXPONENTIAL_MAX,
    FAILURE_RATE_FAILURES,
    FIXED_DELAY_ATTEMPTS,
    RESTART_STRATEGY,
)
from flinkray.errors import ConfigurationError
from flinkray.state.restart_strategies import RestartStrategyConfiguration


class RestartDecision(Struct, frozen=True):
    """What a strategy says to one failure."""

    can_restart: bool
    delay_ms: int
    """Milliseconds from the failure to the restart."""
    reason: str
    """Why the strategy says so, with the option that decides it."""


class RestartStrategy(ABC):
    """Decides about the failures of one job, of which it is told if a restart could help. Not thread-safe."""

    @abstractmethod
    def on_failure(self, now: int) -> RestartDecision: ...


class NoRestart(RestartStrategy):
    """The first failure ends the job."""

    def on_failure(self, now: int) -> RestartDecision:
        reason = f"the job has no restart strategy: {RESTART_STRATEGY.key} or {CHECKPOINT_INTERVAL.key} gives it one"
        return RestartDecision(False, 0, reason)


class FixedDelayRestart(RestartStrategy):
    """Restarts so many times in the whole life of the job, each after the same time."""

    def __init__(self, attempts: int, delay_ms: int) -> None:
        self._attempts = attempts
        self._delay_ms = delay_ms
        self._failures = 0

    def on_failure(self, now: int) -> RestartDecision:
        self._failures += 1
        reason = f"failure {self._failures}, of which {self._attempts} are survived ({FIXED_DELAY_ATTEMPTS.key})"
        return RestartDecision(self._failures <= self._attempts, self._delay_ms, reason)


class FailureRateRestart(RestartStrategy):
    """Restarts as long as there are not more failures than so many within one interval."""

    def __init__(self, failures: int, interval_ms: int, delay_ms: int) -> None:
        self._failures = failures
        self._interval_ms = interval_ms
        self._delay_ms = delay_ms
        self._times: deque[int] = deque(maxlen=failures + 1)

    def on_failure(self, now: int) -> RestartDecision:
        self._times.append(now)
        is_full = len(self._times) > self._failures
        can_restart = not is_full or now - self._times[0] > self._interval_ms
        recent = sum(1 for time in self._times if now - time <= self._interval_ms)
        reason = (
            f"{recent} failure(s) within {self._interval_ms / 1000:g} s, of which {self._failures} are survived "
            f"({FAILURE_RATE_FAILURES.key})"
        )
        return RestartDecision(can_restart, self._delay_ms, reason)


class ExponentialDelayRestart(RestartStrategy):
    """Waits longer from failure to failure, and begins anew after a quiet time.

    Failures that come before the restart that they would lead to belong to the same attempt: they neither count nor
    make the time grow, and wait for what remains of it. The quiet time counts from that restart.
    """

    def __init__(
        self,
        generator: random.Random,
        initial_ms: int,
        max_ms: int,
        factor: float,
        reset_ms: int,
        jitter: float,
        attempts: int,
    ) -> None:
        """
        Args:
            jitter: by which part of itself the time varies, up and down.
            attempts: restarts without such a quiet time between them; 0: no limit.
        """
        self._random = generator
        self._initial_ms = initial_ms
        self._max_ms = max_ms
        self._factor = factor
        self._reset_ms = reset_ms
        self._jitter = jitter
        self._limit = attempts
        self._attempt = 0
        self._restart_at: int | None = None

    def on_failure(self, now: int) -> RestartDecision:
        restart_at = self._restart_at
        if restart_at is None or now > restart_at:
            if restart_at is not None and now - restart_at >= self._reset_ms:
                self._attempt = 0
            restart_at = self._restart_at = now + self._delay_ms()
            self._attempt += 1
        can_restart = not self._limit or self._attempt <= self._limit
        limit = f", of {self._limit} at most ({EXPONENTIAL_ATTEMPTS.key})" if self._limit else ""
        reason = f"attempt {self._attempt} without {self._reset_ms / 1000:g} s of quiet before it{limit}"
        return RestartDecision(can_restart, restart_at - now, reason)

    def _delay_ms(self) -> int:
        try:
            grown = int(self._initial_ms * self._factor**self._attempt)
        except OverflowError:
            return self._max_ms
        variation = int(grown * self._jitter)
        return max(self._initial_ms, min(grown + self._random.randint(-variation, variation), self._max_ms))


def strategy_of(configuration: Configuration, has_checkpoints: bool, generator: random.Random) -> RestartStrategy:
    """The strategy that the configuration names.

    Args:
        has_checkpoints: whether the job takes them periodically; decides what `default` means.

    Raises:
        ConfigurationError: the times of exponential-delay do not fit each other.
    """
    described = RestartStrategyConfiguration.of(
        configuration, default="exponential-delay" if has_checkpoints else "none"
    )
    # The constructors take what the options of each strategy say, in their order.
    settings: tuple[Any, ...] = tuple(described.settings.values())
    match described.type:
        case "fixed-delay":
            return FixedDelayRestart(*settings)
        case "failure-rate":
            return FailureRateRestart(*settings)
        case "exponential-delay":
            _check_exponential(*settings)
            return ExponentialDelayRestart(generator, *settings)
    return NoRestart()


def _check_exponential(initial: int, longest: int, _factor: float, _reset: int, jitter: float, _attempts: int) -> None:
    if not 1 <= initial <= longest:
        raise ConfigurationError(
            f"{EXPONENTIAL_INITIAL.key} is {initial} ms: at least 1 ms is expected, and at most the {longest} ms of "
            f"{EXPONENTIAL_MAX.key}"
        )
    if jitter > 1:
        raise ConfigurationError(f"{EXPONENTIAL_JITTER.key} is {jitter}: a part between 0 and 1 is expected")
