"""What a batch says that its rows take is what Arrow says, also where nobody added it up."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from actors.columns.take import take_rows
from actors.network.flow.buffers import Buffer
from flinkray.batches.batch import Batch
from flinkray.types.records import Kind

ROWS = 1_000
NUMBERS = np.arange(ROWS)
COLUMNS: dict[str, pa.Array] = {
    "integers": pa.array(NUMBERS),
    "small": pa.array(NUMBERS % 100, pa.int8()),
    "doubles": pa.array(NUMBERS * 0.5),
    "decimals": pa.array(NUMBERS).cast(pa.decimal128(20, 1)),
    "times": pa.array(NUMBERS, pa.timestamp("ms")),
    "texts": pa.array(["x" * (number % 50) for number in range(ROWS)]),
    "lists": pa.array([[1] * (number % 5) for number in range(ROWS)]),
}


def batch_of(*names: str) -> Batch:
    data = pa.RecordBatch.from_pydict({name: COLUMNS[name] for name in names})
    return Batch(data, Kind.ROW, COLUMNS["integers"], pa.RecordBatch.from_pydict({"key": COLUMNS["doubles"]}))


def arrows(batch: Batch) -> int:
    assert batch.timestamps is not None
    assert batch.keys is not None
    return int(batch.data.nbytes + batch.timestamps.nbytes + batch.keys.nbytes)


@pytest.mark.parametrize(
    "names", [(name,) for name in COLUMNS] + [("small", "decimals", "times"), ("integers", "texts")]
)
@pytest.mark.parametrize("is_asked_before", [True, False])
def test_slices_and_rows_that_are_taken(names: tuple[str, ...], is_asked_before: bool) -> None:
    whole = batch_of(*names)
    if is_asked_before:
        assert whole.nbytes == arrows(whole)
    for part in (whole.slice(0, 1), whole.slice(17, 301), whole.slice(17, 301).slice(100), whole.slice(5, 0)):
        assert part.nbytes == arrows(part)
    taken = take_rows(whole, np.array([999, 3, 3, 500]))
    assert taken.nbytes == arrows(taken)


def test_nulls_cost_their_bits_at_most() -> None:
    values = pa.array(NUMBERS, mask=NUMBERS % 3 == 0)
    whole = Batch(pa.RecordBatch.from_pydict({"v": values}), Kind.ROW)
    assert whole.nbytes == whole.data.nbytes
    part = whole.slice(10, 500)
    assert abs(part.nbytes - part.data.nbytes) <= 2


def test_columns_of_bits_with_nulls_beside_others() -> None:
    flags = pa.array(NUMBERS % 2 == 0, mask=NUMBERS % 5 == 0)
    columns = {"flags": flags, "days": pa.array(NUMBERS, pa.int32()).cast(pa.date32()), "v": COLUMNS["doubles"]}
    whole = Batch(pa.RecordBatch.from_pydict(columns), Kind.ROW, 7, pa.RecordBatch.from_pydict({"key": flags}))
    assert whole.nbytes == 4 * 125 + 4 * ROWS + 8 * ROWS
    assert whole.nbytes == whole.data.nbytes + whole.keys.nbytes
    few = Batch(pa.record_batch({"flags": pa.array([True, False, True])}), Kind.ROW)
    assert few.nbytes == few.data.nbytes == 1


@pytest.mark.parametrize(
    "arrow_type", [pa.null(), pa.binary(5), pa.list_(pa.int8(), 3), pa.dictionary(pa.int8(), pa.string())], ids=str
)
def test_other_columns_are_left_to_arrow(arrow_type: pa.DataType) -> None:
    whole = Batch(pa.RecordBatch.from_arrays([pa.nulls(ROWS, arrow_type)], names=["v"]), Kind.ROW)
    assert whole.nbytes == whole.data.nbytes
    assert not whole.has_even_rows


def test_batches_that_were_put_together() -> None:
    parts = [batch_of("integers", "texts").slice(start, 300) for start in (0, 300, 600)]
    together = Buffer(parts, None, 900, sum(part.nbytes for part in parts)).batch
    assert together.num_rows == 900
    assert abs(together.nbytes - arrows(together)) <= 8, "each text array has an offset more than texts"
