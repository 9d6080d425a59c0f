from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs.key_groups import (
    HIGHEST_MAX_PARALLELISM,
    default_max_parallelism,
    key_group_range,
    key_group_ranges,
    subtask_for_key_group,
)


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [(1, 128), (85, 128), (86, 256), (100, 256), (171, 256), (172, 512), (20_000, 32_768), (32_768, 32_768)],
)
def test_default_max_parallelism_is_the_power_of_two_above_one_and_a_half_times(
    parallelism: int, expected: int
) -> None:
    assert default_max_parallelism(parallelism) == expected


@settings(deadline=None)
@given(st.data())
def test_ranges_are_neighbours_that_cover_all_key_groups_and_agree_with_the_subtask_of_a_group(
    data: st.DataObject,
) -> None:
    max_parallelism = data.draw(st.integers(1, 600))
    parallelism = data.draw(st.integers(1, max_parallelism))
    ranges = key_group_ranges(parallelism, max_parallelism)
    assert [group for each in ranges for group in each] == list(range(max_parallelism))
    for subtask, groups in enumerate(ranges):
        assert all(subtask_for_key_group(group, parallelism, max_parallelism) == subtask for group in groups)


def test_ranges_differ_by_at_most_one_group() -> None:
    assert {len(each) for each in key_group_ranges(7, 128)} == {18, 19}


def test_arrays_give_what_single_groups_give_up_to_the_highest_max_parallelism() -> None:
    groups = np.arange(HIGHEST_MAX_PARALLELISM, dtype=np.int64)
    subtasks = subtask_for_key_group(groups, 32_767, HIGHEST_MAX_PARALLELISM)
    assert subtasks.tolist() == [
        subtask_for_key_group(group, 32_767, HIGHEST_MAX_PARALLELISM) for group in range(HIGHEST_MAX_PARALLELISM)
    ]


@pytest.mark.parametrize(("subtask", "parallelism", "maximum"), [(0, 129, 128), (0, 0, 128), (4, 4, 128), (-1, 4, 128)])
def test_range_of_a_subtask_that_cannot_be_is_refused(subtask: int, parallelism: int, maximum: int) -> None:
    with pytest.raises(ValueError, match=r"subtask|parallelism"):
        key_group_range(subtask, parallelism, maximum)
