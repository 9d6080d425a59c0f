"""Lines of separated values as messages."""

from __future__ import annotations

import base64
import binascii
import contextlib
import io
import re
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from flinkray.connectors.formats.json_values import rounded_text
from flinkray.connectors.formats.message_format import (
    MessageFormat,
    check_bad_values,
    decimal_texts,
    in_halves,
    java_numbers,
    rows_type,
    shown,
    written_columns,
)
from flinkray.connectors.formats.nested_columns import is_list, is_uuid, lengths, offsets, retyped, uuid_texts, uuids
from flinkray.functions.type_hints import record_type
from flinkray.types.arrow_types import is_bytes, is_text
from flinkray.types.records import RecordType

_LINE_END = "\r?\n?$"


class CsvFormat(MessageFormat):
    """Each message is a line without column names: a value for each column of the schema, in its order. A quoted value
    may hold line breaks, and a delimiter may stand behind the last value.

    Bytes are Base64, as in JSON.

    Args:
        schema: the columns: a pa.Schema, dataclass, NamedTuple, TypedDict or dict of name -> type; of nested types
            lists and structs alone, of values that are not nested.
        delimiter: between two values; one ASCII character.
        quote: around values that hold a delimiter or a quote, which is doubled within; None: nothing is quoted.
        escape: before a character that stands for itself, or n, r, t or 0, which stand for line breaks, a tab and the
            character 0 then; None: there is none.
        null_text: what is read as null, where it is not quoted, and null is written as.
        element_delimiter: between two elements of a list, or fields of a struct.
        rounds: whether values with more digits than the type of their column are read: decimals are rounded, and null
            where they are too large, and times are cut to their unit.
        bad_values: what becomes of a value that is not of its type: "fail": the message cannot be read; "null": the
            value is null, as are those that a line, or a struct, of too few lacks.
    """

    # Of the class, too: formats that were stored before there was any of this are without it.
    _element_delimiter = ";"
    _rounds = False
    _bad_values = "fail"

    def __init__(
        self,
        schema: Any,
        delimiter: str = ",",
        quote: str | None = '"',
        escape: str | None = None,
        null_text: str = "",
        element_delimiter: str = ";",
        rounds: bool = False,
        bad_values: Literal["fail", "null"] = "fail",
    ) -> None:
        self._schema: pa.Schema = record_type(schema).schema
        for column in self._schema:
            if any(map(pa.types.is_nested, _inner_types(column.type))):
                raise ValueError(f"CSV has no values of {column.type}, as column {column.name!r} is; use JsonFormat")
        for name, given in (("delimiter", delimiter), ("quote", quote), ("escape", escape)):
            if given is not None and (len(given) != 1 or not given.isascii() or given in "\r\n\0"):
                raise ValueError(f"CsvFormat({name}=...) is one ASCII character, and no line break, not {given!r}")
        self._delimiter = delimiter
        self._quote = quote
        self._escape = None if escape == quote else escape  # doubled quotes are read in any case
        self._null_text = null_text
        if not element_delimiter:
            raise ValueError("CsvFormat(element_delimiter=...) is a text that is not empty")
        self._element_delimiter = element_delimiter
        self._rounds = rounds
        check_bad_values(bad_values, "CsvFormat")
        self._bad_values = bad_values

    @property
    def quote(self) -> str | None:
        """Around values that hold a delimiter, a quote or a line break; None: nothing is quoted."""
        return self._quote

    @property
    def record_type(self) -> RecordType:
        return rows_type(self._schema)

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        if self._bad_values == "fail":
            return self._decode(messages)
        return in_halves(messages, self._decode, self._decode_filled)

    def _decode(self, messages: pa.Array) -> pa.RecordBatch:
        lines = pc.replace_substring_regex(messages, _LINE_END, b"")
        broken = pc.match_substring_regex(lines, "[\r\n]")
        if self._quote is not None:
            broken = pc.and_not(broken, pc.match_substring(lines, self._quote))  # those are looked at below
        if pc.any(broken).as_py():
            raise ValueError(f"more than one line: {shown(messages.filter(broken)[0].as_py())}")
        if len(self._schema) > 1 and pc.any(pc.equal(pc.binary_length(lines), 0)).as_py():
            raise ValueError(f"an empty line in place of {len(self._schema)} values")
        self._check_quotes(lines)
        self._check_escapes(lines)
        lines = self._without_last_delimiter(lines)
        try:
            table = self._read(lines, pa.schema([(field.name, _read_type(field.type)) for field in self._schema]))
            table = self._with_restored(table)
            check_decimals(table)
        except ValueError as error:
            if not self._rounds and self._bad_values == "fail":
                raise ValueError(str(error)) from error
            table = self._value_by_value(lines)
        if table.num_rows != len(messages):
            raise ValueError(f"no line of {len(self._schema)} values: {shown(messages[0].as_py())}")
        return table.to_batches()[0]

    def _decode_filled(self, message: bytes) -> pa.RecordBatch:
        """The row of a line with null for the values that it lacks at its end."""
        missing = f"{self._delimiter}{self._null_text}".encode()
        line = message.rstrip(b"\r\n")
        for count in range(1, len(self._schema) if line else 0):
            try:
                return self._decode(pa.array([line + count * missing], pa.large_binary()))
            except ValueError:
                continue
        raise ValueError(f"no line of {len(self._schema)} values: {shown(message)}")

    def _read(self, lines: pa.Array, column_types: pa.Schema) -> pa.Table:
        # Arrow's reader takes a last line that is empty for none.
        text = b"\n".join([*lines.to_pylist(), b""])
        has_breaks = pc.any(pc.match_substring_regex(lines, b"[\r\n]")).as_py()
        if self._escape is not None and (changed := with_escaped_characters(text, self._escape)) != text:
            text, has_breaks = changed, True
        parse = pa_csv.ParseOptions(
            delimiter=self._delimiter,
            quote_char=self._quote or False,
            escape_char=self._escape or False,
            ignore_empty_lines=False,
            newlines_in_values=has_breaks,
        )
        convert = pa_csv.ConvertOptions(
            column_types=column_types,
            null_values=[self._null_text],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        read = pa_csv.ReadOptions(
            use_threads=False, column_names=self._schema.names, block_size=max(len(text) + 1, 1024)
        )
        return pa_csv.read_csv(io.BytesIO(text), read, parse, convert).combine_chunks()

    def _value_by_value(self, lines: pa.Array) -> pa.Table:
        """The columns of lines of which a value cannot be read as it is.

        Raises:
            ValueError: one cannot be read at all, and is not to be null; or a line has too many or too few.
        """
        try:
            table = self._read(lines, pa.schema([(field.name, pa.string()) for field in self._schema]))
        except pa.ArrowInvalid as error:
            raise ValueError(str(error)) from error
        for place, field in enumerate(self._schema):
            table = table.set_column(
                place, field, self._restored(table.column(place).chunk(0), field, self._each_value)
            )
        return table

    def _restored(
        self, texts: pa.Array, field: pa.Field, of_text: Callable[[pa.Array, pa.DataType], pa.Array]
    ) -> pa.Array:
        """A column of its texts, of which `of_text` makes values that have no parts."""
        try:
            parts = self._parts(texts, field.type) if _has_parts(field.type) else texts
            return retyped(parts, field.type, of_text, lambda texts: of_text(texts, pa.uuid()))
        except ValueError as error:
            raise ValueError(f"column {field.name!r}: {error}") from error

    def _each_value(self, texts: pa.Array, kind: pa.DataType) -> pa.Array:
        """Texts of values in their type, where they are brought into it, or null, as the format says. Of most columns
        all are read as they are, or are once they are rounded."""
        if pa.types.is_integer(kind):
            texts = pc.replace_substring_regex(texts, r"^(\s*)\+([0-9])", r"\1\2")
        with contextlib.suppress(ValueError):
            return _of_text(texts if is_text(kind) else pc.utf8_trim_whitespace(texts), kind)
        if self._rounds:
            with contextlib.suppress(ValueError):
                rounded = [text and rounded_text(text.strip(), kind) for text in texts.to_pylist()]
                return _of_text(pa.array(rounded, pa.string()), kind)
        found = [self._value(text, kind) for text in texts.to_pylist()]
        return pa.concat_arrays(found) if found else pa.array([], kind)

    def _value(self, text: str | None, kind: pa.DataType) -> pa.Array:
        try:
            if text is not None and not is_text(kind):
                text = rounded_text(text.strip(), kind) if self._rounds else text.strip()
            return _of_text(pa.array([text], pa.string()), kind)
        except ValueError:
            if self._bad_values == "fail":
                raise
            return pa.nulls(1, kind)

    def _with_restored(self, table: pa.Table) -> pa.Table:
        """The table with lists and structs for the texts of their parts, and bytes for those in Base64."""
        for place, field in enumerate(self._schema):
            if _read_type(field.type) != field.type:
                table = table.set_column(place, field, self._restored(table.column(place).chunk(0), field, _of_text))
        return table

    def _parts(self, texts: pa.Array, kind: pa.DataType) -> pa.Array:
        """Lists or structs of the texts of their parts.

        Raises:
            ValueError: one has too few for a struct, and what it lacks is not to be null.
        """
        return self._split(texts, kind.value_type) if is_list(kind) else self._fields(texts, kind)

    def _fields(self, texts: pa.Array, kind: pa.StructType) -> pa.Array:
        """Structs of the texts of their fields, null where a field is. As in Flink, an empty text is null, and what is
        left over is not read."""
        texts = pc.if_else(pc.equal(texts, ""), None, texts)
        parts = pc.split_pattern(texts, self._element_delimiter)
        counts = lengths(parts).to_numpy()
        is_short = (counts < kind.num_fields) & np.asarray(texts.is_valid())
        if is_short.any() and self._bad_values == "fail":
            raise ValueError(f"{kind.num_fields} fields are declared, and not in {texts.filter(is_short)[0].as_py()!r}")
        starts, elements = np.cumsum(counts) - counts, parts.flatten()
        fields = []
        for place, field in enumerate(kind):
            found = elements.take(pa.array(starts + place, pa.int64(), mask=counts <= place))
            nulls = pa.array(sorted(self._null_elements(field.type)), pa.string())
            fields.append(pc.if_else(pc.is_in(found, nulls), None, found))
        return pa.StructArray.from_arrays(fields, [field.name for field in kind], mask=texts.is_null())

    def _split(self, texts: pa.Array, kind: pa.DataType) -> pa.Array:
        """The texts of elements of a kind, null where an element is."""
        parts = pc.split_pattern(texts, self._element_delimiter)
        is_empty = pc.equal(texts, "")
        if pc.any(is_empty).as_py():
            parts = pc.if_else(is_empty, pa.scalar([], parts.type), parts)
        elements = parts.flatten()
        is_null = pc.is_in(elements, pa.array(sorted(self._null_elements(kind)), pa.string()))
        if not pc.any(is_null).as_py():
            return parts
        return _with_elements(parts, pc.if_else(is_null, None, elements))

    def _null_elements(self, kind: pa.DataType) -> set[str]:
        """What elements are null as; an empty text is where it can be no value."""
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        is_any_text = is_text(kind) or is_bytes(kind)
        return {self._null_text} - {""} if is_any_text else {self._null_text, ""}

    def _check_quotes(self, lines: pa.Array) -> None:
        """Raises ValueError where a quoted value does not end: Arrow's reader would end it with the line, or later."""
        if self._quote is None or not pc.any(pc.match_substring(lines, self._quote)).as_py():
            return
        is_whole = pc.match_substring_regex(lines, self._whole())
        if not pc.all(is_whole).as_py():
            raise ValueError(f"a quoted value does not end: {shown(lines.filter(pc.invert(is_whole))[0].as_py())}")

    def _check_escapes(self, lines: pa.Array) -> None:
        """Raises ValueError where an escape has nothing behind it: Arrow's reader would take the line break."""
        if self._escape is None or not pc.any(pc.ends_with(lines, self._escape)).as_py():
            return
        escape = re.escape(self._escape)
        ends = pc.match_substring_regex(lines, f"(?s)(^|[^{escape}])({escape}{escape})*{escape}$")
        if pc.any(ends).as_py():
            raise ValueError(f"behind the last {self._escape!r} is nothing: {shown(lines.filter(ends)[0].as_py())}")

    def _patterns(self) -> tuple[str, str, str, str]:
        """Regular expressions of what is within quotes, of a value, and of the delimiter and the quote."""
        assert self._quote is not None
        delimiter, quote = re.escape(self._delimiter), re.escape(self._quote)
        escape = "" if self._escape is None else re.escape(self._escape)
        escaped = f"|{escape}." if escape else ""
        inside = f"(?:[^{quote}{escape}]|{quote}{quote}{escaped})*"
        plain = f"(?:(?:[^{quote}{delimiter}{escape}\r\n]{escaped})(?:[^{delimiter}{escape}\r\n]{escaped})*)?"
        return inside, f"(?:{quote}{inside}{quote}|{plain})", delimiter, quote

    def _whole(self) -> str:
        _, value, delimiter, _ = self._patterns()
        return f"(?s)^{value}(?:{delimiter}{value})*$"

    def rows(self, lines: pa.Array, comments: str | None = None) -> tuple[pa.Array, bytes | None]:
        """The rows of a text.

        Args:
            lines: of the text, without their line breaks, as large_binary.
            comments: a regular expression of rows that are none, in which quotes are no quotes.
        Returns:
            The lines, put together where a quoted value goes on in the next one, and apart from them the row of which
            a value goes on behind the last.
        """
        if self._quote is None:
            return lines, None
        is_quoted = pc.match_substring(lines, self._quote)
        if not pc.any(is_quoted).as_py():
            return lines, None
        ended = pc.replace_substring_regex(lines, b"\r$", b"")
        is_whole = pc.or_(pc.invert(is_quoted), pc.match_substring_regex(ended, self._whole()))
        if comments is not None:
            is_whole = pc.or_(is_whole, pc.match_substring_regex(lines, comments))
        if pc.all(is_whole).as_py():
            return lines, None
        is_open = re.compile(f"(?s:{self._opened()})".encode()).fullmatch
        goes_on = self.goes_on()
        texts, found, line = lines.to_pylist(), [], 0
        for place in [*np.flatnonzero(~np.asarray(is_whole)).tolist(), len(texts)]:
            if place < line:
                continue  # it is in the row before
            found += texts[line:place]
            line = end = place + 1
            if place == len(texts) or not is_open(texts[place]):
                found += texts[place:line]
                continue
            while end < len(texts) and goes_on(texts[end]):
                end += 1
            if end == len(texts):
                return pa.array(found, pa.large_binary()), b"\n".join(texts[place:])
            line = end + 1
            found.append(b"\n".join(texts[place:line]))
        return pa.array(found, pa.large_binary()), None

    def goes_on(self) -> Callable[[bytes], object]:
        """What says of a line whether a value that is open before it is, or another one, behind it."""
        inside, _, delimiter, quote = self._patterns()
        return re.compile(f"(?s:{inside}(?:{quote}{delimiter}{self._opened()})?)".encode()).fullmatch

    def _opened(self) -> str:
        """A regular expression of values of which the last one is open."""
        inside, value, delimiter, quote = self._patterns()
        return f"(?:{value}{delimiter})*{quote}{inside}"

    def _without_last_delimiter(self, lines: pa.Array) -> pa.Array:
        """The lines, where one has all values and a delimiter behind them, without that."""
        if not pc.any(pc.ends_with(lines, self._delimiter)).as_py():
            return lines
        if not pc.any(pc.greater_equal(pc.count_substring(lines, self._delimiter), len(self._schema))).as_py():
            return lines
        counted = lines
        if self._quote is not None:
            inside, _, delimiter, quote = self._patterns()
            counted = pc.replace_substring_regex(lines, f"(?s)(^|{delimiter}){quote}{inside}{quote}", r"\1")
        if self._escape is not None:
            counted = pc.replace_substring_regex(counted, f"(?s){re.escape(self._escape)}.", "")
        is_longer = pc.and_(
            pc.ends_with(counted, self._delimiter),
            pc.equal(pc.count_substring(counted, self._delimiter), len(self._schema)),
        )
        shorter = pc.binary_slice(lines, 0, -1) if pc.any(is_longer).as_py() else lines
        return pc.if_else(is_longer, shorter, lines)

    def encode(self, data: pa.RecordBatch) -> pa.Array:
        data = written_columns(data, self._schema)
        texts = [self._texts(name, column) for name, column in zip(data.schema.names, data.columns, strict=True)]
        return pc.binary_join_element_wise(*texts, self._delimiter).cast(pa.large_binary())

    def _joined(self, name: str, column: pa.Array) -> pa.Array:
        """The parts of each list or struct one after the other."""
        parts = retyped(column, _of_texts(column.type), _as_text)
        is_struct = pa.types.is_struct(column.type)
        for elements in parts.flatten() if is_struct else [parts.flatten()]:
            inside = pc.fill_null(pc.match_substring(elements, self._element_delimiter), False)
            if pc.any(inside).as_py():
                value = elements.filter(inside)[0].as_py()
                delimiter = self._element_delimiter
                raise ValueError(f"column {name!r}: {value!r} has {delimiter!r} in it, which ends an element")
        if is_struct:
            fields = [pc.fill_null(elements, self._null_text) for elements in parts.flatten()]
            joined = pc.if_else(parts.is_valid(), pc.binary_join_element_wise(*fields, self._element_delimiter), None)
        else:
            filled = _with_elements(parts, elements.fill_null(self._null_text)) if elements.null_count else parts
            joined = pc.binary_join(filled, self._element_delimiter)
        read = self._parts(joined, column.type)
        if not read.equals(parts):
            given, found = next(
                both for both in zip(parts.to_pylist(), read.to_pylist(), strict=True) if both[0] != both[1]
            )
            raise ValueError(
                f"column {name!r}: {given} would be read as {found}; set another null_text, or use JsonFormat"
            )
        return joined

    def _texts(self, name: str, column: pa.Array) -> pa.Array:
        texts = self._joined(name, column) if _has_parts(column.type) else _as_text(column)
        special = [self._delimiter, "\r", "\n", *filter(None, (self._quote, self._escape))]
        needs = pc.match_substring_regex(texts, "[" + "".join(map(re.escape, special)) + "]")
        needs = pc.or_(needs, pc.equal(texts, self._null_text))
        if not pc.any(needs).as_py():
            return texts.fill_null(self._null_text)
        if self._quote is None:
            value = texts.filter(needs)[0].as_py()
            raise ValueError(f"column {name!r}: {value!r} cannot be one value of a line: quote it, or use JsonFormat")
        within = texts
        if self._escape is not None:
            within = pc.replace_substring(within, self._escape, self._escape * 2)
        within = pc.replace_substring(within, self._quote, self._quote * 2)
        quoted = pc.binary_join_element_wise(self._quote, within, self._quote, "")
        return pc.if_else(needs, quoted, texts).fill_null(self._null_text)


_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"0": b"\0"}
"""What letters stand for behind an escape, as Flink's parser has it."""


