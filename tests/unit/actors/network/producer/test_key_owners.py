"""Owners of integers that are looked up are those of their key groups, whatever came before."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.keys.hashes import key_groups, key_owners
from actors.network.producer import key_owners as tables
from actors.network.producer.key_owners import KeyOwners

OWNERS = np.arange(128).astype(np.uint8) % 5
HIGHEST = 2**63 - 1


@pytest.fixture(autouse=True)
def tables_are_made_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_FIRST_DECISION", 16)
    monkeypatch.setattr(tables, "_MOST_ENTRIES", 1 << 12)


def check(owners: KeyOwners, column: pa.Array) -> None:
    keys = pa.record_batch({"key": column})
    assert owners.of(keys).tolist() == OWNERS[key_groups(keys, 128)].tolist()


def hashed_rows(owners: KeyOwners, column: pa.Array, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many keys are hashed for these rows."""
    rows = [0]

    def counted(keys: pa.RecordBatch, its_owners: np.ndarray) -> np.ndarray:
        rows[0] += keys.num_rows
        return key_owners(keys, its_owners)

    with monkeypatch.context() as patched:
        patched.setattr(tables, "key_owners", counted)
        check(owners, column)
    return rows[0]


RUNS = st.tuples(st.sampled_from([0, -50, 1000, -(2**63), HIGHEST - 60]), st.integers(1, 60), st.integers(1, 200))


@settings(max_examples=200, deadline=None)
@given(st.lists(RUNS, min_size=1, max_size=30), st.integers(0, 2**32))
def test_owners_are_those_of_the_key_groups(runs: list[tuple[int, int, int]], seed: int) -> None:
    owners, generator = KeyOwners(OWNERS), np.random.default_rng(seed)
    for low, span, rows in runs:
        check(owners, pa.array(generator.integers(low, low + span, rows)))


@pytest.mark.parametrize("arrow_type", [pa.int8(), pa.int32(), pa.uint8(), pa.uint32(), pa.uint64(), pa.float64()])
def test_integers_of_any_width_have_one_owner(arrow_type: pa.DataType) -> None:
    owners = KeyOwners(OWNERS)
    for _ in range(10):
        check(owners, pa.array(np.arange(100), pa.int64()))
        check(owners, pa.array(np.arange(100)).cast(arrow_type))
        check(owners, pa.array([1, None, 3], arrow_type))


def test_keys_that_come_again_are_not_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    owners, keys = KeyOwners(OWNERS), pa.array(np.arange(100) - 30)
    assert [hashed_rows(owners, keys, monkeypatch) for _ in range(5)] == [100, 206, 0, 0, 0], "the table itself once"
    assert hashed_rows(owners, pa.array([500]), monkeypatch) == 1
    assert hashed_rows(owners, keys, monkeypatch) == 0, "what is outside does not cost the table"


def test_the_table_grows_with_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    owners, wider = KeyOwners(OWNERS), pa.array(np.arange(-200, 200))
    for _ in range(40):
        check(owners, pa.array(np.arange(100)))
    assert [hashed_rows(owners, wider, monkeypatch) for _ in range(4)] == [400, 824, 0, 0]


def test_keys_a_little_beyond_those_seen_are_not_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    owners = KeyOwners(OWNERS)
    for _ in range(20):
        check(owners, pa.array(np.arange(1000) + 500))
    assert hashed_rows(owners, pa.array(np.arange(1000 + 2 * 31) + 500 - 31), monkeypatch) == 0
    assert hashed_rows(owners, pa.array([500 - 32, 1500]), monkeypatch) == 2


@pytest.mark.parametrize(("low", "places"), [(0, 103), (2, 105), (3, 106), (-1, 106)])
def test_the_table_begins_at_0_where_no_key_is_below(low: int, places: int, monkeypatch: pytest.MonkeyPatch) -> None:
    owners, keys = KeyOwners(OWNERS), pa.array(np.arange(100) + low)
    assert [hashed_rows(owners, keys, monkeypatch) for _ in range(3)] == [100, 100 + places, 0]


@pytest.mark.parametrize("low", [-HIGHEST - 1, HIGHEST - 99], ids=["lowest", "highest"])
def test_there_is_no_place_beyond_the_last_integer(low: int, monkeypatch: pytest.MonkeyPatch) -> None:
    owners = KeyOwners(OWNERS)
    keys = pa.array([low + place for place in range(100)], pa.int64())
    assert [hashed_rows(owners, keys, monkeypatch) for _ in range(3)] == [100, 203, 0]


@pytest.mark.parametrize(
    "columns",
    [
        [np.arange(start, start + 100) for start in range(0, 30_000, 100)],
        [np.arange(100) * 10**6 for _ in range(300)],
    ],
    ids=["keys that never come again", "keys that lie far apart"],
)
def test_tables_cost_little_more_than_half_again(columns: list[np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    owners = KeyOwners(OWNERS)
    hashed = sum(hashed_rows(owners, pa.array(column), monkeypatch) for column in columns)
    assert 30_000 <= hashed <= 30_000 * (1 + 17 / 32)
