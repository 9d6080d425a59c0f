"""`pyflink.table.sql_dialect`."""

from __future__ import annotations

import enum

__all__ = ["SqlDialect"]


class SqlDialect(enum.Enum):
    """In which dialect statements are written."""

    DEFAULT = 0
    HIVE = 1
