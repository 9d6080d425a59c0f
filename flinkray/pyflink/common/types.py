"""`pyflink.common.types`."""

from __future__ import annotations

from flinkray.rows import Row

__all__ = ["Row"]
