"""Lines of separated values as messages."""

from __future__ import annotations

import io
import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from flinkray.connectors.formats.message_format import MessageFormat, rows_type, shown, written_columns
from flinkray.functions.type_hints import record_type
from flinkray.types.records import RecordType

_LINE_END = "\r?\n?$"


class CsvFormat(MessageFormat):
    """Each message is a line without column names: a value for each column of the schema, in its order.

    Args:
        schema: the columns: a pa.Schema, dataclass, NamedTuple, TypedDict or dict of name -> type; no nested types.
        delimiter: between two values; one ASCII character.
        quote: around values that hold a delimiter or a quote, which is doubled within; None: nothing is quoted.
        escape: before a character that stands for itself; None: there is none.
        null_text: what is read as null, where it is not quoted, and null is written as.
    """

    def __init__(
        self, schema: Any, delimiter: str = ",", quote: str | None = '"', escape: str | None = None, null_text: str = ""
    ) -> None:
        self._schema: pa.Schema = record_type(schema).schema
        for column in self._schema:
            if pa.types.is_nested(column.type):
                raise ValueError(f"CSV has no values of {column.type}, as column {column.name!r} is; use JsonFormat")
        for name, given in (("delimiter", delimiter), ("quote", quote), ("escape", escape)):
            if given is not None and (len(given) != 1 or not given.isascii() or given in "\r\n\0"):
                raise ValueError(f"CsvFormat({name}=...) is one ASCII character, and no line break, not {given!r}")
        self._delimiter = delimiter
        self._quote = quote
        self._escape = escape
        self._null_text = null_text

    @property
    def record_type(self) -> RecordType:
        return rows_type(self._schema)

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        lines = pc.replace_substring_regex(messages, _LINE_END, b"")
        broken = pc.or_(pc.match_substring(lines, b"\n"), pc.match_substring(lines, b"\r"))
        if pc.any(broken).as_py():
            raise ValueError(f"more than one line: {shown(messages.filter(broken)[0].as_py())}")
        if len(self._schema) > 1 and pc.any(pc.equal(pc.binary_length(lines), 0)).as_py():
            raise ValueError(f"an empty line in place of {len(self._schema)} values")
        self._check_quotes(lines)
        parse = pa_csv.ParseOptions(
            delimiter=self._delimiter,
            quote_char=self._quote or False,
            escape_char=self._escape or False,
            ignore_empty_lines=False,
        )
        convert = pa_csv.ConvertOptions(
            column_types=self._schema.empty_table().schema,
            null_values=[self._null_text],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        # Arrow's reader takes a last line that is empty for none.
        text = b"\n".join([*lines.to_pylist(), b""])
        read = pa_csv.ReadOptions(
            use_threads=False, column_names=self._schema.names, block_size=max(len(text) + 1, 1024)
        )
        try:
            table = pa_csv.read_csv(io.BytesIO(text), read, parse, convert).combine_chunks()
            check_decimals(table)
        except pa.ArrowInvalid as error:
            raise ValueError(str(error)) from error
        if table.num_rows != len(messages):
            raise ValueError(f"no line of {len(self._schema)} values: {shown(messages[0].as_py())}")
        return table.to_batches()[0]

    def _check_quotes(self, lines: pa.Array) -> None:
        """Raises ValueError where a quoted value does not end: Arrow's reader would end it with the line, or later."""
        if self._quote is None or not pc.any(pc.match_substring(lines, self._quote)).as_py():
            return
        delimiter, quote = re.escape(self._delimiter), re.escape(self._quote)
        escape = "" if self._escape is None else re.escape(self._escape)
        escaped = f"|{escape}." if escape else ""
        quoted = f"{quote}(?:[^{quote}{escape}]|{quote}{quote}{escaped})*{quote}"
        plain = f"(?:(?:[^{quote}{delimiter}{escape}]{escaped})(?:[^{delimiter}{escape}]{escaped})*)?"
        value = f"(?:{quoted}|{plain})"
        is_whole = pc.match_substring_regex(lines, f"^{value}(?:{delimiter}{value})*$")
        if not pc.all(is_whole).as_py():
            raise ValueError(f"a quoted value does not end: {shown(lines.filter(pc.invert(is_whole))[0].as_py())}")

    def encode(self, data: pa.RecordBatch) -> pa.Array:
        data = written_columns(data, self._schema)
        texts = [self._texts(name, column) for name, column in zip(data.schema.names, data.columns, strict=True)]
        return pc.binary_join_element_wise(*texts, self._delimiter).cast(pa.large_binary())

    def _texts(self, name: str, column: pa.Array) -> pa.Array:
        texts = column.cast(pa.string())
        special = [self._delimiter, "\r", "\n", *filter(None, (self._quote, self._escape))]
        needs = pc.match_substring_regex(texts, "[" + "".join(map(re.escape, special)) + "]")
        needs = pc.or_(needs, pc.equal(texts, self._null_text))
        if not pc.any(needs).as_py():
            return texts.fill_null(self._null_text)
        if self._quote is None or pc.any(pc.match_substring_regex(texts, "[\r\n]")).as_py():
            value = texts.filter(needs)[0].as_py()
            raise ValueError(f"column {name!r}: {value!r} cannot be one value of a line: quote it, or use JsonFormat")
        within = texts
        if self._escape is not None:
            within = pc.replace_substring(within, self._escape, self._escape * 2)
        within = pc.replace_substring(within, self._quote, self._quote * 2)
        quoted = pc.binary_join_element_wise(self._quote, within, self._quote, "")
        return pc.if_else(needs, quoted, texts).fill_null(self._null_text)


def check_decimals(data: pa.RecordBatch | pa.Table) -> None:
    """Checks that no decimal has more digits than its type has, which Arrow's reader of CSV does not look at.

    Raises:
        pa.ArrowInvalid: one has.
    """
    for column in data.columns:
        if pa.types.is_decimal(column.type):
            column.validate(full=True)
