"""Which kinds of rows a sink takes."""

from __future__ import annotations

import enum


class ChangelogMode(enum.Enum):
    """The kinds of rows that a sink takes (after Flink's ChangelogMode)."""

    INSERT_ONLY = "insert only"
    """+I: rows are added and stay as they are."""
    UPSERT = "upsert"
    """+I, +U and -D: a row replaces the one of the same key, or takes it away."""
    ALL = "all"
    """+I, -U, +U and -D: an update first takes back the row as it was."""
