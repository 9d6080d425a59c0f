"""Text that has no room in one array: with room for a few bytes instead of gigabytes."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from actors.columns.large_columns import (
    as_columns,
    batches_of,
    coalesced,
    enlarged,
    narrowed,
    narrowed_lists,
    take_batch,
    take_column,
    take_distinct_rows,
    take_repeated_rows,
    take_rows_as_table,
)

TEXTS = ["a", None, "bcd", "", "efghij", "k", "", None, "lm"]
TYPES = [pa.string(), pa.binary(), pa.large_string(), pa.int64(), pa.list_(pa.string())]


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.columns.large_columns._MOST_BYTES", 4)


def of_type(arrow_type: pa.DataType) -> pa.Array:
    if pa.types.is_list(arrow_type):
        return pa.array([text if text is None else [text] for text in TEXTS], arrow_type)
    if pa.types.is_integer(arrow_type):
        return pa.array([text if text is None else len(text) for text in TEXTS], arrow_type)
    return pa.array(TEXTS, pa.string()).cast(arrow_type)


@pytest.mark.parametrize("arrow_type", [pa.string(), pa.binary()])
def test_what_has_no_room_in_one_array_comes_in_chunks_that_have(arrow_type: pa.DataType) -> None:
    values = of_type(arrow_type)
    large = enlarged(values)
    assert large.type in (pa.large_string(), pa.large_binary())
    for first in range(len(values)):
        column = narrowed(large.slice(first), arrow_type)
        assert column.type == arrow_type
        assert column.to_pylist() == values.to_pylist()[first:]
        for chunk in getattr(column, "chunks", [column]):
            texts = [text for text in chunk.to_pylist() if text]
            assert sum(map(len, texts)) <= 4 or len(texts) == 1
    assert isinstance(narrowed(large, arrow_type), pa.ChunkedArray)
    assert isinstance(narrowed(large.slice(0, 2), arrow_type), pa.Array)


def test_lists_are_cut_between_two_of_them() -> None:
    large = enlarged(of_type(pa.string()))
    offsets = np.array([0, 2, 2, 5, 6, 9])
    is_null = np.array([False, True, False, False, False])
    lists = narrowed_lists(offsets, large, is_null, pa.string())
    assert lists.type == pa.list_(pa.string())
    assert lists.num_chunks > 1
    assert lists.to_pylist() == [["a", None], None, ["bcd", "", "efghij"], ["k"], ["", None, "lm"]]


@pytest.mark.parametrize("arrow_type", TYPES)
@pytest.mark.parametrize("cuts", [[], [3], [0, 3, 3, 8]])
def test_rows_are_taken_from_all_chunks_in_the_order_asked_for(arrow_type: pa.DataType, cuts: list[int]) -> None:
    values = of_type(arrow_type)
    chunks = [values[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(values)], strict=True)]
    column = pa.chunked_array(chunks) if cuts else values
    places = np.array(random.Random(3).choices(range(len(values)), k=40))
    found = take_column(column, places)
    assert found.type == arrow_type
    assert found.to_pylist() == [values[place].as_py() for place in places]
    table = take_rows_as_table(pa.table({"value": column}, metadata={"kept": "yes"}), places)
    assert table.column("value").to_pylist() == found.to_pylist()
    assert table.schema.metadata == {b"kept": b"yes"}
    assert take_column(column, places[:0]).to_pylist() == []


def test_rows_of_a_table_in_chunks_become_one_batch_if_they_are_few() -> None:
    table = pa.table({"text": pa.chunked_array([TEXTS[:4], TEXTS[4:]]), "number": range(len(TEXTS))})
    batch = take_batch(as_columns(table), np.array([8, 0, 5, 0]))
    assert batch.to_pydict() == {"text": ["lm", "a", "k", "a"], "number": [8, 0, 5, 0]}
    assert as_columns(table) is table
    assert as_columns(table.slice(4)).to_pydict() == {"text": TEXTS[4:], "number": [4, 5, 6, 7, 8]}
    assert isinstance(as_columns(table.slice(0, 0)), pa.RecordBatch)
    assert take_distinct_rows(as_columns(table), np.array([6, 3])).to_pydict() == {"text": ["", ""], "number": [6, 3]}


def test_rows_that_are_repeated_until_there_is_no_room_for_them_become_a_table() -> None:
    batch = pa.record_batch({"text": ["a", "b"], "number": [1, 2]}).slice(1)
    many = take_repeated_rows(batch, np.array([0] * 9))
    assert isinstance(many, pa.Table)
    assert many.to_pydict() == {"text": ["b"] * 9, "number": [2] * 9}
    assert many.column("text").num_chunks > 1
    assert isinstance(take_repeated_rows(batch.select(["number"]), np.array([0] * 9)), pa.RecordBatch)
    assert take_repeated_rows(as_columns(many), np.array([8, 0])).to_pydict() == {"text": ["b"] * 2, "number": [2] * 2}


def test_batches_are_put_together_as_far_as_there_is_room() -> None:
    def batches(*texts: str) -> list[pa.RecordBatch]:
        return [pa.record_batch({"number": pa.array([1]), "text": pa.array([text])}) for text in texts]

    # Offsets and data count: 8 bytes and as many as there are characters.
    assert [batch.num_rows for batch in coalesced(batches("a", "b", "c"))] == [1, 1, 1]
    numbers = [batch.select(["number"]) for batch in batches("a", "b", "c")]
    assert [batch.num_rows for batch in coalesced(numbers)] == [3], "of fixed width there is room for all"
    assert coalesced([]) == []


def test_columns_in_different_chunks_become_batches() -> None:
    columns = [pa.chunked_array([[1, 2], [3]]), pa.array(["a", "b", "c"]), pa.chunked_array([["x"], ["y", "z"]])]
    batches = batches_of(columns, ["n", "t", "u"])
    assert [row for batch in batches for row in batch.to_pylist()] == [
        {"n": 1, "t": "a", "u": "x"},
        {"n": 2, "t": "b", "u": "y"},
        {"n": 3, "t": "c", "u": "z"},
    ]
    assert [batch.num_rows for batch in batches_of([pa.array([1, 2])], ["n"])] == [2]
