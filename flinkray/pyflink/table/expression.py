"""`pyflink.table.expression`."""

from __future__ import annotations

from flinkray.tables.api.expression import Expression

__all__ = ["Expression"]
