"""Numbers of texts, against a dict, also where hashes are equal."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from actors.keys import text_index
from actors.keys.text_index import TextIndex

TYPES = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()]


@pytest.mark.parametrize("has_equal_hashes", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_every_text_has_one_number_and_no_two_share_one(
    seed: int, has_equal_hashes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if has_equal_hashes:
        hashes = text_index.key_hashes
        monkeypatch.setattr(text_index, "key_hashes", lambda columns: hashes(columns) % np.uint64(3))
    chance = random.Random(seed)
    arrow_type = TYPES[seed % len(TYPES)]
    index = TextIndex()
    numbers: dict[str | None, int] = {}
    for _ in range(chance.randint(1, 12)):
        alike = "a" * chance.choice([*range(20), 48, 49, 300])
        known = [None, "", alike, str(chance.randint(0, 150)), "ä€𝄞", "a\0", "\0", "\1", "\2"]
        texts = [chance.choice([*known, str(chance.randint(0, 150))]) for _ in range(chance.randint(1, 200))]
        column = pa.array(texts, pa.string()).cast(arrow_type)
        skipped = chance.randrange(len(texts))
        for text, number in zip(texts[skipped:], index.ids(column.slice(skipped)).tolist(), strict=True):
            assert numbers.setdefault(text, number) == number
    assert sorted(numbers.values()) == list(range(index.size))


def test_many_texts_keep_their_numbers_while_the_index_grows() -> None:
    index = TextIndex()
    for start in range(0, 50_000, 10_000):
        column = pa.array(np.arange(start, start + 10_000)).cast(pa.string())
        assert index.ids(column).tolist() == list(range(start, start + 10_000))
    everything = pa.array(np.arange(50_000)[::-1]).cast(pa.string())
    assert index.ids(everything).tolist() == list(range(49_999, -1, -1))


def test_texts_are_hashed_once_for_a_batch_where_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[int] = []
    hashes = text_index.key_hashes
    monkeypatch.setattr(text_index, "key_hashes", lambda columns: (hashed.append(columns.num_rows), hashes(columns))[1])
    few = pa.array([f"customer {row % 10}" for row in range(100)])
    many = pa.array([f"customer {row}" for row in range(100)])
    index = TextIndex()
    for column, numbers in ((few, [*range(10)] * 10), (many, [*range(100)]), (few, [*range(10)] * 10)):
        assert index.ids(column).tolist() == numbers
    assert hashed == [10, 100, 100]
