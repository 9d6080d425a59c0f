"""Sampled stacks as a tree and as files."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from actors.protocol.client_requests import StackTime
from actors.rest.answers.flame_graphs import collapsed, speedscope, times_of, tree

MS = 1_000
STACKS = (
    StackTime(("run", "operator source", "read", "operator map", "f"), 40 * MS, 30 * MS),
    StackTime(("run", "operator source", "read"), 50 * MS, 0),
    StackTime(("run", "operator source", "read", "operator map", "f"), 10 * MS, 10 * MS),
)


def as_dicts(node: Any) -> Any:
    return {node.name: (node.value, [as_dicts(child) for child in node.children])}


def test_stacks_become_one_tree_whose_values_are_milliseconds() -> None:
    f = {"operator map": (50, [{"f": (50, [])}])}
    read = {"operator source": (100, [{"read": (100, [f])}])}
    assert as_dicts(tree(times_of(STACKS, "full"))) == {"root": (100, [{"run": (100, [read])}])}
    assert as_dicts(tree(times_of((), "full"))) == {"root": (0, [])}


@pytest.mark.parametrize(("kind", "total"), [("full", 100), ("on_cpu", 40), ("off_cpu", 60)])
def test_time_is_on_the_processor_or_off_it(kind: str, total: int) -> None:
    assert tree(times_of(STACKS, kind)).value == total


@pytest.mark.parametrize(
    ("operator", "stacks"), [("source", "operator source;read 50\n"), ("map", "operator map;f 50\n"), ("other", "")]
)
def test_an_operator_has_the_time_that_those_behind_it_do_not_have(operator: str, stacks: str) -> None:
    assert collapsed(times_of(STACKS, "full", operator)) == stacks


def test_row_functions_in_one_loop_are_found_by_the_name_of_each() -> None:
    fused = (StackTime(("operator parse -> check", "loop"), 7 * MS, 0),)
    assert collapsed(times_of(fused, "full", "check")) == "operator parse -> check;loop 7\n"


def test_what_cannot_be_seen_is_left_out_of_the_tree_and_stays_in_its_callers() -> None:
    times = {("run", "large"): 1_000_000, ("run", "small"): 900, ("run", "some"): 1_200}
    assert as_dicts(tree(times)) == {"root": (1002, [{"run": (1002, [{"large": (1000, [])}, {"some": (1, [])}])}])}


def test_collapsed_stacks_have_a_line_each_whatever_the_names_have() -> None:
    assert collapsed({("b;c", "d"): 2 * MS, ("a",): MS, ("short",): 10}) == "a 1\nb,c;d 2\n"


def test_a_speedscope_profile_has_each_frame_once() -> None:
    found = json.loads(msgspec.json.encode(speedscope("vertex", times_of(STACKS, "full"))))
    (profile,) = found["profiles"]
    names = [frame["name"] for frame in found["shared"]["frames"]]
    assert [[names[index] for index in sample] for sample in profile["samples"]] == [
        ["run", "operator source", "read", "operator map", "f"],
        ["run", "operator source", "read"],
    ]
    assert (profile["weights"], profile["endValue"], profile["unit"]) == ([50.0, 50.0], 100.0, "milliseconds")
    assert found["$schema"] == "https://www.speedscope.app/file-format-schema.json"
