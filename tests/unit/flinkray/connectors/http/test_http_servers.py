"""Sinks, sources and lookups of HTTP against servers and clients of this process."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from flinkray import Batch, HttpSink, InvalidProgramError, JsonFormat, SendAgain, ServerSentEventsSink, WebhookSource
from flinkray.connectors.formats.schema_registry import SchemaRegistryError
from flinkray.connectors.http import webhook
from flinkray.connectors.http.clients import HttpError
from flinkray.connectors.http.event_sink import EventWriter
from flinkray.connectors.http.lookup import HttpTable
from flinkray.connectors.http.webhook import WebhookReader
from flinkray.connectors.lookup import LookupCache
from flinkray.connectors.source import ReaderStatus, SourceBatch
from flinkray.errors import ConnectorError
from tests.support.api import FakeSubtaskContext
from tests.support.http import DEADLINE_S, Answered, Asked, Service, ask, rows_of
from tests.support.waiting import eventually


class Context(FakeSubtaskContext):
    """Of a writer."""

    def gauge_function(self, name: str, read: Callable[[], float | None]) -> None: ...


# -- requests that a sink makes


def send(url: str, *numbers: int, **given: Any) -> Context:
    """Sends rows in one call."""
    context = Context()
    writer: Any = HttpSink(url, **given).create_writer(context)  # type: ignore[arg-type]

    async def run() -> None:
        try:
            messages = JsonFormat().encode(rows_of(*numbers))
            await writer.send(pa.RecordBatch.from_arrays([messages], ["message"]))
        finally:
            await writer.close_client()

    asyncio.run(run())
    return context


def test_rows_are_sent_together_or_each_alone_with_the_headers_that_are_given() -> None:
    with Service() as service:
        send(service.url, 1, 2, headers={"Authorization": "Bearer x"}, method="PUT")
        send(service.url, 3, 4, body="row")
    assert [(asked.method, asked.lines) for asked in service.asked] == [
        ("PUT", [{"n": 1}, {"n": 2}]),
        ("POST", [{"n": 3}]),
        ("POST", [{"n": 4}]),
    ]
    assert service.asked[0].headers["Authorization"] == "Bearer x"
    assert service.asked[0].headers["Content-Type"] == "application/x-ndjson"


ELSEWHERE = {"Location": "http://me:hush@other/x?key=hush"}
FINAL: list[tuple[Answered, str]] = [
    (Answered(401), "it answered 401 (Unauthorized): it wants to know who asks: give an Authorization in headers="),
    (Answered(404, "no  such\nthing"), "it answered 404 (no such thing): nothing is at that path: look at url="),
    (Answered(302, "", ELSEWHERE), "points to http://other/x: redirects are not followed"),
    (Answered(422, "n is odd"), "it answered 422 (n is odd)"),
    (Answered(501), "it answered 501"),
]
PASSING: list[tuple[Answered, str, float]] = [
    (Answered(500, "oh"), "it answered 500 (oh)", 0),
    (Answered(429, "", {"Retry-After": "7"}), "it answered 429 (Too Many Requests)", 7_000),
    (Answered(0), "no answer in 20 ms", 0),
]


def test_an_answer_that_is_final_fails_the_job_and_one_that_may_pass_is_tried_again() -> None:
    with Service() as service:
        url = service.url.replace("//", "//me:hush@") + "?key=hush"
        what = f"HttpSink cannot POST rows to {service.url}: "
        for answer, words in FINAL:
            service.answer = lambda _, answer=answer: answer  # type: ignore[misc]
            with pytest.raises(HttpError) as final:
                send(url, 1, 2)
            assert isinstance(final.value, ConnectorError)
            assert str(final.value).startswith(f"operator 'Source: test' (subtask 1 of 1): {what}")
            assert words in str(final.value)
            assert "hush" not in str(final.value)
        for answer, words, after_ms in PASSING:
            service.answer = lambda _, answer=answer: answer  # type: ignore[misc]
            with pytest.raises(SendAgain) as passing:
                send(url, 1, 2, timeout=30_000 if answer.status else 20)
            assert passing.value.reason == what + words
            assert (passing.value.rows, passing.value.after_ms) == ([0, 1], after_ms)
    with pytest.raises(SendAgain, match="Cannot connect"):
        send(service.url, 1)


def test_of_rows_that_are_sent_one_by_one_those_go_again_that_are_left() -> None:
    with Service(lambda asked: Answered(503 if asked.lines[0]["n"] == 2 else 200)) as service:
        with pytest.raises(SendAgain) as raised:
            send(service.url, 1, 2, 3, body="row")
        assert raised.value.rows == [1, 2]


def test_rows_that_are_refused_are_found_and_left_out_if_the_sink_may() -> None:
    def refuse(asked: Asked) -> Answered:
        return Answered(422 if any(row["n"] in (3, 6) for row in asked.lines) else 200)

    with Service(refuse) as service:
        context = send(service.url, *range(8), refused="skip")
        assert sorted(row["n"] for row in service.rows) == [0, 1, 2, 4, 5, 7]
        assert context.counts["rows_skipped"] == 2
        service.answer = lambda _: Answered(401)  # is not about the rows
        with pytest.raises(HttpError, match="401"):
            send(service.url, 1, refused="skip")


def test_a_request_that_is_too_large_is_sent_in_parts() -> None:
    with Service(lambda asked: Answered(413 if len(asked.lines) > 2 else 200)) as service:
        send(service.url, *range(5))
        assert sorted(row["n"] for row in service.rows) == [0, 1, 2, 3, 4]
        service.answer = lambda _: Answered(413)
        with pytest.raises(HttpError, match=r"413.*raise the server's limit"):
            send(service.url, 1, 2)


# -- requests that a source gets


class Listening:
    """A source that listens, polled by the test."""

    def __init__(self, context: FakeSubtaskContext | None = None, **given: Any) -> None:
        source = WebhookSource(**{"port": 0, "value_format": JsonFormat({"n": int}), **given})
        self.reader: Any = source.create_reader(context or FakeSubtaskContext())
        self.pool = ThreadPoolExecutor(8)

    def __enter__(self) -> Listening:
        self.reader.start()
        self.reader.server.wait_until_started()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.reader.close()
        self.pool.shutdown()

    def ask(self, body: bytes, *args: Any, **given: Any) -> Answered:
        return ask(self.reader.server.port, body, *args, **given)

    def asking(self, *numbers: int) -> Future[Answered]:
        """Posts rows, on another thread, and returns when they have come."""
        waiting = self.reader.pending_rows() + len(numbers)
        asked = self.pool.submit(self.ask, json.dumps([{"n": number} for number in numbers]).encode())
        eventually(lambda: asked.done() or self.reader.pending_rows() >= waiting)
        return asked

    def polled(self) -> list[int]:
        found = self.reader.poll()
        assert isinstance(found, SourceBatch)
        numbers: list[int] = found.batch.data.column("n").to_pylist()
        return numbers


def test_a_request_is_answered_when_a_checkpoint_has_its_rows() -> None:
    with Listening() as source:
        first = source.asking(1, 2)
        second = source.asking(3)
        assert source.polled() == [1, 2, 3]
        third = source.asking(4)
        source.reader.snapshot_state(1)
        assert not any(asked.done() for asked in (first, second, third))
        source.reader.notify_checkpoint_complete(1)
        assert (first.result(DEADLINE_S).status, first.result().text) == (200, '{"rows": 2}')
        assert second.result(DEADLINE_S).status == 200
        assert not third.done()
        source.reader.close()
        answer = third.result(DEADLINE_S)
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        assert "send the rows again" in answer.text


def test_what_cannot_be_taken_is_answered_with_what_is_wrong() -> None:
    json_type, token = "application/json", {"X-Token": "hush"}
    cases: list[tuple[bytes, dict[str, Any], int, str]] = [
        (b'{"n":1}', {"headers": {"X-Token": "wrong"}}, 401, "show the token"),
        (b'{"n":1}', {"headers": {}}, 401, "show the token"),
        (b'{"n":1}', {"path": "/x"}, 404, "rows are taken at /"),
        (b'{"n":1}', {"method": "PUT"}, 405, "by POST"),
        (b'{"n":1}', {"content_type": "text/plain"}, 415, "send one of application/json"),
        (b"[" + b" " * 100 + b"]", {}, 413, "at most 99 bytes"),
        (b'{"n":1}{', {}, 400, "row 1 of 1"),
        (b'[{"n":1},{"n":"x"}]', {}, 400, "row 2 of 2"),
        (b'[{"n":1}', {}, 400, "no JSON"),
        (b"[]", {}, 200, "0"),
        (b'{"n":1}', {"headers": {"Authorization": "Bearer hush"}}, 200, "1"),
    ]
    context = FakeSubtaskContext()
    with Listening(context, token="hush", answer="received", max_bytes=99) as source:
        for body, given, status, words in cases:
            answer = source.ask(body, **{"content_type": json_type, "headers": token, **given})
            assert (answer.status, words in answer.text) == (status, True), (body, given, answer)
        assert source.polled() == [1]
        assert context.counts["requests_refused"] == 9
        chunked = http.client.HTTPConnection("127.0.0.1", source.reader.server.port, timeout=DEADLINE_S)
        chunked.request("POST", "/", iter([b"x" * 200]), {"Content-Type": json_type, **token}, encode_chunked=True)
        assert chunked.getresponse().status == 413  # its length is not said before
        chunked.close()
    with Listening(answer="received") as source:
        assert source.ask(b'{"n":1}', headers={"Origin": "https://elsewhere"}).status == 403


def test_more_rows_than_may_wait_are_to_come_again_later() -> None:
    with Listening(answer="received", max_waiting_rows=2) as source:
        assert source.ask(b'[{"n":1},{"n":2}]').status == 200
        refused = source.ask(b'{"n":3}')
        assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
        assert source.polled() == [1, 2]
        assert source.ask(b'{"n":3}').status == 200


def test_bytes_of_bodies_are_counted_until_they_are_rows_or_refused_and_those_of_chunks_as_they_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decode, held = webhook.decoded_body, []

    def decoded(*given: Any) -> Any:
        held.append(bodies._nbytes)
        return decode(*given)

    monkeypatch.setattr(webhook, "decoded_body", decoded)
    with Listening() as source:
        bodies = source.reader._handler._bodies
        body = b'[{"n":1},{"n":2}]'
        waiting = source.pool.submit(source.ask, body)
        eventually(lambda: source.reader.pending_rows() == 2)
        assert (held, bodies._nbytes) == ([len(body)], 0)  # while it waits for its checkpoint nothing is held
        assert source.ask(b'{"n":"x"}').status == 400
        assert bodies._nbytes == 0
        bodies.add(bodies._most_bytes)
        chunked = http.client.HTTPConnection("127.0.0.1", source.reader.server.port, timeout=DEADLINE_S)
        chunked.request("POST", "/", iter([b'{"n":1}']), {"Content-Type": "application/json"}, encode_chunked=True)
        refused = chunked.getresponse()
        assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
        chunked.close()
        assert bodies._nbytes == bodies._most_bytes
        source.reader.close()
        assert waiting.result(DEADLINE_S).status == 503


def test_a_request_does_not_wait_for_ever_for_its_checkpoint_and_takes_its_rows_back_if_it_can(
    caplog: pytest.LogCaptureFixture,
) -> None:
    context = FakeSubtaskContext()
    with Listening(context, answer_timeout=20) as source:
        answer = source.ask(b'{"n":1}')
        assert (answer.status, "no checkpoint was complete within 20 ms" in answer.text) == (503, True)
        assert source.reader.poll() is ReaderStatus.NOTHING_AVAILABLE
        assert (source.reader.pending_rows(), context.counts["answers_overdue"]) == (0, 0)
        context.on_available = lambda: source.reader.poll() and None
        assert [source.ask(b'{"n":1}').status for _ in range(2)] == [503, 503]
        assert context.counts["answers_overdue"] == 2
    assert caplog.text.count("answer_timeout has to be longer than execution.checkpointing.interval") == 1


def test_a_registry_that_does_not_answer_is_asked_beside_the_loop_and_the_rows_are_to_come_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    decoding: list[threading.Thread] = []

    def decode(*_: Any) -> Any:
        decoding.append(threading.current_thread())
        raise SchemaRegistryError("the registry is away")

    monkeypatch.setattr(webhook, "decoded_body", decode)
    with Listening() as source:
        answer = source.ask(b'{"n":1}')
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        assert decoding[0] is not source.reader.server._thread
    assert "the registry is away" in caplog.text


def test_a_port_that_is_in_use_is_an_error_and_one_of_the_attempt_before_is_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = rf"operator 'Source: test' \(subtask 1 of 1\): WebhookSource cannot listen on 127\.0\.0\.1, port {port}"
        reader = WebhookReader(FakeSubtaskContext(), WebhookSource(port, JsonFormat({"n": int})))  # type: ignore[arg-type]
        reader.start()
        eventually(lambda: reader.server.failure)
        with pytest.raises(HttpError, match=words):
            reader.poll()
        reader.close()
        context = FakeSubtaskContext()
        context.attempt_number = 1
        again = WebhookReader(context, WebhookSource(port, JsonFormat({"n": int})))  # type: ignore[arg-type]
        again.start()
    again.server.wait_until_started()
    assert again.server.port == port
    again.close()


def test_without_checkpoints_nothing_can_wait_for_them() -> None:
    context = FakeSubtaskContext()
    context.has_checkpoints = False
    with pytest.raises(InvalidProgramError, match=r"set execution\.checkpointing\.interval, or answer='received'"):
        Listening(context)


# -- events


class Subscriber:
    """Reads events. Use as a context manager."""

    def __init__(self, port: int, **headers: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
        self.connection.request("GET", "/events", headers={k.replace("_", "-"): v for k, v in headers.items()})
        self.response = self.connection.getresponse()

    def __enter__(self) -> Subscriber:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.response.close()
        self.connection.close()

    def lines(self, begin: bytes = b"data: ") -> Iterator[bytes]:
        while line := self.response.readline():
            if line.startswith(begin):
                yield line.removeprefix(begin).strip()


@pytest.fixture
def serve() -> Iterator[Callable[..., EventWriter]]:
    opened: list[EventWriter] = []

    def serve(**given: Any) -> EventWriter:
        opened.append(EventWriter(Context(), ServerSentEventsSink(**{"port": 0, **given})))  # type: ignore[arg-type]
        return opened[-1]

    yield serve
    for writer in opened:
        writer.close()


def test_subscribers_get_what_comes_from_then_on_and_who_comes_back_what_was_missed(
    serve: Callable[..., EventWriter],
) -> None:
    writer = serve(history=2)
    writer.write(Batch(rows_of(0)))
    with Subscriber(writer.server.port) as one, Subscriber(writer.server.port) as other:
        assert one.response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert [next(each.lines(b":")) for each in (one, other)] == [b"", b""]
        writer.write(Batch(rows_of(1, 2)))
        writer.write(Batch(rows_of(3)))
        for each in (one, other):
            found = each.lines()
            assert [json.loads(next(found))["n"] for _ in range(3)] == [1, 2, 3]
    last = f"{writer._series}-2"
    with Subscriber(writer.server.port, Last_Event_ID=last) as again:
        assert json.loads(next(again.lines()))["n"] == 3
        writer.close()  # what waits is sent before
        assert again.response.read() == b"\n"


def test_a_connection_without_events_gets_comments(serve: Callable[..., EventWriter]) -> None:
    with Subscriber(serve(keep_alive=5).server.port) as subscriber:
        comments = subscriber.lines(b":")
        assert [next(comments) for _ in range(3)] == [b"", b"", b""]


def test_who_asks_otherwise_gets_no_events(serve: Callable[..., EventWriter]) -> None:
    port = serve(token="hush", allowed_origin="https://shop").server.port
    for given, status in (({"method": "POST"}, 405), ({"path": "/x"}, 404), ({}, 401)):
        assert ask(port, **{"method": "GET", "path": "/events", **given}).status == status  # type: ignore[arg-type]
    before = ask(port, method="OPTIONS", path="/events")
    assert (before.status, before.headers["Access-Control-Allow-Origin"]) == (204, "https://shop")
    assert before.headers["Access-Control-Allow-Headers"] == "Authorization, X-Token, Last-Event-ID"
    assert ask(serve().server.port, method="OPTIONS", path="/events").status == 405
    with Subscriber(port, Authorization="Bearer hush") as subscriber:
        assert subscriber.response.status == 200
        assert subscriber.response.headers["Access-Control-Allow-Origin"] == "https://shop"


def test_a_subscriber_that_falls_behind_is_cut_off_and_not_waited_for(serve: Callable[..., EventWriter]) -> None:
    writer = serve(max_waiting_bytes=1_000_000)
    with Subscriber(writer.server.port) as slow, Subscriber(writer.server.port) as quick:
        rows = pa.RecordBatch.from_pydict({"text": ["x" * 900_000]})
        received = []

        def read() -> None:
            received.extend(quick.lines())

        thread = threading.Thread(target=read)
        thread.start()
        subscribers = writer._subscribers
        for written in range(1, 100):  # more than the system keeps for a connection
            writer.write(Batch(rows))
            eventually(lambda written=written: len(received) >= written)  # type: ignore[misc]
            if len(subscribers) < 2:
                break
        assert len(subscribers) == 1
        assert subscribers._context.counts["subscribers_cut_off"] == 1  # type: ignore[attr-defined]
        writer.close()
        thread.join(DEADLINE_S)
        with pytest.raises((ConnectionError, http.client.IncompleteRead)):
            slow.response.read()


# -- lookups


class Counter:
    def inc(self) -> None: ...


class Metrics:
    def counter(self, name: str) -> Counter:
        return Counter()


class TaskContext:
    """Of a lookup's operator."""

    def get_index_of_this_subtask(self) -> int:
        return 0

    def get_number_of_parallel_subtasks(self) -> int:
        return 1

    def get_task_name(self) -> str:
        return "looked up"

    def get_metrics_group(self) -> Metrics:
        return Metrics()


