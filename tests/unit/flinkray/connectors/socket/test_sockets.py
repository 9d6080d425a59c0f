"""Lines from sockets: cutting, back-pressure, ends, retries and closing."""

from __future__ import annotations

import contextlib
import logging
import random
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from flinkray.connectors.socket import source as socket_source
from flinkray.connectors.socket.source import LineSplitter, SocketSource
from flinkray.connectors.source import ReaderStatus, SourceBatch
from flinkray.errors import FlinkrayError, InvalidProgramError, RecordError
from tests.support.api import DEADLINE, ThreadedRun, rows_of
from tests.support.listening import deserted_port


def reader_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "(socket " in thread.name]


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    for thread in reader_threads():
        thread.join(DEADLINE)
    assert reader_threads() == []


@contextlib.contextmanager
def serving(*answers: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of a server that treats one connection after the other as told, and closes each."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(DEADLINE)

        def serve() -> None:
            for answer in answers:
                with contextlib.suppress(OSError):
                    connection, _ = server.accept()
                    with connection:
                        answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            thread.join(DEADLINE)


def sends(data: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(data)


def lines_of(data: bytes, **arguments: object) -> list[str]:
    with serving(sends(data)) as port:
        run = ThreadedRun(SocketSource("127.0.0.1", port, **arguments))  # type: ignore[arg-type]
        try:
            return run.read()
        finally:
            run.reader.close()


@pytest.mark.parametrize("seed", range(60))
def test_lines_are_those_of_the_whole_text_however_it_arrives(seed: int) -> None:
    generator = random.Random(seed)
    delimiter = generator.choice(["\n", ";", "XX", "é", "aXa"])
    encoding = generator.choice(["utf-8", "utf-16", "latin-1"])
    text = "".join(generator.choices(["a", "X", "é", ";", "\n", "word", "\r", "aXa"], k=generator.randrange(200)))
    data = text.encode(encoding)
    splitter = LineSplitter(delimiter, encoding, "test")
    found: list[str] = []
    while data:
        cut = generator.randrange(1, 12)
        lines = splitter.add(data[:cut])
        data = data[cut:]
        if lines is not None:
            assert len(lines) > 0
            found += lines.to_pylist()
    last = splitter.end()
    found += [] if last is None else last.to_pylist()
    expected = text.split(delimiter)
    if expected[-1] == "":
        expected.pop()
    if delimiter == "\n":
        expected = [line.removesuffix("\r") for line in expected]
    assert found == expected


def test_bytes_that_are_not_of_the_encoding_are_replaced() -> None:
    assert lines_of(b"good\nb\xffd\nalso good") == ["good", "b�d", "also good"]


def test_lines_come_in_order_and_then_the_end() -> None:
    expected = [f"line {number}" for number in range(50_000)]
    assert lines_of("\n".join(expected).encode()) == expected


def test_a_server_that_sends_nothing_ends_the_input() -> None:
    assert lines_of(b"") == []


def test_a_line_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_source, "_LONGEST_LINE_BYTES", 1000)
    with pytest.raises(RecordError, match=r"a line is longer than 1000 bytes; is '\\n' the delimiter"):
        lines_of(b"x" * 2000)


def test_nobody_to_connect_to_names_host_port_and_the_way_out() -> None:
    with deserted_port() as port:
        run = ThreadedRun(SocketSource("127.0.0.1", port))
        where = rf"'Source: test' \(socket 127.0.0.1:{port}\)"
        with pytest.raises(FlinkrayError, match=rf"{where}: cannot connect .*nc -lk"):
            run.poll()
        run.reader.close()


def test_a_name_that_does_not_exist_is_an_error() -> None:
    run = ThreadedRun(SocketSource("no-such-host.invalid", 9))
    with pytest.raises(FlinkrayError, match=r"no-such-host\.invalid:9\): cannot connect"):
        run.poll()
    run.reader.close()


def test_with_retries_it_connects_again_and_ends_when_the_server_stays_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_source, "_RETRY_SECONDS", 0.01)
    with serving(sends(b"one\nha"), sends(b"two\n")) as port:
        run = ThreadedRun(SocketSource("127.0.0.1", port, max_retry_seconds=0.2))
        first = run.poll()
        assert isinstance(first, SourceBatch)
        found = rows_of([first.batch])
        while len(found) < 3:
            polled = run.poll()
            assert isinstance(polled, SourceBatch)
            found += rows_of([polled.batch])
    assert found == ["one", "ha", "two"]
    assert run.poll() is ReaderStatus.END_OF_INPUT
    run.reader.close()


