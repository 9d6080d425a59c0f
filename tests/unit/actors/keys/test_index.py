"""Numbers of keys: against a dict, over several batches."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.keys.hashes import key_hashes
from actors.keys.index import KeyIndex
from flinkray.errors import TypeMismatchError
from tests.support.versions import arrow_array

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
    pa.int8(): st.integers(-128, 127),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.bool_(): st.booleans(),
    pa.float64(): st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf]) | st.floats(),
    pa.string(): st.sampled_from(["", "a", "b", "ab"]) | st.text(max_size=3),
    pa.binary(): st.binary(max_size=2),
    pa.timestamp("ms"): st.integers(0, 5),
    pa.decimal128(10, 2): st.sampled_from([Decimal("1.10"), Decimal("0"), Decimal("-2.50")]),
    pa.uuid(): st.sampled_from([UUID(int=0), UUID(int=2**127), UUID(int=7)]),
    pa.list_(pa.int64()): st.lists(st.integers(0, 1), max_size=2),
}


def same_key(value: Any) -> Any:
    """Python's own idea of equal keys, with NaN equal to itself."""
    if isinstance(value, list):
        return tuple(value)
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


@st.composite
def key_batches(draw: st.DrawFn) -> list[pa.RecordBatch]:
    types = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    batches = []
    for _ in range(draw(st.integers(1, 4))):
        rows = draw(st.integers(0, 12))
        columns = [
            arrow_array(draw(st.lists(st.none() | VALUES[arrow_type], min_size=rows, max_size=rows)), arrow_type)
            for arrow_type in types
        ]
        batches.append(pa.RecordBatch.from_arrays(columns, names=[f"k{i}" for i in range(len(types))]))
    return batches


@given(key_batches(), st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_keys_are_numbered_in_order_of_arrival_and_keep_their_number(batches: list[pa.RecordBatch], skip: int) -> None:
    index, model = KeyIndex(), dict[Any, int]()
    for batch in batches:
        sliced = batch.slice(min(skip, batch.num_rows))
        rows = [tuple(same_key(value) for value in row.values()) for row in sliced.to_pylist()]
        expected = [model.setdefault(row, len(model)) for row in rows]
        assert index.ids(sliced).tolist() == expected
    assert len(index) == len(model)
    keys = index.key_columns()
    if keys is not None:
        assert [tuple(same_key(value) for value in row.values()) for row in keys.to_pylist()] == list(model)


def one(values: Any, arrow_type: pa.DataType | None = None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, arrow_type)], names=["k"])


def test_keys_that_have_no_room_in_one_array_are_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.columns.large_columns._MOST_BYTES", 100)
    index = KeyIndex()
    texts = [f"key {number}" for number in range(60)]
    for start in range(0, 60, 3):
        index.ids(one(texts[start : start + 3]))
    keys = index.key_columns()
    assert keys.column(0).num_chunks > 4
    assert keys.column(0).type == pa.string()
    assert keys.column(0).to_pylist() == texts
    places = np.array([50, 3, 3, 0, 59, 50])
    assert index.take(places).column(0).to_pylist() == [texts[place] for place in places]
    assert index.take(slice(10, 40)).column(0).to_pylist() == texts[10:40]
    index.retain(np.arange(1, 60, 2))
    assert index.key_columns().column(0).to_pylist() == texts[1::2]
    assert index.ids(one([texts[3], "new", texts[1]])).tolist() == [1, 30, 0]


def test_a_long_key_that_is_asked_for_often_comes_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.columns.large_columns._MOST_BYTES", 100)
    index = KeyIndex()
    index.ids(one(["a long key " * 5, "short"]))
    found = index.take(np.array([0, 1, 0, 0])).column(0)
    assert found.num_chunks == 3
    assert found.to_pylist() == ["a long key " * 5, "short", "a long key " * 5, "a long key " * 5]


def test_many_keys_make_the_table_grow_without_losing_any() -> None:
    index = KeyIndex()
    rng = np.random.default_rng(7)
    words = np.unique(rng.integers(-(2**62), 2**62, 50_000))
    rng.shuffle(words)
    first = index.ids(one(words[:30_000]))
    assert first.tolist() == list(range(30_000))
    assert index.ids(one(words)).tolist() == list(range(len(words)))
    assert index.ids(one(words[::-1].copy())).tolist() == list(range(len(words)))[::-1]


