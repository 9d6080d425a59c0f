"""What is sent of rows: the bodies of requests."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from flinkray.batches.numpy_arrays import from_numpy
from flinkray.connectors.formats.csv import CsvFormat
from flinkray.connectors.formats.json import JsonFormat
from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.errors import RecordError

Body = Literal["lines", "array", "row"]
BODIES: tuple[Body, ...] = ("lines", "array", "row")
_CONTENT_TYPE = "content-type"


class HttpTarget(Struct, frozen=True, kw_only=True):
    """Where rows go; `HttpSink` says what each is."""

    url: str
    method: str
    headers: tuple[tuple[str, str], ...]
    value_format: MessageFormat
    body: Body
    timeout_ms: int
    skips_refused: bool

    @property
    def all_headers(self) -> dict[str, str]:
        """With the content type, where none is given and the format has one."""
        if any(name.lower() == _CONTENT_TYPE for name, _ in self.headers):
            return dict(self.headers)
        return {"Content-Type": self._content_type, **dict(self.headers)}

    @property
    def _content_type(self) -> str:
        if isinstance(self.value_format, CsvFormat):
            return "text/csv"
        if not isinstance(self.value_format, JsonFormat):
            return "application/octet-stream"
        return "application/x-ndjson" if self.body == "lines" else "application/json"

    def messages(self, rows: pa.RecordBatch, where: str) -> pa.Array:
        """A message for each row, in order: large_binary.

        Args:
            where: operator and subtask, for errors.
        Raises:
            RecordError: a value has no form, or would be more than one line where each is to be one.
        """
        try:
            messages = self.value_format.encode(rows)
        except ValueError as error:
            raise RecordError(f"{where}: a row cannot be written as a message: {error}") from error
        is_json = isinstance(self.value_format, JsonFormat)  # whose objects have no line breaks
        if self.body == "lines" and not is_json and pc.any(pc.match_substring(messages, b"\n")).as_py():
            raise RecordError(
                f"{where}: a row's message has a line break, and would be several lines: HttpSink(body='row') sends "
                "each in a request of its own"
            )
        return messages

    def body_of(self, messages: pa.Array) -> bytes:
        """The body with these messages; there is at least one."""
        if self.body == "row":
            return bytes(messages[0].as_py())
        opening, separator, closing = (b"[", b",", b"]") if self.body == "array" else (b"", b"\n", b"\n")
        offsets = from_numpy(np.array([0, len(messages)]))
        between = pa.scalar(separator, pa.large_binary())
        together = pc.binary_join(pa.LargeListArray.from_arrays(offsets, messages), between)
        return b"%b%b%b" % (opening, together[0].as_py(), closing)
