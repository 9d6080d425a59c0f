"""The stream to which rows are written exactly once: what it has to be like, and which rows it can take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from flinkray.connectors.nats.clients import NatsError, ask
from flinkray.connectors.nats.subjects import covers

_OF_BATCHES = 128
"""Bytes of the headers by which a message is one of an atomic batch, which count as its payload does, at most."""


class MarkedStream(Struct, frozen=True):
    """A stream that holds marks; `NatsSink` says what each of these is."""

    name: str
    marks: str
    marks_kept_s: int | None

    async def found(self, client: Any, where: str) -> FoundStream:
        """What the server says of it.

        Args:
            where: operator and subtask, for errors.
        Raises:
            NatsError: it cannot hold the promise; says why.
            ApiError: it is not there, or the server cannot say.
            Exception: of the client.
        """
        config = (await ask(client, f"STREAM.INFO.{self.name}"))["config"]
        if (problem := self._problem(config)) is not None:
            raise NatsError(f"{where}: stream {self.name!r} cannot be written exactly once: {problem}")
        subjects, largest = tuple(config.get("subjects") or ()), config.get("max_msg_size", 0)
        if 0 < largest < client.max_payload:
            return FoundStream(self.name, subjects, largest, "max_msg_size of the stream")
        return FoundStream(self.name, subjects, client.max_payload)

    def _problem(self, config: dict[str, Any]) -> str | None:
        """Why a stream of this configuration cannot hold the promise; None: it can."""
        kept, max_age_s = self.marks_kept_s, config.get("max_age", 0) / 10**9
        if not config.get("allow_atomic"):
            return "it takes no atomic batches; set allow_atomic (NATS 2.12 or later)"
        if config.get("retention", "limits") != "limits":
            return f"its retention is {config['retention']!r}, which deletes marks when they are read, not 'limits'"
        if kept is not None and not config.get("allow_msg_ttl"):
            return "marks expire, which it does not allow; set allow_msg_ttl, or NatsSink(marks_kept=None)"
        if max_age_s and (kept is None or max_age_s < kept):
            wanted = "all marks" if kept is None else f"marks for {kept} s"
            return f"it deletes messages after {max_age_s:g} s (max_age), and {wanted} must be kept (marks_kept=)"
        if not covers(config.get("subjects") or (), f"{self.marks}.*.*"):
            return f"its subjects have no place for marks, '{self.marks}.*.*'; add it, or set NatsSink(marks=...)"
        return None


class FoundStream(Struct, frozen=True):
    """What a stream can take."""

    name: str
    subjects: tuple[str, ...]
    largest: int
    """Bytes of a message that it takes, with headers."""
    limit: str = "max_payload of the server"
    """What says so."""

    def check(self, subjects: Iterable[str], longest: int, where: str) -> None:
        """Checks messages before a checkpoint has them: from then on no restart would mend what cannot be written.

        Args:
            longest: bytes of the longest message, with its own headers.
            where: operator and subtask, for errors.
        Raises:
            NatsError: the stream does not take them; says which one.
        """
        for subject in subjects:
            if not covers(self.subjects, subject):
                raise NatsError(
                    f"{where}: stream {self.name!r} has no subject {subject!r}, to which rows go; its subjects are "
                    f"{', '.join(self.subjects) or 'none'}. Add it there, or name the stream that has it"
                )
        if longest + _OF_BATCHES > self.largest:
            raise NatsError(
                f"{where}: a row's message has {longest} bytes, and {_OF_BATCHES} of headers, and {self.limit} is "
                f"{self.largest}: write smaller rows, or raise {self.limit}"
            )
