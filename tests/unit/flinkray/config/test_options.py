"""Options: declared once, read as typed values, refused by name."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import pytest

from flinkray import Configuration, ConfigurationError
from flinkray.config.options import BUFFER_TIMEOUT, OPERATOR_CHAINING, PARALLELISM, SLOT_CPUS, TARGET, declared_options
from flinkray.config.sources import variable_name

OPTIONS = declared_options()


@pytest.mark.parametrize("key", sorted(OPTIONS))
def test_every_option_takes_its_own_default_and_says_what_it_is_for(key: str) -> None:
    option = OPTIONS[key]
    assert option.read(option.default) == option.default
    assert option.doc.endswith(".")
    assert key == option.key
    assert not key.startswith("FLINKRAY")


def test_no_two_options_share_an_environment_variable() -> None:
    assert len({variable_name(key) for key in OPTIONS}) == len(OPTIONS)


@pytest.mark.parametrize(
    ("key", "raw", "value"),
    [
        (PARALLELISM, "4", 4),
        (OPERATOR_CHAINING, "False", False),
        (BUFFER_TIMEOUT, "2 s", 2000),
        (BUFFER_TIMEOUT, timedelta(seconds=1), 1000),
        (SLOT_CPUS, "0.5", 0.5),
        (TARGET, "local", "local"),
    ],
)
def test_values_are_typed_whatever_they_are_written_as(key: Any, raw: Any, value: Any) -> None:
    assert Configuration({key.key: raw}).get(key) == value


@pytest.mark.parametrize(
    ("key", "raw", "message"),
    [
        ("parallelism.default", 0, "'parallelism.default' must be at least 1, got 0"),
        ("parallelism.default", "x", "'parallelism.default' cannot take 'x'"),
        ("parallelism.default", True, "cannot take True: expected a whole number"),
        ("parallelism.default", "two", "cannot take 'two': expected a whole number"),
        ("pipeline.operator-chaining.enabled", "maybe", "expected true or false"),
        ("execution.target", 3, "expected text"),
        ("flinkray.slot.cpus", None, "expected a number"),
        ("flinkray.slot.cpus", "inf", "'flinkray.slot.cpus' cannot take 'inf': expected a number"),
        ("flinkray.slot.cpus", 10**400, "expected a number"),
        ("flinkray.batch.target-rows", 2**63, f"cannot take {2**63}: expected a whole number of at most {2**63 - 1}"),
        ("execution.checkpointing.num-retained", str(2**63), f"expected a whole number of at most {2**63 - 1}"),
        ("slot.idle.timeout", 2**63, f"duration must be at most {2**63 - 1} ms, got {2**63}"),
        ("slot.idle.timeout", "9" * 400 + " s", f"duration must be at most {2**63 - 1} ms"),
        ("execution.checkpointing.timeout", "9 ms", "must be at least 10 ms, got '9 ms'"),
        ("execution.buffer-timeout.interval", "-1 s", "cannot take '-1 s'"),
        ("execution.buffer-timeout.interval", None, "expected a duration"),
        ("execution.runtime-mode", "quick", "must be one of"),
        ("paralelism.default", 2, "unknown option 'paralelism.default'; did you mean 'parallelism.default'?"),
    ],
)
def test_a_wrong_value_names_option_value_and_way_out(key: str, raw: Any, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Configuration({key: raw})
    assert message in str(caught.value)


def test_the_lower_configuration_fills_gaps_only() -> None:
    upper, lower = Configuration({PARALLELISM.key: 2}), Configuration({PARALLELISM.key: 3, TARGET.key: "local"})
    merged = upper.with_fallback(lower)
    assert dict(merged) == {PARALLELISM.key: 2, TARGET.key: "local"}
    assert dict(upper) == {PARALLELISM.key: 2}
    assert upper.is_set(PARALLELISM)
    assert not upper.is_set(TARGET)


def test_a_copy_changes_alone_and_survives_pickling() -> None:
    original = Configuration({PARALLELISM.key: 2})
    copy = pickle.loads(pickle.dumps(original.copy()))
    assert copy == original
    copy.set(PARALLELISM, 5)
    assert original.get(PARALLELISM) == 2
