"""PyFlink's Configuration, which takes any keys, and what a program makes of them."""

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest

from flinkray.config.options import (
    BUFFER_TIMEOUT,
    CHECKPOINT_DIRECTORY,
    OPERATOR_CHAINING,
    PARALLELISM,
    RESTART_STRATEGY,
    STATE_BACKEND,
    declared_options,
)
from flinkray.errors import ConfigurationError, InvalidProgramError
from flinkray.pyflink.common import Configuration
from flinkray.pyflink.common.configuration import _FORMER
from flinkray.pyflink.datastream import StreamExecutionEnvironment


def test_made_up_keys_are_kept_by_type() -> None:
    given = {"text": "v1", "int": 2, "bool": True, "float": 0.5}
    configuration = (
        Configuration().set_string("text", "v1").set_integer("int", 2).set_boolean("bool", True).set_float("float", 0.5)
    )
    configuration.set_bytearray("bytes", bytearray(b"abc"))
    assert configuration.get_string("text", "") == "v1"
    assert configuration.get_integer("int", 0) == 2
    assert configuration.get_boolean("bool", False) is True
    assert configuration.get_float("float", 0.0) == 0.5
    assert configuration.get_bytearray("bytes", bytearray()) == bytearray(b"abc")
    assert (configuration.get_string("none", None), configuration.get_bytearray("none", bytearray(b"x"))) == (
        None,
        b"x",
    )
    assert configuration.key_set() == {*given, "bytes"}
    values: dict[str, Any] = {}
    configuration.add_all_to_dict(values)
    assert values == {**given, "bytes": bytearray(b"abc")}
    assert configuration.remove_config("bytes")
    assert not configuration.remove_config("bytes")
    assert configuration.to_dict() == {"text": "v1", "int": "2", "bool": "true", "float": "0.5"}
    assert str(configuration) == "{bool=true, float=0.5, int=2, text=v1}"


def test_configurations_are_equal_where_their_settings_are() -> None:
    first = Configuration().set_string("k", "v")
    second = copy.deepcopy(first)
    third = Configuration(first).add_all(first, "more.")
    assert first == second
    assert hash(first) == hash(second)
    assert first != third
    assert third.to_dict() == {"k": "v", "more.k": "v"}
    second.set_string("k", "w")
    assert first != second
    assert first.get_string("k", "") == "v"


@pytest.mark.parametrize(
    ("value", "items"),
    [(None, []), ("", []), ("a;b", ["a", "b"]), ("[a, b]", ["a", "b"]), ("- a\n- b", ["a", "b"]), ("a", ["a"])],
)
def test_a_list_is_read_in_each_way_of_writing_it(value: str | None, items: list[str]) -> None:
    for is_yaml in (True, False):
        assert Configuration.parse_list_value(value, is_yaml) == Configuration.parse_list_value(value) == items


def test_a_deprecated_name_sets_the_option_that_took_its_place() -> None:
    assert set(_FORMER.values()) <= declared_options().keys()
    assert not _FORMER.keys() & declared_options().keys()
    configuration = Configuration.from_dict(
        {
            "execution.buffer-timeout": "1 min",
            "pipeline.operator-chaining": "false",
            "restart-strategy": "none",
            "state.backend": "rocksdb",
            "state.checkpoints.dir": "/there",
        }
    )
    options = [BUFFER_TIMEOUT, OPERATOR_CHAINING, RESTART_STRATEGY, STATE_BACKEND, CHECKPOINT_DIRECTORY]
    assert [configuration.get(option) for option in options] == [60_000, False, "none", "rocksdb", "/there"]
    for name in ("state.backend", "state.backend.type"):
        assert configuration.get_string(name, None) == "rocksdb"
        assert configuration.contains_key(name)
    assert configuration.get_string("execution.buffer-timeout.interval", None) == "1 min"
    assert configuration.remove_config("state.backend.type")
    assert configuration.get(STATE_BACKEND) == "hashmap"
    with pytest.raises(ConfigurationError, match=r"'state\.backend\.type' must be one of hashmap, rocksdb"):
        configuration.set_string("state.backend", "tape")


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("python.fn-execution.bundle.size", "is about Flink's JVM or its Python workers, and has no effect here"),
        ("taskmanager.memory.process.size", "is about Flink's JVM or its Python workers, and has no effect here"),
        ("akka.ask.timeout", "is about Flink's JVM or its Python workers, and has no effect here"),
        ("my.own", "has no effect here"),
        ("paralelism.default", "has no effect here; did you mean 'parallelism.default'?"),
    ],
)
@pytest.mark.parametrize("by", ["configuration", "mapping", "configure"])
def test_a_key_without_effect_is_left_out_of_a_program_with_one_warning(
    key: str, words: str, by: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FLINKRAY_CONF_DIR", raising=False)
    with caplog.at_level(logging.WARNING, "flinkray.pyflink"):
        if by == "configure":
            environment = StreamExecutionEnvironment.get_execution_environment()
            environment.configure(Configuration().set_string(key, "1").set_integer(key, 1))
        else:
            settings = {key: "1"}
            environment = StreamExecutionEnvironment.get_execution_environment(
                settings if by == "mapping" else Configuration(settings)
            )
    assert [record.getMessage() for record in caplog.records] == [f"option {key!r} {words}"]
    assert key not in dict(environment.configuration)
    assert environment.configuration.get(PARALLELISM) == 1


def test_jars_are_refused() -> None:
    with pytest.raises(InvalidProgramError, match="jars cannot run here"):
        Configuration().set_string("pipeline.jars", "file:///kafka.jar")
