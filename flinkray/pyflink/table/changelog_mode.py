"""`pyflink.table.changelog_mode`."""

from __future__ import annotations

from flinkray.types import changelogs

__all__ = ["ChangelogMode"]


class ChangelogMode:
    """Which kinds of rows a changelog has, by PyFlink's methods."""

    @staticmethod
    def insert_only() -> changelogs.ChangelogMode:
        return changelogs.ChangelogMode.INSERT_ONLY

    @staticmethod
    def upsert() -> changelogs.ChangelogMode:
        return changelogs.ChangelogMode.UPSERT

    @staticmethod
    def all() -> changelogs.ChangelogMode:
        return changelogs.ChangelogMode.ALL
