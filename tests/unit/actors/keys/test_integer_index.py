"""Numbers of integers and pairs, against a dict."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from actors.keys.integer_index import IntegerIndex, PairIndex

SHAPES: dict[str, Callable[[np.random.Generator, int], int]] = {
    "together": lambda generator, _: int(generator.integers(0, 300)),
    "rising": lambda generator, step: step * 700 + int(generator.integers(0, 2000)),
    "falling": lambda generator, step: -step * 700 + int(generator.integers(0, 2000)),
    "with gaps": lambda generator, _: int(generator.integers(0, 50_000)) * 16,
    "thinly, then densely": lambda generator, _: int(generator.integers(0, 200_000)),
    "anywhere": lambda generator, _: int(generator.integers(-(2**63), 2**63)),
    "together, then anywhere": lambda generator, step: int(generator.integers(0, 4000 if step < 12 else 2**62)),
    "at both ends": lambda _, step: random.Random(step).choice([-(2**63), 2**63 - 1]) // (step % 3 + 1),
    "at the upper end": lambda generator, _: 2**63 - 1 - int(generator.integers(0, 3000)),
    "at the lower end": lambda generator, step: -(2**63) + int(generator.integers(0, 3000)) * (step % 7),
}


def numbered(model: dict[object, int], keys: list[object]) -> list[int]:
    return [model.setdefault(key, len(model)) for key in keys]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("with_nulls", [False, True])
def test_integers_are_numbered_in_order_of_arrival_however_they_lie(shape: str, with_nulls: bool) -> None:
    generator = np.random.default_rng(len(shape))
    index, model = IntegerIndex(), dict[object, int]()
    for step in range(20):
        count = int(generator.choice([1, 7, 200, 1500]))
        words = np.array([SHAPES[shape](generator, step) for _ in range(count)], np.int64)
        nulls = generator.random(count) < 0.1 if with_nulls and step > 2 else None
        is_null = [False] * count if nulls is None else nulls.tolist()
        keys = [None if null else word for word, null in zip(words.tolist(), is_null, strict=True)]
        assert index.ids(words, nulls).tolist() == numbered(model, keys), f"step {step}"
    assert index.size == len(model)
    assert index.words.tolist() == [0 if key is None else key for key in model]


def test_integers_that_were_searched_get_places_once_there_are_enough_of_them() -> None:
    index, integers = IntegerIndex(), np.random.default_rng(1).permutation(200_000)
    index.ids(integers[:1000])
    assert not index._is_direct, "200 places each would be too many"
    index.ids(integers[1000:10_000])
    assert index._is_direct
    assert index.ids(integers[:10_000]).tolist() == list(range(10_000))


@pytest.mark.parametrize("spread", [1, 12, 1000])
def test_pairs_are_numbered_in_order_of_arrival_while_second_numbers_grow(spread: int) -> None:
    generator = np.random.default_rng(spread)
    index, model = PairIndex(), dict[object, int]()
    for step in range(25):
        end = 1 + 150 * step * spread
        seconds = generator.integers(0, end, 500)
        firsts = generator.integers(0, 1 + step * spread, 500)
        given = firsts if step % 2 else np.int64(step)
        keys: list[object] = list(zip(np.broadcast_to(given, 500).tolist(), seconds.tolist(), strict=True))
        assert index.ids(given, seconds, end).tolist() == numbered(model, keys), f"step {step}"
    pairs = zip(index.firsts(slice(None)).tolist(), index.seconds(slice(None)).tolist(), strict=True)
    assert index.size == len(model)
    assert list(pairs) == list(model)
