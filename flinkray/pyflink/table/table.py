"""`pyflink.table.table`."""

from __future__ import annotations

from flinkray.tables.api.grouped_tables import FlatAggregateTable, GroupedTable, OverWindowedTable, WindowedTable
from flinkray.tables.api.table import Table

__all__ = [
    "AggregatedTable",
    "FlatAggregateTable",
    "GroupWindowedTable",
    "GroupedTable",
    "OverWindowedTable",
    "Table",
    "WindowGroupedTable",
]

AggregatedTable = GroupedTable
GroupWindowedTable = WindowedTable
WindowGroupedTable = GroupedTable
