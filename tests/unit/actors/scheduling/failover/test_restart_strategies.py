"""Whether a job goes on after a failure, and when."""

from __future__ import annotations

import random

import pytest

from actors.scheduling.failover.restart_strategies import (
    ExponentialDelayRestart,
    FailureRateRestart,
    FixedDelayRestart,
    NoRestart,
    RestartStrategy,
    strategy_of,
)
from flinkray.config.configuration import Configuration
from flinkray.errors import ConfigurationError


def named(has_checkpoints: bool = False, **options: object) -> RestartStrategy:
    """A strategy from options, of which only the last part of the name is given, with _ for every sign."""
    keys = {
        "type": "restart-strategy.type",
        "attempts": "restart-strategy.fixed-delay.attempts",
        "delay": "restart-strategy.fixed-delay.delay",
        "failures": "restart-strategy.failure-rate.max-failures-per-interval",
        "interval": "restart-strategy.failure-rate.failure-rate-interval",
        "initial": "restart-strategy.exponential-delay.initial-backoff",
        "longest": "restart-strategy.exponential-delay.max-backoff",
        "jitter": "restart-strategy.exponential-delay.jitter-factor",
    }
    configuration = Configuration({keys[name]: value for name, value in options.items()})
    return strategy_of(configuration, has_checkpoints, random.Random(0))


def exponential(seed: int = 0, **settings: float) -> ExponentialDelayRestart:
    """Waits 10, 20, 40, 80, 100, 100 ... ms; begins anew after 1000 quiet ms."""
    given = {"initial_ms": 10, "max_ms": 100, "factor": 2.0, "reset_ms": 1_000, "jitter": 0.0, "attempts": 0}
    return ExponentialDelayRestart(random.Random(seed), **(given | settings))  # type: ignore[arg-type]


def delays(strategy: RestartStrategy, *times: int) -> list[int | None]:
    """What each failure waits for; None: the job ends there."""
    decisions = [strategy.on_failure(now) for now in times]
    return [decision.delay_ms if decision.can_restart else None for decision in decisions]


@pytest.mark.parametrize(
    ("has_checkpoints", "kind"), [(False, NoRestart), (True, ExponentialDelayRestart)], ids=["without", "with"]
)
def test_without_a_named_strategy_only_a_job_with_checkpoints_restarts(
    has_checkpoints: bool, kind: type[RestartStrategy]
) -> None:
    assert type(named(has_checkpoints)) is kind


def test_a_named_strategy_counts_whether_there_are_checkpoints_or_not() -> None:
    assert type(named(True, type="none")) is NoRestart
    assert type(named(False, type="exponential-delay")) is ExponentialDelayRestart
    assert type(named(True, type="failure-rate")) is FailureRateRestart


def test_none_ends_the_job_with_a_way_out() -> None:
    decision = named(type="none").on_failure(0)
    assert not decision.can_restart
    assert "restart-strategy.type" in decision.reason
    assert "execution.checkpointing.interval" in decision.reason


def test_fixed_delay_restarts_so_often_however_far_apart_the_failures_are() -> None:
    strategy = named(type="fixed-delay", attempts=2, delay="3 s")
    assert delays(strategy, 0, 1, 10**9, 10**10) == [3_000, 3_000, None, None]


def test_fixed_delay_without_attempts_never_restarts() -> None:
    assert delays(FixedDelayRestart(0, 5), 0) == [None]


def test_failure_rate_ends_the_job_with_one_failure_too_many_within_the_interval() -> None:
    assert delays(FailureRateRestart(2, 100, 7), 0, 50, 100) == [7, 7, None]
    assert delays(FailureRateRestart(2, 100, 7), 0, 50, 101, 151, 152) == [7, 7, 7, 7, None]


def test_failure_rate_reads_its_options() -> None:
    strategy = named(type="failure-rate", failures=1, interval="10 s")
    assert delays(strategy, 0, 10_001, 20_001) == [1_000, 1_000, None]


