"""Asking a REST server as any client would."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

TIMEOUT_S = 20.0


class Answer(Struct, frozen=True):
    """What came back over HTTP."""

    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def value(self) -> Any:
        return json.loads(self.text)


class RestClient:
    """Sends requests to one server, with a token if it has one."""

    def __init__(self, url: str, token: str = "", tls: ssl.SSLContext | None = None) -> None:
        self.url = url
        self._tls = tls
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
            with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=self._tls) as response:
                return Answer(response.status, response.read().decode(), dict(response.headers))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.read().decode(), dict(error.headers))
