"""Key groups: keys -> key group -> subtask, and how many groups there are.

State is stored by key group and groups are what moves when a job is rescaled, so this arithmetic is part of the
savepoint format. After Flink's KeyGroupRangeAssignment. Everything takes Python ints as well as numpy integer arrays.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

LOWEST_DEFAULT_MAX_PARALLELISM = 128
HIGHEST_MAX_PARALLELISM = 1 << 15

IntOrArray = TypeVar("IntOrArray", int, npt.NDArray[np.int64])


def default_max_parallelism(parallelism: int) -> int:
    """The next power of two from 1.5 x parallelism on, at least 128, at most 32768."""
    wanted = parallelism + parallelism // 2
    power = 1 << max(0, wanted - 1).bit_length()
    return min(max(power, LOWEST_DEFAULT_MAX_PARALLELISM), HIGHEST_MAX_PARALLELISM)


def subtask_for_key_group(key_group: IntOrArray, parallelism: int, max_parallelism: int) -> IntOrArray:
    """The subtask that owns a key group: key_group * parallelism // max_parallelism.

    An array must be int64: 32768 x 32768 does not fit into 16 bits.
    """
    return key_group * parallelism // max_parallelism


def key_group_range(subtask_index: int, parallelism: int, max_parallelism: int) -> range:
    """The key groups that a subtask owns; the inverse of `subtask_for_key_group`.

    Raises:
        ValueError: more subtasks than key groups, or no such subtask.
    """
    if not 0 < parallelism <= max_parallelism:
        raise ValueError(f"parallelism {parallelism} must be between 1 and the max parallelism, {max_parallelism}")
    if not 0 <= subtask_index < parallelism:
        raise ValueError(f"there is no subtask {subtask_index} of {parallelism}")
    first = (subtask_index * max_parallelism + parallelism - 1) // parallelism
    end = ((subtask_index + 1) * max_parallelism + parallelism - 1) // parallelism
    return range(first, end)


def key_group_ranges(parallelism: int, max_parallelism: int) -> tuple[range, ...]:
    """The range of every subtask, by subtask index; together they are range(max_parallelism)."""
    return tuple(key_group_range(index, parallelism, max_parallelism) for index in range(parallelism))