def test_a_service_is_asked_for_the_rows_of_each_key() -> None:
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    answers = {
        "/rows?v=1&id=1": Answered(200, '{"id":1,"name":"a","more":2}'),
        "/rows?v=1&id=2": Answered(404),
        "/rows?v=1&id=3": Answered(200, '[{"name":"b"},{"name":"c"}]'),
        "/rows?v=1&id=4": Answered(200, "null"),
    }
    with Service(lambda asked: answers[asked.path]) as service:
        table = HttpTable(f"{service.url}?v=1", schema, {"X": "y"}, 1_000, LookupCache(5, 6))
        assert table.cache == LookupCache(5, 6)
        for columns, expected in (
            (["name", "id"], [("a", 1), ("b", 3), ("c", 3)]),
            (["id"], [(1,), (3,), (3,)]),
        ):
            reader = table.reader(["id"], columns)
            reader.open(TaskContext())
            found = reader.lookup(pa.RecordBatch.from_pydict({"id": [1, 2, 3, 4]}))
            reader.close()
            assert found.schema.names == columns
            assert list(zip(*found.to_pydict().values(), strict=True)) == expected
        assert service.asked[0].headers["X"] == "y"
        wrong = {
            "403": (Answered(403), "cannot GET rows of .* for {'id': '1'}: it answered 403"),
            "text": (Answered(200, "[no"), "the answer is no JSON"),
            "type": (Answered(200, "[5]"), "the answer for {'id': '1'} is no row of the table"),
        }
        for answer, words in wrong.values():
            answers["/rows?v=1&id=1"] = answer
            reader = table.reader(["id"], ["id", "name"])
            reader.open(TaskContext())
            with pytest.raises(HttpError, match=words):
                reader.lookup(pa.RecordBatch.from_pydict({"id": [1]}))
            reader.close()


def test_when_a_key_cannot_be_looked_up_no_other_request_is_left_under_way() -> None:
    with Service(lambda asked: Answered(403 if asked.path.endswith("=1") else 0)) as service:
        reader: Any = HttpTable(service.url, pa.schema([("id", pa.int64())]), {}, 60_000, LookupCache()).reader(
            ["id"], ["id"]
        )
        reader.open(TaskContext())
        with pytest.raises(HttpError, match="403"):
            reader.lookup(pa.RecordBatch.from_pydict({"id": [1, 2, 3]}))
        assert not asyncio.all_tasks(reader._loop)
        reader.close()
