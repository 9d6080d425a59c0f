"""One request, answered: route, access, parameters, handler, JSON. Knows no socket, and is called by any thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, unquote

import msgspec
from msgspec import Struct

from actors.rest.access import FORM, JSON, Access
from actors.rest.answers.encoding import encoded
from actors.rest.asking.call import Call
from actors.rest.asking.refusals import Refusal, refusal_of
from actors.rest.files import page_files
from actors.rest.kept_answers import KeptAnswers
from actors.rest.programs.forms import FormFile, file_of
from flinkray.config.rest_options import REST_MAX_CONTENT_LENGTH
from flinkray.rest.cluster import ErrorBody
from flinkray.rest.routes import ROUTES, TEXT, NoSuchRoute, Route, find

log = logging.getLogger(__name__)

PLAIN = "text/plain"

# What changes something is described in some bytes; more is no request.
LARGEST_BODY = 64 * 1024


class Request(Struct, frozen=True):
    """What came over HTTP."""

    method: str
    path: str
    """As it was sent, with percent signs."""
    query: str = ""
    headers: Mapping[str, str] = {}
    """With their names in small letters."""
    body: bytes = b""
    scheme: str = "http"


class Response(Struct, frozen=True):
    """What goes back."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: Mapping[str, str] = {}


class Service:
    """Answers requests.

    Args:
        handlers: objects with a method for each route; the first that has it answers.
        largest_upload: how many bytes a form with a file may have.
        kept: answers that others got a moment ago; None: each is made anew.
    """

    def __init__(
        self, handlers: Sequence[object], access: Access, largest_upload: int = 0, kept: KeptAnswers | None = None
    ) -> None:
        self._access = access
        self._kept = kept
        self._largest_upload = largest_upload
        self._handlers: dict[str, Callable[[Call], Any]] = {}
        for route in ROUTES:
            found = next(filter(None, (getattr(each, route.handler, None) for each in handlers)), None)
            if found is None:
                raise TypeError(f"nothing answers {route.method} {route.path}: there is no {route.handler}")
            self._handlers[route.handler] = found

    def largest_body(self, request: Request) -> int:
        """How many bytes of a body are worth reading, by what comes before it: only who may upload is read for long."""
        try:
            route, _ = find(request.method, request.path)
            if route.is_upload:
                self._check(route, request)
                return max(LARGEST_BODY, self._largest_upload)
        except (NoSuchRoute, Refusal):
            pass  # which the answer says
        return LARGEST_BODY

    def kept_answer(self, request: Request) -> Response | None:
        """What was answered a moment ago to the same question; None: `answer` has to. At once, and never raises."""
        if self._kept is None or request.method != "GET":
            return None
        body = self._kept.get(_asked(request))
        if body is None:
            return None
        try:
            self._access.check(request.method, request.headers, is_write=False, has_body=False)
        except Refusal:
            return None  # which the answer says
        return Response(200, body)

    def answer(self, request: Request) -> Response:
        """Never raises: what goes wrong is an answer, with `errors` in it."""
        try:
            return self._answer(request)
        except NoSuchRoute as error:
            if not error.methods:
                return refused(404, f"nothing is served at {request.path!r}; /openapi.json has what is")
            allowed = ", ".join(sorted(error.methods))
            text = f"{request.method} is not served at {request.path!r}, which takes {allowed}"
            return refused(405, text, {"Allow": allowed})
        except Exception as error:
            refusal = refusal_of(error)
            if refusal is None:
                log.exception("%s %s failed", request.method, request.path)
                return refused(500, f"this server failed: {type(error).__name__}; its log says more")
            return refused(refusal.status, refusal.reason)

    def _answer(self, request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        if method == "GET" and (file := page_files().get(request.path)) is not None:
            self._access.check_page(request.headers)
            return Response(200, file.body, file.content_type)
        try:
            route, parameters = find(method, request.path)
        except NoSuchRoute:
            # Who may not ask is not told what is there either.
            self._access.check(method, request.headers, is_write=False, has_body=False)
            raise
        self._check(route, request)
        call = Call(
            parameters={name: unquote(value) for name, value in parameters.items()},
            query=_query(request.query),
            body=self._form(request) if route.is_upload else _body(route, request.body),
            url=f"{request.scheme}://{request.headers.get('host', '')}",
        )
        begun = 0 if self._kept is None else self._kept.begin()
        try:
            found = self._handlers[route.handler](call)
        finally:
            if self._kept is not None and route.is_write:
                self._kept.clear()
        if route.answer is TEXT:
            return Response(route.status, found.encode("utf-8", "replace"), PLAIN)
        body = encoded(found)
        if self._kept is not None and request.method == "GET" and _is_kept(route):
            self._kept.put(_asked(request), body, begun)
        return Response(route.status, body)

    def _check(self, route: Route, request: Request) -> None:
        method, kind = "GET" if request.method == "HEAD" else request.method, FORM if route.is_upload else JSON
        has_body = bool(request.body)
        self._access.check(method, request.headers, is_write=route.is_write, has_body=has_body, kind=kind)

    def _form(self, request: Request) -> FormFile | None:
        """None: no program can be uploaded here, which the handler says."""
        if not self._largest_upload:
            return None
        if len(request.body) > self._largest_upload:
            raise Refusal(413, f"the form has more than {self._largest_upload} bytes ({REST_MAX_CONTENT_LENGTH.key})")
        return file_of(request.headers.get("content-type", ""), request.body)


def _asked(request: Request) -> tuple[str, ...]:
    """What an answer depends on. Who asks is not part of it: that is looked at each time."""
    return request.path, request.query, request.scheme, request.headers.get("host", "")


def _is_kept(route: Route) -> bool:
    """Whoever triggered something waits for its end, and is told at once."""
    return not route.is_write and route.status == 200 and "triggerid" not in route.parameters


def _query(text: str) -> Mapping[str, Sequence[str]]:
    try:
        return parse_qs(text, keep_blank_values=True, max_num_fields=100)
    except ValueError as error:
        raise Refusal(400, f"the parameters cannot be read: {error}") from error


def _body(route: Route, body: bytes) -> Any:
    if route.body is None:
        return None
    if len(body) > LARGEST_BODY:
        raise Refusal(413, f"the body has {len(body)} bytes, more than {LARGEST_BODY}")
    try:
        return msgspec.json.decode(body or b"{}", type=route.body)
    except msgspec.DecodeError as error:
        name = route.body.__name__ if isinstance(route.body, type) else "object of that kind"
        raise Refusal(400, f"the body is no {name}: {error}") from error


def refused(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    """An answer that says why there is none."""
    return Response(status, encoded(ErrorBody(errors=[reason])), headers=headers or {})
