"""Requests that no client would send, from a seed: wrong in their bytes, methods, paths, headers or bodies."""

from __future__ import annotations

import json
import random
import re
import socket
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from flinkray.rest.routes import ROUTES, Route

_TIMEOUT_S = 20.0
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")

_METHODS = ("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "X", "")
_TEXTS = (
    *("", "0", "-1", "1e9", "null", "..", "../../etc/passwd", "%2e%2e%2f", "%00", "%ff", "%", "a" * 5_000),
    *("\x00", "\u0661", "\u202e", "'\"<script>", "{}", "[]", "te-1~x", "0" * 32, "g" * 32, "9" * 400, "true", "\udcff"),
)
_HEADERS = (
    *("Authorization", "Cookie", "Host", "Origin", "Sec-Fetch-Site", "Content-Type", "Content-Length", "Expect"),
    *(
        "Transfer-Encoding",
        "Connection",
        "Upgrade",
        "Range",
        "X-Forwarded-For",
        "Accept-Encoding",
        "X-Ray-Authorization",
    ),
)
# With one of these a server may wait for more.
_LENGTHS = frozenset({"Transfer-Encoding", "Expect", "Upgrade"})
_VALUES = (
    *("application/json", "text/plain", "chunked", "100-continue", "upgrade", "websocket", "cross-site", "same-origin"),
    *("null", "http://elsewhere.example", "localhost", "bytes=0-5", "gzip", "Bearer ", "Bearer wrong", "a=b; ;=", "7"),
)


class Fuzzed(Struct, frozen=True):
    """Something to send."""

    data: bytes
    is_whole: bool
    """Whether it may be a request that is answered by itself; else the sender says that no more comes."""


class Fuzzer:
    """Makes requests.

    Args:
        ids: of what is there, by the names of parameters in paths. What could be harmed by a request that is allowed to
            must not be among them.
        token: shown by half of those that only read; empty: by none.
    """

    def __init__(self, seed: int, ids: dict[str, str], token: str = "") -> None:
        self._random = random.Random(seed)
        self._ids = ids
        self._token = token

    def requests(self, count: int) -> Iterator[Fuzzed]:
        for _ in range(count):
            kind = self._random.random()
            if kind < 0.1:
                yield Fuzzed(self._random.randbytes(self._random.choice((1, 10, 300, 9_000))), is_whole=False)
                continue
            request = self._request()
            yield Fuzzed(self._damaged(request.data), is_whole=False) if kind < 0.3 else request

    # -- parts ---------------------------------------------------------------------------------------------------

    def _request(self) -> Fuzzed:
        chosen, route = self._random, self._random.choice(ROUTES)
        may_show = bool(self._token) and chosen.random() < 0.5
        is_proper = chosen.random() < 0.6
        method = route.method if is_proper else chosen.choice(_METHODS)
        if may_show and (route.is_write or method not in ("GET", "HEAD")):
            may_show = False
        body = self._body(route)
        lines = [f"{method} {self._path(route)} HTTP/1.1"]
        headers = {"Host": "localhost", "Content-Type": "application/json", "Content-Length": str(len(body))}
        if not is_proper:
            for _ in range(chosen.randrange(4)):
                headers[chosen.choice(_HEADERS)] = chosen.choice((*_VALUES, *_TEXTS))
        if may_show:
            headers["Authorization"] = f"Bearer {self._token}"
        elif self._token and chosen.random() < 0.2:
            headers["Authorization"] = f"Bearer {self._token[:-1]}"
        lines += [f"{name}: {value}" for name, value in {**headers, "Connection": "close"}.items()]
        head = "\r\n".join(lines) + "\r\n\r\n"
        is_whole = headers["Content-Length"] == str(len(body)) and _LENGTHS.isdisjoint(headers)
        return Fuzzed(head.encode("utf-8", "surrogateescape") + body, is_whole)

    def _path(self, route: Route) -> str:
        path = route.path
        for name in route.parameters:
            known = self._ids.get(name)
            value = known if known and self._random.random() < 0.7 else self._text()
            path = path.replace(f":{name}", value, 1)
        asked = [f"{name}={self._text()}" for name in route.query if self._random.random() < 0.7]
        return path + ("?" + "&".join(asked) if asked else "")

    def _text(self) -> str:
        text = self._random.choice(_TEXTS)
        return quote(text, errors="surrogateescape") if self._random.random() < 0.8 else text.replace("\x00", "")

    def _body(self, route: Route) -> bytes:
        kind = self._random.random()
        if kind < 0.3 or route.body is None:
            return b""
        if kind < 0.4:
            return self._random.randbytes(self._random.choice((1, 100, 70_000)))
        names = getattr(route.body, "__struct_encode_fields__", _TEXTS)  # a body by vertex may have any key
        fields = {name: self._value() for name in names if self._random.random() < 0.7}
        text = json.dumps(fields if kind < 0.9 else [fields] * 3).encode("utf-8", "surrogatepass")
        return text if kind < 0.8 else self._damaged(text)

    def _value(self, depth: int = 0) -> Any:
        values: Sequence[Any] = (*_TEXTS, None, True, -1, 1e300, 10**30, "no-such-place/x")
        if depth < 3 and self._random.random() < 0.2:
            return {self._random.choice(_TEXTS): self._value(depth + 1)}
        return self._random.choice(values)

    def _damaged(self, data: bytes) -> bytes:
        found = bytearray(data)
        for _ in range(self._random.randrange(1, 6)):
            at = self._random.randrange(len(found) + 1)
            match self._random.randrange(4):
                case 0:
                    found[at:at] = self._random.randbytes(self._random.randrange(1, 9))
                case 1:
                    del found[at : at + self._random.randrange(1, 40)]
                case 2:
                    del found[at:]
                case _ if at < len(found):
                    found[at] ^= 1 << self._random.randrange(8)
        return bytes(found)


def send(port: int, fuzzed: Fuzzed) -> int | None:
    """Sends it on a connection of its own; the status of the answer, None where the connection is closed without.

    Raises:
        TimeoutError: neither.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S) as connection:
        answer = b""
        try:
            connection.sendall(fuzzed.data)
            if not fuzzed.is_whole:
                connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(1 << 16):
                answer += piece
        except (ConnectionResetError, BrokenPipeError):
            pass  # as a server may do that has read enough
    found = _STATUS.match(answer)
    return int(found[1]) if found else None
