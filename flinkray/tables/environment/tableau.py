"""Rows as a table of text, the one that Flink prints: values to the right, wide characters as two; and one of HTML."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from flinkray.tables.environment.value_texts import NULL_TEXT
from flinkray.tables.types.logical import DecimalType, LogicalType, RowType, TimestampType, TimeType, TypeRoot

DEFAULT_WIDTH = 30
"""How wide a column is at most whose type does not bound its texts."""
_TRUNCATED = "..."
_WIDTHS = {
    TypeRoot.TINYINT: 4,
    TypeRoot.SMALLINT: 6,
    TypeRoot.INTEGER: 11,
    TypeRoot.BIGINT: 20,
    TypeRoot.BOOLEAN: 6,
    TypeRoot.DATE: 10,
}
OPERATION = "op"
"""The column with the kinds of rows."""


def widths_by_types(rows: RowType, has_kinds: bool, most: int = DEFAULT_WIDTH) -> list[int]:
    """How wide columns are so that values of their types fit; of texts and the like, `most`."""
    widths = [max(display_width(field.name), len(NULL_TEXT), _width(field.type, most)) for field in rows.fields]
    return [len(OPERATION), *widths] if has_kinds else widths


def _width(kind: LogicalType, most: int) -> int:
    match kind:
        case DecimalType(precision=precision):
            return precision + 2
        case TimeType(precision=precision):
            return precision + 9 if precision else 8
        case TimestampType(precision=precision):
            return 19 if precision == 0 else 23 if precision <= 3 else 26 if precision <= 6 else 29
    return _WIDTHS.get(kind.root, most)


def widths_by_content(names: Sequence[str], rows: Iterable[Sequence[str]]) -> list[int]:
    """How wide columns are so that these rows fit."""
    widths = [len(name) for name in names]
    for row in rows:
        widths = [max(width, display_width(each)) for width, each in zip(widths, row, strict=True)]
    return widths


def tableau(names: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    """The lines of a table, each as soon as its row is there."""
    border = "+" + "".join(f"{'-' * (width + 2)}+" for width in widths)
    count = 0
    for row in rows:
        if not count:
            yield from (border, _line(names, widths), border)
        count += 1
        yield _line(row, widths)
    if not count:
        yield "Empty set"
        return
    yield border
    yield f"{count} row{'s' if count > 1 else ''} in set"


def _line(values: Sequence[str], widths: Sequence[int]) -> str:
    return "|" + "".join(f" {_fitted(value, width)} |" for value, width in zip(values, widths, strict=True))


def _fitted(value: str, width: int) -> str:
    missing = width - display_width(value)
    if missing >= 0:
        return " " * missing + value
    wanted, kept = width - len(_TRUNCATED), ""
    for character in value:
        if display_width(kept + character) > wanted:
            break
        kept += character
    return " " * (wanted - display_width(kept)) + kept + _TRUNCATED


def display_width(text: str) -> int:
    """The places that a text takes where characters have the same width; those of East Asia take two."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)


def html_table(rows: RowType, texts: Iterable[Sequence[str]], has_kinds: bool, has_more: bool = False) -> str:
    """The rows below the names of their columns, whose types are shown where one points at them."""
    head = f"<th>{OPERATION}</th>" if has_kinds else ""
    head += "".join(f'<th title="{escape(str(field.type))}">{escape(field.name)}</th>' for field in rows.fields)
    body = "".join(f"<tr>{''.join(f'<td>{escape(each)}</td>' for each in row)}</tr>" for row in texts)
    more = "<p>More rows follow.</p>" if has_more else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
