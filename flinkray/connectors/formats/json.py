"""JSON objects as messages."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flinkray.connectors.formats.json_lines import from_json_lines, json_objects
from flinkray.connectors.formats.json_values import array_elements, in_type, json_object, json_text
from flinkray.connectors.formats.message_format import (
    MessageFormat,
    UnreadableError,
    check_bad_values,
    in_halves,
    rows_type,
    shown,
    written_columns,
)
from flinkray.connectors.formats.nested_columns import entries, is_list
from flinkray.errors import InvalidProgramError
from flinkray.functions.type_hints import record_type
from flinkray.types.nested import contains, with_items
from flinkray.types.records import RecordType

TIMESTAMP_FORMATS = ("ISO-8601", "SQL")
_WITHOUT_BREAKS_IN_TEXT = r'(?s)^(?:[^"]|"(?:[^"\\\r\n]|\\.)*")*$'
_OBJECT = r"(?s)^\s*\{.*\}\s*$"
_ARRAY = r"^\s*\["


class JsonFormat(MessageFormat):
    """Each message is a JSON object in UTF-8: a column for each of its names that the schema has; others are ignored,
    and those that it lacks are null. An array of objects gives a row for each of them; null is none.

    Times are ISO 8601 text, durations seconds, bytes Base64, and maps objects.

    Args:
        schema: the columns that are read, or written: a pa.Schema, dataclass, NamedTuple, TypedDict or dict of name ->
            type. None, for writing alone: all that rows have.
        timestamp_format: how timestamps are written: "ISO-8601" (2024-01-01T00:00:00) or "SQL" (2024-01-01 00:00:00);
            both are read.
        ignore_null_fields: whether what is null is left out of objects that are written.
        fail_on_missing_field: whether a message that lacks one of the columns, or of the fields in them, cannot be
            read.
        rounds: whether values are read as Flink's tables read them, with more digits than the type of their column:
            decimals are rounded, and null where they are too large, times are cut to their unit, and numbers to whole
            ones where such are wanted; and whether timestamps have a zone in text just where they have one in their
            type, while else both are taken for UTC. NaN and infinity are written as text then, as Flink does, and read
            again; else as null.
        bad_values: what becomes of a value that is not of its type, where its message is an object: "fail": the
            message cannot be read; "null": the value is null, an element or a field in another value as well.
    """

    # Of the class, too: formats that were stored before there was any of this are without it.
    _timestamp_format = "ISO-8601"
    _ignore_null_fields = False
    _fail_on_missing_field = False
    _rounds = False
    _bad_values: Literal["fail", "null"] = "fail"

    def __init__(
        self,
        schema: Any = None,
        timestamp_format: str = "ISO-8601",
        ignore_null_fields: bool = False,
        fail_on_missing_field: bool = False,
        rounds: bool = False,
        bad_values: Literal["fail", "null"] = "fail",
    ) -> None:
        self._schema: pa.Schema | None = None if schema is None else record_type(schema).schema
        if timestamp_format not in TIMESTAMP_FORMATS:
            raise ValueError(f"timestamps are written as {' or '.join(TIMESTAMP_FORMATS)}, not as {timestamp_format!r}")
        self._timestamp_format = timestamp_format
        self._ignore_null_fields = ignore_null_fields
        self._fail_on_missing_field = fail_on_missing_field
        self._rounds = rounds
        check_bad_values(bad_values, "JsonFormat")
        if fail_on_missing_field and bad_values == "null":
            raise ValueError("JsonFormat(fail_on_missing_field=True) and bad_values='null' exclude each other")
        self._bad_values = bad_values

    def of_columns(self, schema: pa.Schema) -> JsonFormat:
        """The format of other columns, whose values are read in the same way."""
        return JsonFormat(schema, rounds=self._rounds, bad_values=self._bad_values)

    @property
    def record_type(self) -> RecordType:
        if self._schema is None:
            raise InvalidProgramError("JsonFormat needs the columns that are to be read: JsonFormat({'name': str})")
        return rows_type(self._schema)

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        if self._bad_values == "fail":
            return self._decode(messages)
        return in_halves(messages, self._decode, self._decode_readable)

    def decode_several(self, messages: pa.Array) -> tuple[pa.RecordBatch, npt.NDArray[np.int64] | None]:
        if pc.all(pc.starts_with(messages, "{")).as_py():
            return self.decode(messages), None
        arrays = np.flatnonzero(np.asarray(pc.match_substring_regex(messages, _ARRAY)))
        if not len(arrays):
            return self.decode(messages), None
        objects = [[message] for message in messages.to_pylist()]
        for place in arrays:
            objects[place] = array_elements(objects[place][0], of_objects=self._bad_values == "null")
        rows = np.repeat(np.arange(len(messages)), [len(each) for each in objects])
        if not len(rows):
            return pa.RecordBatch.from_pylist([], schema=self.record_type.schema), rows
        try:
            return self.decode(pa.array(itertools.chain(*objects), pa.large_binary())), rows
        except UnreadableError as error:
            is_wrong = np.zeros(len(messages), np.bool_)
            is_wrong[rows[error.is_wrong]] = True
            raise UnreadableError(str(error), is_wrong) from error

    def _decode(self, messages: pa.Array) -> pa.RecordBatch:
        # What begins with a brace and ends with one is an object or several: so rows can be too many, never too few,
        # and as many as messages only where each message is one.
        if not pc.all(pc.and_(pc.starts_with(messages, "{"), pc.ends_with(messages, "}"))).as_py():
            is_object = pc.match_substring_regex(messages, _OBJECT)
            if not pc.all(is_object).as_py():
                raise ValueError(f"no JSON object: {shown(messages.filter(pc.invert(is_object))[0].as_py())}")
        text = b"\n".join(messages.to_pylist())
        if b"\r" in text or text.count(b"\n") >= len(messages):
            text = b"\n".join(_without_line_breaks(messages))
        try:
            data = from_json_lines(text, self.record_type.schema, self._rounds, self._bad_values == "null")
        except UnreadableError as error:
            if len(error.is_wrong) != len(messages):
                raise ValueError(str(error)) from error
            raise
        if data.num_rows != len(messages):
            raise ValueError(f"more than one JSON object in a message, such as {shown(messages[0].as_py())}")
        if self._fail_on_missing_field and not _has_all_fields(text, data):
            _refuse_missing(messages, data)
        return data

    def _decode_readable(self, message: bytes) -> pa.RecordBatch:
        """The row of a message with null for each value that is not of its type."""

        def if_readable(value: Any, kind: pa.DataType) -> Any:
            try:
                from_json_lines(json_text({"": value}).encode(), pa.schema([("", kind)]), self._rounds)
            except ValueError:
                return None
            return value

        schema = self.record_type.schema
        try:
            values = json_object(message)
            readable = {each.name: in_type(values.get(each.name), each.type, if_readable) for each in schema}
            return from_json_lines(json_text(readable).encode(), schema, self._rounds)
        except RecursionError as error:
            raise ValueError(f"an object that is nested too deeply: {shown(message)}") from error

    def encode(self, data: pa.RecordBatch) -> pa.Array:
        try:
            written = data if self._schema is None else written_columns(data, self._schema)
            if self._timestamp_format == "SQL":
                written = written.cast(pa.schema([field.with_type(_as_text(field.type)) for field in written.schema]))
            return json_objects(written, "}", self._ignore_null_fields, names_nan=self._rounds).cast(pa.large_binary())
        except TypeError as error:
            raise ValueError(str(error)) from error


def _without_line_breaks(messages: pa.Array) -> list[bytes]:
    """Objects on one line each. A line break is white space in them, but not in text, where it has an escape."""
    plain = pc.match_substring_regex(messages, _WITHOUT_BREAKS_IN_TEXT)
    lines: list[bytes] = pc.replace_substring_regex(messages, "[\r\n]", " ").to_pylist()
    for index in np.flatnonzero(~np.asarray(plain)):
        lines[index] = json_text(json_object(messages[int(index)].as_py())).encode()
    return lines


def _as_text(kind: pa.DataType) -> pa.DataType:
    """The type with text for timestamps, which Arrow writes as SQL does."""
    return pa.string() if pa.types.is_timestamp(kind) else with_items(kind, _as_text)


def _has_all_fields(lines: bytes, data: pa.RecordBatch) -> bool:
    """Whether all objects are known to have a value for each column and each field in it, read as these rows."""
    if not any(_with_null(column).any() for column in data.columns):
        return True
    reader = _reader(data.schema)
    if reader is None:
        return False
    try:
        reader.decode_lines(lines)
    except (msgspec.MsgspecError, RecursionError):  # also of what is read nevertheless, such as NaN
        return False
    return True


@functools.lru_cache(maxsize=16)
def _reader(schema: pa.Schema) -> msgspec.json.Decoder[Any] | None:
    """Reads objects, and refuses those that lack a field of the schema; None: a field has a name that cannot be."""
    try:
        return msgspec.json.Decoder(_with_required_fields(pa.struct(list(schema))))
    except ValueError:  # of names with quotes or backslashes
        return None


def _with_required_fields(kind: pa.DataType) -> Any:
    """A type of whose JSON only the objects are looked at, which have to have all fields."""
    if not contains(kind, pa.types.is_struct):
        return msgspec.Raw
    if pa.types.is_struct(kind):
        names = {f"field_{place}": field.name for place, field in enumerate(kind)}
        fields = [(name, _with_required_fields(field.type)) for name, field in zip(names, kind, strict=True)]
        return msgspec.defstruct("Fields", fields, rename=names, gc=False) | None
    if pa.types.is_map(kind):
        return dict[str, _with_required_fields(kind.item_type)] | None  # type: ignore[misc]
    return list[_with_required_fields(kind.value_type)] | None  # type: ignore[misc]


def _refuse_missing(messages: pa.Array, data: pa.RecordBatch) -> None:
    """Refuses messages that have no value for a column, or a field in it, which is read as the null that others
    have."""
    has_null = np.zeros(data.num_rows, np.bool_)
    for column in data.columns:
        has_null |= _with_null(column)
    for row in np.flatnonzero(has_null):
        try:
            found = json.loads(messages[row].as_py(), strict=False)
        except RecursionError as error:
            raise ValueError(f"an object that is nested too deeply: {shown(messages[row].as_py())}") from error
        missing = next(_missing(found, pa.struct(list(data.schema))), None)
        if missing is not None:
            raise ValueError(f"there is no {missing!r} in {shown(messages[row].as_py())}")


def _with_null(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Which values are null, or have a null in them."""
    found = np.array(column.is_null(), np.bool_)
    if pa.types.is_struct(column.type):
        for part in column.flatten():
            found |= _with_null(part)
    elif pa.types.is_map(column.type) or is_list(column.type):
        lists = entries(column) if pa.types.is_map(column.type) else column
        parents = np.asarray(pc.list_parent_indices(lists))
        found[parents[_with_null(pc.list_flatten(lists))]] = True
    return found


def _missing(value: Any, kind: pa.DataType) -> Iterator[str]:
    """The names that objects lack, by their paths."""
    if isinstance(value, dict) and pa.types.is_struct(kind):
        for field in kind:
            if field.name not in value:
                yield field.name
                continue
            for path in _missing(value[field.name], field.type):
                yield f"{field.name}.{path}"
    elif isinstance(value, dict) and pa.types.is_map(kind):
        for item in value.values():
            yield from _missing(item, kind.item_type)
    elif isinstance(value, list) and is_list(kind):
        for item in value:
            yield from _missing(item, kind.value_type)
