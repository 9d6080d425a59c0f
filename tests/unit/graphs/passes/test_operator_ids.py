from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flinkray.errors import InvalidProgramError
from flinkray.transformations.partitioning import ShufflePartitioner
from tests.support.graphs import Program, ids_by_name

ROOT = Path(__file__).resolve().parents[4]


def counts(parallelism: int = 1, source_first: bool = True, **settings: Any) -> Program:
    """Two sources, united, mapped and sunk."""
    program = Program()
    names = ["Source: a", "Source: b"] if source_first else ["Source: b", "Source: a"]
    united = program.union(*(program.source(name) for name in names))
    mapped = program.map(program.partition(united, ShufflePartitioner()), parallelism=parallelism, **settings)
    program.sink(mapped, parallelism=parallelism)
    return program


def test_ids_have_32_hex_digits_and_differ_within_a_program() -> None:
    ids = ids_by_name(counts().job_graph())
    assert len(ids) == len(set(ids.values())) == 4
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in ids.values())


def test_equal_programs_get_equal_ids_although_their_node_ids_differ() -> None:
    assert ids_by_name(counts().job_graph()) == ids_by_name(counts().job_graph())


def test_equal_programs_get_equal_ids_in_different_processes() -> None:
    script = (
        "from tests.unit.graphs.passes.test_operator_ids import counts\n"
        "from tests.support.graphs import ids_by_name\n"
        "counts(); print(ids_by_name(counts().job_graph()))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "77"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert done.stdout.strip() == str(ids_by_name(counts().job_graph()))


def test_ids_are_part_of_the_savepoint_format_and_do_not_change_between_releases() -> None:
    assert ids_by_name(counts(uid="counter").job_graph()) == {
        "Source: a": "11d2df4e979aa105cf552e9544ebd2b5",
        "Source: b": "d6bfa4fbbbb302d0f4e13a8904673181",
        "map": "2535b3d1b4d6bbf64f7dc85856322828",
        "Sink: out": "bf8b48198b8d523c13105c50231a53da",
    }


def test_names_and_functions_do_not_count() -> None:
    renamed = Program()
    united = renamed.union(renamed.source("Source: x"), renamed.source("Source: y"))
    renamed.sink(renamed.map(renamed.partition(united, ShufflePartitioner()), "other", int), "Sink: z")
    assert set(ids_by_name(renamed.job_graph()).values()) == set(ids_by_name(counts().job_graph()).values())


def test_parallelism_does_not_count_while_it_leaves_the_same_outputs_chainable() -> None:
    assert ids_by_name(counts(parallelism=2).job_graph()) == ids_by_name(counts(parallelism=5).job_graph())


def test_parallelism_counts_where_it_changes_what_can_be_chained() -> None:
    def program(sink_parallelism: int) -> Program:
        built = Program()
        built.sink(built.map(built.source()), parallelism=sink_parallelism)
        return built

    one, two = ids_by_name(program(1).job_graph()), ids_by_name(program(2).job_graph())
    assert one["Source: numbers"] == two["Source: numbers"]
    assert one["map"] != two["map"]


def test_switching_chaining_off_counts() -> None:
    def program(chaining: bool) -> Program:
        built = Program({"pipeline.operator-chaining.enabled": chaining})
        built.sink(built.source())
        return built

    assert ids_by_name(program(True).job_graph()) != ids_by_name(program(False).job_graph())


def test_order_of_sources_decides_which_gets_which_id() -> None:
    ids, swapped = ids_by_name(counts().job_graph()), ids_by_name(counts(source_first=False).job_graph())
    assert ids["Source: a"] == swapped["Source: b"]


def test_a_uid_keeps_an_operators_id_when_the_program_around_it_changes() -> None:
    grown = Program()
    stream = grown.map(grown.map(grown.source(), "new"), uid="counter")
    grown.sink(stream)
    assert ids_by_name(grown.job_graph())["map"] == ids_by_name(counts(uid="counter").job_graph())["map"]


def test_a_uid_changes_the_ids_behind_it_but_not_those_before() -> None:
    plain, with_uid = ids_by_name(counts().job_graph()), ids_by_name(counts(uid="counter").job_graph())
    assert {name for name in plain if plain[name] != with_uid[name]} == {"map", "Sink: out"}


def test_a_uid_hash_is_the_id_and_the_computed_one_is_kept_as_alternative() -> None:
    (plain,) = [each for each in counts().job_graph().vertices if each.name.startswith("map")]
    (forced,) = [each for each in counts(uid_hash="AB" * 16).job_graph().vertices if each.name.startswith("map")]
    assert forced.id == "ab" * 16
    assert forced.head.alternative_ids == (plain.head.operator_id,)
    assert plain.head.alternative_ids == ()


def test_equal_uids_are_refused_and_both_operators_are_named() -> None:
    program = Program()
    program.sink(program.map(program.map(program.source(), "first", uid="x"), "second", uid="x"))
    with pytest.raises(InvalidProgramError, match="operators 'first' and 'second' have the same uid 'x'"):
        program.job_graph()


def test_equal_uid_hashes_are_refused_and_both_operators_are_named() -> None:
    program = Program()
    program.sink(program.map(program.map(program.source(), "first", uid_hash="1" * 32), "second", uid_hash="1" * 32))
    with pytest.raises(InvalidProgramError, match=r"operators 'first' and 'second' get the same id 1{32}"):
        program.job_graph()


@pytest.mark.parametrize("settings", [{"uid": ""}, {"uid_hash": "xyz"}, {"uid_hash": "0" * 31}])
def test_a_uid_that_cannot_be_is_refused_by_operator(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidProgramError, match=r"operator 'map': .*uid"):
        counts(**settings).job_graph()


def test_a_join_is_met_again_once_its_longer_branch_has_ids() -> None:
    program = Program()
    numbers = program.source()
    long_branch = program.map(program.map(numbers, "one"), "two")
    program.sink(program.co_map(numbers, long_branch))
    assert len(ids_by_name(program.job_graph())) == 5
