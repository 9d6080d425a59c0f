"""`pyflink.common.types`."""

from __future__ import annotations

from flinkray.types.rows import Row, RowKind

__all__ = ["Row", "RowKind"]
