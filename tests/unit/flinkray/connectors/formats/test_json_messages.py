"""Messages of JSON: zones of timestamps, numbers that are none, arrays of rows, and fields that are not there."""

from __future__ import annotations

import datetime
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import flinkray.connectors.formats.json
from flinkray import JsonFormat
from flinkray.connectors.formats.message_format import decode_each
from flinkray.connectors.formats.nested_columns import retyped
from flinkray.testing import OneInputHarness


def messages(*each: bytes | None) -> pa.Array:
    return pa.array(each, pa.large_binary())


def test_a_timestamp_has_a_zone_in_json_just_where_its_column_has_one_if_it_is_read_as_flink_does() -> None:
    noon = datetime.datetime(2024, 1, 2, 12)
    local, instant = pa.timestamp("ms"), pa.timestamp("ms", "UTC")
    for text, is_local, value in (
        ("2024-01-02 12:00:00", True, noon),
        ("2024-01-02T12:00:00Z", False, noon),
        ("2024-01-02T14:00:00+02:00", False, noon),
    ):
        for kind in (local, instant):
            is_read = (kind == local) == is_local
            schema = pa.schema({"a": kind, "l": pa.list_(kind), "m": pa.map_(pa.string(), kind)})
            message = messages(f'{{"a":"{text}","l":["{text}"],"m":{{"k":"{text}"}}}}'.encode())
            assert len(decode_each(JsonFormat(schema), message).failures) == 0
            for name in schema.names:
                column = pa.schema([schema.field(name)])
                assert (len(decode_each(JsonFormat(column, rounds=True), message).failures) == 0) == is_read
            (row,) = JsonFormat(schema, rounds=True, bad_values="null").decode(message).to_pylist()
            found = row["a"] and row["a"].replace(tzinfo=None)
            assert found == (value if is_read else None)


def test_nan_and_infinity_are_text_in_json_that_is_written_as_flink_does() -> None:
    schema = pa.schema({"a": pa.float64(), "l": pa.list_(pa.float32()), "h": pa.float16()})
    rows: list[dict[str, Any]] = [
        {"a": float("-inf"), "l": [float("inf"), None, 1], "h": None},
        {"a": None, "l": [], "h": np.float16("inf")},
    ]
    data = pa.RecordBatch.from_pylist(rows, schema=schema)
    flinks = JsonFormat(schema, rounds=True)
    assert flinks.encode(data).to_pylist() == [
        b'{"a":"-Infinity","l":["Infinity",null,1.0],"h":null}',
        b'{"a":null,"l":[],"h":"Infinity"}',
    ]
    assert flinks.decode(flinks.encode(data)).equals(data)
    nan = pa.record_batch({"a": [float("nan"), 1.5]})
    assert JsonFormat(rounds=True).encode(nan).to_pylist() == [b'{"a":"NaN"}', b'{"a":1.5}']
    assert JsonFormat().encode(nan).to_pylist() == [b'{"a":null}', b'{"a":1.5}']


ARRAYS = messages(
    b'{"i":1}', None, b'[{"i":2},null,{"i":3}]', b" [\n]", b'[{"i":4,"t":"a\tb"}]', b'[{"i":5},6]', b"[null]"
)


def test_an_array_of_json_gives_a_row_for_each_of_its_objects() -> None:
    schema = {"i": int, "t": str}
    decoded = decode_each(JsonFormat(schema), ARRAYS)
    assert decoded.data.column("i").to_pylist() == [1, 2, 3, 4]
    assert decoded.data.column("t").to_pylist() == [None, None, None, "a\tb"]
    assert decoded.rows is not None
    assert decoded.rows.tolist() == [0, 2, 2, 4]
    assert [(each.index, each.reason) for each in decoded.failures] == [(5, "no JSON object: b'6'")]
    without_bad = decode_each(JsonFormat(schema, bad_values="null"), ARRAYS)
    assert without_bad.data.column("i").to_pylist() == [1, 2, 3, 4, 5]
    assert decode_each(JsonFormat(schema), messages(b"[]")).data.num_rows == 0
    for bad in (b'[{"i":1}', b'[{"i":1}] {"i":2}', b'[[{"i":1}]]', b"[" * 3_000 + b"]" * 3_000):
        assert len(decode_each(JsonFormat(schema), messages(bad)).failures) == 1


def test_where_each_message_is_to_give_one_row_an_array_cannot_be_read() -> None:
    decoded = decode_each(
        JsonFormat({"i": int}), messages(b'{"i":1}', b'[{"i":2}]', b'[{"i":3},{"i":4}]'), one_each=True
    )
    assert decoded.data.to_pylist() == [{"i": 1}]
    assert [each.index for each in decoded.failures] == [1, 2]


