"""JSON objects as messages."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flinkray.connectors.formats.json_lines import from_json_lines, json_objects
from flinkray.connectors.formats.message_format import MessageFormat, rows_type, shown, written_columns
from flinkray.errors import InvalidProgramError
from flinkray.functions.type_hints import record_type
from flinkray.types.records import RecordType

_OBJECT = r"(?s)^\s*\{.*\}\s*$"


class JsonFormat(MessageFormat):
    """Each message is a JSON object in UTF-8: a column for each of its names that the schema has; others are ignored,
    and those that it lacks are null.

    Times are ISO 8601 text, durations seconds, bytes Base64, and maps objects.

    Args:
        schema: the columns that are read, or written: a pa.Schema, dataclass, NamedTuple, TypedDict or dict of name ->
            type. None, for writing alone: all that rows have.
    """

    def __init__(self, schema: Any = None) -> None:
        self._schema: pa.Schema | None = None if schema is None else record_type(schema).schema

    @property
    def record_type(self) -> RecordType:
        if self._schema is None:
            raise InvalidProgramError("JsonFormat needs the columns that are to be read: JsonFormat({'name': str})")
        return rows_type(self._schema)

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        # What begins with a brace and ends with one is an object or several: so rows can be too many, never too few,
        # and as many as messages only where each message is one.
        if not pc.all(pc.and_(pc.starts_with(messages, "{"), pc.ends_with(messages, "}"))).as_py():
            is_object = pc.match_substring_regex(messages, _OBJECT)
            if not pc.all(is_object).as_py():
                raise ValueError(f"no JSON object: {shown(messages.filter(pc.invert(is_object))[0].as_py())}")
        text = b"\n".join(messages.to_pylist())
        if b"\r" in text or text.count(b"\n") >= len(messages):
            # Within an object a line break is white space: those of text are escaped.
            lines = pc.replace_substring(pc.replace_substring(messages, b"\n", b" "), b"\r", b" ")
            text = b"\n".join(lines.to_pylist())
        data = from_json_lines(text, self.record_type.schema)
        if data.num_rows != len(messages):
            raise ValueError(f"more than one JSON object in a message, such as {shown(messages[0].as_py())}")
        return data

    def encode(self, data: pa.RecordBatch) -> pa.Array:
        try:
            written = data if self._schema is None else written_columns(data, self._schema)
            return json_objects(written).cast(pa.large_binary())
        except TypeError as error:
            raise ValueError(str(error)) from error
