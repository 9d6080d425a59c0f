"""What an environment can be told of checkpoints, state and failures: it is all in its Configuration, and typed."""

from __future__ import annotations

import pickle
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from flinkray import (
    CheckpointConfig,
    CheckpointingMode,
    Configuration,
    ConfigurationError,
    EmbeddedRocksDBStateBackend,
    ExternalizedCheckpointRetention,
    FileSystemCheckpointStorage,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    RestartStrategies,
    RestartStrategyConfiguration,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from flinkray.config import options as o
from flinkray.config.options import declared_options
from tests.support.api import FakeExecutor

Env = StreamExecutionEnvironment

# attribute, its option, what is written, what is read
SETTINGS: list[tuple[str, str, Any, Any]] = [
    ("interval", "execution.checkpointing.interval", "10 s", 10_000),
    ("interval", "execution.checkpointing.interval", timedelta(milliseconds=10), 10),
    ("mode", "execution.checkpointing.mode", CheckpointingMode.AT_LEAST_ONCE, CheckpointingMode.AT_LEAST_ONCE),
    ("mode", "execution.checkpointing.mode", "EXACTLY_ONCE", CheckpointingMode.EXACTLY_ONCE),
    ("timeout", "execution.checkpointing.timeout", "2 min", 120_000),
    ("min_pause", "execution.checkpointing.min-pause", 7, 7),
    ("max_concurrent", "execution.checkpointing.max-concurrent-checkpoints", 3, 3),
    ("tolerable_failures", "execution.checkpointing.tolerable-failed-checkpoints", "4", 4),
    (
        "retention",
        "execution.checkpointing.externalized-checkpoint-retention",
        ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION,
        ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION,
    ),
    ("unaligned", "execution.checkpointing.unaligned.enabled", True, True),
    ("force_unaligned", "execution.checkpointing.unaligned.forced", "true", True),
    ("interruptible_timers", "execution.checkpointing.unaligned.interruptible-timers.enabled", "false", False),
    ("aligned_timeout", "execution.checkpointing.aligned-checkpoint-timeout", "1 s", 1_000),
    ("directory", "execution.checkpointing.dir", "s3://bucket/checkpoints", "s3://bucket/checkpoints"),
    ("savepoint_directory", "execution.checkpointing.savepoint-dir", "/savepoints", "/savepoints"),
    ("retained", "execution.checkpointing.num-retained", 5, 5),
    ("incremental", "execution.checkpointing.incremental", "false", False),
    ("inline_state_bytes", "execution.checkpointing.data-inline-threshold", 0, 0),
    ("after_tasks_finish", "execution.checkpointing.checkpoints-after-tasks-finish", False, False),
]


@pytest.mark.parametrize(("name", "key", "written", "read"), SETTINGS)
def test_every_setting_is_written_into_the_configuration_and_read_from_it(
    env: Env, name: str, key: str, written: Any, read: Any
) -> None:
    setattr(env.checkpoint_config, name, written)
    assert dict(env.configuration)[key] == declared_options()[key].read(getattr(read, "value", read))
    assert getattr(env.checkpoint_config, name) == read
    other = Env(Configuration({key: getattr(written, "value", written)}))
    assert getattr(other.checkpoint_config, name) == read


def test_every_option_of_checkpointing_has_a_setting() -> None:
    keys = {key for key in declared_options() if key.startswith("execution.checkpointing.")}
    assert keys == {key for _, key, _, _ in SETTINGS}


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("interval", 9, "'execution.checkpointing.interval' must be at least 10 ms, or 0 for none, got 9"),
        ("interval", "soon", "'execution.checkpointing.interval' cannot take 'soon'"),
        (
            "mode",
            "sometimes",
            "'execution.checkpointing.mode' must be one of exactly-once, at-least-once, got 'sometimes'",
        ),
        ("mode", ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION, "must be one of exactly-once, at-least-once"),
        ("timeout", None, "'execution.checkpointing.timeout' cannot take None"),
        ("timeout", 9, "'execution.checkpointing.timeout' must be at least 10 ms, got 9"),
        ("max_concurrent", 0, "'execution.checkpointing.max-concurrent-checkpoints' must be at least 1, got 0"),
        ("retention", "keep", "must be one of no-externalized-checkpoints, delete-on-cancellation, retain-on-"),
        ("unaligned", "maybe", "expected true or false"),
    ],
)
def test_a_wrong_value_names_option_value_and_what_is_valid(env: Env, name: str, wrong: Any, message: str) -> None:
    before = env.configuration
    with pytest.raises(ConfigurationError) as caught:
        setattr(env.checkpoint_config, name, wrong)
    assert message in str(caught.value)
    assert env.configuration == before


