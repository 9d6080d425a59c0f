from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from flinkray import CanalJsonFormat, JsonFormat

SCHEMA = pa.schema(
    {
        "n": pa.int32(),
        "x": pa.float64(),
        "b": pa.bool_(),
        "s": pa.string(),
        "d": pa.decimal128(10, 2),
        "l": pa.list_(pa.int64()),
        "m": pa.map_(pa.string(), pa.int64()),
        "r": pa.struct({"n": pa.int64(), "s": pa.string()}),
    }
)


def read(*texts: str) -> list[dict[str, Any]]:
    found = JsonFormat(SCHEMA).decode(pa.array([text.encode() for text in texts], pa.large_binary())).to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in found]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("n", '"12"', 12),
        ("n", '" -12 "', -12),
        ("n", "12.0", 12),
        ("n", "12e2", 1200),
        ("x", '"1.5"', 1.5),
        ("x", '"-Infinity"', float("-inf")),
        ("b", '"TRUE"', True),
        ("s", "12.50", "12.50"),
        ("s", "12345678901234567890123", "12345678901234567890123"),
        ("s", "false", "false"),
        ("s", '{"b": [1, 2.50, "ü"], "a": null}', '{"b":[1,2.50,"ü"],"a":null}'),
        ("d", '"1e1"', Decimal("10.00")),
        ("l", '[1, "2", null]', [1, 2, None]),
        ("m", '{"a": "1", "b": 2}', [("a", 1), ("b", 2)]),
        ("r", '{"n": "1", "s": 2}', {"n": 1, "s": "2"}),
    ],
)
def test_a_value_of_another_type_is_the_one_of_the_column_that_it_equals(name: str, text: str, value: Any) -> None:
    other = {"n": 1, "s": "12.50", "q": [1.50]}
    assert read(f'{{"{name}": {text}, "q": 1}}', json.dumps(other)) == [{name: value}, {"n": 1, "s": "12.50"}]


@pytest.mark.parametrize("text", ['"n": "12.7"', '"n": 12.7', '"n": true', '"b": 1', '"n": "9999999999"', '"l": "[1]"'])
def test_a_value_that_equals_none_of_its_column_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|int"):
        read(f'{{{text}, "s": 5}}')


def test_a_number_in_quotes_is_written_as_flink_reads_one() -> None:
    written = ["1.5", " 7 ", "+.5", "5.", "-1E3", "-Infinity", "1e999"]
    assert [read(f'{{"x": "{text}"}}')[0]["x"] for text in written] == [float(text) for text in written]
    assert str(read('{"x": "NaN"}')[0]["x"]) == "nan"
    for text in ("1_000", "１２", "inf", "infinity", "nan", "", ".", "e5", "1e", "0x1", "1 2"):
        with pytest.raises(ValueError, match="JSON"):
            read(f'{{"x": "{text}"}}')


def test_changes_are_read_as_canal_writes_them_all_as_text() -> None:
    rows = CanalJsonFormat(pa.schema({"id": pa.int64(), "price": pa.float64(), "name": pa.string()}))
    data = {"id": "1", "price": "2.5", "name": "12"}
    update = {"type": "UPDATE", "data": [data], "old": [{"price": "2.0"}], "isDdl": False}
    changes = rows.decode_changes(pa.array([json.dumps(update).encode()], pa.large_binary()))
    assert changes.kinds.to_pylist() == [1, 2]
    assert changes.data.to_pylist() == [{"id": 1, "price": 2.0, "name": "12"}, {"id": 1, "price": 2.5, "name": "12"}]
