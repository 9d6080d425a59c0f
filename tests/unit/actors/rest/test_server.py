"""The HTTP shell around a service."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from actors.rest.access import Access
from actors.rest.asking.call import Call
from actors.rest.kept_answers import KeptAnswers
from actors.rest.server import RestServer
from actors.rest.service import Service
from flinkray.errors import ConfigurationError, MissingDependencyError
from flinkray.rest.operations import StopRequest, Triggered
from flinkray.rest.routes import ROUTES
from tests.support.rest import RestClient
from tests.support.waiting import eventually

calls: list[Call] = []


def stop(call: Call) -> Triggered:
    calls.append(call)
    return Triggered(request_id="mine")


def start(*ports: int, on_close: Any = None) -> RestServer:
    handlers: dict[str, Any] = {route.handler: lambda _: [] for route in ROUTES}
    service = Service([SimpleNamespace(**{**handlers, "stop": stop})], Access())
    return RestServer(service, "127.0.0.1", ports, on_close)


@pytest.fixture
def server() -> Iterator[RestServer]:
    server = start(0)
    calls.clear()
    yield server
    server.close()


def test_the_first_free_port_is_taken(server: RestServer) -> None:
    with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1, port {server.port}"):
        start(server.port)
    other = start(server.port, 0)
    try:
        assert other.port not in (0, server.port)
        assert RestClient(other.url).get("/jobs").value == []
    finally:
        other.close()


def test_a_body_that_comes_in_pieces_is_read_whole(server: RestServer) -> None:
    body = json.dumps({"targetDirectory": "/saved", "drain": True}).encode()
    head = (
        f"POST /jobs/{'0' * 32}/stop HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        for piece in (head.encode(), body[:5], body[5:12], body[12:]):
            connection.sendall(piece)
            RestClient(server.url).get("/jobs")  # when this is answered, the server has read what was sent before
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert b"202 Accepted" in answer
    assert [call.body for call in calls] == [StopRequest(target_directory="/saved", drain=True)]


def test_what_was_answered_a_moment_ago_needs_no_handler() -> None:
    asked = 0

    def jobs(_call: Any) -> list[int]:
        nonlocal asked
        asked += 1
        return [asked]

    handlers: dict[str, Any] = {route.handler: lambda _: [] for route in ROUTES}
    service = Service([SimpleNamespace(**{**handlers, "job_ids": jobs})], Access(), kept=KeptAnswers(lambda: 0.0, 1))
    server = RestServer(service, "127.0.0.1", (0,))
    try:
        assert [RestClient(server.url).get("/jobs").value for _ in range(3)] == [[1]] * 3
    finally:
        server.close()


def test_no_other_program_keeps_answers_and_they_are_open_to_no_other_page(server: RestServer) -> None:
    headers = RestClient(server.url).get("/jobs").headers
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert not [name for name in headers if name.lower().startswith("access-control")]


def test_head_is_answered_as_get_without_the_body(server: RestServer) -> None:
    answer = RestClient(server.url).send("HEAD", "/jobs")
    assert (answer.status, answer.text) == (200, "")


POST = b"POST /jobs/0/stop HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01 not HTTP\r\n\r\n", b"400"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nno size\r\n", b"400"),
        (POST + b"Content-Length: 100\r\n\r\n{", b"408"),
    ],
)
def test_what_is_no_http_harms_nothing_and_is_no_error_of_the_server(
    server: RestServer,
    sent: bytes,
    status: bytes,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("actors.rest.server._BODY_TIMEOUT_S", 0.02)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(sent)
        assert connection.recv(100).split()[1] == status
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(sent[:-1])  # and goes away
    assert RestClient(server.url).get("/jobs").status == 200
    assert caplog.records == []


def test_closing_twice_is_closing_once_and_leaves_no_thread() -> None:
    closed: list[bool] = []
    server = start(0, on_close=lambda: closed.append(True))
    RestClient(server.url).get("/jobs")
    server.close()
    server.close()
    assert closed == [True]
    eventually(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("rest-")])


def test_without_aiohttp_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "flinkray\[ui\]"'):
        start(0)