def test_rows_of_an_array_keep_columns_and_time_of_their_message() -> None:
    with OneInputHarness.of(lambda stream: stream.decode(JsonFormat({"i": int}), keep=["offset"])) as harness:
        values = pa.array([b'[{"i":1},{"i":2}]', b"[]", b'{"i":3}'], pa.binary())
        harness.process_batch(pa.record_batch({"value": values, "offset": [5, 6, 7]}), [1, 2, 3])
        assert [(row.offset, row.i) for row in harness.results()] == [(5, 1), (5, 2), (7, 3)]


def test_rows_with_nulls_are_not_looked_at_one_by_one_for_columns_that_they_lack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flinkray.connectors.formats.json, "_refuse_missing", None)
    schema = {"a": int, "field_0": list[int], "r": pa.struct([("x", pa.int64()), ("a b", pa.string())])}
    nulls = messages(b'{"a":null,"field_0":[null],"r":null}', b'{"r":{"x":null,"a b":"c"},"a":1,"field_0":[]}')
    assert JsonFormat(schema, fail_on_missing_field=True).decode(nulls).num_rows == 2


@pytest.mark.parametrize("name", ['we"ird', "a\\b", "é"])
def test_columns_of_any_name_are_looked_for(name: str) -> None:
    lines = JsonFormat({name: int, "b": int}, fail_on_missing_field=True)
    written = json.dumps({name: 1, "b": None}).encode()
    assert lines.decode(messages(written)).to_pylist() == [{name: 1, "b": None}]
    with pytest.raises(ValueError, match="there is no 'b' in"):
        lines.decode(messages(written, json.dumps({name: 1}).encode()))


@pytest.mark.parametrize("rounds", [False, True])
@pytest.mark.parametrize("key", [pa.float64(), pa.dictionary(pa.int32(), pa.float64())])
def test_a_key_that_is_no_number_is_quoted_once(key: pa.DataType, rounds: bool) -> None:
    kind = pa.map_(key, pa.int64())
    values = [[(float("nan"), 1), (1.0, 2), (float("-inf"), 3)]]
    array = pa.array(values, pa.map_(pa.float64(), pa.int64()))
    rows = pa.record_batch([retyped(array, kind, pa.Array.cast)], ["m"])
    (written,) = JsonFormat({"m": kind}, rounds=rounds).encode(rows).to_pylist()
    assert written == b'{"m":{"NaN":1,"1.0":2,"-Infinity":3}}'


TIMES = {"local": "2024-01-02 12:00:00.5", "instant": "2024-01-02T12:00:00.5Z"}
KINDS = {"local": pa.timestamp("ms"), "instant": pa.timestamp("ms", "UTC")}


def of_time(text: str) -> bytes:
    return json.dumps({"n": 1, "t": text, "l": [text], "m": {"k": text}, "r": {"t": text}}).encode()


@pytest.mark.parametrize(
    ("declared", "other", "words"),
    [
        ("local", "instant", "the text has a zone: declare TIMESTAMP_LTZ(3)"),
        ("instant", "local", "the text has no zone: declare TIMESTAMP(3)"),
    ],
)
def test_texts_with_another_zone_are_found_by_column(
    declared: str, other: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = KINDS[declared]
    nested = {"t": kind, "l": pa.list_(kind), "m": pa.map_(pa.string(), kind), "r": pa.struct([("t", kind)])}
    schema = pa.schema({"n": pa.int64(), **nested})
    good, bad = of_time(TIMES[declared]), of_time(TIMES[other])
    calls: list[int] = []
    read = flinkray.connectors.formats.json.from_json_lines

    def counted(*arguments: Any) -> pa.RecordBatch:
        calls.append(1)
        return read(*arguments)

    monkeypatch.setattr(flinkray.connectors.formats.json, "from_json_lines", counted)
    given = messages(*[good, bad, bad, good, b"[" + good + b"," + bad + b"]"] * 20, b"{")
    for name in nested:
        calls.clear()
        columns = pa.schema([schema.field("n"), schema.field(name)])
        found = decode_each(JsonFormat(columns, rounds=True), given[:100])
        assert [each.index % 5 for each in found.failures] == [1, 2, 4] * 20
        assert {each.reason for each in found.failures} == {f"column {name!r}: {words}"}
        assert found.rows is not None
        assert (found.rows % 5).tolist() == [0, 3] * 20
        assert "None" not in str(found.data.to_pylist())
        assert len(calls) == 2
        # What cannot be read otherwise is found among the others.
        found = decode_each(JsonFormat(columns, rounds=True), given)
        assert [each.index for each in found.failures][-2:] == [99, 100]
        calls.clear()
        rows = JsonFormat(columns, rounds=True, bad_values="null").decode(given[:4])
        assert len(calls) == 1
        assert ["None" in str(row) for row in rows.to_pylist()] == [False, True, True, False]
