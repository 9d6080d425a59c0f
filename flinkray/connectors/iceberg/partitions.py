"""How a table is partitioned: by transforms of its columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from flinkray.errors import InvalidProgramError, UnknownColumnError, did_you_mean

_TRANSFORMS = ("identity", "year", "month", "day", "hour", "bucket", "truncate")
_TEXT = re.compile(r"\s*(\w+)\s*\(\s*(?:(\d+)\s*,\s*)?(.+?)\s*\)\s*")
_WITH_NUMBER = ("bucket", "truncate")


def wanted_partitions(texts: Iterable[str], columns: Sequence[str]) -> list[tuple[str, str]]:
    """Columns and transforms, as Iceberg writes them, of texts such as "day(time)", "bucket(16, user)" or "country".

    Raises:
        InvalidProgramError: a text that is neither, or a column that is not there.
    """
    found = []
    for text in texts:
        column, transform = (text, "identity") if text in columns else _transformed(text)
        if column not in columns:
            raise UnknownColumnError(column, columns, "partition_by")
        found.append((column, transform))
    return found


def partitions_of(metadata: Any) -> list[tuple[str, str]]:
    """The columns and transforms that a table has now."""
    schema = metadata.schema()
    return [(schema.find_column_name(field.source_id), str(field.transform)) for field in metadata.spec().fields]


def _transformed(text: str) -> tuple[str, str]:
    parts = _TEXT.fullmatch(text)
    if parts is None:
        return text, "identity"
    name, number, column = parts[1].lower().removesuffix("s"), parts[2], parts[3]
    if name not in _TRANSFORMS or (number is not None) != (name in _WITH_NUMBER):
        raise InvalidProgramError(
            f"partition_by: {text!r} is no transform{did_you_mean(name, _TRANSFORMS)}; there are a column's name, "
            "year(c), month(c), day(c), hour(c), bucket(16, c) and truncate(4, c)"
        )
    return column, name if number is None else f"{name}[{number}]"
