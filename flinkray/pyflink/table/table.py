"""`pyflink.table.table`."""

from __future__ import annotations

from flinkray.tables.api.grouped_tables import GroupedTable, OverWindowedTable, WindowedTable
from flinkray.tables.api.table import Table

__all__ = ["GroupWindowedTable", "GroupedTable", "OverWindowedTable", "Table", "WindowGroupedTable"]

GroupWindowedTable = WindowedTable
WindowGroupedTable = GroupedTable
