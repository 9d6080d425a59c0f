"""`pyflink.common.types`."""

from __future__ import annotations

from flinkray.rows import Row, RowKind

__all__ = ["Row", "RowKind"]
