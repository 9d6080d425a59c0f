"""Arrow types from their names, as errors and schemas print them: "decimal128(5, 1)", "list<item: int64>"."""

from __future__ import annotations

import re
from typing import Any, NoReturn

import pyarrow as pa

from flinkray.errors import InvalidProgramError, did_you_mean

_KNOWN = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "double",
    "string",
    "large_string",
    "binary",
    "date32",
    "timestamp[us]",
    "timestamp[ms, tz=UTC]",
    "duration[us]",
    "decimal128(38, 2)",
    "dictionary<values=string, indices=int32>",
    "list<item: int64>",
)
_DECIMALS = {f"decimal{bits}": getattr(pa, f"decimal{bits}", None) for bits in (32, 64, 128, 256)}
_LISTS: dict[str, Any] = {"list": pa.list_, "large_list": pa.large_list, "fixed_size_list": pa.list_}
_SIMPLE = re.compile(r"[a-z_0-9]+(\[[^\]]*\])?")
_DECIMAL = re.compile(r"(decimal\d*)\((\d+), ?(-?\d+)\)")
_ZONED = re.compile(r"timestamp\[(s|ms|us|ns), ?tz=([^\]]+)\]")
_SIZE = re.compile(r"\[(\d+)\]")
_FIELD_NAME = re.compile(r"(.*?): ")
_ITEM_NAME = re.compile(r"(\w+): ")


def type_of_name(name: str) -> pa.DataType:
    """The Arrow type of that name: one of Arrow's short names, or what `str` makes of a type.

    Raises:
        InvalidProgramError: no type has that name; it offers one that is alike.
    """
    reader = _NameReader(name)
    found = reader.read_type()
    reader.expect_end()
    return found


class _NameReader:
    """Reads a type's name from the left; what a type is made of is in angle brackets."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._at = 0

    def read_type(self) -> pa.DataType:
        for pattern, make in ((_DECIMAL, self._decimal), (_ZONED, self._zoned)):
            match = self._match(pattern)
            if match:
                return make(match)
        match = self._match(_SIMPLE)
        if match is None:
            self._fail()
        if self._take("<"):
            return self._nested(match.group())
        try:
            return _simple(match.group())
        except (ValueError, KeyError):
            self._fail()

    def expect_end(self) -> None:
        if self._at < len(self._name):
            self._fail()

    def _decimal(self, match: re.Match[str]) -> pa.DataType:
        make = _DECIMALS.get("decimal128" if match[1] == "decimal" else match[1])
        if make is None:
            self._fail()
        try:
            return make(int(match[2]), int(match[3]))
        except ValueError as error:
            raise InvalidProgramError(f"no type {self._name!r}: {error}") from None

    def _zoned(self, match: re.Match[str]) -> pa.DataType:
        return pa.timestamp(match[1], match[2])

    def _nested(self, outer: str) -> pa.DataType:
        if outer == "dictionary":
            return self._dictionary()
        if outer == "extension" and self._take("arrow.uuid>"):
            return pa.uuid()
        if outer == "struct":
            return pa.struct(self._fields())
        if outer == "map":
            key = self.read_type()
            self._expect(", ")
            item = self._item("value")
            keys_sorted = self._take(", keys_sorted")
            self._expect(">")
            return pa.map_(key, item, keys_sorted)
        if outer not in _LISTS:
            self._fail()
        item = self._item("item")
        self._expect(">")
        size = self._match(_SIZE) if outer == "fixed_size_list" else None
        return _LISTS[outer](item, *([int(size[1])] if size else []))

    def _dictionary(self) -> pa.DataType:
        self._expect("values=")
        values = self.read_type()
        self._expect(", indices=")
        indices = self.read_type()
        is_ordered = self._take(", ordered=1")
        if not is_ordered:
            self._take(", ordered=0")
        self._expect(">")
        return pa.dictionary(indices, values, is_ordered)

    def _item(self, name: str) -> pa.Field:
        """What a list or map holds: a type, or a field with a name of its own."""
        match = self._match(_ITEM_NAME)
        return self._field(match[1] if match else name)

    def _fields(self) -> list[pa.Field]:
        fields: list[pa.Field] = []
        while not self._take(">"):
            if fields:
                self._expect(", ")
            match = self._match(_FIELD_NAME)
            if match is None:
                self._fail()
            fields.append(self._field(match[1]))
        return fields

    def _field(self, name: str) -> pa.Field:
        arrow_type = self.read_type()
        return pa.field(name, arrow_type, nullable=not self._take(" not null"))

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._name, self._at)
        if match:
            self._at = match.end()
        return match

    def _take(self, text: str) -> bool:
        if not self._name.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _expect(self, text: str) -> None:
        if not self._take(text):
            self._fail()

    def _fail(self) -> NoReturn:
        raise InvalidProgramError(f"no type {self._name!r}{did_you_mean(self._name, _KNOWN)}")


def _simple(name: str) -> pa.DataType:
    if name.startswith("fixed_size_binary["):
        return pa.binary(int(name.removeprefix("fixed_size_binary[").removesuffix("]")))
    return pa.type_for_alias(name)
