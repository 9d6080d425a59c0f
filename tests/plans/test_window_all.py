"""Windows over all rows, which have one subtask whatever the parallelism of their input."""

from __future__ import annotations

import pytest

from flinkray import Count, StreamExecutionEnvironment, TumblingEventTimeWindows
from flinkray.types.records import Millis
from tests.support.simulation import compiled


@pytest.mark.parametrize("parallelism", [1, 2])
def test_their_state_has_one_key_group_so_that_a_savepoint_fits_any_parallelism(parallelism: int) -> None:
    env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": parallelism})
    windows = env.from_sequence(0, 9).window_all(TumblingEventTimeWindows.of(Millis(10)))
    windows.aggregate(n=Count()).print()
    (vertex,) = (each for each in compiled(env).vertices if each.name.startswith("TumblingEventTimeWindows"))
    assert (vertex.parallelism, vertex.max_parallelism) == (1, 1)
