"""Rows as messages and back: whole batches at a time, each message for itself."""

from __future__ import annotations

import datetime
import json
import pickle
import re
import threading
import time
import uuid
from collections.abc import Iterator
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkray import (
    AvroFormat,
    CsvFormat,
    InvalidProgramError,
    JsonFormat,
    MessageFormat,
    OutputTag,
    RawFormat,
    RecordError,
    SchemaRegistry,
    TypeMismatchError,
    UnknownColumnError,
)
from flinkray.batches.value_columns import to_array
from flinkray.connectors.formats.message_format import decode_each
from flinkray.testing import OneInputHarness

ROWS = {"i": int, "t": str, "d": pa.decimal128(5, 2), "at": pa.timestamp("ms"), "ok": bool}
AVRO = {
    "type": "record",
    "name": "row",
    "fields": [{"name": "i", "type": ["null", "long"]}, {"name": "t", "type": ["null", "string"]}],
}


def messages(*each: bytes | None) -> pa.Array:
    return pa.array(each, pa.large_binary())


# -- there and back

rows = st.lists(
    st.fixed_dictionaries(
        {
            "i": st.none() | st.integers(-(2**63), 2**63 - 1),
            "t": st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\r\n")),
            "d": st.none() | st.integers(-99_999, 99_999).map(lambda cents: Decimal(cents).scaleb(-2)),
            "at": st.none() | st.datetimes(datetime.datetime(1900, 1, 1)).map(lambda at: at.replace(microsecond=0)),
            "ok": st.none() | st.booleans(),
        }
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("message_format", [JsonFormat(ROWS), CsvFormat(ROWS), CsvFormat(ROWS, "|", "'", "\\", "NULL")])
@given(rows=rows)
@settings(max_examples=60, deadline=None)
def test_rows_come_back_from_their_messages(message_format: MessageFormat, rows: list[dict[str, Any]]) -> None:
    batch = pa.RecordBatch.from_pylist(rows, schema=message_format.record_type.schema)
    written = message_format.encode(batch)
    assert len(written) == len(rows)
    assert message_format.decode(written).to_pylist() == rows
    for row, message in zip(rows, written, strict=True):
        assert message_format.decode(pa.array([message.as_py()], pa.large_binary())).to_pylist() == [row]


AVRO_TYPES: dict[str, tuple[Any, Any]] = {
    "int": ("int", 7),
    "double": ("double", 1.5),
    "bytes": ("bytes", b"\x00x"),
    "boolean": ("boolean", True),
    "decimal": ({"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}, Decimal("-1.25")),
    "instant": (
        {"type": "long", "logicalType": "timestamp-micros"},
        datetime.datetime(2026, 1, 2, 3, 4, 5, 6, datetime.UTC),
    ),
    "local": ({"type": "long", "logicalType": "local-timestamp-millis"}, datetime.datetime(2026, 1, 2, 3)),
    "date": ({"type": "int", "logicalType": "date"}, datetime.date(2026, 1, 2)),
    "time": ({"type": "long", "logicalType": "time-micros"}, datetime.time(1, 2, 3, 4)),
    "uuid": ({"type": "string", "logicalType": "uuid"}, uuid.UUID(int=5)),
    "enum": ({"type": "enum", "name": "colour", "symbols": ["RED", "BLUE"]}, "BLUE"),
    "fixed": ({"type": "fixed", "name": "code", "size": 3}, b"abc"),
    "array": ({"type": "array", "items": ["null", "string"]}, ["x", None]),
    "map": ({"type": "map", "values": "long"}, {"a": 1}),
    "record": ({"type": "record", "name": "inner", "fields": [{"name": "x", "type": "float"}]}, {"x": 0.5}),
}


@pytest.mark.parametrize("name", AVRO_TYPES)
def test_avro_values_come_back(name: str) -> None:
    avro_type, value = AVRO_TYPES[name]
    schema = {"type": "record", "name": "row", "fields": [{"name": "v", "type": ["null", avro_type]}]}
    message_format = pickle.loads(pickle.dumps(AvroFormat(json.dumps(schema))))
    column = to_array([value, None], message_format.record_type.schema.field("v").type)
    batch = pa.RecordBatch.from_arrays([column], schema=message_format.record_type.schema)
    assert message_format.decode(message_format.encode(batch)).equals(batch)


def test_an_avro_message_is_read_by_the_rules_of_resolution() -> None:
    newer = {**AVRO, "fields": [*AVRO["fields"], {"name": "more", "type": "int", "default": 3}]}
    written = AvroFormat(AVRO).encode(pa.record_batch({"i": [1], "t": ["x"]}))
    assert AvroFormat(newer, writer_schema=AVRO).decode(written).to_pylist() == [{"i": 1, "t": "x", "more": 3}]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("[", "is JSON"),
        ('"string"', "rows is a record, not string"),
        ({"type": "record", "name": "r", "fields": [{"name": "a", "type": ["int", "string"]}]}, "field a: .* union 2"),
        ({"type": "record", "name": "r", "fields": [{"name": "a", "type": "other"}]}, "field a: 'other' is no type"),
    ],
)
def test_an_avro_schema_without_columns_is_refused(schema: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AvroFormat(schema)


# -- what cannot be read


def test_a_decimal_of_csv_has_no_more_digits_than_its_type() -> None:
    lines = CsvFormat(pa.schema({"d": pa.decimal128(5, 2)}))
    assert lines.decode(pa.array([b"123.4"], pa.large_binary()))["d"].to_pylist() == [Decimal("123.40")]
    with pytest.raises(ValueError, match=r"does not fit in precision of decimal128\(5, 2\)"):
        lines.decode(pa.array([b"12345"], pa.large_binary()))


def test_values_of_csv_with_more_digits_than_their_type_are_rounded_or_cut_where_that_is_asked_for() -> None:
    schema = pa.schema(
        {"d": pa.decimal128(5, 2), "t": pa.timestamp("ms"), "c": pa.time32("s"), "l": pa.list_(pa.decimal128(3, 1))}
    )
    lines = messages(b"1.005,2024-02-29 10:20:30.123999,10:20:30.9,1.25;1000", b" 1000 ,,,")
    assert CsvFormat(schema, rounds=True).decode(lines).to_pylist() == [
        {
            "d": Decimal("1.01"),
            "t": datetime.datetime(2024, 2, 29, 10, 20, 30, 123_000),
            "c": datetime.time(10, 20, 30),
            "l": [Decimal("1.3"), None],
        },
        {"d": None, "t": None, "c": None, "l": None},
    ]
    with pytest.raises(ValueError, match="data loss"):
        CsvFormat(schema).decode(lines)
    with pytest.raises(ValueError, match=r"column 'd': .*'x'"):
        CsvFormat(schema, rounds=True).decode(messages(b"x,,,"))


def test_a_value_of_csv_that_is_none_of_its_type_is_null_where_that_is_asked_for() -> None:
    lenient = CsvFormat({"i": int, "t": str, "l": list[int], "at": datetime.time}, bad_values="null")
    at = datetime.time(10, 20, 30)
    assert [tuple(row.values()) for row in lenient.decode(
        messages(b"1,a,1;2,10:20:30", b"x,b,1;q,10:20:30", b"2,c", b'3,"d,e",,25:00:00')
    ).to_pylist()] == [
        (1, "a", [1, 2], at), (None, "b", [1, None], at), (2, "c", None, None), (3, "d,e", None, None)
    ]  # fmt: skip
    for line in (b"", b"1,a,,,5", b'1,"a'):
        with pytest.raises(ValueError, match="no line of 4 values"):
            lenient.decode(messages(b"1,a,,", line))
    with pytest.raises(ValueError, match="is 'fail' or 'null', not 'skip'"):
        CsvFormat({"i": int}, bad_values="skip")  # type: ignore[arg-type]


def test_bytes_are_base64_in_csv() -> None:
    lines = CsvFormat({"b": bytes, "l": list[bytes]})
    rows = [{"b": b"hi\xff", "l": [b"a", b"bc"]}, {"b": None, "l": None}, {"b": b"", "l": []}]
    written = lines.encode(pa.RecordBatch.from_pylist(rows, schema=lines.record_type.schema))
    assert written.to_pylist() == [b"aGn/,YQ==;YmM=", b",", b'"",""']
    assert lines.decode(written).to_pylist() == rows
    with pytest.raises(ValueError, match="bytes are read as Base64"):
        lines.decode(messages(b"*,"))


def test_lists_of_csv_have_a_delimiter_between_elements() -> None:
    schema = {"a": list[int], "t": list[str], "at": list[datetime.date]}
    rows = [
        {"a": [1, None, -3], "t": ["x", "", "y,z"], "at": [datetime.date(2024, 2, 29)]},
        {"a": None, "t": [], "at": None},
    ]
    for lines, wanted in (
        (CsvFormat(schema), [b'1;;-3,"x;;y,z",2024-02-29', b',"",']),
        (CsvFormat(schema, "|", null_text="-", element_delimiter="+ "), [b"1+ -+ -3|x+ + y,z|2024-02-29", b"-||-"]),
    ):
        written = lines.encode(pa.RecordBatch.from_pylist(rows, schema=lines.record_type.schema))
        assert written.to_pylist() == wanted
        assert lines.decode(written).to_pylist() == rows
    with pytest.raises(ValueError, match="'x;y' has ';' in it, which ends an element"):
        CsvFormat({"t": list[str]}).encode(pa.record_batch({"t": [["x;y"]]}))
    with pytest.raises(ValueError, match="'x'"):
        CsvFormat({"a": list[int]}).decode(messages(b"1;x"))


def test_lists_that_would_be_read_as_others_are_not_written_as_csv() -> None:
    every: list[list[str | None] | None] = [
        None,
        [],
        [None],
        [""],
        ["-"],
        [None, "a"],
        ["", ""],
        ["a", ""],
        ["a+"],
        ["a+", "b"],
    ]
    for null_text, refused in (
        ("", [[None], [""], [None, "a"], ["a+", "b"]]),
        ("-", [[""], ["-"], ["a+", "b"]]),
    ):
        for kind in (pa.string(), pa.large_string(), pa.string_view()):
            lines = CsvFormat(
                pa.schema({"n": pa.int64(), "t": pa.list_(kind)}), "|", null_text=null_text, element_delimiter="++"
            )
            for each in every:
                rows = pa.record_batch(
                    [pa.array([1]), pa.array([each], pa.list_(kind))], schema=lines.record_type.schema
                )
                if each in refused:
                    with pytest.raises(ValueError, match=r"'t': .* would be read as .*null_text"):
                        lines.encode(rows)
                else:
                    assert lines.decode(lines.encode(rows)).equals(rows), (null_text, kind, each)


BAD: dict[str, tuple[MessageFormat, list[bytes], list[bytes]]] = {
    "json": (
        JsonFormat({"i": int, "t": str}),
        [b'{"i":1}', b'{\n"i": 2, "other": [1]}\n', b"{}", b'{"i":"7","t":2.50}', '{"t":"ü\\n"}'.encode()],
        [
            b'{"t":"a","t":"b"}',
            b'{"t":' + b"[" * 9_000 + b"]" * 9_000 + b"}",
            b"",
            b" ",
            b"1",
            b"{",
            b"}",
            b'{"i":1}{"i":2}',
            b'{"i":"x"}',
            b'{"i":1}\n{',
            b"[1]",
            b'{"t":"\xff"}',
        ],
    ),
    "csv": (
        CsvFormat({"i": int, "t": str}),
        [b"1,x", b"2,\r\n", b',"a ""b"", c"'],
        [b"", b"1", b"1,2,3", b"x,1", b"1,a\nb", b"1,a\n2,b", b'1,"a', b'1,"a""', b'1,"a"b'],
    ),
    "csv with escapes": (
        CsvFormat({"i": int, "t": str}, "|", "'", "\\"),
        [b"1|x", b"2|'a|b'", b"3|'a\\'b'", b"4|5' disk", b"5|a\\|b"],
        [b"1|'a", b"1|'a\\'", b"1|2|3"],
    ),
    "avro": (
        AvroFormat(AVRO),
        AvroFormat(AVRO).encode(pa.record_batch({"i": [1, None], "t": ["x", None]})).to_pylist(),
        [b"", b"\x02", b"\x00\x00\x00", b"\x09\x09"],
    ),
    "text": (RawFormat(), [b"x", b""], [b"\xff"]),
}


@pytest.mark.parametrize("name", BAD)
@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_a_message_is_read_or_not_whatever_is_beside_it(name: str, data: st.DataObject) -> None:
    message_format, good, bad = BAD[name]
    drawn = data.draw(st.lists(st.sampled_from([*good, *bad, None]), max_size=12))
    decoded = decode_each(message_format, messages(*drawn))
    readable = [index for index, message in enumerate(drawn) if message in good]
    assert [each.index for each in decoded.failures] == [i for i, message in enumerate(drawn) if message in bad]
    assert all(each.reason for each in decoded.failures)
    rows = list(range(len(drawn))) if decoded.rows is None else decoded.rows.tolist()
    assert rows == readable
    assert decoded.data.schema.equals(message_format.record_type.schema)
    alone = [message_format.decode(messages(drawn[index])).to_pylist()[0] for index in readable]
    assert decoded.data.to_pylist() == alone


def test_what_cannot_be_written_names_column_and_value() -> None:
    with pytest.raises(ValueError, match=r"column 't': 'a\\nb' cannot be one value of a line"):
        CsvFormat({"t": str}, quote=None).encode(pa.record_batch({"t": ["a\nb"]}))
    with pytest.raises(ValueError, match=r"column 't': 'a,b' cannot be one value"):
        CsvFormat({"t": str}, quote=None).encode(pa.record_batch({"t": ["a,b"]}))
    with pytest.raises(ValueError, match="there is no column 't'; columns: a"):
        CsvFormat({"t": str}).encode(pa.record_batch({"a": ["x"]}))
    with pytest.raises(ValueError, match=r"column 't' of string as int64: .*'x'"):
        JsonFormat({"t": int}).encode(pa.record_batch({"t": ["x"]}))
    with pytest.raises(ValueError, match="column 't' is null, which is no message"):
        RawFormat().encode(pa.record_batch({"t": ["a", None]}))
    with pytest.raises(ValueError, match="one value, and rows have the columns a, b"):
        RawFormat().encode(pa.record_batch({"a": ["a"], "b": ["b"]}))
    with pytest.raises(ValueError, match="does not fit the Avro schema"):
        AvroFormat(AVRO).encode(pa.record_batch({"i": ["x"], "t": ["x"]}))


@pytest.mark.parametrize(
    "given", [{"delimiter": ";;"}, {"quote": "\n"}, {"escape": "ä"}, {"schema": {"a": list[list[int]]}}]
)
def test_csv_that_cannot_be_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"one ASCII character|no values of list"):
        CsvFormat(**{"schema": {"a": int}, **given})


def test_the_columns_of_the_schema_are_written_or_without_one_all() -> None:
    data = pa.record_batch({"b": [1], "a": ["x"], "c": [None]})
    assert JsonFormat({"a": str, "b": float}).encode(data)[0].as_py() == b'{"a":"x","b":1.0}'
    assert JsonFormat().encode(data)[0].as_py() == b'{"b":1,"a":"x","c":null}'
    with pytest.raises(InvalidProgramError, match="needs the columns that are to be read"):
        JsonFormat().decode(messages(b"{}"))


# -- the registry


class Registry(BaseHTTPRequestHandler):
    schemas: list[str]
    asked: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["Authorization"]))
        number = int(self.path.rpartition("/")[2])
        found = number <= len(self.schemas)
        self._answer(200 if found else 404, {"schema": self.schemas[number - 1]} if found else {"error_code": 40403})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "refused" in self.path:
            self._answer(409, {"message": "incompatible"})
            return
        self.schemas.append(body["schema"])
        self._answer(200, {"id": len(self.schemas)})

    def _answer(self, code: int, body: Any) -> None:
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def registry() -> Iterator[tuple[str, type[Registry]]]:
    handler = type("OwnRegistry", (Registry,), {"schemas": [], "asked": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", handler
    server.shutdown()
    thread.join()
    server.server_close()


def test_messages_begin_with_the_number_of_their_schema(registry: tuple[str, type[Registry]]) -> None:
    url, handler = registry
    client = SchemaRegistry(url, "ann", "secret")
    writer = AvroFormat(AVRO, registry=client, subject="orders-value")
    written = writer.encode(pa.record_batch({"i": [1, 2], "t": ["x", None]}))
    assert written[0].as_py()[:5] == b"\x00\x00\x00\x00\x01"
    newer = {**AVRO, "fields": [*AVRO["fields"], {"name": "more", "type": "int", "default": 3}]}
    reader = pickle.loads(pickle.dumps(AvroFormat(newer, registry=SchemaRegistry(url, "ann", "secret"))))
    assert [row["more"] for row in reader.decode(written).to_pylist()] == [3, 3]
    assert len(handler.asked) == 1, "what a number means is asked once"
    assert handler.asked[0][1] == "Basic YW5uOnNlY3JldA=="
    assert "secret" not in repr(client) + repr(vars(reader))
    unknown = decode_each(reader, messages(b"\x00\x00\x00\x00\x09", b"\x01", written[0].as_py()))
    assert [each.index for each in unknown.failures] == [0, 1]
    assert "no schema 9" in unknown.failures[0].reason


def test_a_registry_that_is_not_there_or_refuses_is_an_error_of_its_own(registry: tuple[str, type[Registry]]) -> None:
    url, _ = registry
    refused = AvroFormat(AVRO, registry=SchemaRegistry(url), subject="refused")
    with pytest.raises(ConnectionError, match=r"409.*incompatible"):
        refused.encode(pa.record_batch({"i": [1], "t": ["x"]}))
    absent = AvroFormat(AVRO, registry=SchemaRegistry("http://127.0.0.1:1"))
    with pytest.raises(ConnectionError, match="is it reachable"):
        decode_each(absent, messages(b"\x00\x00\x00\x00\x01\x00\x00"))
    with pytest.raises(ValueError, match="not in its address"):
        SchemaRegistry("http://ann:secret@host")


# -- in a program


def test_decoded_rows_keep_columns_and_time_and_bad_messages_go_to_their_output() -> None:
    bad = OutputTag("bad")
    with OneInputHarness.of(
        lambda stream: stream.decode(JsonFormat({"i": int}), keep=["offset"], bad_messages=bad)
    ) as harness:
        values = pa.array([b'{"i":1}', b"no", None, b'{"i":2}'], pa.binary())
        harness.process_batch(pa.record_batch({"value": values, "offset": [5, 6, 7, 8]}), [1, 2, 3, 4])
        assert [(row.offset, row.i) for row in harness.results()] == [(5, 1), (8, 2)]
        assert [(row.value, row.offset, row.reason[:14]) for row in harness.side_output(bad)] == [
            (b"no", 6, "no JSON object")
        ]


def test_bad_messages_end_the_job_or_are_left_out() -> None:
    with (
        OneInputHarness.of(lambda stream: stream.decode(JsonFormat({"i": int}))) as harness,
        pytest.raises(RecordError, match=r"Decode.*no JSON object: b'no'\. The message is b'no'.*bad_messages="),
    ):
        harness.process_batch([b'{"i":1}', b"no"])
    with OneInputHarness.of(
        lambda stream: stream.decode(JsonFormat({"i": int}), bad_messages="skip").encode(CsvFormat({"i": int}))
    ) as harness:
        harness.process_batch(['{"i":1}', "no", '{"i":2}'])
        assert harness.results() == [b"1", b"2"]


def test_wrong_uses_are_refused_where_they_are_written() -> None:
    def build(**given: Any) -> None:
        with OneInputHarness.of(lambda stream: stream.decode(JsonFormat({"i": int}), **given)) as harness:
            harness.process_batch([{"value": 1, "i": 2}])

    with pytest.raises(InvalidProgramError, match="'fail', 'skip' or an OutputTag"):
        build(bad_messages="ignore")
    with pytest.raises(InvalidProgramError, match="two columns named 'i'"):
        build(keep=["i"])
    with pytest.raises(TypeMismatchError, match="messages are bytes or text, and column 'value' is int64"):
        build()
    with pytest.raises(UnknownColumnError, match="valeu"):
        build(column="valeu")
    with pytest.raises(InvalidProgramError, match="takes a MessageFormat"):
        OneInputHarness.of(lambda stream: stream.encode(dict))


def test_json_is_written_with_times_of_sql_and_without_nulls_where_that_is_asked_for() -> None:
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    times = pa.struct([("at", pa.timestamp("ms", "UTC")), ("n", pa.int64())])
    schema = pa.schema([("a", pa.string()), ("t", pa.timestamp("s")), ("rows", pa.list_(times))])
    rows: list[dict[str, Any]] = [
        {"a": "x", "t": datetime.datetime(2024, 1, 2), "rows": [{"at": epoch, "n": None}, None]},
        {"a": None, "t": None, "rows": None},
    ]
    data = pa.RecordBatch.from_pylist(rows, schema=schema)
    written = JsonFormat(schema, timestamp_format="SQL", ignore_null_fields=True)
    messages = written.encode(data)
    assert [each.decode() for each in messages.to_pylist()] == [
        '{"a":"x","t":"2024-01-02 00:00:00","rows":[{"at":"1970-01-01 00:00:00.000Z"},null]}',
        "{}",
    ]
    assert written.decode(messages).equals(data)
    with pytest.raises(ValueError, match="timestamps are written as ISO-8601 or SQL, not as 'ISO'"):
        JsonFormat(schema, timestamp_format="ISO")


def test_json_that_lacks_a_column_is_refused_where_that_is_asked_for() -> None:
    strict = JsonFormat({"a": int, "b": int}, fail_on_missing_field=True)
    messages = [b'{"a":1,"b":null}', b'{"a":1,"c":{"b":1}}', b'{"b":1,"a":2}']
    found = decode_each(strict, pa.array(messages))
    assert found.data.to_pylist() == [{"a": 1, "b": None}, {"a": 2, "b": 1}]
    assert [(each.index, each.reason[:15]) for each in found.failures] == [(1, "there is no 'b'")]
    for unusual, reason in (
        ("NaN", "there is no 'b'"),
        ("[" * 3_000 + "]" * 3_000, "an object that is nested too deeply"),
    ):
        (failure,) = decode_each(strict, pa.array([f'{{"a":null,"z":{unusual}}}'.encode()])).failures
        assert failure.reason.startswith(reason)
    assert decode_each(strict, pa.array([b'{"a":null,"b":null,"z":NaN,"t":"\t"}'])).data.num_rows == 1


def test_json_that_lacks_a_field_in_a_column_is_refused_where_that_is_asked_for() -> None:
    inner = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    schema = pa.schema([("r", inner), ("l", pa.list_(inner)), ("m", pa.map_(pa.string(), inner))])
    whole = '{"x":1,"y":null}'
    template = '{"r":%s,"l":[null,%s],"m":{"k":%s}}'
    for parts, missing in (
        ((whole, whole, whole), None),
        (("null", "null", "null"), None),
        (('{"x":1}', whole, whole), "r.y"),
        ((whole, "{}", whole), "l.x"),
        ((whole, whole, '{"y":1}'), "m.x"),
    ):
        found = decode_each(JsonFormat(schema, fail_on_missing_field=True), messages((template % parts).encode()))
        assert [each.reason.split(" in ")[0] for each in found.failures] == (
            [] if missing is None else [f"there is no {missing!r}"]
        )


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (pa.bool_(), True, b"\x01"),
        (pa.int8(), -2, b"\xfe"),
        (pa.int16(), 258, b"\x01\x02"),
        (pa.int32(), -2, b"\xff\xff\xff\xfe"),
        (pa.int64(), 258, b"\0\0\0\0\0\0\x01\x02"),
        (pa.float32(), 1.5, b"?\xc0\0\0"),
        (pa.float64(), 1.5, b"?\xf8\0\0\0\0\0\0"),
    ],
    ids=str,
)
def test_a_raw_number_is_its_bytes(kind: pa.DataType, value: Any, message: bytes) -> None:
    rows = pa.record_batch({"value": pa.array([value, value], kind)})
    for raw, written in ((RawFormat(kind), message), (RawFormat(kind, byteorder="little"), message[::-1])):
        assert raw.encode(rows).to_pylist() == [written, written]
        assert raw.decode(messages(written, written)).equals(rows)
        with pytest.raises(ValueError, match=f"0 bytes, and {kind} has {len(message)}"):
            raw.decode(messages(message, b""))


