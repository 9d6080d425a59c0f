"""What comes in is brought into layouts that Arrow's kernels know."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from flinkray.batches.normalization import LayoutNormalizer, normalized_schema, normalized_table
from flinkray.connectors.collection.source import ArrowSource
from flinkray.errors import TypeMismatchError
from tests.support.api import SourceRun

VIEW = pa.string_view()
COLUMNS: dict[str, tuple[pa.Array, pa.DataType]] = {
    "text": (pa.array(["a", None, "b" * 20], VIEW), pa.large_string()),
    "bytes": (pa.array([b"a", None, b"b" * 20], pa.binary_view()), pa.large_binary()),
    "decimal32": (pa.array([Decimal("1.5"), None], pa.decimal32(5, 1)), pa.decimal128(5, 1)),
    "decimal64": (pa.array([Decimal("1.5"), None], pa.decimal64(15, 1)), pa.decimal128(15, 1)),
    "runs": (pa.RunEndEncodedArray.from_arrays([2, 3, 7], pa.array([1, None, 3])), pa.int64()),
    "runs of text": (pa.RunEndEncodedArray.from_arrays([2, 3], pa.array(["a", None], VIEW)), pa.large_string()),
    "dictionary": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array(["a", "b"], VIEW)),
        pa.dictionary(pa.int8(), pa.large_string()),
    ),
    "list": (pa.array([["a"], None, []], pa.list_(VIEW)), pa.list_(pa.large_string())),
    "pairs": (pa.array([["a", "b"], None], pa.list_(VIEW, 2)), pa.list_(pa.large_string(), 2)),
    "struct": (
        pa.array([{"x": [["a"]]}, None], pa.struct([("x", pa.large_list(pa.list_(VIEW)))])),
        pa.struct([("x", pa.large_list(pa.list_(pa.large_string())))]),
    ),
    "map": (pa.array([[("a", "b")], None], pa.map_(VIEW, VIEW)), pa.map_(pa.large_string(), pa.large_string())),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("offset", [0, 1])
def test_values_stay_as_they_are(name: str, offset: int) -> None:
    column, expected = COLUMNS[name]
    column = column.slice(offset)
    data = pa.record_batch({"n": range(len(column)), "c": column})
    plain = LayoutNormalizer("here").normalize(data)
    plain.validate(full=True)
    assert plain.schema.types == [pa.int64(), expected]
    assert plain.to_pydict() == data.to_pydict()
    assert plain.take(pa.array([0])).to_pylist() == data.to_pylist()[:1]


def test_a_table_keeps_its_chunks_and_what_its_fields_say() -> None:
    field = pa.field("c", VIEW, metadata={"about": "text"})
    chunks: Any = [pa.array(["a"], VIEW), pa.array([], VIEW), pa.array(["b", None], VIEW)]
    table = normalized_table(pa.table([pa.chunked_array(chunks)], pa.schema([field])))
    assert table.schema.field("c").equals(field.with_type(pa.large_string()), check_metadata=True)
    assert [len(chunk) for chunk in table["c"].chunks] == [1, 0, 2]
    assert table.to_pydict() == {"c": ["a", "b", None]}


def test_what_is_plain_is_not_touched() -> None:
    schema = pa.schema(
        {
            "i": pa.int64(),
            "m": pa.map_(pa.string(), pa.int64()),
            "d": pa.dictionary(pa.int8(), pa.string()),
            "runs in lists": pa.list_(pa.run_end_encoded(pa.int32(), pa.int64())),
        }
    )
    assert normalized_schema(schema) is schema
    table = pa.table({"t": ["x"]})
    assert normalized_table(table) is table
    normalizer = LayoutNormalizer("here")
    for data in (pa.record_batch({"i": [1]}), pa.record_batch({"i": [2]}), pa.record_batch({"t": ["x"]})):
        assert normalizer.normalize(data) is data
    assert normalizer.normalize(pa.record_batch({"t": pa.array(["x"], VIEW)})).schema.types == [pa.large_string()]


def test_a_source_says_the_type_that_its_rows_come_in() -> None:
    source = ArrowSource(pa.table({"t": COLUMNS["text"][0]}))
    (batch,) = SourceRun(source).read_batches()
    assert source.output_type == batch.record_type
    assert batch.data.schema.types == [pa.large_string()]


def test_columns_of_one_name_are_refused() -> None:
    twice = pa.table([[1], [2], [3]], ["a", "b", "a"])
    with pytest.raises(TypeMismatchError, match="several columns 'a'; rename all but one: a, b, a"):
        ArrowSource(twice)
    with pytest.raises(TypeMismatchError, match="operator 'x': there are several columns 'a'"):
        LayoutNormalizer("operator 'x'").normalize(twice.to_batches()[0])
