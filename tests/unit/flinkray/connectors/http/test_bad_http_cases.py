"""What goes wrong with HTTP, as docs/connectors/errors.md lists it."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flinkray import ConnectorError, HttpSink, JsonFormat, RawFormat, RequestLimits, ServerSentEventsSink, WebhookSource
from flinkray.connectors.formats.schema_registry import SchemaRegistryError
from flinkray.connectors.http import lookup, webhook
from flinkray.connectors.http.event_sink import EventWriter
from flinkray.connectors.http.lookup import HttpTable
from flinkray.connectors.http.webhook import WebhookReader
from flinkray.connectors.lookup import LookupCache
from tests.support.api import FakeSubtaskContext
from tests.support.bad_cases import WriterContext, check, written
from tests.support.http import DEADLINE_S, Answered, Service, ask
from tests.support.operators import as_batch
from tests.support.waiting import eventually
from tests.unit.flinkray.connectors.http.test_http_servers import Listening, TaskContext

TLS = Path(__file__).parents[4] / "data" / "tls"
NOBODY = "http://127.0.0.1:1/rows"
ROWS: dict[str, Any] = {"n": [1]}
TO_ITSELF = Answered(302, "", {"Location": "/rows"})


@contextlib.contextmanager
def port_of(talk: Callable[[socket.socket], object]) -> Iterator[int]:
    """A port at which one connection is talked to, whose end it sees as one: what it never read would reset it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(DEADLINE_S)

        def serve() -> None:
            connection, _ = listening.accept()
            with connection, contextlib.suppress(OSError):
                talk(connection)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16):
                    continue

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(DEADLINE_S)


def speak_tls(connection: socket.socket) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    context.wrap_socket(connection, server_side=True)


def speak_something_else(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    connection.sendall(b"220 mail.example ESMTP\r\n")


def hang_up(connection: socket.socket) -> None:
    connection.recv(1 << 16)


def test_sinks() -> None:
    def send(url: str, rows: Any = ROWS, attempts: int = 1, **given: Any) -> None:
        written(HttpSink(url, limits=RequestLimits(max_attempts=attempts), **given), rows)

    def talked_to(talk: Callable[[socket.socket], object], scheme: str = "http") -> None:
        with port_of(talk) as port:
            send(f"{scheme}://127.0.0.1:{port}/rows")

    with Service() as service:

        def answered(status: int, text: str = "", attempts: int = 1, **given: Any) -> Callable[[], None]:
            def run() -> None:
                service.answer = lambda _: TO_ITSELF if status == 302 else Answered(status, text)
                send(service.url, attempts=attempts, **given)

            return run

        check(
            "HTTP: sink",
            {
                "nobody listens": lambda: send(NOBODY),
                "no answer in time": answered(0, timeout=20),
                "an answer of 500 again and again": answered(500, "out of order", 2),
                "an answer of 429 again and again": answered(429),
                "a connection that ends without an answer": lambda: talked_to(hang_up),
                "an answer that is no HTTP": lambda: talked_to(speak_something_else),
                "it does not know who asks": answered(401),
                "who asks may not": answered(403),
                "nothing is at that path": answered(404, "no such thing"),
                "another method": answered(405),
                "a single row that is too large": answered(413),
                "another content type": answered(415),
                "rows that it refuses": answered(422, "n is odd"),
                "a redirect, such as one to itself": answered(302),
                "a certificate that is not trusted": lambda: talked_to(speak_tls, "https"),
                "no TLS at that port": lambda: talked_to(speak_something_else, "https"),
                "a row that has no form": lambda: send(NOBODY, {"m": [1]}, value_format=JsonFormat({"n": int})),
                "a message of several lines": lambda: send(NOBODY, {"t": ["a\nb"]}, value_format=RawFormat(str)),
            },
        )
        answers = [Answered(429, "", {"Retry-After": "7"}), Answered(500)]
        service.answer = lambda _: answers.pop(0) if answers else Answered()
        context = WriterContext()
        with contextlib.closing(HttpSink(service.url).create_writer(context)) as writer:  # type: ignore[arg-type]
            writer.write(as_batch(ROWS))
            writer.flush(True)
        assert (service.rows, answers) == ([{"n": 1}], [])  # once it is well, nothing is wrong any more
        assert context.now >= 7_000


def refused(answer: Answered) -> None:
    """What the sender of a request sees."""
    again = f"Retry-After: {answer.headers['Retry-After']} " if "Retry-After" in answer.headers else ""
    raise ConnectorError(f"{answer.status} {again}{answer.text}")


def test_webhooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "_BODY_S", 0.05)

    def listen(**given: Any) -> None:
        source = WebhookSource(**{"port": 1, "value_format": JsonFormat({"n": int}), **given})
        with contextlib.closing(WebhookReader(FakeSubtaskContext(), source)) as reader:  # type: ignore[arg-type]
            reader.start()
            eventually(lambda: reader.server.failure)
            reader.poll()

    def on_a_taken_port() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            listen(port=taken.getsockname()[1])

    def without_checkpoints() -> None:
        context = FakeSubtaskContext()
        context.has_checkpoints = False
        Listening(context)

    def half_a_body() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", source.reader.server.port, timeout=DEADLINE_S)
        with contextlib.closing(connection):
            connection.putrequest("POST", "/")
            for header in (*token.items(), ("Content-Type", "application/json"), ("Content-Length", "9")):
                connection.putheader(*header)
            connection.endheaders(b'{"n"')
            response = connection.getresponse()
            refused(Answered(response.status, response.read().decode()))

    def asked(body: bytes = b'{"n":1}', **given: Any) -> Callable[[], None]:
        return lambda: refused(source.ask(body, **{"headers": token, **given}))

    def listening(body: bytes = b'{"n":1}', more: dict[str, str] | None = None, **given: Any) -> None:
        with Listening(**given) as other:
            refused(other.ask(body, headers=more))

    def full() -> None:
        with Listening(answer="received", max_waiting_rows=1) as other:
            assert other.ask(b'{"n":1}').status == 200
            refused(other.ask(b'{"n":1}'))

    def full_of_bytes() -> None:
        with Listening(answer="received") as other:
            bodies = other.reader._handler._bodies
            bodies.add(bodies._most_bytes)
            refused(other.ask(b'{"n":1}'))

    def away() -> None:
        def decode(*_: Any) -> None:
            raise SchemaRegistryError("the registry is away")

        with monkeypatch.context() as patched:
            patched.setattr(webhook, "decoded_body", decode)
            listening()

    def stopped() -> None:
        with Listening() as other:
            answer = other.asking(1)
            other.reader.close()
            refused(answer.result(DEADLINE_S))

    token = {"X-Token": "hush"}
    with Listening(answer="received", token="hush", max_bytes=99) as source:
        check(
            "HTTP: webhook",
            {
                "a port that is taken": on_a_taken_port,
                "an address of another machine": lambda: listen(host="192.0.2.1"),
                "a job without checkpoints": without_checkpoints,
                "no token": asked(headers={}),
                "a wrong token": asked(headers={"Authorization": "Bearer other"}),
                "a page in a browser, without a token": lambda: listening(more={"Origin": "https://x"}),
                "another path": asked(path="/x"),
                "another method": asked(method="PUT"),
                "a body that does not come": half_a_body,
                "a body that is too large": asked(b" " * 100),
                "another content type": asked(content_type="text/plain"),
                "another charset": asked(content_type="application/json; charset=latin-1"),
                "no JSON": asked(b'[{"n":1}'),
                "a row that cannot be read": asked(b'[{"n":1},{"n":"x"}]'),
                "a compressed body that is none": asked(headers={**token, "Content-Encoding": "gzip"}),
                "more rows than may wait": full,
                "more bytes of bodies than may be read at a time": full_of_bytes,
                "no checkpoint in time": lambda: listening(answer_timeout=20),
                "a registry of schemas that does not answer": away,
                "a job that stops": stopped,
            },
        )


