"""A server that speaks TLS, and what is said of a certificate before anybody connects."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.rest.access import Access
from actors.rest.history.serving import start_history_server
from actors.rest.server import RestServer
from actors.rest.service import Service
from actors.rest.starting import start_server, url_of
from actors.rest.tls import tls_of
from flinkray.config.configuration import Configuration
from flinkray.errors import ConfigurationError
from flinkray.rest.routes import ROUTES
from tests.support.rest import RestClient
from tests.support.waiting import eventually

# Made for these tests; expired.pem and early.pem are for the key of certificate.pem.
DATA = Path(__file__).parents[3] / "data" / "tls"


def configuration_of(certificate: str, key: str = "key.pem", **options: Any) -> Configuration:
    paths = {"rest.ssl.certificate": str(DATA / certificate), "rest.ssl.key": str(DATA / key)}
    return Configuration({**paths, **{name.replace("_", "."): value for name, value in options.items()}})


def start(*ports: int) -> RestServer:
    service = Service([SimpleNamespace(**{route.handler: lambda _: [] for route in ROUTES})], Access())
    return RestServer(service, "127.0.0.1", ports or (0,), tls=tls_of(configuration_of("certificate.pem")))


@pytest.fixture
def server() -> Iterator[RestServer]:
    server = start()
    yield server
    server.close()
    eventually(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("rest-")])


def trusting(certificate: str = "certificate.pem") -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(DATA / certificate))


def test_clients_that_trust_the_certificate_are_answered_and_others_refuse_it(server: RestServer) -> None:
    assert server.url == f"https://127.0.0.1:{server.port}"
    client = RestClient(server.url, tls=trusting())
    assert client.get("/jobs").value == []
    for other in (ssl.create_default_context(), trusting("elsewhere.pem")):
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            RestClient(server.url, tls=other).get("/jobs")
    with pytest.raises(ConfigurationError, match=f"port {server.port}"):
        start(server.port)
    other = start(server.port, 0)  # the next port is taken
    other.close()
    assert client.get("/jobs").status == 200


def test_who_speaks_http_to_it_is_told_to_use_https(server: RestServer) -> None:
    answer = RestClient(server.url.replace("https", "http")).get("/jobs")
    assert (answer.status, json.loads(answer.text)["errors"]) == (
        400,
        ["this server speaks HTTPS only: ask for https:// rather than http://"],
    )


@pytest.mark.parametrize("sent", [b"", b"\x16", b"\x16\x03\x01\x00\x05nonsense", b"\x00" * 100])
def test_what_is_no_handshake_harms_nothing(server: RestServer, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(sent)
        assert RestClient(server.url, tls=trusting()).get("/jobs").status == 200
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1000):
            pass


@pytest.mark.parametrize(
    ("certificate", "key", "says"),
    [
        ("none.pem", "key.pem", r"rest\.ssl\.certificate '.*none\.pem' cannot be read: No such file"),
        ("certificate.pem", "none.pem", r"rest\.ssl\.key '.*none\.pem' cannot be read: No such file"),
        ("certificate.pem", "other-key.pem", r"the key in '.*other-key\.pem' is not that of the certificate in '.*"),
        ("certificate.pem", "certificate.pem", "are no certificate and key in PEM"),
        ("key.pem", "key.pem", "are no certificate and key in PEM"),
        ("certificate.pem", "encrypted-key.pem", "is encrypted; give one without a password"),
        ("expired.pem", "key.pem", r"the certificate in '.*expired\.pem' has expired.*renew it"),
        ("early.pem", "key.pem", "is not valid yet, by the clock of this machine"),
    ],
)
def test_a_pair_that_no_client_would_accept_is_refused_at_the_start(certificate: str, key: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        tls_of(configuration_of(certificate, key))


def test_a_key_alone_is_refused_and_one_file_may_have_both(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"rest\.ssl\.key is set, and rest\.ssl\.certificate is not"):
        tls_of(Configuration({"rest.ssl.key": "key.pem"}))
    both = tmp_path / "both.pem"
    shutil.copy(DATA / "certificate.pem", both)
    both.write_text(both.read_text() + (DATA / "key.pem").read_text())
    assert tls_of(Configuration({"rest.ssl.certificate": str(both)})) is not None
    assert tls_of(Configuration()) is None


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        ({}, "127.0.0.1"),
        ({"rest.address": "elsewhere.example"}, ""),
        ({"rest.address": "other.example"}, "other.example"),
        ({"rest.bind-address": "0.0.0.0"}, ""),  # nobody has said under which name it is reached
    ],
)
def test_a_certificate_for_another_name_is_told(
    options: dict[str, str], warned: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        tls_of(configuration_of("elsewhere.pem", "other-key.pem", **options))
    assert [f"is not for {warned!r}" in record.getMessage() for record in caplog.records] == ([True] if warned else [])


def test_both_servers_speak_tls_where_options_say_so(tmp_path: Path) -> None:
    configuration = configuration_of("certificate.pem", **{"rest.port": 0, "rest.address": "localhost"})
    live = start_server(configuration, SimpleNamespace(hosts=dict), lambda _: None)
    history = start_history_server(configuration, str(tmp_path))
    try:
        assert url_of(live, configuration) == f"https://localhost:{live.port}"
        for server in (live, history):
            assert RestClient(f"https://localhost:{server.port}", tls=trusting()).get("/jobs").value == {"jobs": []}
    finally:
        live.close()
        history.close()


def test_a_connection_for_which_there_is_no_context_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise ssl.SSLError("odd")

    monkeypatch.setattr("actors.rest.tls.Tls.context", refuse)
    own = start()
    try:
        with socket.create_connection(("127.0.0.1", own.port), timeout=10) as connection:
            connection.sendall(b"\x16")
            with contextlib.suppress(ConnectionResetError):  # what it has sent was not read
                assert connection.recv(1) == b""
    finally:
        own.close()


@pytest.mark.parametrize("error", [ssl.SSLError("odd"), FileNotFoundError("gone")])
def test_a_renewed_certificate_that_openssl_cannot_use_is_told_and_the_former_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    certificate = tmp_path / "certificate.pem"
    shutil.copy(DATA / "certificate.pem", certificate)
    tls = tls_of(configuration_of(str(certificate)))
    assert tls is not None
    former = tls.context()

    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr("actors.rest.tls._complaint", refuse)
    shutil.copy(DATA / "certificate.pem", certificate)
    assert tls.context() is former
    assert f"goes on with the certificate that it had: {error}" in caplog.text


def test_a_renewed_certificate_is_spoken_with_once_both_of_its_files_are_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    shutil.copy(DATA / "certificate.pem", certificate)
    shutil.copy(DATA / "key.pem", key)
    tls = tls_of(configuration_of(str(certificate), str(key)))
    assert tls is not None
    former = tls.context()
    assert tls.context() is former
    with caplog.at_level(logging.WARNING):
        for wrong in ("elsewhere.pem", "expired.pem", None):
            certificate.unlink()
            if wrong is not None:
                shutil.copy(DATA / wrong, certificate)
            assert tls.context() is tls.context() is former, "clients are served while files do not fit"
    told = [record.getMessage() for record in caplog.records]
    assert ["goes on with the certificate that it had" in text for text in told] == [True] * 3, "each is told once"
    shutil.copy(DATA / "elsewhere.pem", certificate)
    tls.context()
    shutil.copy(DATA / "other-key.pem", key)
    service = Service([SimpleNamespace(**{route.handler: lambda _: [] for route in ROUTES})], Access())
    server = RestServer(service, "127.0.0.1", (0,), tls=tls)
    try:
        renewed = trusting("elsewhere.pem")
        renewed.check_hostname = False
        assert RestClient(server.url, tls=renewed).get("/jobs").value == []
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            RestClient(server.url, tls=trusting()).get("/jobs")
    finally:
        server.close()
