"""Files whose lines are messages of a format."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from flinkray.connectors.files.formats import LineFiles
from flinkray.connectors.formats.message_format import MessageFormat, decode_each, decode_rows

KINDS = "$kind"
"""The column behind the others of a changelog format that says what each row does."""
_COMMENT = b"#"


class MessageLines(LineFiles):
    """Lines that are messages; empty ones are none.

    Args:
        skips: whether lines that cannot be read are left out.
        has_comments: whether lines that begin with # are left out.
    """

    def __init__(self, message_format: MessageFormat, skips: bool = False, has_comments: bool = False) -> None:
        self._format = message_format
        self._skips = skips
        self._has_comments = has_comments
        self.kind = message_format.record_type.kind
        self.is_changelog = message_format.is_changelog

    def schema(self, system: fs.FileSystem, path: str) -> pa.Schema:
        return self._format.record_type.schema

    def splits(self, system: fs.FileSystem, path: str, size: int) -> list[tuple[int, int | None]]:
        # One subtask reads all changes of a file: those of one row have to stay in order.
        return [(0, None)] if self.is_changelog else super().splits(system, path, size)

    def parse(self, lines: bytes, schema: pa.Schema) -> pa.RecordBatch:
        text = pa.array([lines.removesuffix(b"\n")], pa.large_binary())
        messages = pc.list_flatten(pc.split_pattern(text, b"\n"))
        if b"\r" in lines:
            messages = pc.replace_substring_regex(messages, b"\r$", b"")
        is_message = pc.greater(pc.binary_length(messages), 0)
        if self._has_comments:
            is_message = pc.and_not(is_message, pc.starts_with(messages, _COMMENT))
        messages = messages.filter(is_message)
        if self._skips:
            decoded = decode_each(self._format, messages)
        elif len(messages):
            decoded = decode_rows(self._format, messages)
        else:
            return pa.RecordBatch.from_pylist([], schema=schema)
        data = decoded.data
        data = data.select([name for name in schema.names if name in data.schema.names])
        if decoded.kinds is None:
            return data
        return pa.RecordBatch.from_arrays([*data.columns, decoded.kinds], names=[*data.schema.names, KINDS])