def test_a_key_keeps_its_number_when_its_column_widens() -> None:
    index = KeyIndex()
    assert index.ids(one([None, None])).tolist() == [0, 0]
    assert index.ids(one([1, None, 2])).tolist() == [1, 0, 2]
    assert index.ids(one([2.0, 2.5, None])).tolist() == [2, 3, 0]
    assert index.ids(one([1], pa.int32())).tolist() == [1]
    assert index.key_columns().column(0).to_pylist() == [None, 1.0, 2.0, 2.5]


def test_keys_of_an_extension_type_keep_it() -> None:
    index = KeyIndex()
    flags = pa.array([True, False, None, True]).cast(pa.bool8())
    assert index.ids(pa.RecordBatch.from_arrays([flags], names=["k"])).tolist() == [0, 1, 2, 0]
    assert index.key_columns().column(0).type == pa.bool8()
    assert index.key_columns().column(0).to_pylist() == [True, False, None]


def test_integers_and_decimals_are_the_same_keys_where_they_are_equal() -> None:
    index, wide = KeyIndex(), pa.decimal128(38, 20)
    assert index.ids(one([5, None, 7])).tolist() == [0, 1, 2]
    assert index.ids(one([Decimal(7), Decimal("7.5"), None], wide)).tolist() == [2, 3, 1]
    assert index.ids(one([5, 8])).tolist() == [0, 4]
    assert index.key_columns().column(0).to_pylist() == [5, None, 7, Decimal("7.5"), 8]


def test_a_decimal_that_the_merged_type_cannot_hold_is_refused_by_the_columns_name() -> None:
    index = KeyIndex()
    index.ids(one([Decimal("0.5")], pa.decimal128(38, 20)))
    with pytest.raises(TypeMismatchError, match="key column 'k' of"):
        index.ids(one([Decimal(10**30)], pa.decimal128(38, 0)))


def test_a_dictionary_column_has_the_keys_of_its_values() -> None:
    index = KeyIndex()
    assert index.ids(one(["x", "y"])).tolist() == [0, 1]
    unused_and_repeated = pa.DictionaryArray.from_arrays(pa.array([2, 1, 1]), pa.array(["unused", "y", "x"]))
    assert index.ids(pa.RecordBatch.from_arrays([unused_and_repeated], names=["k"])).tolist() == [0, 1, 1]
    assert len(index) == 2


def test_what_a_schema_says_besides_types_may_change() -> None:
    index, values = KeyIndex(), [pa.array([1, 2]), pa.array([3])]
    index.ids(pa.RecordBatch.from_arrays(values[:1], names=["k"]))
    strict = pa.schema([pa.field("k", pa.int64(), nullable=False)], {"about": "rows"})
    assert index.ids(pa.RecordBatch.from_arrays(values[1:], schema=strict)).tolist() == [2]
    assert index.key_columns().equals(one([1, 2, 3]), check_metadata=True)


def test_a_key_column_that_turns_from_text_to_number_is_refused_by_name() -> None:
    index = KeyIndex()
    index.ids(one(["x"]))
    with pytest.raises(TypeMismatchError, match="key column 'k' was string and is int64"):
        index.ids(one([1]))


def test_retained_keys_are_numbered_anew_and_the_others_forgotten() -> None:
    index = KeyIndex()
    index.ids(one([10, 20, 30]))
    index.retain(np.array([2, 0]))
    assert index.ids(one([10, 20, 30])).tolist() == [1, 2, 0]
    assert index.take(np.array([2, 2, 0])).column(0).to_pylist() == [20, 20, 30]


def test_texts_with_one_hash_are_numbered_in_order_of_arrival_too() -> None:
    """A text of eight bytes is known by them, a longer one by its hash: which is the other's bytes here."""
    long = b"a long text"
    own_hash = int(key_hashes(one([long], pa.binary()))[0]).to_bytes(8, "little")
    assert not own_hash.endswith(b"\0")
    arrived = one([b"x", long, b"y", own_hash, long, b"z"], pa.binary())
    index = KeyIndex()
    assert index.ids(arrived).tolist() == [0, 1, 2, 3, 1, 4]
    assert index.ids(one([b"new", own_hash, long], pa.binary())).tolist() == [5, 3, 1]
    assert index.take(np.array([5, 3, 1])).column(0).to_pylist() == [b"new", own_hash, long]
    index.retain(np.array([1, 3, 4]))
    assert index.ids(arrived).tolist() == [3, 0, 4, 1, 0, 2]
    both = pa.RecordBatch.from_arrays([*arrived.columns, pa.array([1, 1, 1, 1, 2, 1])], names=["k", "n"])
    assert KeyIndex().ids(both).tolist() == [0, 1, 2, 3, 4, 5]
