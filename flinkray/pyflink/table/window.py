"""`pyflink.table.window`."""

from __future__ import annotations

from flinkray.pyflink.imported_names import imported
from flinkray.tables.api.windows import GroupWindow, Over, OverWindow, Session, Slide, Tumble

__all__ = ["GroupWindow", "Over", "OverWindow", "Session", "Slide", "Tumble"]

__getattr__ = imported(__name__)
