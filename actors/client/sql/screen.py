"""Results that change, on a terminal: drawn anew a few times a second, until they end or the user ends them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from actors.client.sql.shown_rows import Cells, LastChanges, RowsNow
from flinkray.tables.environment.results import TableResult

_BETWEEN_S = 0.2
_AROUND = 6
"""Lines beside the rows."""


def show_on_screen(result: TableResult, console: Console, *, only_changes: bool, most: int) -> int:
    """Shows a result while it changes; what it was last stays on the terminal. Gives how many changes came.

    Args:
        only_changes: the last changes, each with what it does; else the rows that there are.
        most: how many rows are kept.
    Raises:
        KeyboardInterrupt: the user has ended it.
    """
    names = ["op", *result.row_type.names] if only_changes else result.row_type.names
    shown: LastChanges | RowsNow = LastChanges(min(most, 1000)) if only_changes else RowsNow(most)
    count, drawn = 0, 0.0
    with Live(console=console, auto_refresh=False, transient=False) as live:

        def draw(state: str) -> None:
            height = max(1, console.height - _AROUND)
            live.update(_picture(names, shown.rows(height), f"{count} changes, {state}"), refresh=True)

        draw("the query begins")
        for kind, row in result.changes_as_text():
            shown.add(kind, row)
            count += 1
            now = time.monotonic()
            if now - drawn > _BETWEEN_S:
                drawn = now
                draw("the query runs; Ctrl-C ends it")
        draw("the query has ended")
    return count


def _picture(names: Sequence[str], rows: Sequence[Cells], state: str) -> Group:
    table = Table(*names, expand=False)
    for row in rows:
        table.add_row(*map(Text, row))
    return Group(table, Text(state, style="dim"))
