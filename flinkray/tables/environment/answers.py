"""What a statement answers that starts no job."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from flinkray.tables.environment.value_texts import NULL_TEXT
from flinkray.tables.plans.nodes import row_type
from flinkray.tables.types.logical import BIGINT, BOOLEAN, STRING, LogicalType, RowType


class ResultKind(enum.Enum):
    """Whether a result has rows that mean something (Flink's ResultKind)."""

    SUCCESS = 0
    """The statement did what it says; its one row says OK."""
    SUCCESS_WITH_CONTENT = 1
    """The rows are the answer."""


class PrintStyle(enum.Enum):
    """How a result is printed."""

    TABLE = "table"
    """A table as wide as its values."""
    TABLE_BY_TYPES = "table by types"
    """A table as wide as its columns' types need, so that rows can be printed as they come."""
    RAW = "raw"
    """The values alone."""


class Answer(Struct, frozen=True):
    """Rows with their type, and how they and NULL are printed."""

    row_type: RowType
    rows: tuple[tuple[Any, ...], ...]
    kind: ResultKind = ResultKind.SUCCESS_WITH_CONTENT
    style: PrintStyle = PrintStyle.TABLE
    null_text: str = NULL_TEXT


_KINDS: dict[type, LogicalType] = {str: STRING, bool: BOOLEAN, int: BIGINT}

OK = Answer(row_type(["result"], [STRING]), (("OK",),), ResultKind.SUCCESS, PrintStyle.RAW)
"""The answer of a statement that has been carried out."""


def listed(column: str, names: Iterable[str]) -> Answer:
    """Names, a row for each."""
    return Answer(row_type([column], [STRING]), tuple((name,) for name in names))


def tabled(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    types: Sequence[type] | None = None,
    null_text: str = NULL_TEXT,
) -> Answer:
    """Rows of texts, or of values of these Python types."""
    kinds = [_KINDS[each] for each in types or [str] * len(columns)]
    return Answer(row_type(columns, kinds), tuple(tuple(row) for row in rows), null_text=null_text)


def text(content: str, style: PrintStyle = PrintStyle.TABLE) -> Answer:
    """One text, in a column `result`."""
    return Answer(row_type(["result"], [STRING]), ((content,),), style=style)
