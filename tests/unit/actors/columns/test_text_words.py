"""Words of texts, against Python's own integers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from actors.columns.text_words import WORDS_AT_ONCE, TextWords


@pytest.mark.parametrize("count", [1, 100, WORDS_AT_ONCE + 1])
@pytest.mark.parametrize("seed", range(3))
def test_a_word_is_the_first_eight_bytes_of_a_text_the_first_lowest(seed: int, count: int) -> None:
    chance = random.Random(seed)
    data, base = chance.randbytes(chance.randint(0, 300)), chance.choice([0, 1000])
    starts = [chance.randint(0, len(data)) for _ in range(count)]
    lengths = [chance.randint(0, len(data) - start) for start in starts]
    expected = [
        int.from_bytes(data[start : start + min(length, 8)], "little")
        for start, length in zip(starts, lengths, strict=True)
    ]
    words = TextWords(np.frombuffer(data, np.uint8), base)
    found = words.at(np.array(starts, np.int32) + np.int32(base), np.array(lengths, np.int32))
    assert found.tolist() == expected