def test_the_exponential_delay_grows_from_restart_to_restart_up_to_its_limit() -> None:
    assert delays(exponential(), 0, 11, 32, 73, 154, 255) == [10, 20, 40, 80, 100, 100]


def test_failures_before_the_pending_restart_belong_to_its_attempt_and_wait_for_what_remains() -> None:
    strategy = exponential()
    assert delays(strategy, 0, 4, 9, 10) == [10, 6, 1, 0]
    assert delays(strategy, 11) == [20]


def test_the_quiet_time_counts_from_the_scheduled_restart_boundary_included() -> None:
    assert delays(exponential(), 0, 1_009) == [10, 20]
    assert delays(exponential(), 0, 1_010) == [10, 10]


def test_attempts_are_counted_until_a_quiet_time() -> None:
    strategy = exponential(attempts=2)
    assert delays(strategy, 0, 5, 11, 2_000, 2_011, 2_032) == [10, 5, 20, 10, 20, None]
    assert delays(strategy, 2_040) == [None], "a failure of the same attempt cannot be better off"


def test_jitter_stays_within_its_part_and_within_the_limits() -> None:
    for seed in range(50):
        first, second, third, *rest = delays(exponential(seed, jitter=0.5), 0, 200, 400, 600, 800)
        assert None not in (first, second, third)
        assert 10 <= first <= 15, seed  # never below the initial delay
        assert 10 <= second <= 30, seed
        assert 20 <= third <= 60, seed
        assert all(delay is not None and 40 <= delay <= 100 for delay in rest), seed
    assert len({delays(exponential(seed, jitter=0.5), 0, 200)[1] for seed in range(50)}) > 5


def test_a_job_that_has_failed_ten_thousand_times_still_waits_for_the_longest_delay() -> None:
    strategy = exponential(reset_ms=10**9)
    assert delays(strategy, *range(0, 1_010_000, 101))[-1] == 100


def test_the_defaults_of_exponential_delay_are_flinks() -> None:
    strategy = named(True, jitter=0)
    found = delays(strategy, 0, 2_000, 4_000, 8_000, 20_000)
    assert found == [1_000, 1_500, 2_250, 3_375, 5_062]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"initial": "2 min"}, "at most the 60000 ms of restart-strategy.exponential-delay.max-backoff"),
        ({"initial": 0}, "is 0 ms: at least 1 ms is expected"),
        ({"jitter": 1.5}, "is 1.5: a part between 0 and 1 is expected"),
    ],
)
def test_options_that_do_not_fit_each_other_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        named(type="exponential-delay", **options)


def model(times: list[int], initial: int, longest: int, factor: float, reset: int, limit: int) -> list[int | None]:
    """The rules once more, over the whole history: attempts are groups of failures."""
    found: list[int | None] = []
    attempts: list[tuple[int, int]] = []  # (restart at, attempts in a row)
    for now in times:
        if not attempts or now > attempts[-1][0]:
            in_a_row = 0 if not attempts or now - attempts[-1][0] >= reset else attempts[-1][1]
            attempts.append((now + max(initial, min(int(initial * factor**in_a_row), longest)), in_a_row + 1))
        found.append(None if limit and attempts[-1][1] > limit else attempts[-1][0] - now)
    return found


@pytest.mark.parametrize("seed", range(200))
def test_any_history_of_failures_is_answered_as_by_the_rules(seed: int) -> None:
    chance = random.Random(seed)
    initial, factor = chance.randint(1, 20), chance.choice([1.0, 1.5, 2.0, 3.0])
    longest, reset, limit = initial + chance.randint(0, 200), chance.randint(1, 300), chance.choice([0, 0, 1, 3])
    times, now = [], 0
    for _ in range(40):
        now += chance.choice([0, 1, chance.randint(0, 50), chance.randint(0, 600)])
        times.append(now)
    strategy = exponential(
        initial_ms=initial, max_ms=longest, factor=factor, reset_ms=reset, attempts=limit, jitter=0.0
    )
    assert delays(strategy, *times) == model(times, initial, longest, factor, reset, limit)