def resets(connection: socket.socket) -> None:
    connection.sendall(b"whole\npart")
    connection.recv(1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_a_connection_that_breaks_is_an_error_and_its_unfinished_line_dropped() -> None:
    with serving(resets) as port:
        run = ThreadedRun(SocketSource("127.0.0.1", port))
        polled = run.poll()
        assert isinstance(polled, SourceBatch)
        assert rows_of([polled.batch]) == ["whole"]
        connection = run.reader._client._socket  # type: ignore[attr-defined]
        connection.sendall(b"x")
        with pytest.raises(FlinkrayError, match=r"the connection broke .*max_retry_seconds"):
            run.poll()
        run.reader.close()


def test_closing_ends_a_thread_that_waits_for_data() -> None:
    connected = threading.Event()

    def waits(connection: socket.socket) -> None:
        connected.set()
        connection.settimeout(DEADLINE)
        assert connection.recv(1) == b""  # the source has closed

    with serving(waits) as port:
        run = ThreadedRun(SocketSource("127.0.0.1", port))
        assert connected.wait(DEADLINE)
        run.reader.close()
        assert reader_threads() == []


def test_closing_ends_a_thread_that_waits_for_a_connection() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        port = server.getsockname()[1]
        # A full queue: whoever connects next is left waiting.
        with socket.create_connection(("127.0.0.1", port)):
            run = ThreadedRun(SocketSource("127.0.0.1", port))
            run.reader.close()
            assert reader_threads() == []


def test_closing_ends_a_thread_that_waits_to_try_again() -> None:
    with deserted_port() as port:
        run = ThreadedRun(SocketSource("127.0.0.1", port, max_retry_seconds=-1))
        run.reader.close()
        assert reader_threads() == []


def test_a_server_that_is_faster_than_the_task_has_to_wait() -> None:
    sent = 0
    stuck = threading.Event()

    def floods(connection: socket.socket) -> None:
        nonlocal sent
        connection.settimeout(0.3)
        while sent < 1 << 28:
            try:
                sent += connection.send(b"line\n" * 10_000)
            except TimeoutError:
                break
        stuck.set()

    with serving(floods) as port:
        run = ThreadedRun(SocketSource("127.0.0.1", port))
        assert stuck.wait(DEADLINE)
        assert sent < 1 << 27
        run.reader.close()


def test_it_says_once_that_checkpoints_do_not_cover_it(caplog: pytest.LogCaptureFixture) -> None:
    with serving(sends(b"")) as port, caplog.at_level(logging.WARNING):
        run = ThreadedRun(SocketSource("127.0.0.1", port))
        assert run.reader.snapshot_state(1) == []
        assert run.reader.snapshot_state(2) == []
        run.reader.close()
    assert [record.message for record in caplog.records if "at most once" in record.message] == [
        f"operator 'Source: test' (socket 127.0.0.1:{port}): at most once, lines that were read before a failure are "
        "not read again"
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", 1), "host=...) takes a name"),
        (("a", 0), "port=...) takes a number from 1 to 65535, not 0"),
        (("a", "9"), "not '9'"),
        (("a", 9, ""), "delimiter=...) takes at least one character"),
        (("a", 9, "\n", 0, "utf-9"), "unknown encoding: utf-9"),
        (("a", 9, "\n", 0, "base64"), "is not a text encoding"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(InvalidProgramError, match=re.escape(message)):
        SocketSource(*arguments)  # type: ignore[arg-type]
