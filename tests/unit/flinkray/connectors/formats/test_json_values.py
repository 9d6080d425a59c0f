from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from flinkray import CanalJsonFormat, DebeziumJsonFormat, JsonFormat, MaxwellJsonFormat, OggJsonFormat
from flinkray.connectors.formats.json_lines import from_json_lines

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


MORE_DIGITS = pa.schema(
    {
        "n": pa.int64(),
        "d": pa.decimal128(5, 2),
        "l": pa.list_(pa.decimal128(5, 2)),
        "t": pa.timestamp("ms"),
        "s": pa.timestamp("s", "UTC"),
        "c": pa.time32("ms"),
    }
)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("n", "12.7", 12),
        ("n", "-1.9", -1),
        ("d", "1.005", Decimal("1.01")),
        ("d", '"-12.345"', Decimal("-12.35")),
        ("d", "999.994", Decimal("999.99")),
        ("d", "999.995", None),
        ("d", "1000", None),
        ("d", '"1e9"', None),
        ("l", '[1.005, 1000, "2.5"]', [Decimal("1.01"), None, Decimal("2.50")]),
        ("t", '"2024-02-29 10:20:30.123999"', datetime.datetime(2024, 2, 29, 10, 20, 30, 123_000)),
        ("t", '"2024-02-29T10:20:30.1239"', datetime.datetime(2024, 2, 29, 10, 20, 30, 123_000)),
        ("s", '"2024-02-29 10:20:30.9Z"', datetime.datetime(2024, 2, 29, 10, 20, 30, tzinfo=datetime.UTC)),
        ("c", '"10:20:30.123999"', datetime.time(10, 20, 30, 123_000)),
    ],
)
def test_a_value_with_more_digits_than_its_type_is_rounded_or_cut_where_that_is_asked_for(
    name: str, text: str, value: Any
) -> None:
    message = pa.array([f'{{"{name}": {text}}}'.encode(), b'{"n": 1}'], pa.large_binary())
    assert JsonFormat(MORE_DIGITS, rounds=True).decode(message).column(name)[0].as_py() == value
    with pytest.raises(ValueError, match=r"JSON|decimal|timestamp"):
        JsonFormat(MORE_DIGITS).decode(message)


def test_a_value_that_is_none_of_its_type_is_null_where_that_is_asked_for() -> None:
    lenient = JsonFormat(SCHEMA, bad_values="null")
    wanted = {
        '"n": "x", "s": 5': {"s": "5"},
        '"n": 2147483648, "x": 1.5': {"x": 1.5},
        '"n": [1], "b": true': {"b": True},
        '"l": [1, "q", 3]': {"l": [1, None, 3]},
        '"l": 5, "n": 1': {"n": 1},
        '"m": {"a": "x", "b": 2}': {"m": [("a", None), ("b", 2)]},
        '"r": {"n": "bad", "s": "k"}': {"r": {"n": None, "s": "k"}},
        '"r": 7, "d": 1.005': {},
    }
    messages = pa.array([f"{{{text}}}".encode() for text in wanted], pa.large_binary())
    rows = lenient.decode(messages).to_pylist()
    assert [{name: value for name, value in row.items() if value is not None} for row in rows] == [*wanted.values()]
    for text in (b"nope", b"[1]", b'{"n": 1', b'{"s": ' + b"[" * 9_000 + b"]" * 9_000 + b"}"):
        with pytest.raises(ValueError, match=r"object|Expecting|nested too deeply"):
            lenient.decode(pa.array([b'{"n": 1}', text], pa.large_binary()))
    with pytest.raises(ValueError, match=r"JsonFormat\(bad_values=...\) is 'fail' or 'null', not 'skip'"):
        JsonFormat(SCHEMA, bad_values="skip")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="exclude each other"):
        JsonFormat(SCHEMA, fail_on_missing_field=True, bad_values="null")


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


def test_control_characters_are_read_as_they_are_in_text() -> None:
    schema = pa.schema([("t", pa.string()), ("n", pa.int64())])
    read = from_json_lines(b'{"t":"a\tb\x01","n":1}\n{"t":"c",\t"n":2}', schema)
    assert read.to_pylist() == [{"t": "a\tb\x01", "n": 1}, {"t": "c", "n": 2}]
    assert JsonFormat(schema, bad_values="null").decode(
        pa.array([b'{"t":"a\tb","n":"x"}'], pa.large_binary())
    ).to_pylist() == [{"t": "a\tb", "n": None}]


def test_a_line_break_in_text_is_read_as_it_is() -> None:
    texts = ["a\\n", "b\nc", "\r\n", '\\"\n', "\\\\", "d\t\r"]
    messages = [f'{{\n"n": 1,\r\n"t": "{text}"\n}}'.encode() for text in texts]
    read = JsonFormat({"t": str, "n": int}).decode(pa.array(messages, pa.large_binary())).to_pylist()
    assert read == [{"t": text, "n": 1} for text in ("a\n", "b\nc", "\r\n", '"\n', "\\", "d\t\r")]


def test_a_list_is_no_map() -> None:
    schema = pa.schema([("m", pa.map_(pa.string(), pa.int64())), ("n", pa.int64())])
    for text in (b'{"m":[],"n":1}', b'{"m":[{"key":"a","value":1}],"n":1}'):
        with pytest.raises(ValueError, match="a map is an object, and there is a list"):
            from_json_lines(text, schema)
        lenient = JsonFormat(schema, bad_values="null")
        assert lenient.decode(pa.array([text], pa.large_binary())).to_pylist() == [{"m": None, "n": 1}]


def test_values_of_changes_are_rounded_or_null_where_that_is_asked_for() -> None:
    rows = JsonFormat({"n": int, "d": pa.decimal128(5, 2)}, rounds=True, bad_values="null")
    old, new = b'{"n":1,"d":"1.005"}', b'{"n":"x","d":2.5}'
    for changes, message in (
        (DebeziumJsonFormat(rows), b'{"op":"u","before":%s,"after":%s}' % (old, new)),
        (OggJsonFormat(rows), b'{"op_type":"U","before":%s,"after":%s}' % (old, new)),
        (CanalJsonFormat(rows), b'{"type":"UPDATE","old":[%s],"data":[%s]}' % (old, new)),
        (MaxwellJsonFormat(rows), b'{"type":"update","old":%s,"data":%s}' % (old, new)),
    ):
        found = changes.decode_changes(pa.array([message], pa.large_binary())).data.to_pylist()
        assert found == [{"n": 1, "d": Decimal("1.01")}, {"n": None, "d": Decimal("2.50")}], type(changes).__name__
