"""Files whose lines are messages of a format."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from flinkray.connectors.files.formats import FileSplit, LineFiles, line_blocks, of_open_array
from flinkray.connectors.formats.csv import CsvFormat, split_lines
from flinkray.connectors.formats.json import JsonFormat
from flinkray.connectors.formats.json_values import array_elements
from flinkray.connectors.formats.message_format import Decoded, MessageFormat, decode_each, decode_rows
from flinkray.connectors.formats.raw import RawFormat

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
        self._csv = message_format if isinstance(message_format, CsvFormat) else None
        self.kind = message_format.record_type.kind
        self.is_changelog = message_format.is_changelog

    def schema(self, system: fs.FileSystem, path: str) -> pa.Schema:
        return self._format.record_type.schema

    def splits(self, system: fs.FileSystem, path: str, size: int) -> list[tuple[int, int | None]]:
        # One subtask reads all changes of a file: those of one row have to stay in order. In the middle of a file
        # nothing says whether a line break is within quotes.
        if self.is_changelog or (self._csv is not None and self._csv.quote is not None):
            return [(0, None)]
        return super().splits(system, path, size)

    def blocks(self, split: FileSplit) -> Iterator[tuple[pa.Array, int]]:
        if self._csv is not None:
            return self._rows(self._csv, line_blocks(split, self.is_utf_8))
        return ((split_lines(text), after) for text, after in super().blocks(split))

    @property
    def is_utf_8(self) -> bool:
        return super().is_utf_8 and not (isinstance(self._format, RawFormat) and self._format.takes_any_bytes)

    def _rows(self, csv: CsvFormat, blocks: Iterator[tuple[bytes, int]]) -> Iterator[tuple[pa.Array, int]]:
        """The rows of blocks of lines, each of which is looked at once, however many a quoted value goes on in."""
        comments = _COMMENT if self._has_comments else None
        goes_on = csv.goes_on() if csv.quote is not None else None
        begun: list[bytes] = []
        """The lines of a row that goes on in the next block."""
        begun_bytes = after = 0
        for text, after in blocks:
            lines = split_lines(self.recoded(text))
            ended: list[pa.Array] = []
            if begun and goes_on is not None:
                texts = lines.to_pylist()
                end = next((place for place, text in enumerate(texts) if not goes_on(text)), None)
                begun += texts if end is None else texts[: end + 1]
                begun_bytes += sum(map(len, texts)) + len(texts)
                if end is None and begun_bytes < _LONGEST_ROW:
                    continue
                ended = [pa.array([b"\n".join(begun)], pa.large_binary())]
                lines = lines.slice(len(texts) if end is None else end + 1)
            rows, open_row = csv.rows(lines, comments)
            begun = [] if open_row is None else [open_row]
            # In the charset of the file, where a line has other bytes.
            begun_bytes = 0 if open_row is None else _bytes_of_last(text, open_row.count(b"\n") + 1)
            rows = pa.concat_arrays([*ended, rows])
            if len(rows):
                yield rows, after - begun_bytes
        if begun:
            yield pa.array([b"\n".join(begun)], pa.large_binary()), after

    def parse(self, lines: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
        messages = lines
        if pc.any(pc.ends_with(messages, b"\r")).as_py():
            messages = pc.replace_substring_regex(messages, b"\r$", b"")
        if len(self._format.record_type.schema) > 1 or self._csv is None:
            messages = messages.filter(pc.greater(pc.binary_length(messages), 0))
        if self._has_comments:
            messages = messages.filter(pc.invert(pc.match_substring_regex(messages, _COMMENT)))
        if self._skips:
            decoded = decode_each(self._format, messages)
        elif len(messages):
            decoded = self._decoded(messages)
        else:
            return pa.RecordBatch.from_pylist([], schema=schema)
        data = decoded.data
        data = data.select([name for name in schema.names if name in data.schema.names])
        if decoded.kinds is None:
            return data
        return pa.RecordBatch.from_arrays([*data.columns, decoded.kinds], names=[*data.schema.names, KINDS])

    def _decoded(self, messages: pa.Array) -> Decoded:
        try:
            return decode_rows(self._format, messages)
        except ValueError:
            first = messages[0].as_py()
            if isinstance(self._format, JsonFormat) and first.lstrip().startswith(b"["):
                try:
                    array_elements(first, of_objects=False)
                except ValueError as error:
                    raise of_open_array(first, error) from error
            raise


def _bytes_of_last(text: bytes, count: int) -> int:
    """How many bytes the last lines of a text have."""
    start = len(text) - text.endswith(b"\n")
    for _ in range(count):
        start = text.rfind(b"\n", 0, start)
    return len(text) - start - 1
