"""Which kinds of rows a sink takes, and which ones a changelog has."""

from __future__ import annotations

import enum

from msgspec import Struct


class ChangelogMode(enum.Enum):
    """The kinds of rows that a sink takes (after Flink's ChangelogMode)."""

    INSERT_ONLY = "insert only"
    """+I: rows are added and stay as they are."""
    UPSERT = "upsert"
    """+I, +U and -D: a row replaces the one of the same key, or takes it away."""
    ALL = "all"
    """+I, -U, +U and -D: an update first takes back the row as it was."""


class Changes(Struct, frozen=True):
    """What the rows of a changelog do beside adding rows (after Flink's ModifyKindSet and UpdateKind)."""

    updates: bool = False
    """Whether rows are updated."""
    deletes: bool = False
    """Whether rows are taken away."""
    before: bool = True
    """Whether an update first takes back the row as it was (-U), or only says what it is now (+U)."""

    @property
    def is_insert_only(self) -> bool:
        """Whether rows are only added, and stay as they are."""
        return not (self.updates or self.deletes)

    def __str__(self) -> str:
        kinds = ["I", *(["UB"] if self.updates and self.before else []), *(["UA"] if self.updates else [])]
        return ",".join([*kinds, *(["D"] if self.deletes else [])])


INSERTS = Changes()
"""Rows are only added."""
