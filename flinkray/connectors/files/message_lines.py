"""Files whose lines are messages of a format."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from flinkray.connectors.files.formats import FileSplit, LineFiles
from flinkray.connectors.formats.csv import CsvFormat, split_lines
from flinkray.connectors.formats.message_format import MessageFormat, decode_each, decode_rows

KINDS = "$kind"
"""The column behind the others of a changelog format that says what each row does."""
_COMMENT = r"^\s*#"
_LONGEST_ROW = 64 << 20
"""The bytes in which a quoted value has to end: what lacks a quote would be all of a file."""


class MessageLines(LineFiles):
    """Lines that are messages, of CSV with those that a quoted value goes on in. Empty ones are none; in CSV of one
    column they are its rows, as a null is written so.

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
        # One subtask reads all changes of a file: those of one row have to stay in order. In the middle of a file
        # nothing says whether a line break is within quotes.
        if self.is_changelog or (isinstance(self._format, CsvFormat) and self._format.quote is not None):
            return [(0, None)]
        return super().splits(system, path, size)

    def blocks(self, split: FileSplit) -> Iterator[tuple[bytes, int]]:
        if not isinstance(self._format, CsvFormat):
            yield from super().blocks(split)
            return
        begun, position = b"", split.start
        for lines, after in super().blocks(split):
            lines = begun + lines
            position = after
            begun = b""
            if len(lines) < _LONGEST_ROW:
                begun = self._format.unfinished(lines)
            if len(begun) < len(lines):
                yield lines[: len(lines) - len(begun)], after - len(begun)
        if begun:
            yield begun, position

    def parse(self, lines: bytes, schema: pa.Schema) -> pa.RecordBatch:
        messages = split_lines(lines)
        if isinstance(self._format, CsvFormat):
            messages, _ = self._format.rows(messages)
        if b"\r" in lines:
            messages = pc.replace_substring_regex(messages, b"\r$", b"")
        if len(self._format.record_type.schema) > 1 or not isinstance(self._format, CsvFormat):
            messages = messages.filter(pc.greater(pc.binary_length(messages), 0))
        if self._has_comments:
            messages = messages.filter(pc.invert(pc.match_substring_regex(messages, _COMMENT)))
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
