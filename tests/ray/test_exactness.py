"""Random programs on a real Ray cluster give what plain loops over lists give."""

from __future__ import annotations

import pytest

from tests.support.random_programs import RandomProgram, collected

pytestmark = pytest.mark.ray


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_random_program_gives_what_plain_loops_give(seed: int) -> None:
    program = RandomProgram(seed, "ray")
    for name, stream in program.results.items():
        assert collected(stream) == program.expected[name], f"{name}: {program.describe()}"
