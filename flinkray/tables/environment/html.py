"""Rows as a table of HTML, which notebooks show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from flinkray.tables.environment.tableau import OPERATION
from flinkray.tables.types.logical import RowType


def html_table(rows: RowType, texts: Iterable[Sequence[str]], has_kinds: bool, has_more: bool = False) -> str:
    """The rows below the names of their columns, whose types are shown where one points at them."""
    head = f"<th>{OPERATION}</th>" if has_kinds else ""
    head += "".join(f'<th title="{escape(str(field.type))}">{escape(field.name)}</th>' for field in rows.fields)
    body = "".join(f"<tr>{''.join(f'<td>{escape(each)}</td>' for each in row)}</tr>" for row in texts)
    more = "<p>More rows follow.</p>" if has_more else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
