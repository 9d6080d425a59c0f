"""Settings of operators and of the environment, in whole jobs."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flinkray import (
    Configuration,
    DataStream,
    Duration,
    InvalidProgramError,
    ResourceSpec,
    StreamExecutionEnvironment,
    Time,
)
from tests.support.jobs import environment
from tests.support.whole_jobs import WhereItRuns, rows

# -- settings of operators, as the plan shows them and as the job runs with them


SETTINGS: dict[str, tuple[Callable[[DataStream], Any], str]] = {
    "name": (lambda s: s.name("doubled"), r"doubled\n"),
    "uid": (lambda s: s.uid("double-1"), "uid double-1"),
    "set_uid_hash": (lambda s: s.set_uid_hash("0123456789abcdef" * 2), "uid hash " + "0123456789abcdef" * 2),
    "set_description": (lambda s: s.set_description("two times the value"), "two times the value"),
    "set_parallelism": (lambda s: s.set_parallelism(3), "parallelism 3, max"),
    "set_max_parallelism": (lambda s: s.set_max_parallelism(512), "max parallelism 512"),
    "force_non_parallel": (lambda s: s.force_non_parallel(), "parallelism 1, max parallelism 1"),
    "slot_sharing_group": (lambda s: s.slot_sharing_group("models"), "slot sharing group models"),
    "co_location_group": (lambda s: s.co_location_group("near"), "co-located as near"),
    "start_new_chain": (lambda s: s.start_new_chain(), "chaining head"),
    "disable_chaining": (lambda s: s.disable_chaining(), "chaining never"),
    "set_buffer_timeout": (lambda s: s.set_buffer_timeout("7 ms"), "buffer timeout 7 ms"),
    "set_buffer_timeout of 0": (lambda s: s.set_buffer_timeout(0), "buffer timeout 0 ms"),
    "set_buffer_timeout in PyFlink's words": (
        lambda s: s.set_buffer_timeout(Duration.of_seconds(1)),
        "buffer timeout 1000 ms",
    ),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_shows_in_the_plan_and_the_job_runs_with_it(env: StreamExecutionEnvironment, setting: str) -> None:
    apply, shown = SETTINGS[setting]
    doubled = env.from_sequence(1, 3).map(lambda value: value * 2)
    apply(doubled)
    doubled.print()
    stream_plan = env.get_execution_plan("stream").split("\n2 ", 1)[1].split("\n3 ", 1)[0]
    assert re.search(shown, stream_plan)
    env._transformations.clear()
    assert rows(doubled) == [2, 4, 6]


def test_resources_of_an_operator_are_asked_for(env: StreamExecutionEnvironment) -> None:
    doubled = env.from_sequence(1, 3).map(lambda value: value * 2)
    assert rows(doubled.set_resources(ResourceSpec(cpus=0.5))) == [2, 4, 6]


def chains(env: StreamExecutionEnvironment) -> int:
    """Tasks per subtask that the program has."""
    return len(re.findall(r"^\d+ ", env.get_execution_plan("job"), re.MULTILINE))


def test_chaining_settings_cut_the_chain_where_they_say() -> None:
    def program(setting: str | None, env: StreamExecutionEnvironment) -> int:
        mapped = env.from_sequence(1, 3).map(str)
        if setting:
            getattr(mapped, setting)()
        mapped.print()
        return chains(env)

    assert program(None, environment()) == 1
    assert program("start_new_chain", environment()) == 2
    assert program("disable_chaining", environment()) == 3
    assert program(None, environment().disable_operator_chaining()) == 3


def test_a_setting_of_no_operator_is_refused(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match="set_parallelism is a setting of an operator"):
        env.from_sequence(1, 3).rebalance().set_parallelism(2)


# -- settings of the environment


def test_settings_of_the_environment_reach_the_program() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.target": "local"}))
    env.set_parallelism(3).set_max_parallelism(99).set_buffer_timeout(0).configure({"pipeline.name": "from an option"})
    assert (env.get_parallelism(), env.get_max_parallelism()) == (3, 99)
    stream = env.from_sequence(1, 30).map(WhereItRuns()).rebalance().map(lambda found: found)
    stream.print()
    plan = env.get_execution_plan("job")
    assert "'from an option'" in plan
    assert "parallelism 3, max parallelism 99" in plan
    assert "buffer timeout 0 ms" in plan
    env._transformations.clear()
    found = {(row[2], row[3], row[5]) for row in stream.execute_and_collect()}
    assert found == {(3, 99, "from an option")}


@pytest.mark.parametrize("timeout", [0, "1 s", Time.milliseconds(5)])
def test_rows_arrive_whatever_the_buffer_timeout(env: StreamExecutionEnvironment, timeout: Any) -> None:
    env.set_buffer_timeout(timeout)
    assert rows(env.from_sequence(1, 100).rebalance().map(lambda value: value).shuffle()) == sorted(
        range(1, 101), key=repr
    )


first_row_came = threading.Event()


def one_then_wait() -> Iterator[int]:
    yield 1
    assert first_row_came.wait(20), "the first row never came"
    yield 2


def test_a_row_does_not_wait_where_the_buffer_timeout_is_zero(env: StreamExecutionEnvironment) -> None:
    first_row_came.clear()
    env.set_buffer_timeout("60 s")
    waits = env.add_source(one_then_wait).set_buffer_timeout(0).rebalance().map(lambda value: value)
    with waits.set_buffer_timeout(0).execute_and_collect() as found:
        assert next(found) == 1
        first_row_came.set()
        assert list(found) == [2]
