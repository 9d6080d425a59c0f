"""Who may ask, and who may change something."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from actors.rest.access import COOKIE, Access
from actors.rest.asking.refusals import Refusal
from actors.rest.starting import access_of, ray_token, start_server
from flinkray.config.configuration import Configuration
from flinkray.errors import ConfigurationError
from tests.support.rest import RestClient

HERE = {"host": "localhost:8081"}
JSON = {"content-type": "application/json"}


def status_of(
    access: Access, method: str = "GET", *, is_write: bool = False, has_body: bool = False, **headers: str
) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        access.check(method, named, is_write=is_write, has_body=has_body)
    except Refusal as refusal:
        return refusal.status
    return 200


@pytest.mark.parametrize("host", ["localhost", "localhost:8081", "127.0.0.1:8081", "[::1]:8081", "me.localhost:1"])
def test_without_a_token_this_machine_is_answered(host: str) -> None:
    assert status_of(Access(), host=host) == 200


@pytest.mark.parametrize("host", ["", "elsewhere.example", "10.0.0.1:8081", "localhost.elsewhere.example", "[::1", "@"])
def test_without_a_token_a_name_that_points_here_is_not_enough(host: str) -> None:
    assert status_of(Access(), host=host) == 403


def test_a_further_name_can_be_given_to_a_server() -> None:
    assert status_of(Access(names=frozenset({"proxy"})), host="proxy:80") == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer t0ken"},
        {"x_ray_authorization": "Bearer t0ken"},
        {"cookie": f"a=b; {COOKIE}=t0ken"},
    ],
)
def test_who_shows_the_token_is_answered_whatever_it_calls_the_server(headers: dict[str, str]) -> None:
    assert status_of(Access("t0ken"), host="elsewhere.example", **headers) == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Basic t0ken"}, 401),
        ({"authorization": "Bearer "}, 401),
        ({"cookie": "a=b"}, 401),
        ({"cookie": "\x00;;="}, 401),
        ({"authorization": "Bearer t0ke"}, 403),
        ({"authorization": "Bearer t0kenn"}, 403),
        ({"authorization": "Bearer t\xf6ken"}, 403),
        ({"authorization": "Bearer t\udcf6ken"}, 403),  # a byte that is no UTF-8
        # Who shows a wrong one as a header is not let in by a browser's cookie.
        ({"authorization": "Bearer wrong", "cookie": f"{COOKIE}=t0ken"}, 403),
    ],
)
def test_who_does_not_show_the_token_learns_that(headers: dict[str, str], status: int) -> None:
    assert status_of(Access("t0ken"), host="localhost", **headers) == status


@pytest.mark.parametrize(
    ("method", "has_body", "headers", "status"),
    [
        ("POST", True, {"content_type": "application/json; charset=utf-8"}, 200),
        ("POST", False, {"content_type": "application/json"}, 200),
        ("POST", False, {}, 415),
        ("POST", True, {"content_type": "text/plain"}, 415),
        ("POST", True, {"content_type": "application/x-www-form-urlencoded"}, 415),
        ("PATCH", False, {}, 200),  # curl sends no type without a body; a page cannot PATCH without asking first
        ("PATCH", True, {"content_type": "text/plain"}, 415),
        ("PATCH", False, {"origin": "http://localhost:8081"}, 200),
        ("PATCH", False, {"origin": "http://localhost:9999"}, 403),
        ("PATCH", False, {"origin": "null"}, 403),
        ("PATCH", False, {"origin": "http://[::1"}, 403),
        ("PATCH", False, {"sec_fetch_site": "same-origin"}, 200),
        # behind a proxy that names this server in another way than the browser does
        ("PATCH", False, {"sec_fetch_site": "same-origin", "origin": "https://proxy.example"}, 200),
        ("PATCH", False, {"sec_fetch_site": "none", "origin": "https://proxy.example"}, 403),
        ("PATCH", False, {"sec_fetch_site": "none"}, 200),
        ("PATCH", False, {"sec_fetch_site": "same-site"}, 403),
        ("GET", False, {}, 403),
        ("GET", False, {"sec_fetch_site": "none"}, 403),
        ("GET", False, {"sec_fetch_site": "same-origin"}, 200),
    ],
)
def test_writing_needs_json_and_the_same_origin(
    method: str, has_body: bool, headers: dict[str, str], status: int
) -> None:
    assert status_of(Access(), method, is_write=True, has_body=has_body, **HERE, **headers) == status
    if method != "GET":
        with_token = {**HERE, **headers, "authorization": "Bearer t0ken"}
        assert status_of(Access("t0ken"), method, is_write=True, has_body=has_body, **with_token) == status


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.1.2.3", "my-host"])
def test_others_are_served_only_with_a_token(address: str, tmp_path: Path) -> None:
    configuration = Configuration({"rest.bind-address": address})
    home = {"HOME": str(tmp_path)}
    with pytest.raises(ConfigurationError, match="get-auth-token"):
        access_of(configuration, home)
    assert access_of(configuration, {**home, "RAY_AUTH_TOKEN": "t0ken"}).token == "t0ken"


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost"])
def test_on_this_machine_a_token_is_wanted_where_ray_wants_one(address: str, tmp_path: Path) -> None:
    configuration = Configuration({"rest.bind-address": address})
    environment = {"HOME": str(tmp_path), "RAY_AUTH_TOKEN": "t0ken"}
    assert access_of(configuration, environment).token is None
    assert access_of(configuration, {**environment, "RAY_AUTH_MODE": "token"}).token == "t0ken"


def test_the_token_is_looked_for_where_ray_looks(tmp_path: Path) -> None:
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("at-home\n")
    (tmp_path / "named").write_text(" in-file ")
    environment = {"HOME": str(tmp_path)}
    assert ray_token(environment) == "at-home"
    environment["RAY_AUTH_TOKEN_PATH"] = str(tmp_path / "named")
    assert ray_token(environment) == "in-file"
    environment["RAY_AUTH_TOKEN"] = "given"
    assert ray_token(environment) == "given"
    assert ray_token({"HOME": str(tmp_path / "none")}) == ""


def test_where_ray_wants_its_token_a_server_in_its_process_wants_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")  # as Ray leaves it behind in a process that it was started in
    monkeypatch.setenv("RAY_AUTH_TOKEN", "t0ken")
    server = start_server(Configuration({"rest.port": 0}), SimpleNamespace(hosts=dict), lambda _: None)
    try:
        assert [RestClient(server.url, token).get("/jobs").status for token in (None, "t0ken", "", "x")] == [
            *(200, 200, 401, 403)
        ]
    finally:
        server.close()
