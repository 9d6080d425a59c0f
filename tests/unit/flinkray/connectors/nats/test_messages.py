"""What is written of rows, and where it may go, without a server."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from flinkray import JsonFormat, UnknownColumnError
from flinkray.connectors.nats import exactly_once
from flinkray.connectors.nats.clients import NatsError
from flinkray.connectors.nats.commits import NatsMessage
from flinkray.connectors.nats.exactly_once import FoundStream, MarkedStream
from flinkray.connectors.nats.messages import NatsTarget
from flinkray.errors import RecordError

HEADERS = pa.map_(pa.string(), pa.string())


def messages(headers: list[Any], kind: pa.DataType = HEADERS, **given: Any) -> list[Any]:
    rows = pa.record_batch({"n": list(range(len(headers))), "h": pa.array(headers, kind)})
    parts = {"subject": "s", "subject_column": None, "message_id": None, "headers_column": "h", **given}
    return list(NatsTarget(value_format=JsonFormat(), **parts).messages(rows, "here"))


def test_headers_are_beside_the_payload_and_have_the_id() -> None:
    headers = [[("Trace", "7"), ("none", None)], None, []]
    assert messages(headers) == [("s", b'{"n":0}', {"Trace": "7"}), ("s", b'{"n":1}', None), ("s", b'{"n":2}', None)]
    with_ids = [each[2] for each in messages(headers, message_id="n")]
    assert with_ids == [{"Trace": "7", "Nats-Msg-Id": "0"}, {"Nats-Msg-Id": "1"}, {"Nats-Msg-Id": "2"}]


def test_headers_that_a_server_would_take_otherwise_are_errors() -> None:
    cases: list[tuple[list[Any], dict[str, Any], str]] = [
        ([[("nats-rollup", "all")]], {}, "has the name 'nats-rollup', which is the server's own"),
        ([[("a b", "x")]], {}, "has the name 'a b', which is none of a header"),
        ([[("", "x")]], {}, "has the name ''"),
        ([[("a", "x\r\nNats-Rollup: all")]], {}, "a value with a line break"),
        (["x"], {"kind": pa.string()}, "column 'h' is string, and headers are a map of text to text"),
        ([[("a", b"x")]], {"kind": pa.map_(pa.string(), pa.binary())}, "a map of text to text"),
    ]
    for headers, given, words in cases:
        with pytest.raises(RecordError, match=words):
            messages(headers, **given)
    with pytest.raises(UnknownColumnError, match="no column 'more'"):
        messages([None], headers_column="more")


def test_rows_that_an_earlier_version_kept_for_a_commit_are_read() -> None:
    stored = msgspec.msgpack.encode([("s", b"x")])
    assert msgspec.msgpack.decode(stored, type=list[NatsMessage]) == [NatsMessage("s", b"x")]
    assert [NatsMessage("s", b"x").nbytes, NatsMessage("s", b"x", {"a": "é"}).nbytes] == [1, 8]


def test_messages_that_a_stream_does_not_take_are_found_before_a_checkpoint_has_them() -> None:
    stream = FoundStream("orders", ("orders.*", "marks.>"), 138)
    stream.check(["orders.a"], 10, "here")
    with pytest.raises(NatsError, match=r"here: stream 'orders' has no subject 'other', .* orders\.\*, marks\.>"):
        stream.check(["orders.a", "other"], 0, "here")
    with pytest.raises(NatsError, match=r"has 11 bytes, and 128 of headers, and max_payload of the server is 138:"):
        stream.check(["orders.a"], 11, "here")


def test_the_limit_of_a_message_is_the_smaller_of_the_streams_and_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    config: dict[str, Any] = {"subjects": ["marks.>"], "allow_atomic": True}

    async def asked(*_: Any) -> dict[str, Any]:
        return {"config": config}

    monkeypatch.setattr(exactly_once, "ask", asked)
    for largest, expected, limit in ((-1, 100, "server"), (0, 100, "server"), (101, 100, "server"), (99, 99, "stream")):
        config["max_msg_size"] = largest
        client = SimpleNamespace(max_payload=100)
        found = asyncio.run(MarkedStream("orders", "marks", None).found(client, "here"))
        assert (found.largest, found.limit.rpartition(" ")[2]) == (expected, limit)
