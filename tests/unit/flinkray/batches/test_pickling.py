"""Python objects as bytes."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from actors.state.snapshots.pickling import dumps as dumps_for_state
from flinkray.batches.pickling import dumps
from tests.support.versions import ARROW

MANY = 10_000
ARRAYS = {
    "numbers": pa.array(np.arange(MANY)),
    "booleans": pa.array([True, None] * (MANY // 2)),
    "words": pa.array(["x", "yy"] * (MANY // 2)),
    "lists": pa.array([[1, 2], None] * (MANY // 2)),
    "pairs": pa.array([[1, 2], None] * (MANY // 2), pa.list_(pa.int64(), 2)),
    "structs": pa.array([{"a": 1, "b": "x"}, None] * (MANY // 2)),
    "maps": pa.array([[(1, 2)], None] * (MANY // 2), pa.map_(pa.int64(), pa.int64())),
    "codes": pa.array(["x", "yy"] * (MANY // 2)).dictionary_encode(),
    "extension": pa.array([b"0" * 16] * MANY, pa.uuid()),
    "nulls": pa.nulls(MANY),
}
if ARROW >= 24:  # which finds out which part of a buffer views of lists have
    ARRAYS["views"] = pa.array([[1, 2], None] * (MANY // 2), pa.list_view(pa.int64()))


@pytest.mark.parametrize("dump", [dumps, dumps_for_state])
@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("length", [0, 10])
def test_a_slice_of_an_array_is_pickled_without_its_neighbours(name: str, length: int, dump: Any) -> None:
    part = ARRAYS[name].slice(55, length)
    pickled = dump(part)
    again = pickle.loads(pickled)
    again.validate(full=True)
    assert again.equals(part)
    assert again.type == part.type
    assert len(pickled) < 1_000


@pytest.mark.parametrize("dump", [dumps, dumps_for_state])
def test_so_are_slices_of_tables_and_what_holds_them(dump: Any) -> None:
    table = pa.table(ARRAYS).replace_schema_metadata({"made": "here"}).slice(55, 10)
    batch = table.to_batches()[0]
    for part in (table, batch, table["words"]):
        pickled = dump(part)
        assert pickle.loads(pickled).equals(part)
        assert len(pickled) < 6_000
        for holder in ([part], {"part": part}, (1, part)):
            assert len(dump(holder)) < 6_000
    assert pickle.loads(dump(table)).schema.equals(table.schema, check_metadata=True)
    assert len(dump(pd.DataFrame({"a": pd.Series(ARRAYS["words"], dtype=pd.ArrowDtype(pa.string()))})[5:15])) < 3_000
    assert len(dump(np.arange(MANY)[5:15])) < 1_000


def test_an_array_that_is_no_slice_is_pickled_as_it_is() -> None:
    for array in ARRAYS.values():
        assert dumps(array) == pickle.dumps(array, protocol=5)


def test_a_function_says_in_which_file_it_is_and_so_do_those_within_it() -> None:
    def outer() -> Any:
        return lambda: 1 // 0

    again = pickle.loads(dumps(outer))
    assert again is not outer
    assert again.__code__.co_filename == again().__code__.co_filename == __file__
    with pytest.raises(ZeroDivisionError) as error:
        again()()
    assert "return lambda: 1 // 0" in str(error.getrepr())