def test_the_methods_are_pyflinks(env: Env) -> None:
    config = env.get_checkpoint_config()
    assert not config.is_checkpointing_enabled()
    calls: list[tuple[str, Any, str, Any]] = [
        ("set_checkpoint_interval", 500, "get_checkpoint_interval", 500),
        (
            "set_checkpointing_mode",
            CheckpointingMode.AT_LEAST_ONCE,
            "get_checkpointing_mode",
            config.mode.AT_LEAST_ONCE,
        ),
        ("set_checkpoint_timeout", 60_000, "get_checkpoint_timeout", 60_000),
        ("set_min_pause_between_checkpoints", 5, "get_min_pause_between_checkpoints", 5),
        ("set_max_concurrent_checkpoints", 2, "get_max_concurrent_checkpoints", 2),
        ("set_tolerable_checkpoint_failure_number", 2, "get_tolerable_checkpoint_failure_number", 2),
        ("enable_unaligned_checkpoints", True, "is_unaligned_checkpoints_enabled", False),  # only with exactly once
        ("set_checkpointing_mode", CheckpointingMode.EXACTLY_ONCE, "is_unaligned_checkpoints_enabled", True),
        ("set_aligned_checkpoint_timeout", timedelta(1), "get_aligned_checkpoint_timeout", timedelta(1)),
        ("set_alignment_timeout", 5, "get_alignment_timeout", timedelta(milliseconds=5)),
        (
            "enable_externalized_checkpoints",
            ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION,
            "get_externalized_checkpoint_retention",
            ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION,
        ),
    ]
    for setter, value, getter, expected in calls:
        getattr(config, setter)(value)
        assert getattr(config, getter)() == expected
    assert config.is_checkpointing_enabled()
    assert config.is_externalized_checkpoints_enabled()
    assert not config.is_fail_on_checkpointing_errors()
    config.set_fail_on_checkpointing_errors(True)
    assert config.get_tolerable_checkpoint_failure_number() == 0
    config.disable_unaligned_checkpoints()
    assert not env.checkpoint_config.is_unaligned_checkpoints_enabled()
    assert CheckpointConfig.DEFAULT_TIMEOUT == 600_000


def test_checkpoints_go_where_their_storage_says(env: Env) -> None:
    config = env.checkpoint_config
    assert config.get_checkpoint_storage() == JobManagerCheckpointStorage()
    config.set_checkpoint_storage(FileSystemCheckpointStorage("/there"))
    assert (config.directory, config.get_checkpoint_storage()) == ("/there", FileSystemCheckpointStorage("/there"))
    config.set_checkpoint_storage(JobManagerCheckpointStorage())
    assert config.directory == ""
    config.set_checkpoint_storage_dir("/elsewhere")
    assert config.directory == "/elsewhere"
    with pytest.raises(ConfigurationError, match="takes FileSystemCheckpointStorage"):
        config.set_checkpoint_storage("/there")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"execution\.checkpointing\.dir.*JobManagerCheckpointStorage"):
        FileSystemCheckpointStorage("")


