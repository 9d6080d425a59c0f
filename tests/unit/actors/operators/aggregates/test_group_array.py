"""Snapshots of an array that goes on changing show the moment at which each was taken."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from actors.operators.aggregates.group_array import GroupArray


@pytest.mark.parametrize("dtype", [np.int64, np.bool_, object])
@pytest.mark.parametrize("seed", range(30))
def test_random_changes_and_snapshots_agree_with_a_list(seed: int, dtype: Any) -> None:
    rng = random.Random(seed)
    fill: Any = None if dtype is object else 0
    array = GroupArray(dtype, fill)
    model: list[Any] = []
    waiting: list[tuple[Callable[[], Any], list[Any]]] = []
    for _ in range(200):
        match rng.randrange(6):
            case 0:
                model += [fill] * rng.randrange(4)
                array.grow(len(model))
            case 1:
                size = len(model) + rng.randrange(3)
                waiting.append((array.capture(size), [*model, *[fill] * (size - len(model))]))
            case 2 if waiting:
                read, expected = waiting.pop(rng.randrange(len(waiting)))
                if rng.random() < 0.7:
                    assert read().tolist() == expected
            case 3 if model and rng.random() < 0.1:
                model = [rng.randrange(2) for _ in model]
                array.replace(np.array(model, dtype))
            case _ if model:
                groups = rng.sample(range(len(model)), rng.randint(1, len(model)))
                for group in groups:
                    model[group] = rng.randrange(2) if dtype is not np.int64 else rng.randrange(1000)
                array[np.array(groups)] = [model[group] for group in groups]
    assert array[np.arange(len(model))].tolist() == model
    for read, expected in waiting:
        assert read().tolist() == expected


@pytest.mark.parametrize("seed", range(5))
def test_a_snapshot_is_read_by_another_thread_while_the_array_changes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = 200_000
    array = GroupArray(np.int64, 0)
    array.grow(size)
    array[np.arange(size)] = np.arange(size)
    read = array.capture(size)
    results: list[Any] = []
    reader = threading.Thread(target=lambda: results.append(read()))
    array[np.arange(0, size, 2)] = -1
    reader.start()
    while reader.is_alive():
        array[rng.permutation(size)[:1000]] = -2
    reader.join(10)
    assert np.array_equal(results[0], np.arange(size))


def test_nothing_is_set_aside_for_a_snapshot_that_was_read_or_given_up() -> None:
    array = GroupArray(object, None)
    array.grow(1)
    everything = np.zeros(1, np.int64)

    class Element:
        pass

    def alive() -> int:
        gc.collect()
        return sum(isinstance(each, Element) for each in gc.get_objects())

    array[everything] = [Element()]
    read, given_up = array.capture(1), array.capture(1)
    array[everything] = [Element()]
    assert alive() == 2
    del given_up
    read()
    array[everything] = [Element()]
    assert alive() == 2, "the one that `read` had set aside goes with it"
    del read
    array[everything] = [Element()]
    assert alive() == 1