def with_escaped_characters(text: bytes, escape: str) -> bytes:
    """The text with the character that a letter stands for behind its escape, where there was the letter."""
    mark = escape.encode()
    if not any(mark + letter in text for letter in _ESCAPED):
        return text
    parts = text.split(mark * 2)
    for letter, character in _ESCAPED.items():
        parts = [part.replace(mark + letter, mark + character) for part in parts]
    return (mark * 2).join(parts)


def split_lines(lines: bytes) -> pa.Array:
    """Lines without their \\n, the last of which may lack it."""
    return pc.list_flatten(pc.split_pattern(pa.array([lines.removesuffix(b"\n")], pa.large_binary()), b"\n"))


def _with_elements(lists: pa.Array, elements: pa.Array) -> pa.Array:
    """Lists of the same lengths with these texts in them."""
    return pa.ListArray.from_arrays(offsets(lengths(lists)).cast(pa.int32()), elements, mask=lists.is_null())


def _has_parts(kind: pa.DataType) -> bool:
    return is_list(kind) or pa.types.is_struct(kind)


def _inner_types(kind: pa.DataType) -> list[pa.DataType]:
    """The types of its parts; itself where it has none."""
    if pa.types.is_struct(kind):
        return [field.type for field in kind]
    return [kind.value_type if is_list(kind) else kind]