def test_enabling_checkpoints_keeps_the_mode_that_was_configured(env: Env) -> None:
    assert env.enable_checkpointing("5 s") is env
    assert (env.get_checkpoint_interval(), env.get_checkpointing_mode()) == (5_000, CheckpointingMode.EXACTLY_ONCE)
    env.enable_checkpointing(10_000, CheckpointingMode.AT_LEAST_ONCE).enable_checkpointing(20_000)
    assert (env.get_checkpoint_interval(), env.get_checkpointing_mode()) == (20_000, CheckpointingMode.AT_LEAST_ONCE)
    with pytest.raises(ConfigurationError, match="at least 10 ms, got 0"):
        env.enable_checkpointing(0)


def test_a_checkpoint_config_sees_what_is_configured_later(env: Env) -> None:
    config = env.checkpoint_config
    env.configure({"execution.checkpointing.interval": "3 s"})
    assert config.interval == 3_000
    config.timeout = 50
    assert env.configuration.get(o.CHECKPOINT_TIMEOUT) == 50


def test_an_interval_that_means_none_reads_as_none_and_one_that_is_too_short_is_refused() -> None:
    assert Env(Configuration({"execution.checkpointing.interval": 0})).get_checkpoint_interval() == 0
    with pytest.raises(ConfigurationError, match="must be at least 10 ms, or 0 for none, got 9"):
        Configuration({"execution.checkpointing.interval": 9})


# -- restart strategies

STRATEGIES: list[tuple[RestartStrategyConfiguration, dict[str, Any]]] = [
    (RestartStrategies.no_restart(), {"type": "none"}),
    (RestartStrategies.fall_back_restart(), {"type": "default"}),
    (
        RestartStrategies.fixed_delay_restart(3, "2 s"),
        {"type": "fixed-delay", "fixed-delay.attempts": 3, "fixed-delay.delay": 2_000},
    ),
    (
        RestartStrategies.failure_rate_restart(5, timedelta(minutes=5), 100),
        {
            "type": "failure-rate",
            "failure-rate.max-failures-per-interval": 5,
            "failure-rate.failure-rate-interval": 300_000,
            "failure-rate.delay": 100,
        },
    ),
    (
        RestartStrategies.exponential_delay_restart("1 s", "1 min", 2.0, "10 min", 0.2, 8),
        {
            "type": "exponential-delay",
            "exponential-delay.initial-backoff": 1_000,
            "exponential-delay.max-backoff": 60_000,
            "exponential-delay.backoff-multiplier": 2.0,
            "exponential-delay.reset-backoff-threshold": 600_000,
            "exponential-delay.jitter-factor": 0.2,
            "exponential-delay.attempts-before-reset-backoff": 8,
        },
    ),
]


@pytest.mark.parametrize(("strategy", "settings"), STRATEGIES, ids=lambda value: getattr(value, "type", ""))
def test_a_restart_strategy_is_what_the_configuration_says(
    env: Env, strategy: RestartStrategyConfiguration, settings: dict[str, Any]
) -> None:
    assert env.set_restart_strategy(strategy) is env
    assert dict(env.configuration) == {f"restart-strategy.{key}": value for key, value in settings.items()}
    assert env.get_restart_strategy() == strategy
    assert strategy.get_description().startswith(strategy.type)


def test_an_environment_that_says_nothing_has_the_default_strategy(env: Env) -> None:
    assert env.get_restart_strategy() == RestartStrategies.fall_back_restart()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RestartStrategies.fixed_delay_restart(-1, 0), "fixed-delay.attempts' must be at least 0, got -1"),
        (lambda: RestartStrategies.fixed_delay_restart(1, "later"), "fixed-delay.delay' cannot take 'later'"),
        (lambda: RestartStrategies.failure_rate_restart(0, 1, 1), "per-interval' must be at least 1, got 0"),
        (lambda: RestartStrategies.exponential_delay_restart(backoff_multiplier=0.5), "multiplier' must be at least 1"),
        (lambda: Env(Configuration()).set_restart_strategy("none"), "takes what RestartStrategies makes.*not 'none'"),
    ],
)
def test_a_wrong_strategy_names_option_value_and_range(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()


# -- state backends


def test_a_state_backend_is_what_the_configuration_says(env: Env) -> None:
    assert env.get_state_backend() == HashMapStateBackend()
    backend = EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=False)
    backend.set_db_storage_paths("/fast")
    assert env.set_state_backend(backend) is env
    assert dict(env.configuration) == {
        "execution.checkpointing.incremental": False,
        "state.backend.rocksdb.localdir": "/fast",
        "state.backend.type": "rocksdb",
    }
    assert env.get_state_backend() == backend
    assert not backend.is_incremental_checkpoints_enabled()
    env.set_state_backend(HashMapStateBackend())
    assert env.get_state_backend() == HashMapStateBackend()


