"""What is written of rows: subject, payload and headers of a message for each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct

from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.errors import RecordError, UnknownColumnError

Headers = dict[str, str]

_HEADER = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
"""What nats-py sends; others it refuses."""
_OF_SERVERS = "nats-"


class NatsTarget(Struct, frozen=True, kw_only=True):
    """Where rows go; `NatsSink` says what each is."""

    subject: str | None
    subject_column: str | None
    value_format: MessageFormat
    message_id: str | None
    headers_column: str | None = None

    def messages(self, data: pa.RecordBatch, where: str) -> Iterable[tuple[str, bytes, Headers | None]]:
        """Subject, payload and headers of each row, in order; its id is one of them.

        Args:
            where: operator and subtask, for errors.
        Raises:
            RecordError: a value has no form, a row has no subject or id, or a header cannot be sent.
            UnknownColumnError: rows lack a column.
        """
        subjects: Sequence[Any] = [self.subject] * data.num_rows
        if self.subject_column is not None:
            subjects = _texts(data, self.subject_column, where, "subject")
        headers: Sequence[Headers | None] = [None] * data.num_rows
        if self.headers_column is not None:
            headers = _headers(data, self.headers_column, where)
        if self.message_id is not None:
            ids = _texts(data, self.message_id, where, "id")
            headers = [{**(each or {}), "Nats-Msg-Id": text} for each, text in zip(headers, ids, strict=True)]
        names = [name for name in data.schema.names if name not in (self.subject_column, self.headers_column)]
        try:
            payloads = self.value_format.encode(data.select(names)).to_pylist()
        except ValueError as error:
            raise RecordError(f"{where}: a row cannot be written as a message: {error}") from error
        return zip(subjects, payloads, headers, strict=True)


def _column(data: pa.RecordBatch, name: str, where: str) -> pa.Array:
    if name not in data.schema.names:
        raise UnknownColumnError(name, data.schema.names, where)
    return data.column(name)


def _texts(data: pa.RecordBatch, name: str, where: str, what: str) -> list[str]:
    column = _column(data, name, where)
    if column.null_count:
        raise RecordError(f"{where}: column {name!r} is null, and says no {what}")
    texts: list[str] = column.cast(pa.string()).to_pylist()
    if any(not text or any(each.isspace() for each in text) for text in texts):
        raise RecordError(f"{where}: column {name!r} has a value that is no {what}: it is empty or has spaces")
    return texts


def _headers(data: pa.RecordBatch, name: str, where: str) -> list[Headers | None]:
    column = _column(data, name, where)
    kind = column.type
    if not (pa.types.is_map(kind) and pa.types.is_string(kind.key_type) and pa.types.is_string(kind.item_type)):
        raise RecordError(f"{where}: column {name!r} is {kind}, and headers are a map of text to text")
    rows: list[Headers | None] = [
        {header: value for header, value in each if value is not None} if each else None for each in column.to_pylist()
    ]
    for header in {header for each in rows if each for header in each}:
        if _HEADER.fullmatch(header) is None or header.lower().startswith(_OF_SERVERS):
            why = "the server's own" if header.lower().startswith(_OF_SERVERS) else "none of a header"
            raise RecordError(f"{where}: column {name!r} has the name {header!r}, which is {why}")
    if any("\n" in value or "\r" in value for each in rows if each for value in each.values()):
        raise RecordError(f"{where}: column {name!r} has a value with a line break, which no header can have")
    return rows
