"""Changes of a table, for tests of changelogs."""

from __future__ import annotations

import random

from flinkray.types.rows import Row, RowKind


def random_changes(seed: int, count: int) -> tuple[list[Row], dict[str, int]]:
    """At least so many changes of a table of rows (k, n), and the table that they lead to."""
    generator = random.Random(seed)
    table: dict[str, int] = {}
    rows: list[Row] = []
    while len(rows) < count:
        key, value = f"k{generator.randrange(12)}", generator.randrange(1000)
        if key not in table:
            rows.append(Row(k=key, n=value))
        elif generator.random() < 0.3:
            rows.append(Row.of_kind(RowKind.DELETE, k=key, n=table.pop(key)))
            continue
        else:
            rows.append(Row.of_kind(RowKind.UPDATE_BEFORE, k=key, n=table[key]))
            rows.append(Row.of_kind(RowKind.UPDATE_AFTER, k=key, n=value))
        table[key] = value
    return rows, table