def _of_texts(kind: pa.DataType) -> pa.DataType:
    """Lists or structs of the same shape, of texts."""
    return pa.list_(pa.string()) if is_list(kind) else pa.struct([(field.name, pa.string()) for field in kind])


def _read_type(kind: pa.DataType) -> pa.DataType:
    return pa.string() if _has_parts(kind) or is_bytes(kind) or is_uuid(kind) else kind


def _as_text(values: pa.Array, _kind: pa.DataType | None = None) -> pa.Array:
    if is_uuid(values.type):
        return uuid_texts(values)
    if pa.types.is_decimal(values.type):
        return decimal_texts(values)
    if pa.types.is_floating(values.type):
        return java_numbers(values.cast(pa.string()))
    if not is_bytes(values.type):
        return values.cast(pa.string())
    texts = [None if value is None else base64.b64encode(value).decode("ascii") for value in values.to_pylist()]
    return pa.array(texts, pa.string())


def _of_text(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values of a type of their texts; ValueError, or pa.ArrowInvalid: one is none."""
    if pa.types.is_time(kind):  # which Arrow makes of no text
        moments = pc.binary_join_element_wise("1970-01-01T", texts, "")
        return moments.cast(pa.timestamp(kind.unit)).cast(kind)
    if is_uuid(kind):
        return uuids(texts)
    if not is_bytes(kind):
        return texts.cast(kind)
    try:
        values = [None if text is None else base64.b64decode(text, validate=True) for text in texts.to_pylist()]
    except binascii.Error as error:
        raise ValueError(f"bytes are read as Base64: {error}") from error
    return pa.array(values, kind)


def check_decimals(data: pa.RecordBatch | pa.Table) -> None:
    """Checks that no decimal has more digits than its type has, which Arrow's reader of CSV does not look at.

    Raises:
        pa.ArrowInvalid: one has.
    """
    for column in data.columns:
        if pa.types.is_decimal(column.type):
            column.validate(full=True)