def test_events() -> None:
    def opened(**given: Any) -> EventWriter:
        return EventWriter(WriterContext(), ServerSentEventsSink(**{"port": 0, **given}))

    def on_a_taken_port() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            opened(port=taken.getsockname()[1])

    def asked(**given: Any) -> Callable[[], None]:
        return lambda: refused(ask(writer.server.port, **{"method": "GET", "path": "/events", **given}))

    with contextlib.closing(opened(token="hush", value_format=RawFormat(bytes))) as writer:
        check(
            "HTTP: events",
            {
                "a port that is taken": on_a_taken_port,
                "no token": asked(),
                "another path": asked(path="/x"),
                "another method": asked(method="POST"),
                "a row that is no text": lambda: writer.write(as_batch({"value": [b"\xff"]})),
            },
        )


def test_lookups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "_PAUSES_S", (0.0,))
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])

    def look_up(url: str, timeout_ms: int = 60_000) -> None:
        with contextlib.closing(
            HttpTable(url, schema, {}, timeout_ms, LookupCache()).reader(["id"], ["id", "name"])
        ) as reader:
            reader.open(TaskContext())
            reader.lookup(pa.RecordBatch.from_pydict({"id": [1]}))

    def untrusted() -> None:
        with port_of(speak_tls) as port:
            look_up(f"https://127.0.0.1:{port}/rows")

    with Service() as service:

        def answered(answer: Answered, **given: Any) -> Callable[[], None]:
            def run() -> None:
                service.answer = lambda _: answer
                look_up(service.url, **given)

            return run

        check(
            "HTTP: lookups",
            {
                "nobody listens": lambda: look_up(NOBODY),
                "no answer in time": answered(Answered(0), timeout_ms=20),
                "an answer of 500 again and again": answered(Answered(500, "out of order")),
                "it does not know who asks": answered(Answered(401)),
                "who asks may not": answered(Answered(403)),
                "a redirect, such as one to itself": answered(TO_ITSELF),
                "a certificate that is not trusted": untrusted,
                "an answer that is no JSON": answered(Answered(200, "[no")),
                "an answer that is no row": answered(Answered(200, "[5]")),
            },
        )