def test_raw_text_has_a_charset() -> None:
    rows = pa.record_batch({"value": ["\u00e9"]})
    raw = RawFormat(str, "ISO-8859-1")
    assert raw.encode(rows).to_pylist() == [b"\xe9"]
    assert raw.decode(messages(b"\xe9")).equals(rows)
    with pytest.raises(ValueError, match="column 'value' is no ISO-8859-1 text"):
        raw.encode(pa.record_batch({"value": ["\u20ac"]}))
    with pytest.raises(ValueError, match="no US-ASCII text"):
        RawFormat(str, "US-ASCII").decode(messages(b"\xe9"))
    for arguments, words in (
        ((str, "latin-0"), "unknown encoding: latin-0"),
        ((str, "UTF-8", "middle"), "is 'big' or 'little', not 'middle'"),
        ((pa.uint8(),), "or the Arrow type of a number, not DataType"),
        (("string",), "or the Arrow type of a number, not 'string'"),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            RawFormat(*arguments)  # type: ignore[arg-type]


def test_avro_has_a_time_without_a_zone_as_it_is_wherever_a_process_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    at = {"type": "long", "logicalType": "timestamp-millis"}
    inner = {"type": "record", "name": "inner", "fields": [{"name": "at", "type": at}]}
    fields = [{"name": "at", "type": at}, {"name": "r", "type": {"type": "array", "items": inner}}]
    avro = AvroFormat({"type": "record", "name": "row", "fields": fields})
    noon = datetime.datetime(2024, 1, 2, 12)
    kind = pa.list_(pa.struct([("at", pa.timestamp("ms"))]))
    rows = pa.record_batch({"at": pa.array([noon], pa.timestamp("us")), "r": pa.array([[{"at": noon}]], kind)})
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        found = avro.decode(avro.encode(rows)).to_pylist()
    finally:
        monkeypatch.undo()
        time.tzset()
    in_utc = noon.replace(tzinfo=datetime.UTC)
    assert found == [{"at": in_utc, "r": [{"at": in_utc}]}]
    numbers = pa.struct([("at", pa.timestamp("ms")), ("n", pa.int64())])
    inner["fields"] = [{"name": "at", "type": at}, {"name": "n", "type": "int"}]
    avro = AvroFormat({"type": "record", "name": "row", "fields": [{"name": "r", "type": inner}]})
    with pytest.raises(ValueError, match="does not fit the Avro schema"):
        avro.encode(pa.record_batch({"r": pa.array([{"at": noon, "n": 2**40}], numbers)}))
    for kind, number in (("int", 2**40), ("long", 2**63)):
        avro = AvroFormat({"type": "record", "name": "row", "fields": [{"name": "n", "type": kind}]})
        with pytest.raises(ValueError, match="column 'n' does not fit the Avro schema"):
            avro.encode(pa.record_batch({"n": pa.array([number], pa.uint64())}))


def test_avro_cuts_times_down_and_leaves_what_stands_beside_them() -> None:
    at = {"type": "long", "logicalType": "timestamp-millis"}
    inner = {
        "type": "record",
        "name": "inner",
        "fields": [{"name": "at", "type": at}, {"name": "u", "type": {"type": "string", "logicalType": "uuid"}}],
    }
    fields = [{"name": "at", "type": at}, {"name": "r", "type": inner}]
    avro = AvroFormat({"type": "record", "name": "row", "fields": fields})
    early = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_500)
    cut = early.replace(microsecond=999_000, tzinfo=datetime.UTC)
    text = "12345678-1234-5678-1234-567812345678"
    kind = pa.struct([("at", pa.timestamp("us")), ("u", pa.string())])
    times = pa.array([early], pa.timestamp("us")).dictionary_encode()
    rows = pa.record_batch({"at": times, "r": pa.array([{"at": early, "u": text}], kind)})
    (found,) = avro.decode(avro.encode(rows)).to_pylist()
    assert (found["at"], found["r"]["at"], str(found["r"]["u"])) == (cut, cut, text)


@pytest.mark.parametrize("charset", ["UTF-16", "utf16"])
def test_the_highest_byte_of_utf_16_comes_first_as_in_java(charset: str) -> None:
    raw = RawFormat(str, charset)
    assert raw.encode(pa.record_batch({"value": ["ab"]})).to_pylist() == [b"\xfe\xff\0a\0b"]
    read = raw.decode(messages(b"\xfe\xff\0a", b"\0a", b"\xff\xfea\0"))
    assert read.column(0).to_pylist() == ["a", "a", "a"]
