"""A request that has found its route, and how its parameters are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from actors.rest.asking.refusals import Refusal
from flinkray.types.records import JobId

_ID = re.compile(r"[0-9a-f]{32}")


class Call(Struct, frozen=True):
    """What is asked for."""

    parameters: Mapping[str, str] = field(default_factory=dict)
    """What varies in the path."""
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    body: Any = None
    """Of the type that the route names."""
    url: str = ""
    """Where this server is, as the client sees it."""

    def job_id(self) -> JobId:
        return JobId(self.id_of("jobid"))

    def id_of(self, name: str) -> str:
        """A parameter of the path that is an id."""
        value = self.parameters[name].lower()
        if not _ID.fullmatch(value):
            raise Refusal(400, f"{name} {value!r} is no id: it has 32 hexadecimal digits")
        return value

    def number(self, name: str) -> int:
        """A parameter of the path that is a number from 0 on."""
        return _number(name, self.parameters[name])

    def number_in_query(self, name: str, default: int) -> int:
        values = self.query.get(name, ())
        return _number(name, values[-1]) if values else default

    def text_in_query(self, name: str) -> str | None:
        """None: it is not given."""
        values = self.query.get(name, ())
        return values[-1] if values else None

    def list_in_query(self, name: str) -> list[str] | None:
        """The values of a parameter, given several times or with commas between; None: it is not given."""
        if name not in self.query:
            return None
        return [each for value in self.query[name] for each in value.split(",") if each]


def _number(name: str, text: str) -> int:
    # Also `str.isdigit` lets through what `int` does not take.
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise Refusal(400, f"{name} must be a whole number from 0 on, got {text!r}")
    return int(text)
