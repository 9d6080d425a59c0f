"""What is decided about requests, bodies and events, without a server."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from flinkray import (
    AvroFormat,
    Batch,
    CsvFormat,
    DebeziumJsonFormat,
    DeliveryGuarantee,
    HttpSink,
    InvalidProgramError,
    JsonFormat,
    RawFormat,
    RequestLimits,
    ServerSentEventsSink,
    WebhookSource,
)
from flinkray.connectors.http.bodies import UnknownContentType, decoded_body, split_of
from flinkray.connectors.http.clients import (
    LONGEST_RETRY_AFTER_MS,
    aiohttp,
    is_done,
    is_for_later,
    is_shown,
    reason_of,
    refuses_rows,
    retry_after_ms,
    shown,
    without_address,
)
from flinkray.connectors.http.events import COMMENT, GONE, History, events_of, together
from flinkray.connectors.http.intake import BodyBytes, Intake
from flinkray.connectors.http.lookup import HttpTable
from flinkray.connectors.lookup import LookupCache
from flinkray.errors import RecordError
from flinkray.types.records import Kind
from tests.support.http import rows_of

JSON = JsonFormat({"n": int})
SECRET = "hush"
TABLE = {"url": "http://h/", "schema": pa.schema([]), "headers": {}, "cache": LookupCache()}


def test_what_an_answer_means_follows_from_its_status() -> None:
    done = {200, 201, 204, 207}
    later = {408, 425, 429, 500, 502, 503, 504, 599}
    about_rows = {400, 402, 409, 411, 413, 415, 422, 431}
    final = {301, 302, 307, 308, 401, 403, 404, 405, 407, 410, 501, 505}
    for status in done | later | about_rows | final:
        said = (is_done(status), is_for_later(status), refuses_rows(status))
        assert said == (status in done, status in later, status in about_rows), status


def test_retry_after_is_seconds_or_a_time_and_has_a_limit() -> None:
    now = 1_445_412_420_000
    cases = {
        None: 0,
        "2": 2_000,
        " 0 ": 0,
        "-1": 0,
        "soon": 0,
        "": 0,
        "86400": LONGEST_RETRY_AFTER_MS,
        "Wed, 21 Oct 2015 07:27:30 GMT": 30_000,
        "Wed, 21 Oct 2015 07:26:00 GMT": 0,
        "Wed, 99 Oct 2015 07:26:00 GMT": 0,
    }
    assert {header: retry_after_ms(header, now) for header in cases} == cases


def test_secrets_are_shown_nowhere() -> None:
    urls = {
        "https://me:hush@host:1/a?key=hush#hush": "https://host:1/a",
        "http://[::1]:8/?hush": "http://[::1]:8/",
        "https://host/@x?a=/b@c": "https://host/@x",
    }
    assert {url: shown(url) for url in urls} == urls
    given: list[Any] = [
        HttpSink(f"https://me:{SECRET}@host/?{SECRET}", headers={"Authorization": f"Bearer {SECRET}"}),
        WebhookSource(1, JSON, token=SECRET),
        ServerSentEventsSink(1, token=SECRET),
    ]
    for each in given:
        assert SECRET not in repr(each)
        assert SECRET.encode() in pickle.dumps(each)
    with pytest.raises(InvalidProgramError) as raised:
        HttpSink("https://host/", headers={"Authorization": f"{SECRET}\n"})
    assert SECRET not in str(raised.value)
    with pytest.raises(InvalidProgramError) as raised:
        HttpSink(f"https://me:pa/{SECRET}@host/rows")
    assert SECRET not in str(raised.value)


def test_errors_that_show_a_whole_address_are_told_without_it() -> None:
    errors = aiohttp()
    request: Any = SimpleNamespace(real_url=f"https://host/?code={SECRET}")
    telling = [
        errors.ClientResponseError(request, (), status=400, message="bad"),
        errors.InvalidURL(f"https://host/?code={SECRET}"),
    ]
    for error in telling:
        assert SECRET in str(error)
        assert SECRET not in reason_of(error, 5)
        assert without_address(error) is None
    others = {TimeoutError(): "no answer in 5 ms", OSError("away"): "away", EOFError(): "EOFError"}
    assert {error: reason_of(error, 5) for error in others} == others
    assert all(without_address(error) is error for error in others)


def test_a_token_is_shown_in_either_header() -> None:
    cases: list[tuple[dict[str, str], bool]] = [
        ({}, False),
        ({"Authorization": f"Bearer {SECRET}"}, True),
        ({"Authorization": f"bearer  {SECRET} "}, True),
        ({"Authorization": f"Basic {SECRET}"}, False),
        ({"Authorization": "Bearer other", "X-Token": SECRET}, False),
        ({"X-Token": SECRET}, True),
        ({"X-Token": "é"}, False),
        ({"X-Token": "\udcff"}, False),  # a byte that is no UTF-8
    ]
    for headers, is_right in cases:
        assert is_shown(SECRET, headers) == is_right, headers
        assert is_shown(None, headers)


def test_what_cannot_be_meant_is_refused_where_it_is_written() -> None:
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (HttpSink, {"url": "host:80"}, "is like 'https://host:8080/rows'"),
        (HttpSink, {"url": "http://host:99999/"}, "is like"),
        (HttpSink, {"url": "http://h/ x"}, "is like"),
        (HttpSink, {"url": "http://h/", "method": "GET"}, "method=...\\) is one of POST, PUT, PATCH"),
        (HttpSink, {"url": "http://h/", "body": "lists"}, "body=...\\) is one of lines, array, row"),
        (HttpSink, {"url": "http://h/", "refused": "ignore"}, "'fail' or 'skip'"),
        (HttpSink, {"url": "http://h/", "timeout": 0}, "at least 1 ms"),
        (HttpSink, {"url": "http://h/", "headers": {"A b": "c"}}, "'A b' is no header"),
        (HttpSink, {"url": "http://h/", "body": "array", "value_format": CsvFormat({"n": int})}, "needs JsonFormat"),
        (WebhookSource, {"port": 70_000, "value_format": JSON}, "from 0, which is any, to 65535"),
        (WebhookSource, {"port": 1, "value_format": JSON, "path": "rows"}, "like '/rows'"),
        (WebhookSource, {"port": 1, "value_format": JSON, "host": ""}, "an address of the machine"),
        (WebhookSource, {"port": 1, "value_format": JSON, "answer": "soon"}, "'checkpoint' or 'received'"),
        (WebhookSource, {"port": 1, "value_format": JSON, "token": ""}, "None lets everybody in"),
        (WebhookSource, {"port": 1, "value_format": JSON, "max_bytes": 0}, "max_bytes=...\\) is at least 1"),
        (ServerSentEventsSink, {"port": 1, "history": 0}, "history=...\\) is at least 1"),
        (ServerSentEventsSink, {"port": 1, "token": ""}, "None lets everybody in"),
        (HttpTable, {**TABLE, "timeout_ms": 0}, "'request.timeout', is at least 1 ms"),
    ]
    for made, given, words in cases:
        with pytest.raises(InvalidProgramError, match=words):
            made(**given)
    guarantees = [HttpSink("http://h/").delivery_guarantee, ServerSentEventsSink(1).delivery_guarantee]
    assert guarantees == [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.NONE]


def test_a_body_has_messages_by_lines_as_an_array_or_alone() -> None:
    csv, raw = CsvFormat({"n": int}), RawFormat(str)
    cases: list[tuple[dict[str, Any], str, bytes]] = [
        ({}, "application/x-ndjson", b'{"n":1}\n{"n":2}\n'),
        ({"body": "array"}, "application/json", b'[{"n":1},{"n":2}]'),
        ({"body": "row"}, "application/json", b'{"n":1}'),
        ({"value_format": csv}, "text/csv", b"1\n2\n"),
        ({"headers": {"content-type": "text/x"}}, "text/x", b'{"n":1}\n{"n":2}\n'),
    ]
    for given, content_type, body in cases:
        target = HttpSink("http://h/", **given)._target
        headers = {name.lower(): value for name, value in target.all_headers.items()}
        found = target.body_of(target.messages(rows_of(0, 1, 2), "here").slice(1))
        assert (headers, found) == ({"content-type": content_type}, body)
    with_break = pa.RecordBatch.from_pydict({"value": ["a\nb"]})
    with pytest.raises(RecordError, match="here: a row's message has a line break"):
        HttpSink("http://h/", raw)._target.messages(with_break, "here")
    alone = HttpSink("http://h/", raw, body="row")
    assert alone._target.body_of(alone._target.messages(with_break, "here")) == b"a\nb"
    assert (alone._limits.max_rows, HttpSink("http://h/")._limits) == (10, RequestLimits())


def test_messages_of_a_body_are_what_its_content_type_says() -> None:
    avro = AvroFormat({"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]})
    cases: list[tuple[Any, str, bytes, list[bytes]]] = [
        (JSON, "application/json", b' {"n": 1} ', [b'{"n": 1}']),
        (JSON, "application/json; charset=UTF-8", b' [{"n":1}, {"n":2}]\n', [b'{"n":1}', b'{"n":2}']),
        (JSON, "application/cloudevents+json", b'{"n":1}', [b'{"n":1}']),
        (JSON, "application/x-ndjson", b'{"n":1}\r\n\n{"n":2}', [b'{"n":1}', b'{"n":2}']),
        (JSON, "application/json", b"[]", []),
        (JSON, "application/json", b" ", []),
        (CsvFormat({"n": int}), "text/csv", b"1\n2\n", [b"1", b"2"]),
        (RawFormat(str), "text/plain", b"a\nb", [b"a", b"b"]),
        (avro, "application/octet-stream", b"\x02\n", [b"\x02\n"]),
    ]
    for message_format, content_type, body, messages in cases:
        assert split_of(message_format, content_type)(body).to_pylist() == messages, content_type
    refused = [
        (JSON, "", "missing"),
        (JSON, "application/x-www-form-urlencoded", "send one of application/json"),
        (JSON, "text/plain", "send one of application/json"),
        (DebeziumJsonFormat({"n": int}), "application/octet-stream", "send one of application/json"),
        (CsvFormat({"n": int}), "application/json", "send one of text/csv, text/plain"),
        (JSON, "application/json; charset=latin-1", "send UTF-8"),
    ]
    for message_format, content_type, words in refused:
        with pytest.raises(UnknownContentType, match=words):
            split_of(message_format, content_type)
    with pytest.raises(ValueError, match="no JSON"):
        split_of(JSON, "application/json")(b'[{"n":1}')
    with pytest.raises(ValueError, match="row 2 of 2: "):
        decoded_body(JSON, pa.array([b'{"n":1}', b'{"n":"x"}'], pa.large_binary()))


def batch(*numbers: int) -> Batch:
    return Batch(rows_of(*numbers))


def test_requests_are_answered_when_a_complete_checkpoint_has_them() -> None:
    told: list[tuple[str, bool]] = []
    intake = Intake(4, waits_for_checkpoints=True)

    def bring(name: str, *numbers: int) -> bool:
        return intake.admit(batch(*numbers), lambda is_taken: told.append((name, is_taken)))

    assert bring("a", 1, 2)
    assert bring("b", 3)
    assert not bring("c", 4, 5)  # of five rows four may wait
    assert [each.num_rows for each in intake.take(1)] == [2]
    intake.barrier(1)
    intake.take(9)
    intake.barrier(2)
    assert bring("d", 4)
    assert intake.is_full
    intake.complete(1)
    assert told == [("a", True)]
    assert intake.rows == 2
    intake.take(9)
    intake.barrier(3)
    intake.barrier(4)  # with nothing new
    intake.complete(4)  # 2 and 3 failed, and what they had is in 4
    assert told == [("a", True), ("b", True), ("d", True)]
    assert intake.rows == 0
    assert bring("e", 1, 2, 3, 4, 5)  # more than may wait, but alone
    intake.take(9)
    intake.close()
    assert told[-1] == ("e", False)
    assert not bring("f", 1)


def test_requests_are_answered_when_they_come_if_nothing_is_promised() -> None:
    told: list[bool] = []
    intake = Intake(2, waits_for_checkpoints=False)
    assert intake.admit(batch(1), told.append)
    assert intake.admit(batch(2), told.append)
    assert told == [True, True]
    assert intake.is_full
    assert [each.num_rows for each in intake.take(9)] == [1, 1]
    assert not intake.is_full
    intake.close()
    assert told == [True, True]


def test_rows_that_nobody_has_taken_are_withdrawn_and_their_bytes_have_a_limit() -> None:
    def answer(is_taken: bool) -> None: ...

    def other(is_taken: bool) -> None: ...

    intake = Intake(9, waits_for_checkpoints=True, most_bytes=3 * 8)
    assert intake.admit(batch(1), answer)
    assert intake.admit(batch(2, 3), other)
    assert intake.is_full
    assert not intake.admit(batch(4), other)
    assert intake.withdraw(answer)
    assert (intake.rows, intake.is_full) == (2, False)
    assert [each.num_rows for each in intake.take(9)] == [2]
    assert not intake.withdraw(other)  # the task has them
    assert intake.rows == 2
    assert intake.admit(batch(*range(7)), answer)  # more bytes than may wait, but alone


def test_bodies_have_a_limit_together_and_one_that_is_alone_has_none() -> None:
    bodies = BodyBytes(10)
    assert bodies.have_room(99)
    bodies.add(8)
    assert (bodies.have_room(2), bodies.have_room(3)) == (True, False)
    assert bodies.have_room(99, own=8)  # of the only one there is
    bodies.add(2)
    assert (bodies.have_room(1, own=8), bodies.have_room(0)) == (False, True)
    bodies.remove(8)
    assert (bodies.have_room(8), bodies.have_room(9)) == (True, False)


def test_events_have_ids_and_messages_and_in_a_changelog_kinds() -> None:
    events = events_of(JsonFormat(), batch(7, 8), "s", 9, "here")
    assert together(events) == b'id: s-9\ndata: {"n":7}\n\nid: s-10\ndata: {"n":8}\n\n'
    assert together(events.slice(1)) == b'id: s-10\ndata: {"n":8}\n\n'
    changes = Batch(rows_of(7, 8), kinds=pa.array([1, 3], pa.int8()))
    with_kinds = together(events_of(JsonFormat(), changes, "s", 0, "here"))
    assert with_kinds == b'id: s-0\nevent: -U\ndata: {"n":7}\n\nid: s-1\nevent: -D\ndata: {"n":8}\n\n'
    lines = Batch(pa.RecordBatch.from_pydict({"value": ["a\nb\r\nc"]}), Kind.SCALAR)
    assert together(events_of(RawFormat(str), lines, "s", 0, "here")) == b"id: s-0\ndata: a\ndata: b\ndata: c\n\n"
    no_text = Batch(pa.RecordBatch.from_pydict({"value": [b"\xff"]}), Kind.SCALAR)
    with pytest.raises(RecordError, match="here: a row cannot be written as an event"):
        events_of(RawFormat(bytes), no_text, "s", 0, "here")
    assert COMMENT.startswith(b":")


def test_who_comes_back_gets_what_came_meanwhile_if_it_is_kept() -> None:
    history = History("s", 4)
    assert history.since("s-0") == GONE
    for first, numbers in ((0, (0, 1, 2)), (3, (3, 4, 5))):
        history.add(events_of(JsonFormat(), batch(*numbers), "s", first, "here"))

    def since(last_id: str) -> tuple[bool, list[int]]:
        found = history.since(last_id)
        return found.startswith(GONE), [number for number in range(6) if b"id: s-%d\n" % number in found]

    assert since("s-3") == (False, [4, 5])
    assert since("s-1") == (False, [2, 3, 4, 5])
    assert since("s-0") == (True, [2, 3, 4, 5])
    assert since("s-5") == (False, [])
    assert since("s-9") == (True, [2, 3, 4, 5])
    assert since("other-5") == (True, [2, 3, 4, 5])
    assert since("s-1\n") == (True, [2, 3, 4, 5])
