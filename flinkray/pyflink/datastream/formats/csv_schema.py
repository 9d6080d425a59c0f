"""What PyFlink's CsvSchema says of CSV files: columns, by position, and the characters between and around values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from flinkray.errors import InvalidProgramError
from flinkray.functions.type_hints import arrow_type


@dataclass(frozen=True)
class CsvSchema:
    """Columns of CSV files, and how they are written. Made with `CsvSchema.builder()`."""

    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    separators: tuple[str | None, ...] = ()
    """What is between the elements of each column that is an array; None: the column is none, or has no separator of
    its own."""
    array_separator: str = ";"
    separator: str = ","
    quote: str | None = '"'
    escape: str | None = None
    null_text: str | None = None
    """None: an empty field is null where the column is not text."""
    line_end: str = "\n"
    has_header: bool = False
    is_header_strict: bool = False
    skips_first_row: bool = False
    has_comments: bool = False

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        return CsvSchemaBuilder()

    def size(self) -> int:
        return len(self.schema)

    def __len__(self) -> int:
        return self.size()


def without_doubled_escape(schema: CsvSchema) -> CsvSchema:
    """The schema without an escape that is the quote: one that is doubled is a quote in any case."""
    return replace(schema, escape=None) if schema.quote is not None and schema.escape == schema.quote else schema


class CsvSchemaBuilder:
    """Columns are those of the lines, in their order; a line of names is only read over, or checked."""

    def __init__(self) -> None:
        self._columns: list[tuple[str, pa.DataType]] = []
        self._separators: list[str | None] = []
        self._made = CsvSchema()

    def build(self) -> CsvSchema:
        """
        Raises:
            InvalidProgramError: two of the characters are the same, other than quote and escape.
        """
        made = without_doubled_escape(self._made)
        characters = [each for each in (made.separator, made.quote, made.escape) if each is not None]
        if len(set(characters)) < len(characters):
            raise InvalidProgramError(
                f"column separator, quote and escape character of a CsvSchema have to differ, got {characters}"
            )
        return replace(made, schema=pa.schema(self._columns), separators=tuple(self._separators))

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        return self._add(name, pa.string())

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        return self._add(name, pa.bool_())

    def add_number_column(self, name: str, number_type: Any = None) -> CsvSchemaBuilder:
        """Args: number_type: an Arrow or Python type, or one of `Types` or `DataTypes`; None: int64."""
        return self._add(name, pa.int64() if number_type is None else arrow_type(number_type))

    def add_array_column(self, name: str, separator: str = ";", element_type: Any = None) -> CsvSchemaBuilder:
        """Args: element_type: as that of a number column, or of text or booleans; None: text."""
        items = pa.string() if element_type is None else arrow_type(element_type)
        return self._add(name, pa.list_(items), separator)

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        self._columns.extend((column.name, column.type) for column in schema.schema)
        self._separators.extend(schema.separators)
        return self

    def clear_columns(self) -> CsvSchemaBuilder:
        self._columns.clear()
        self._separators.clear()
        return self

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        return self._set(separator=_character(char, "column separator"))

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        return self._set(quote=_character(char, "quote"))

    def disable_quote_char(self) -> CsvSchemaBuilder:
        return self._set(quote=None)

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        return self._set(escape=_character(char, "escape"))

    def disable_escape_char(self) -> CsvSchemaBuilder:
        return self._set(escape=None)

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """What is read as null where it is not quoted, and null is written as."""
        return self._set(null_text=null_value)

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        """What lines that are written end with; those that are read may end with any of \\n, \\r and \\r\\n.

        Raises:
            InvalidProgramError: neither \\n nor \\r\\n.
        """
        if separator not in ("\n", "\r\n"):
            raise InvalidProgramError(f"lines of CSV files end with \\n or \\r\\n, not with {separator!r}")
        return self._set(line_end=separator)

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        """For arrays that have none of their own."""
        return self._set(array_separator=separator)

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        return self._set(array_separator="")

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """Has the array at that position no separator of its own."""
        self._separators[index] = None
        return self

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Has lines that begin with # read over."""
        return self._set(has_comments=allow)

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """Says that the first line has names."""
        return self._set(has_header=use)

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """Has the names of the first line checked against those of the columns."""
        return self._set(is_header_strict=strict)

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Has the first line after that of names, if there is one, read over."""
        return self._set(skips_first_row=skip)

    def set_any_property_name(self, name: str) -> CsvSchemaBuilder:
        raise InvalidProgramError(
            f"set_any_property_name({name!r}): rows have the columns of their schema only; add the others to it"
        )

    def size(self) -> int:
        return len(self._columns)

    def __len__(self) -> int:
        return self.size()

    def _add(self, name: str, type: pa.DataType, separator: str | None = None) -> CsvSchemaBuilder:
        self._columns.append((name, type))
        self._separators.append(separator or None)
        return self

    def _set(self, **changes: Any) -> CsvSchemaBuilder:
        self._made = replace(self._made, **changes)
        return self


def _character(char: str, what: str) -> str:
    if len(char) != 1 or not char.isascii() or char in "\r\n\0":
        raise ValueError(f"the {what} of a CsvSchema is one ASCII character, and no line break, got {char!r}")
    return char
