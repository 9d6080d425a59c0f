"""`pyflink.table.data_view`."""

from __future__ import annotations

from flinkray.tables.api.data_views import DataView, ListView, MapView

__all__ = ["DataView", "ListView", "MapView"]
