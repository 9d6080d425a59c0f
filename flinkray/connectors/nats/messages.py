"""What is written of rows: subject, payload and id of a message for each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct

from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.errors import RecordError, UnknownColumnError


class NatsTarget(Struct, frozen=True, kw_only=True):
    """Where rows go; `NatsSink` says what each is."""

    subject: str | None
    subject_column: str | None
    value_format: MessageFormat
    message_id: str | None

    def messages(self, data: pa.RecordBatch, where: str) -> Iterable[tuple[str, bytes, str | None]]:
        """Subject, payload and id of each row, in order.

        Args:
            where: operator and subtask, for errors.
        Raises:
            RecordError: a value has no form, or a row has no subject or id.
            UnknownColumnError: rows lack a column.
        """
        subjects: Sequence[Any] = [self.subject] * data.num_rows
        if self.subject_column is not None:
            subjects = _texts(data, self.subject_column, where, "subject")
        ids: Sequence[Any] = [None] * data.num_rows
        if self.message_id is not None:
            ids = _texts(data, self.message_id, where, "id")
        names = [name for name in data.schema.names if name != self.subject_column]
        try:
            payloads = self.value_format.encode(data.select(names)).to_pylist()
        except ValueError as error:
            raise RecordError(f"{where}: a row cannot be written as a message: {error}") from error
        return zip(subjects, payloads, ids, strict=True)


def _texts(data: pa.RecordBatch, name: str, where: str, what: str) -> list[str]:
    if name not in data.schema.names:
        raise UnknownColumnError(name, data.schema.names, where)
    column = data.column(name)
    if column.null_count:
        raise RecordError(f"{where}: column {name!r} is null, and says no {what}")
    texts: list[str] = column.cast(pa.string()).to_pylist()
    if any(not text or any(each.isspace() for each in text) for text in texts):
        raise RecordError(f"{where}: column {name!r} has a value that is no {what}: it is empty or has spaces")
    return texts
