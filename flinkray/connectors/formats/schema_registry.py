"""A client of schema registries that speak Confluent's REST interface (Apicurio's does as well)."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote, urlsplit

from flinkray.errors import ConnectorError

_TIMEOUT_S = 10.0
_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_NOT_FOUND = 404


class SchemaRegistryError(ConnectorError, ConnectionError):
    """A registry does not answer, or refuses a schema; says which, and the way out."""


class SchemaRegistry:
    """Knows the schemas of messages by numbers, and gives new ones a number. Answers are kept, as numbers never change
    their meaning; for one thread.

    Args:
        url: such as "http://localhost:8081".
        user, password: for basic authentication; shown nowhere.
    """

    def __init__(self, url: str, user: str | None = None, password: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError(f"a schema registry has an http or https address, not {parts.scheme!r}")
        if parts.username or parts.password:
            raise ValueError("give a schema registry's user and password as user= and password=, not in its address")
        self._url = url.rstrip("/")
        self._user = user
        self._password = password
        self._by_id: dict[int, str] = {}
        self._ids: dict[tuple[str, str], int] = {}

    def __repr__(self) -> str:
        return f"SchemaRegistry({self._url!r})"

    def schema(self, schema_id: int) -> str:
        """The text of a schema.

        Raises:
            ValueError: the registry has none of that number.
            SchemaRegistryError: it does not answer, or not as a registry does.
        """
        if schema_id not in self._by_id:
            answer = self._ask(f"/schemas/ids/{schema_id}")
            if answer is None:
                raise ValueError(f"there is no schema {schema_id} in {self!r}")
            self._by_id[schema_id] = str(answer["schema"])
        return self._by_id[schema_id]

    def register(self, subject: str, schema: str) -> int:
        """The number of a schema of a subject, which is registered if it is new.

        Raises:
            SchemaRegistryError: as `schema`; also where the registry refuses it, for example as incompatible.
        """
        if (subject, schema) not in self._ids:
            answer = self._ask(f"/subjects/{quote(subject, safe='')}/versions", {"schema": schema})
            if answer is None:
                raise SchemaRegistryError(f"{self!r} does not take schemas for the subject {subject!r}")
            self._ids[subject, schema] = int(answer["id"])
        return self._ids[subject, schema]

    def _ask(self, path: str, body: Any = None) -> Any:
        """The answer; None: there is no such thing."""
        request = urllib.request.Request(
            self._url + path,
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": _CONTENT_TYPE, "Accept": f"{_CONTENT_TYPE}, application/json"},
        )
        if self._user is not None:
            token = base64.b64encode(f"{self._user}:{self._password or ''}".encode()).decode()
            request.add_header("Authorization", f"Basic {token}")
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            if error.code == _NOT_FOUND:
                return None
            detail = error.read().decode(errors="replace")[:500]
            raise SchemaRegistryError(f"{self!r} answered {path} with {error.code} {error.reason}: {detail}") from error
        except (OSError, ValueError) as error:
            raise SchemaRegistryError(f"{self!r} did not answer {path}: {error}; is it reachable from here?") from error
