"""The page: what is served of it, to whom, and where it has it from."""

from __future__ import annotations

import hashlib
import re
import tomllib
from pathlib import Path
from posixpath import dirname, join, normpath
from types import SimpleNamespace
from typing import Any

import pytest

import actors.rest
from actors.rest.access import Access
from actors.rest.files import page_files
from actors.rest.service import Request, Response, Service
from flinkray.rest.routes import ROUTES

FOLDER = Path(actors.rest.__file__).parent / "page"
VENDOR = FOLDER / "vendor"
VENDORED: dict[str, dict[str, Any]] = tomllib.loads((VENDOR / "vendor.toml").read_text())
OWN = sorted(path for path in FOLDER.iterdir() if path.suffix in (".js", ".css", ".html"))


def ask(path: str, method: str = "GET", access: Access | None = None, host: str = "localhost") -> Response:
    handlers = SimpleNamespace(**{route.handler: lambda _: None for route in ROUTES})
    return Service([handlers], access or Access()).answer(Request(method, path, headers={"host": host}))


# -- what is served --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("/", "text/html"),
        ("/page/app.js", "text/javascript"),
        ("/page/style.css", "text/css"),
        ("/page/icon.svg", "image/svg+xml"),
        ("/page/vendor/preact.js", "text/javascript"),
        ("/page/vendor/htm.license.txt", "text/plain"),
    ],
)
def test_files_of_the_page_are_served_as_what_they_are(path: str, content_type: str) -> None:
    for method in ("GET", "HEAD"):
        answer = ask(path, method)
        assert (answer.status, answer.content_type) == (200, content_type)
    file = FOLDER / (path.removeprefix("/page/").lstrip("/") or "index.html")
    assert ask(path).body == file.read_bytes()


@pytest.mark.parametrize(
    "path",
    [
        "/page",
        "/page/",
        "/page/none.js",
        "/page/index.html",
        "/page/vendor/vendor.toml",
        "/page/../service.py",
        "/page/%2e%2e/service.py",
        "/page/..%2fservice.py",
        "/page//app.js",
        "/page/vendor/../app.js",
        "//",
    ],
)
def test_nothing_else_is_served(path: str) -> None:
    assert ask(path).status == 404


def test_the_page_is_only_read() -> None:
    assert ask("/", "POST").status == 404
    assert ask("/page/app.js", "DELETE").status == 404


def test_the_page_is_shown_without_a_token_and_what_it_asks_for_is_not() -> None:
    access = Access("t0ken")
    assert {ask(path, access=access).status for path in page_files()} == {200}
    assert ask("/jobs", access=access).status == 401


def test_a_page_of_another_name_is_refused() -> None:
    assert ask("/", host="elsewhere.example").status == 403


# -- how it is made --------------------------------------------------------------------------------------------------


def _references(path: Path) -> set[str]:
    """What a file loads, as paths of the server."""
    text = path.read_text()
    if path.suffix == ".html":
        return {join("/", found) for found in re.findall(r'(?:src|href)="([^"]+)"', text)}
    here = join("/page", dirname(path.relative_to(FOLDER).as_posix()))
    return {normpath(join(here, found)) for found in re.findall(r'\bfrom ?"([^"]+)"', text)}


def test_every_file_is_loaded_and_every_file_that_is_loaded_is_there() -> None:
    files = [FOLDER / "index.html", *FOLDER.rglob("*.js")]
    loaded = {reference for path in files for reference in _references(path)}
    served = {path for path in page_files() if path != "/" and not path.endswith(".license.txt")}
    assert loaded == served


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_the_page_works_below_any_path_of_a_proxy_and_needs_no_other_site(path: Path) -> None:
    text = path.read_text()
    assert re.findall(r"""(?:src|href|action)=["']?/|fetch\(["'`]/|(?:ask|useAnswer)\(["'`]/|url\((?!#)""", text) == []
    assert [found for found in re.findall(r"\w+://[^\s\"'`]+", text) if "www.w3.org" not in found] == []


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_the_page_has_nothing_inline_that_its_content_security_policy_forbids(path: Path) -> None:
    text = path.read_text()
    if path.suffix == ".html":
        assert re.findall(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", text) == []
    else:
        assert re.findall(r"\beval\(|new Function\(|innerHTML|dangerouslySetInnerHTML|\sstyle=\"", text) == []


# -- what others have made -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VENDORED)
def test_what_others_have_made_is_as_they_published_it(name: str) -> None:
    about = VENDORED[name]
    body = (VENDOR / name).read_bytes()
    published, ours = about.get("replaced", ["", ""])
    if ours:
        assert body.count(ours.encode()) == 1
        body = body.replace(ours.encode(), published.encode())
    assert hashlib.sha256(body).hexdigest() == about["sha256"]


def test_all_that_others_have_made_is_named_with_its_licence() -> None:
    licences = {about["license_file"] for about in VENDORED.values()}
    assert {path.name for path in VENDOR.iterdir()} == {*VENDORED, *licences, "vendor.toml"}
    for about in VENDORED.values():
        text = (VENDOR / about["license_file"]).read_text()
        assert about["license"] in ("MIT", "Apache-2.0")
        assert ("Permission is hereby granted" if about["license"] == "MIT" else "Apache License") in text
