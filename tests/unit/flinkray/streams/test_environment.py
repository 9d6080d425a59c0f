"""Settings and their sources, sources of streams, and how programs are handed over and waited for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flinkray import (
    Configuration,
    ConfigurationError,
    InvalidProgramError,
    Row,
    StreamExecutionEnvironment,
    TypeMismatchError,
    Types,
)
from flinkray.config.options import BATCH_ROWS, BUFFER_TIMEOUT, GLOBAL_JOB_PARAMETERS, OPERATOR_CHAINING, PARALLELISM
from flinkray.config.sources import load_configuration, variable_name
from flinkray.functions.cached_files import unpack
from flinkray.time.watermarks import WatermarkStrategy
from tests.support.api import FakeExecutor

Env = StreamExecutionEnvironment


# -- settings


def test_code_wins_over_variables_over_the_file_over_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "parallelism:\n  default: 2\nflinkray.batch:\n  target-rows: 20\nexecution.buffer-timeout.interval: 2 s\n"
    (tmp_path / "config.yaml").write_text(text)
    monkeypatch.setenv("FLINKRAY_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("FLINKRAY_PARALLELISM_DEFAULT", "3")
    monkeypatch.setenv("FLINKRAY_FLINKRAY_BATCH_TARGET_ROWS", "30")
    settings = Env.get_execution_environment({"parallelism.default": 4}).configuration
    assert settings.get(PARALLELISM) == 4
    assert settings.get(BATCH_ROWS) == 30
    assert settings.get(BUFFER_TIMEOUT) == 2000
    assert settings.get(OPERATOR_CHAINING) is True


def test_a_mapping_in_the_file_may_be_the_value_of_an_option(tmp_path: Path) -> None:
    text = "pipeline:\n  global-job-parameters:\n    first: 1\n    second: two\n"
    (tmp_path / "config.yaml").write_text(text)
    settings = load_configuration({"FLINKRAY_CONF_DIR": str(tmp_path)})
    assert settings.get(GLOBAL_JOB_PARAMETERS) == {"first": "1", "second": "two"}


def test_a_buffer_timeout_of_minus_one_never_passes(env: Env) -> None:
    year = 365 * 86_400_000
    stream = env.set_buffer_timeout(-1).from_collection([1]).map(str).set_buffer_timeout(-1)
    assert (env.get_buffer_timeout(), stream._transformation.buffer_timeout_ms) == (year, year)


def test_the_variable_of_an_option() -> None:
    assert variable_name("execution.buffer-timeout.interval") == "FLINKRAY_EXECUTION_BUFFER_TIMEOUT_INTERVAL"


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"FLINKRAY_PARALLELISM_DEFAULT": "many"}, "environment variable FLINKRAY_PARALLELISM_DEFAULT: option"),
        ({"FLINKRAY_PARALELISM_DEFAULT": "2"}, "did you mean 'FLINKRAY_PARALLELISM_DEFAULT'"),
        ({"FLINKRAY_CONF_DIR": "/nowhere"}, "cannot read /nowhere/config.yaml, which FLINKRAY_CONF_DIR asks for"),
    ],
)
def test_a_wrong_setting_names_where_it_stands(environ: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load_configuration(environ)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "paralelism.default: 2",
            "config.yaml: unknown option 'paralelism.default'; did you mean 'parallelism.default'",
        ),
        ("- a\n- b", "must hold keys and values"),
        ("a: [", "cannot read"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        load_configuration({"FLINKRAY_CONF_DIR": str(tmp_path)})


def test_an_empty_file_and_other_variables_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("")
    environ = {"FLINKRAY_CONF_DIR": str(tmp_path), "FLINKRAY_SOMETHING_ELSE_ENTIRELY": "1", "HOME": "x"}
    assert load_configuration(environ) == Configuration()


@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True, None, 1 << 16])
def test_a_parallelism_is_a_positive_whole_number(env: Env, value: Any) -> None:
    with pytest.raises(InvalidProgramError, match="parallelism must be"):
        env.set_parallelism(value)
    with pytest.raises(InvalidProgramError, match="max parallelism must be"):
        env.set_max_parallelism(value)


def test_settings_of_the_environment_reach_the_program(env: Env, executor: FakeExecutor) -> None:
    env.set_parallelism(2).set_max_parallelism(64).set_buffer_timeout("7 ms").disable_operator_chaining()
    env.configure({"flinkray.batch.target-rows": 10})
    assert (env.get_parallelism(), env.get_max_parallelism()) == (2, 64)
    env.from_collection([1]).print()
    env.execute("named")
    settings = executor.pipeline.configuration
    assert (settings.get(PARALLELISM), settings.get(BUFFER_TIMEOUT), settings.get(BATCH_ROWS)) == (2, 7, 10)
    assert settings.get(OPERATOR_CHAINING) is False
    assert executor.pipeline.name == "named"


def test_a_cached_file_must_exist_and_keeps_its_name(env: Env, executor: FakeExecutor, tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    with pytest.raises(InvalidProgramError, match="there is no"):
        env.register_cached_file(file, "words")
    file.write_text("x")
    env.register_cached_file(str(file), "words")
    env.register_cached_file(file, "words")
    with pytest.raises(InvalidProgramError, match="already registered"):
        env.register_cached_file(tmp_path, "words")
    env.from_collection([1]).print()
    env.execute()
    assert unpack(executor.pipeline.cached_files["words"], tmp_path / "elsewhere").read_text() == "x"


# -- sources


def parallelism(stream: Any) -> int | None:
    value: int | None = stream._transformation.parallelism
    return value


def test_collections_and_functions_run_in_one_subtask_and_other_sources_in_all(env: Env) -> None:
    assert parallelism(env.from_collection([1])) == 1
    assert parallelism(env.add_source(lambda: iter([1]))) == 1
    assert parallelism(env.add_source(lambda: iter([1])).set_parallelism(2)) == 2
    assert parallelism(env.from_sequence(0, 9)) is None
    assert parallelism(env.from_arrow(pa.table({"a": [1]}))) is None


def test_sources_know_their_types(env: Env) -> None:
    import pandas as pd

    assert str(env.from_collection([("a", 1)]).record_type) == "tuple<f0: string, f1: int64>"
    assert str(env.from_collection([Row(a=1)]).record_type) == "row<a: int64>"
    assert str(env.from_collection([1, 2], type_info=Types.INT()).record_type) == "scalar<value: int32>"
    assert str(env.from_collection([], type_info=[str]).record_type) == "tuple<f0: string>"
    assert str(env.from_pandas(pd.DataFrame({"a": [1.5]})).record_type) == "row<a: double>"
    assert str(env.from_sequence(0, 1).record_type) == "scalar<value: int64>"
    assert env.from_collection([object()]).record_type is not None


def test_wrong_sources(env: Env) -> None:
    import pandas as pd

    for call, message in (
        (lambda: env.from_collection([]), "empty collection"),
        (lambda: env.from_collection("text"), "a collection of values"),
        (lambda: env.from_collection(5), "a collection of values"),  # type: ignore[arg-type]
        (lambda: env.from_sequence(2, 1), "cannot go from 2 down to 1"),
        (lambda: env.from_sequence(0, 1.5), "64-bit whole numbers"),  # type: ignore[arg-type]
        (lambda: env.from_sequence(0, 2**63 - 1), r"the highest of which is 2\*\*63 - 2"),
        (lambda: env.from_arrow([1]), "from_arrow takes"),
        (lambda: env.from_pandas(pd.DataFrame({1: [1]})), "text as names"),
        (lambda: env.from_pandas(pd.DataFrame({"a": [10**30, 1]})), "cannot turn DataFrame into columns"),
        (lambda: env.from_source([1], WatermarkStrategy.no_watermarks(), "x"), "takes a Source"),  # type: ignore[arg-type]
        (lambda: env.add_source(3), "takes a generator function"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidProgramError, match=message):
            call()
    with pytest.raises(TypeMismatchError, match="'x'"):
        env.from_collection([1, "x"], type_info=int)
