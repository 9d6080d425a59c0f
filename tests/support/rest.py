"""Asking a REST server as any client would."""

from __future__ import annotations

import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from actors.rest.starting import ray_token

TIMEOUT_S = 20.0


class Answer(Struct, frozen=True):
    """What came back over HTTP."""

    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def value(self) -> Any:
        return json.loads(self.text)


def token_here() -> str:
    """What a server asks for that is started in this process; empty: nothing."""
    return ray_token(os.environ) if os.environ.get("RAY_AUTH_MODE") == "token" else ""


class RestClient:
    """Sends requests to one server.

    Args:
        token: shown with each; None: the one that a server of this process asks for, as Ray, once it was started in a
            process, has servers that are started there ask for its token; empty: none.
    """

    def __init__(
        self, url: str, token: str | None = None, tls: ssl.SSLContext | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.url = url
        token = token_here() if token is None else token
        self._tls = tls
        self._timeout_s = timeout_s
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, headers=headers)

    def write(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """With a body as JSON, where there is one."""
        data = None if body is None else json.dumps(body).encode()
        return self.send(method, path, data, {"Content-Type": "application/json", **headers})

    def send(
        self, method: str, path: str, data: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        request = urllib.request.Request(self.url + path, data, {**self._headers, **(headers or {})}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s, context=self._tls) as response:
                return Answer(response.status, response.read().decode(), dict(response.headers))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.read().decode(), dict(error.headers))
