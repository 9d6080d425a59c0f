"""`pyflink.table.table`."""

from __future__ import annotations

from flinkray.pyflink.imported_names import imported
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

__getattr__ = imported(__name__)

AggregatedTable = GroupedTable
GroupWindowedTable = WindowedTable
WindowGroupedTable = GroupedTable