def test_a_backend_that_says_nothing_of_it_leaves_what_is_configured() -> None:
    env = Env(Configuration({"execution.checkpointing.incremental": False}))
    env.set_state_backend(EmbeddedRocksDBStateBackend())
    assert env.checkpoint_config.incremental is False


def test_wrong_state_backends(env: Env) -> None:
    with pytest.raises(ConfigurationError, match="takes HashMapStateBackend"):
        env.set_state_backend("rocksdb")  # type: ignore[arg-type]
    with pytest.raises(
        ConfigurationError, match=r"state\.backend\.rocksdb\.localdir.*takes one path, got \('a', 'b'\)"
    ):
        EmbeddedRocksDBStateBackend().set_db_storage_paths("a", "b")


# -- the environment


def test_the_runtime_mode_is_a_setting_like_others(env: Env) -> None:
    assert env.set_runtime_mode(RuntimeExecutionMode.STREAMING).set_runtime_mode("STREAMING") is env
    for mode in RuntimeExecutionMode:
        assert env.set_runtime_mode(mode).configuration.get(o.RUNTIME_MODE) == mode.value
    with pytest.raises(
        ConfigurationError, match=r"'execution\.runtime-mode' must be one of streaming, batch, automatic"
    ):
        env.set_runtime_mode("quick")


def test_paths_mean_the_same_wherever_the_job_runs(
    env: Env, executor: FakeExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    env.set_default_savepoint_directory("savepoints")
    env.checkpoint_config.directory = "s3://bucket/checkpoints"
    env.configure({"execution.state-recovery.path": "savepoints/savepoint-1"})
    env.from_collection([1]).print()
    env.execute()
    settings = executor.pipeline.configuration
    assert settings.get(o.SAVEPOINT_DIRECTORY) == str(tmp_path / "savepoints")
    assert settings.get(o.CHECKPOINT_DIRECTORY) == "s3://bucket/checkpoints"
    assert settings.get(o.SAVEPOINT_PATH) == str(tmp_path / "savepoints/savepoint-1")
    assert env.get_default_savepoint_directory() == "savepoints"


def test_job_parameters_are_text_by_name() -> None:
    key = o.GLOBAL_JOB_PARAMETERS.key
    assert Configuration({key: "first:1, second : a:b"}).get(o.GLOBAL_JOB_PARAMETERS) == {"first": "1", "second": "a:b"}
    assert Configuration({key: {"n": 5}}).get(o.GLOBAL_JOB_PARAMETERS) == {"n": "5"}
    assert Configuration({key: ""}).get(o.GLOBAL_JOB_PARAMETERS) == {}
    with pytest.raises(ConfigurationError, match="expected key:value pairs with commas between them, found 'b'"):
        Configuration({key: "a:1,b"})


@pytest.mark.parametrize("seed", range(20))
def test_settings_in_any_order_leave_what_was_last_said_of_each(seed: int) -> None:
    generator = random.Random(seed)
    env = Env(Configuration())
    last: dict[str, Any] = {}
    for _ in range(60):
        name, key, written, read = generator.choice(SETTINGS)
        if generator.random() < 0.5:
            setattr(env.checkpoint_config, name, written)
        else:
            env.configure({key: getattr(written, "value", written)})
        last[name] = read
        assert {each: getattr(env.checkpoint_config, each) for each in last} == last
    assert pickle.loads(pickle.dumps(env.configuration)) == env.configuration
