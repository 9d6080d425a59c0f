"""Column expressions: `col("price") * 0.9`."""

from __future__ import annotations


class Expression:
    """An expression over the columns of one batch."""
