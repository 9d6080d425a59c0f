"""What a reader of PostgreSQL is to read, and after which rows it goes on."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from flinkray.connectors.postgres.columns import Column
from flinkray.connectors.postgres.splits import (
    PostgresSplit,
    pieces,
    positions_of,
    query_of,
    splits_by_key,
    splits_by_page,
)

COLUMNS = (Column("n", 23, -1), Column('a "b"', 2950, -1))


def batches_of(positions: Sequence[int], cuts: Sequence[int]) -> list[pa.RecordBatch]:
    whole = pa.record_batch({"p": pa.array(positions, pa.int64()), "n": pa.array(range(len(positions)), pa.int64())})
    edges = [0, *sorted(cuts), len(positions)]
    return [whole.slice(low, high - low) for low, high in itertools.pairwise(edges)]


@pytest.mark.parametrize("seed", range(20))
def test_reading_on_after_any_piece_gives_each_row_once(seed: int) -> None:
    rng = random.Random(seed)
    is_unique = rng.random() < 0.5
    count = rng.randrange(1, 60)
    positions = sorted(rng.sample(range(100), count) if is_unique else rng.choices(range(15), k=count))
    found: list[int] = []
    for piece, position in pieces(
        batches_of(positions, rng.choices(range(count), k=4)), batch_rows=rng.randrange(1, 9), is_unique=is_unique
    ):
        assert len(piece)
        found += piece["n"].to_pylist()
        # All rows up to the position are given, and none behind it: what is read on is `position > after`.
        assert [positions[n] for n in found] == [each for each in positions if each <= position]
    assert found == list(range(count))


def test_pieces_have_about_as_many_rows_as_wanted() -> None:
    sizes = [len(piece) for piece, _ in pieces(batches_of(range(100), [50]), 20, is_unique=True)]
    assert sizes == [20, 20, 10, 20, 20, 10]
    sizes = [len(piece) for piece, _ in pieces(batches_of([1] * 5 + [2] * 30 + [3, 4], []), 8, is_unique=False)]
    assert sizes == [5, 30, 1, 1]


def test_rows_in_another_order_are_refused() -> None:
    for positions, cuts in (([1, 3, 2], []), ([5, 6, 1], [2])):
        with pytest.raises(ValueError, match="another order than that of their positions"):
            list(pieces(batches_of(positions, cuts), 10, is_unique=True))


def test_the_place_of_a_row_is_one_number_that_grows_with_page_and_place() -> None:
    places = [(0, 1), (0, 65_535), (1, 1), (2**32 - 1, 7)]
    array = pa.array([page.to_bytes(4, "big") + place.to_bytes(2, "big") for page, place in places])
    assert positions_of(array).tolist() == [page << 16 | place for page, place in places]
    assert positions_of(array.slice(1, 2)).tolist() == [65_535, (1 << 16) + 1]
    assert positions_of(pa.array([5, 6])).dtype == np.int64


def test_the_query_of_a_split_goes_on_behind_the_last_row() -> None:
    split = PostgresSplit("a", 'ONLY "T"', "page", 5, 9)
    selected = '"n", "a ""b"""::text AS "a ""b"""'
    assert query_of(split, COLUMNS, None, "n > 1 -- c") == (
        f'SELECT ctid AS "flinkray_position", {selected} FROM ONLY "T" WHERE ctid >= \'(5,0)\'::tid AND '
        "ctid < '(9,0)'::tid AND (n > 1 -- c\n)"
    )
    last = replace(split, high=None, after=(7 << 16) + 3)
    assert query_of(last, COLUMNS[:1], None, None).endswith("WHERE ctid > '(7,3)'::tid")
    by_key = PostgresSplit("b", "t", "key", -5, 9, after=-2)
    assert query_of(by_key, COLUMNS[:1], "k", None) == (
        'SELECT "k"::int8 AS "flinkray_position", "n" FROM t WHERE "k" > -2 AND "k" < 9 ORDER BY "k"'
    )
    nulls = PostgresSplit("c", "t", "null", None, None)
    assert query_of(nulls, COLUMNS[:1], "k", None).endswith('WHERE "k" IS NULL')
    assert query_of(replace(nulls, after=0), COLUMNS[:1], "k", None).endswith("WHERE false")


def test_pages_and_keys_are_divided_without_a_gap() -> None:
    splits = list(splits_by_page([("ONLY a", 1_000), ("ONLY b", 0)], parallelism=1))
    assert [(each.relation, each.low, each.high) for each in splits] == [
        ("ONLY a", 0, 250),
        ("ONLY a", 250, 500),
        ("ONLY a", 500, 750),
        ("ONLY a", 750, None),
        ("ONLY b", 0, None),
    ]
    keys = list(splits_by_key("t", (-4, 5), True, parallelism=1))
    assert [(each.low, each.high) for each in keys] == [(None, -2), (-2, 1), (1, 3), (3, None), (None, None)]
    assert len(list(splits_by_key("t", (7, 7), False, parallelism=4))) == 1
    assert len(list(splits_by_key("t", None, False, parallelism=4))) == 1
    assert len({each.split_id for each in (*splits, *keys)}) == len(splits) + len(keys)
