"""Splitting a column of text gives the words that `str.split` gives."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from actors.operators.functions import text_splitting
from actors.operators.functions.text_splitting import is_split, split_texts
from actors.operators.registry import create_operator
from flinkray.batches.batch import Batch
from flinkray.errors import UserFunctionError
from flinkray.transformations.operator_factories import FlatMapFactory, MapFactory
from flinkray.types.records import Kind
from tests.support.operators import OperatorHarness, code, scalar

SPACES = "".join(chr(code) for code in range(128) if chr(code).isspace())


def random_texts(seed: int, alphabet: str) -> list[str]:
    chosen = random.Random(seed)
    return ["".join(chosen.choices(alphabet, k=chosen.randrange(9))) for _ in range(chosen.randrange(1, 40))]


@pytest.mark.parametrize("seed", range(40))
def test_the_words_of_ascii_texts_are_those_of_python(seed: int) -> None:
    texts = random_texts(seed, random.Random(-seed).choice(["a ", "ab \n\t", "".join(map(chr, range(128))), SPACES]))
    for start in (0, len(texts) // 2):
        split = split_texts(pa.array(texts).slice(start))
        assert split is not None
        words, counts = split
        words.validate(full=True)
        assert words.to_pylist() == [word for text in texts[start:] for word in text.split()]
        assert counts.tolist() == [len(text.split()) for text in texts[start:]]


@pytest.mark.parametrize("seed", range(10))
def test_where_one_block_of_text_ends_and_the_next_begins_does_not_show(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = random_texts(seed, "ab \n") * 3
    for block_bytes in (1, 7, 50):
        monkeypatch.setattr(text_splitting, "_BLOCK_BYTES", block_bytes)
        split = split_texts(pa.array(texts))
        assert split is not None
        assert split[0].to_pylist() == [word for text in texts for word in text.split()]
        assert split[1].tolist() == [len(text.split()) for text in texts]


@pytest.mark.parametrize("texts", [[], [None], ["a b", None], ["a\u00a0b"], ["\u2003"], ["gr\u00fc\u00df dich"]])
def test_nulls_and_other_texts_are_left_to_python(texts: list[Any]) -> None:
    assert split_texts(pa.array(texts, pa.string())) is None


def documented(line: str) -> list[str]:
    """Says what it does."""
    return line.split()


def test_only_a_function_that_does_nothing_but_split_is_one() -> None:
    assert all(map(is_split, [str.split, lambda line: line.split(), documented]))
    others: list[Callable[..., Any]] = [
        str.splitlines, str.rsplit, len, bytes.split, "a b".split, lambda line: line.split(","),
        lambda line: line.rsplit(), lambda line, _="": line.split(), lambda *line: line.split(),
        lambda line: line.lower().split(), lambda line: (yield line.split()), lambda: documented.split(),
    ]  # fmt: skip
    assert not any(map(is_split, others))


def flat_map(function: Any, declared: Any = None, **settings: Any) -> OperatorHarness:
    return OperatorHarness(create_operator([code(FlatMapFactory(function, declared))], ["split"]), **settings)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("alphabet", ["ab  \n", "ab \u00a0\u00fc"])
def test_a_flat_map_that_splits_gives_what_any_other_gives(seed: int, alphabet: str) -> None:
    batches = [random_texts(10 * seed + index, alphabet) for index in range(4)]
    declared = scalar([pa.string(), pa.large_string()][seed % 2]) if seed % 3 else None
    split, other = (
        flat_map(function, declared, batch_rows=8) for function in (str.split, lambda line: list(line.split()))
    )
    for texts in batches:
        for driven in (split, other):
            driven.push(texts, list(range(len(texts))) if seed % 4 else None)
    assert split.output.rows == other.output.rows
    assert split.output.timestamps == other.output.timestamps
    assert {batch.data.schema for batch in split.output.batches} == {
        batch.data.schema for batch in other.output.batches
    }
    assert all(batch.num_rows <= 32 for batch in split.output.batches)


def test_a_null_to_split_is_the_functions_error() -> None:
    driven = flat_map(lambda line: line.split(), scalar(pa.string()))
    with pytest.raises(UserFunctionError, match=r"operator 'split'.*the value was None") as caught:
        driven.push(Batch(pa.record_batch([pa.array(["a b", None])], names=["value"]), Kind.SCALAR))
    assert "line.split()" in caught.value.cause_traceback


def test_rows_without_text_are_split_by_their_own_method() -> None:
    driven = flat_map(lambda line: line.split(), scalar(pa.binary()))
    driven.push([b"a b", b"c"])
    assert driven.output.rows == [b"a", b"b", b"c"]


def test_functions_after_a_split_see_its_words() -> None:
    chain = [FlatMapFactory(str.split, scalar(pa.string())), MapFactory(len, scalar(pa.int64()))]
    driven = OperatorHarness(create_operator([code(factory) for factory in chain], ["split", "length"]))
    driven.push(["a bc", " def "], [1, 2])
    assert (driven.output.rows, driven.output.timestamps) == ([1, 2, 3], [1, 1, 2])
