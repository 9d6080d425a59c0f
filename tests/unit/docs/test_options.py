"""The option reference says of each option what its declaration says."""

from __future__ import annotations

import pytest

from docs.extensions.options import GROUPS, group_of, option_reference
from flinkray.config.option import ConfigOption, one_of
from flinkray.config.options import BUFFER_TIMEOUT, FRAME_BYTES, RESTART_STRATEGY, STATE_BACKEND, declared_options


def entry(key: str) -> str:
    """What the reference says of an option."""
    reference = option_reference(declared_options().values())
    return reference.split(f"```{{confval}} {key}\n")[1].split("\n```")[0]


def test_each_option_has_one_entry() -> None:
    reference = option_reference(declared_options().values())
    assert [reference.count(f"```{{confval}} {key}\n") for key in declared_options()] == [1] * len(declared_options())


def test_an_entry_has_type_range_default_and_meaning() -> None:
    assert entry(STATE_BACKEND.key).splitlines() == [
        ":type: text, one of hashmap, rocksdb",
        ":default: `hashmap`",
        "",
        STATE_BACKEND.doc,
    ]


def test_durations_are_shown_as_users_write_them() -> None:
    assert entry(BUFFER_TIMEOUT.key).splitlines()[:2] == [":type: duration", ":default: `100 ms`"]


def test_a_number_of_bytes_has_its_unit_and_is_shown_in_a_larger_one() -> None:
    assert entry(FRAME_BYTES.key).splitlines()[:2] == [
        ":type: whole number of bytes, at least 0",
        ":default: `4194304` (4 MiB)",
    ]


def test_an_option_is_in_the_group_of_its_longest_prefix() -> None:
    assert group_of("execution.checkpointing.mode") == "Checkpoints"
    assert group_of("execution.target") == "The program"
    assert group_of(RESTART_STRATEGY.key) == "Failures"


def test_every_group_has_options() -> None:
    assert {group_of(key) for key in declared_options()} == set(GROUPS)


def test_an_option_without_a_group_is_an_error() -> None:
    stray = ConfigOption("stray.option", str, "a", one_of("a", "b"), "", "Of no group.")
    with pytest.raises(LookupError, match=r"stray\.option"):
        option_reference([stray])
