"""Rows as requests to a service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from flinkray.connectors.formats.json import JsonFormat
from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.connectors.http.clients import aiohttp, checked_headers, checked_url, shown
from flinkray.connectors.http.target import BODIES, Body, HttpTarget
from flinkray.connectors.http.writer import RequestWriter
from flinkray.connectors.request_buffer import RequestLimits
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.connectors.subtask import subtask_label
from flinkray.errors import InvalidProgramError
from flinkray.time.durations import Duration, to_millis

_NAME = "HttpSink"
_METHODS = ("POST", "PUT", "PATCH")
_ROWS_PER_CALL = 10
"""Rows of which each has a request are sent so many after another."""


class HttpSink(Sink):
    """Rows as requests to a service, at least once. Comes with `flinkray[http]`.

    A checkpoint waits until the service has answered 2xx for all rows before it. Rows are sent again where it cannot be
    reached, does not answer in time, or answers 408, 425, 429 or 5xx: after pauses that grow, or as long as
    `Retry-After` says (at most five minutes), up to `max_attempts` of the limits. Other answers are final: redirects
    are not followed, and fail the job.

    Args:
        url: "https://host/path", with user and password if need be, which are shown nowhere; nor is the query.
        value_format: how a row is written.
        body: what a request has: "lines", a message per line; "array", a JSON array of them; "row", one message, and
            the rows of a batch are sent one after another.
        method: "POST", "PUT" or "PATCH".
        headers: sent with each request, such as {"Authorization": "Bearer ..."}; their values are shown nowhere. The
            content type follows from format and body, unless it is given.
        timeout: how long an answer may take.
        refused: "fail" ends the job where the service refuses rows (400, 409, 422 and their like); "skip" sends them
            in halves, leaves out those that are refused alone, and counts them as `rows_skipped`.
        limits: how rows are gathered, and how many requests may be under way; None: 500 rows, ten with body="row".
    """

    def __init__(
        self,
        url: str,
        value_format: MessageFormat | None = None,
        body: Body = "lines",
        method: Literal["POST", "PUT", "PATCH"] = "POST",
        headers: Mapping[str, str] | None = None,
        timeout: Duration = "30 s",
        refused: Literal["fail", "skip"] = "fail",
        limits: RequestLimits | None = None,
    ) -> None:
        written = JsonFormat() if value_format is None else value_format
        for name, given, known in (("body", body, BODIES), ("method", method, _METHODS)):
            if given not in known:
                raise InvalidProgramError(f"{_NAME}({name}=...) is one of {', '.join(known)}, not {given!r}")
        if refused not in ("fail", "skip"):
            raise InvalidProgramError(f"{_NAME}(refused=...) is 'fail' or 'skip', not {refused!r}")
        if body == "array" and not isinstance(written, JsonFormat):
            raise InvalidProgramError(f"{_NAME}(body='array') is an array of JSON: it needs JsonFormat")
        timeout_ms = to_millis(timeout, "timeout")
        if timeout_ms < 1:
            raise InvalidProgramError(f"{_NAME}(timeout=...) is at least 1 ms")
        self._target = HttpTarget(
            url=checked_url(url, _NAME),
            method=method,
            headers=checked_headers(headers or {}, _NAME),
            value_format=written,
            body=body,
            timeout_ms=timeout_ms,
            skips_refused=refused == "skip",
        )
        self._limits = limits or RequestLimits(max_rows=_ROWS_PER_CALL if body == "row" else RequestLimits().max_rows)

    def __repr__(self) -> str:
        return f"{_NAME}({shown(self._target.url)!r}, {self._target.body!r})"

    def prepare(self) -> HttpSink:
        aiohttp()  # an error names the extra before anything is started
        return self

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        where = subtask_label(context)
        return RequestWriter(context, self._limits, self._target, where)
