"""Random programs give what plain loops over lists give."""

from __future__ import annotations

import pytest

from tests.support.random_programs import RandomProgram, collected


@pytest.mark.parametrize("seed", range(20))
def test_a_random_program_gives_what_plain_loops_give(seed: int) -> None:
    program = RandomProgram(seed, "local")
    for name, stream in program.results.items():
        assert collected(stream) == program.expected[name], f"{name}: {program.describe()}"
