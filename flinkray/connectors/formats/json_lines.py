"""Columns as lines of JSON and back, a whole column at a time."""

from __future__ import annotations

import base64
import binascii
import io
import json
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json
from pyarrow import types

from flinkray.connectors.formats.json_values import NumberText, converted_lines
from flinkray.connectors.formats.message_format import UnreadableError, decimal_texts, java_numbers
from flinkray.connectors.formats.nested_columns import (
    entries,
    is_list,
    is_uuid,
    lengths,
    offsets,
    retyped,
    uuid_texts,
)
from flinkray.types.arrow_types import is_bytes, is_text
from flinkray.types.nested import contains, with_items

_CONTROL = "[\x00-\x1f]"
_WHOLE_NUMBER = "^(-?[0-9]+)$"
"""A float without a point, which readers would take for an integer, and then refuse the next float."""
_OFFSET = "([+-][0-9]{2})([0-9]{2})$"
"""The offset of a time zone as Arrow writes it; ISO 8601 has it with a colon."""
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""The number of decimal places of a second in each unit."""
_INT64_DIGITS = 19
_LOCAL_TIME = r"^\d{4}-\d\d-\d\d(?:[T ]\d\d(?::?\d\d(?::?\d\d(?:\.\d*)?)?)?)?$"
"""What Arrow may read as a timestamp without a zone, and with one."""
_INSTANT = r"^\d{4}-\d\d-\d\d[T ]\d\d(?::?\d\d(?::?\d\d(?:\.\d*)?)?)?(?:Z|[+-]\d\d(?::?\d\d)?)$"


def to_json_lines(batch: pa.RecordBatch) -> bytes:
    """One JSON object per row, each on a line of its own, in UTF-8.

    Times are ISO 8601 text, durations seconds, bytes Base64, and maps objects; doubles always have a point or an
    exponent; NaN and infinity, which JSON does not know, are null.

    Raises:
        ValueError: a map has a key twice.
        TypeError: a type has no form in JSON.
    """
    lines: list[str] = json_objects(batch, "}\n").to_pylist()
    return "".join(lines).encode()


def json_objects(
    batch: pa.RecordBatch, closing: str = "}", omits_nulls: bool = False, names_nan: bool = False
) -> pa.Array:
    """One JSON object per row, as `to_json_lines` writes it, as text.

    Args:
        closing: ends each.
        omits_nulls: whether what is null is left out of objects, of structs as well, and not written as null.
        names_nan: whether NaN and infinity are text, as Flink writes them, and not null.
    Raises: as `to_json_lines`.
    """
    if not batch.num_columns:
        return pa.array(["{" + closing] * batch.num_rows, pa.string())
    return _objects(batch.schema.names, batch.columns, closing, _Style(omits_nulls, names_nan))


class _Style(NamedTuple):
    omits_nulls: bool
    names_nan: bool


def _objects(names: list[str], columns: list[pa.Array], closing: str, style: _Style) -> pa.Array:
    parts: list[Any] = []
    if style.omits_nulls:
        for name, column in zip(names, columns, strict=True):
            opening = f",{json.dumps(name, ensure_ascii=False)}:"
            text = pc.binary_join_element_wise(opening, _json_texts(column, style), "")
            parts.append(pc.fill_null(text, ""))
        joined = pc.binary_join_element_wise(*parts, "")
        return pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(joined, 1), closing, "")
    for index, (name, column) in enumerate(zip(names, columns, strict=True)):
        opening = ("{" if index == 0 else ",") + json.dumps(name, ensure_ascii=False) + ":"
        parts += [opening, _texts_and_nulls(column, style)]
    return pc.binary_join_element_wise(*parts, closing, "")


def _texts_and_nulls(column: pa.Array, style: _Style) -> pa.Array:
    return pc.fill_null(_json_texts(column, style), "null")


def _json_texts(column: pa.Array, style: _Style) -> pa.Array:
    """Each value as JSON; null where it is null."""
    kind = column.type
    if is_uuid(kind):
        return _quoted(uuid_texts(column))
    if isinstance(kind, pa.BaseExtensionType):
        return _json_texts(column.storage, style)
    if types.is_dictionary(kind):
        return _json_texts(column.dictionary_decode(), style)
    if types.is_decimal(kind):
        return decimal_texts(column)
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_null(kind):
        return column.cast(pa.string())
    if types.is_floating(kind):
        numbers = column.cast(pa.float64()) if types.is_float16(kind) else column  # Arrow 19 tells it of no halves
        texts = pc.replace_substring_regex(column.cast(pa.string()), _WHOLE_NUMBER, r"\1.0")
        is_finite = pc.is_finite(numbers)
        if pc.all(is_finite).as_py():
            return texts
        return pc.if_else(is_finite, texts, _quoted(java_numbers(texts)) if style.names_nan else None)
    if types.is_duration(kind):
        return _seconds(column).cast(pa.string())
    if types.is_date(kind) or types.is_time(kind):
        return _quoted(column.cast(pa.string()))
    if types.is_timestamp(kind):
        texts = pc.replace_substring(column.cast(pa.string()), " ", "T")
        return _quoted(texts if kind.tz is None else pc.replace_substring_regex(texts, _OFFSET, r"\1:\2"))
    if is_bytes(kind):
        encoded = [None if value is None else base64.b64encode(value).decode("ascii") for value in column.to_pylist()]
        return _quoted(pa.array(encoded, pa.string()))
    if types.is_struct(kind):
        names = [field.name for field in kind]
        texts = _objects(names, column.flatten(), "}", style) if names else "{}"
        return pc.if_else(column.is_valid(), texts, None)
    if types.is_map(kind):
        return _maps(column, style)
    if is_list(kind):
        items = _texts_and_nulls(pc.list_flatten(column), style)
        return _joined("[", lengths(column), items, "]", column.is_valid())
    if is_text(kind):
        text = column.cast(pa.string())
        if not pc.any(pc.match_substring_regex(text, _CONTROL)).as_py():
            return _quoted(pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), '"', '\\"'))
    # Text with control characters, and types that are rare: value by value.
    texts = [None if v is None else json.dumps(v, ensure_ascii=False, allow_nan=False) for v in column.to_pylist()]
    return pa.array(texts, pa.string())


def _quoted(text: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', text, '"', "")


def _seconds(column: pa.Array) -> pa.Array:
    """Durations as decimals, which lose nothing."""
    whole = column.cast(pa.int64()).cast(pa.decimal128(_INT64_DIGITS, 0))
    return whole.view(pa.decimal128(_INT64_DIGITS, _DIGITS[column.type.unit]))


def _maps(column: pa.Array, style: _Style) -> pa.Array:
    kind = column.type
    if kind.key_type.num_fields:
        raise TypeError(f"JSON has no objects with keys of {kind.key_type}")
    lists = entries(column)
    keys, items = pc.list_flatten(lists).flatten()
    names = _json_texts(keys, style._replace(names_nan=True))
    if not _is_string(written_type(kind.key_type)):
        names = _quoted(pc.utf8_trim(names, '"'))  # NaN has quotes already
    named = pc.binary_join_element_wise(pc.list_parent_indices(lists).cast(pa.string()), names, " ")
    if pc.count_distinct(named).as_py() < len(named):
        raise ValueError("a map has one key twice, which a JSON object cannot")
    texts = pc.binary_join_element_wise(names, _texts_and_nulls(items, style), ":")
    return _joined("{", lengths(lists), texts, "}", column.is_valid())


def _joined(opening: str, counts: pa.Array, texts: pa.Array, closing: str, is_valid: pa.Array) -> pa.Array:
    """Joins texts within brackets: the first `counts[0]` of them, then the next `counts[1]`, and so on."""
    lists = pa.LargeListArray.from_arrays(offsets(counts), texts)
    joined = pc.binary_join_element_wise(opening, pc.binary_join(lists, ","), closing, "")
    return pc.if_else(is_valid, joined, None)


# -- and back ------------------------------------------------------------------------------------------------------


def from_json_lines(
    lines: bytes, schema: pa.Schema, rounds: bool = False, drops_bad_times: bool = False
) -> pa.RecordBatch:
    """The columns of `schema` of each line, as to_json_lines writes them; null where a line does not name one.

    Values of other types are converted where that is exact, as text of a number is that number, and any value the text
    that it is written as: Canal writes all as text.

    Args:
        rounds: whether values with more digits than the type of their column are read, too: decimals rounded, and null
            where they are too large, times and numbers cut. As in Flink's tables, a timestamp without a zone is no
            text with one then, nor the other way round; else both are taken for UTC.
        drops_bad_times: whether with `rounds` a text that is no timestamp is null where one is wanted.
    Raises:
        UnreadableError: that of a timestamp has a zone, or none, where its type has not, or has; says of which lines.
        ValueError: a line is no JSON object, or a value is not one of the type of its column.
    """
    zones = _Zones(rounds, rounds and drops_bad_times)
    try:
        return _from_lines(lines, schema, zones)
    except (MissingColumnError, UnreadableError):
        raise
    except ValueError:
        converted = converted_lines(lines, schema, rounds)
        if converted is None:
            raise
        return _from_lines(converted, schema, zones)


class _Zones(NamedTuple):
    """How timestamps are read."""

    are_checked: bool
    drops_bad: bool
    """Whether what is none is null."""


def _from_lines(lines: bytes, schema: pa.Schema, zones: _Zones) -> pa.RecordBatch:
    mapped = pa.schema([field for field in schema if contains(field.type, types.is_map)])
    if not len(mapped):
        batch = _read(lines, schema, zones)
    else:
        plain = pa.schema([field for field in schema if not contains(field.type, types.is_map)])
        parts = [_read(_with_entries(lines, mapped), mapped, zones)]
        if len(plain):
            parts.append(_read(lines, plain, zones))
        columns = {name: part.column(name) for part in parts for name in part.schema.names}
        batch = pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
    batch.validate(full=True)  # Arrow's reader takes any bytes for text
    return batch


class MissingColumnError(ValueError):
    """Columns are not there, or have nulls, where their schema does not allow that; says the way out."""

    @staticmethod
    def of_null(name: str) -> MissingColumnError:
        """The error of a column that has a null, or is not there."""
        return MissingColumnError(
            f"column {name!r} is null or not there, and the schema does not allow that: leave out its nullable=False, "
            "or the column"
        )


def infer_json_schema(lines: bytes) -> pa.Schema:
    """The columns as Arrow's reader takes them; what has no value is null. Text is text, also where it looks like a
    date: JSON has no dates, and one of them more or less in a file must not change the type."""
    found = pa_json.read_json(io.BytesIO(lines), read_options=_one_block(lines)).schema
    return pa.schema([field.with_type(_text_for_time(field.type)) for field in found])


def _text_for_time(kind: pa.DataType) -> pa.DataType:
    return pa.string() if types.is_timestamp(kind) else with_items(kind, _text_for_time)


def _one_block(lines: bytes) -> pa_json.ReadOptions:
    return pa_json.ReadOptions(use_threads=False, block_size=max(len(lines) + 1, 1024))


def _read(lines: bytes, schema: pa.Schema, zones: _Zones) -> pa.RecordBatch:
    # Arrow's error for a null that may not be there does not name the column, nor does it see them all. Its reader
    # takes any timestamp for UTC; its cast of text does not.
    types_read = [written_type(field.type) for field in schema]
    if zones.are_checked:
        types_read = [_text_for_time(kind) for kind in types_read]
    written = pa.schema(list(zip(schema.names, types_read, strict=True)))
    options = pa_json.ParseOptions(explicit_schema=written, unexpected_field_behavior="ignore")
    table = pa_json.read_json(io.BytesIO(lines), read_options=_one_block(lines), parse_options=options)
    batch = next(iter(table.combine_chunks().to_batches()), pa.RecordBatch.from_pylist([], schema=written))
    for field, column in zip(schema, batch.columns, strict=True):
        if not field.nullable and column.null_count:
            raise MissingColumnError.of_null(field.name)
    if written.equals(schema):
        return batch
    columns = []
    for field, column in zip(schema, batch.columns, strict=True):
        try:
            columns.append(retyped(column, field.type, partial(_restored, drops_bad_times=zones.drops_bad)))
        except (pa.ArrowException, ValueError) as error:
            if zones.are_checked and (is_wrong := _has_other_zone(column, field.type)).any():
                raise UnreadableError(f"column {field.name!r}: {error}", is_wrong) from error
            raise ValueError(f"column {field.name!r}: {error}") from error
        if not field.nullable and columns[-1].null_count:
            raise MissingColumnError.of_null(field.name)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def written_type(kind: pa.DataType) -> pa.DataType:
    """The type with which Arrow's JSON reader reads what `to_json_lines` writes of `kind`; maps are lists of their
    entries."""
    if is_uuid(kind):
        return pa.string()
    if isinstance(kind, pa.BaseExtensionType):
        return written_type(kind.storage_type)
    if types.is_dictionary(kind):
        return written_type(kind.value_type)
    if types.is_date(kind) or types.is_time(kind) or is_bytes(kind):
        return pa.string()
    if types.is_duration(kind):
        return pa.decimal128(_INT64_DIGITS, _DIGITS[kind.unit])
    if types.is_float16(kind):
        return pa.float32()
    if types.is_struct(kind):
        # Any may be null, as Arrow's reader makes values also for those of a struct that is null itself.
        return pa.struct([(field.name, written_type(field.type)) for field in kind])
    if types.is_map(kind):
        entry = [(field.name, written_type(field.type)) for field in (kind.key_field, kind.item_field)]
        return pa.list_(pa.struct(entry))
    return pa.list_(written_type(kind.value_type)) if is_list(kind) else kind


def _restored(column: pa.Array, kind: pa.DataType, drops_bad_times: bool) -> pa.Array:
    """Values that were read with the written type, in their own type."""
    if types.is_timestamp(kind) and is_text(column.type):
        return _timestamps(column, kind, drops_bad_times)
    if is_bytes(kind):
        return _decoded(column, kind)
    if types.is_time(kind):
        moments = pc.binary_join_element_wise("1970-01-01T", column, "")
        return moments.cast(pa.timestamp(kind.unit)).cast(kind)
    return (_low_words(column) if types.is_duration(kind) else column).cast(kind)


def _timestamps(texts: pa.Array, kind: pa.TimestampType, drops_bad: bool) -> pa.Array:
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid as error:
        if drops_bad:
            fits = pc.match_substring_regex(texts, _LOCAL_TIME if kind.tz is None else _INSTANT)
            return pc.if_else(fits, texts, None).cast(kind)
        if not _has_other_zone(texts, kind).any():
            raise
        digits = _DIGITS[kind.unit]
        if kind.tz is None:
            raise ValueError(f"the text has a zone: declare TIMESTAMP_LTZ({digits})") from error
        raise ValueError(f"the text has no zone: declare TIMESTAMP({digits})") from error


def _has_other_zone(column: pa.Array, kind: pa.DataType) -> npt.NDArray[np.bool_]:
    """Which values have in them the text of a timestamp that has a zone where its type has none, or none where it has
    one."""
    found = np.zeros(len(column), np.bool_)
    if types.is_dictionary(kind):
        return _has_other_zone(column, kind.value_type)
    if types.is_timestamp(kind) and is_text(column.type):
        other = pc.match_substring_regex(column, _INSTANT if kind.tz is None else _LOCAL_TIME)
        return np.asarray(other.fill_null(False))
    if types.is_struct(kind):
        for part, field in zip(column.flatten(), kind, strict=True):
            found |= _has_other_zone(part, field.type)
    elif types.is_map(kind) or is_list(kind):
        items = pa.struct([kind.key_field, kind.item_field]) if types.is_map(kind) else kind.value_type
        parents = np.asarray(pc.list_parent_indices(column))
        found[parents[_has_other_zone(pc.list_flatten(column), items)]] = True
    return found


def _decoded(column: pa.Array, kind: pa.DataType) -> pa.Array:
    decoded = []
    for text in column.to_pylist():
        try:
            decoded.append(None if text is None else base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"bytes are read as Base64, and {text[:80]!r} is none") from error
    return pa.array(decoded, kind)


def _low_words(decimals: pa.Array) -> pa.Array:
    """The unscaled values of decimals that fit 64 bits."""
    buffers = decimals.buffers()
    words = np.frombuffer(buffers[1], np.int64)[::2][decimals.offset :][: len(decimals)]
    return pa.array(words, pa.int64(), mask=decimals.is_null().to_numpy(zero_copy_only=False))


def _with_entries(lines: bytes, schema: pa.Schema) -> bytes:
    """Lines with these columns only, whose maps are lists of entries: of objects, Arrow's reader makes structs only.

    Row by row, as nothing that reads columns knows maps.
    """
    written = []
    for line in lines.split(b"\n"):
        if line.strip():
            try:
                row = json.loads(line, parse_float=NumberText, strict=False)
            except RecursionError as error:
                raise ValueError("a line is nested too deeply") from error
            columns = {}
            for field in schema:
                try:
                    columns[field.name] = _entries_of(row.get(field.name), field.type)
                except ValueError as error:
                    raise ValueError(f"column {field.name!r}: {error}") from error
            written.append(json.dumps(columns).encode())
    return b"\n".join(written)


def _entries_of(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, NumberText):
        return str(value) if types.is_decimal(written_type(kind)) else float(value)
    if isinstance(value, list) and types.is_map(kind):
        raise ValueError("a map is an object, and there is a list")
    if isinstance(value, dict) and types.is_map(kind):
        names = kind.key_field.name, kind.item_field.name
        return [
            dict(zip(names, (_key(key, kind.key_type), _entries_of(item, kind.item_type)), strict=True))
            for key, item in value.items()
        ]
    if isinstance(value, dict) and types.is_struct(kind):
        return {field.name: _entries_of(value.get(field.name), field.type) for field in kind}
    if isinstance(value, list) and is_list(kind):
        return [_entries_of(item, kind.value_type) for item in value]
    return value


def _key(text: str, kind: pa.DataType) -> Any:
    written = written_type(kind)
    return text if _is_string(written) or types.is_decimal(written) else json.loads(text)


def _is_string(written: pa.DataType) -> bool:
    """Whether values of the type are strings in JSON."""
    return bool(is_text(written) or types.is_timestamp(written))
