"""Answers of queries as multisets of rows, so that those of several engines can be compared whatever the order in which
they came. Imports nothing but the standard library."""

from __future__ import annotations

import datetime
import decimal
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.nexmark.queries import Query

Change = tuple[str, Sequence[Any]]
"""A row kind (+I, -U, +U, -D), and the row."""
Answer = Counter[str]
"""How many rows there are in the end, by their texts."""

_SHORT = 24
"""Longer texts are kept as checksums, so that answers can be stored; no shorter than the text of a time."""
_STORED_ROWS = 60
_SHOWN = 3


class WrongChangelog(Exception):
    """A row is taken back that is not there."""


def value_text(value: Any) -> Any:
    """A value as JSON has it, the same for whatever engine gave it."""
    if isinstance(value, str):
        return value if len(value) <= _SHORT else f"~{zlib.crc32(value.encode()):08x}"
    if isinstance(value, decimal.Decimal):
        return str(value.normalize().quantize(decimal.Decimal(1)) if value == int(value) else value.normalize())
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ", timespec="milliseconds")
    return value


def row_text(row: Sequence[Any], query: Query) -> str:
    """What of a row is compared, as JSON."""
    values = [row[place] for place in query.compared] if query.compared else row
    return json.dumps([value_text(each) for each in values], ensure_ascii=False)


def folded(changes: Iterable[Change], query: Query) -> Answer:
    """What is there after all changes.

    Raises:
        WrongChangelog: says which row is taken back and was not there.
    """
    if query.key:
        return _upserted(changes, query)
    found: Answer = Counter()
    for kind, row in changes:
        text = row_text(row, query)
        found[text] += -1 if kind in ("-U", "-D") else 1
    missing = [text for text, count in found.items() if count < 0]
    if missing:
        raise WrongChangelog(f"{missing[0]} is taken back, and was not there")
    return +found


def written(path: Path, query: Query) -> Answer:
    """The answer whose changes are in a file, a JSON array of kind and row in each line; errors as of `folded`."""
    with path.open() as file:
        return folded(map(json.loads, file), query)


def _upserted(changes: Iterable[Change], query: Query) -> Answer:
    rows: dict[tuple[Any, ...], str] = {}
    for kind, row in changes:
        key = tuple(row[place] for place in query.key)
        if kind in ("-U", "-D"):
            rows.pop(key, None)
        else:
            rows[key] = row_text(row, query)
    return Counter(rows.values())


def stored(answer: Answer) -> list[str] | str:
    """An answer as a small file keeps it: its rows, or of many rows how many there are and a checksum of them."""
    rows = sorted(answer.elements())
    if len(rows) <= _STORED_ROWS:
        return rows
    return f"{len(rows)} rows, SHA-256 {hashlib.sha256(chr(10).join(rows).encode()).hexdigest()}"


def difference(found: Answer, expected: Answer) -> str:
    """In what an answer differs from the expected one, in some words; none: in nothing."""
    missing, unexpected = expected - found, found - expected
    parts = []
    for what, rows in (("missing", missing), ("not expected", unexpected)):
        if rows:
            shown = "; ".join(sorted(rows)[:_SHOWN])
            parts.append(f"{rows.total():,} rows {what}: {shown}{' ...' if len(rows) > _SHOWN else ''}")
    return ", ".join(parts)
