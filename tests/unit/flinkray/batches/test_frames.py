from __future__ import annotations

import pyarrow as pa
import pytest

from flinkray.batches.frames import as_frame

KINDS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_whole_numbers_beside_nulls_stay_what_they_are(kind: pa.DataType) -> None:
    most = 2 ** (kind.bit_width - pa.types.is_signed_integer(kind)) - 1
    table = pa.table({"x": ["a", "b"], "n": pa.array([most, None], kind), "m": pa.array([most, 1], kind)})
    frame = as_frame(table)
    assert frame.columns.tolist() == ["x", "n", "m"]
    assert [str(each).lower() for each in frame.dtypes[1:]] == [str(kind)] * 2
    assert frame["n"].isna().tolist() == [False, True]
    assert (frame["n"][0], frame["m"].tolist()) == (most, [most, 1])


def test_a_frame_has_as_many_rows_as_the_table_whatever_its_columns_are() -> None:
    numbers = pa.array([1, None])
    assert as_frame(pa.table([numbers, numbers], ["n", "n"])).shape == (2, 2)
    assert as_frame(pa.table({"n": pa.array([None, None], pa.int64())}))["n"].isna().all()
    assert as_frame(pa.table({"n": pa.array([], pa.int64())})).shape == (0, 1)
    lists = as_frame(pa.table({"n": pa.array([[2**60 + 1, None], None])}))
    assert list(lists["n"][0]) == [2**60 + 1, None]
