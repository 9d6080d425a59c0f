"""What a PostgresSource is to do, as its enumerator and its readers are told."""

from __future__ import annotations

from msgspec import Struct

from flinkray.connectors.postgres.columns import Column


class PostgresSourceSettings(Struct, frozen=True):
    """The arguments of a PostgresSource, and what the server said about them."""

    uri: str
    table: str | None
    relation: str
    """What stands after FROM: the table's name in SQL, or the query in parentheses."""
    columns: tuple[Column, ...]
    condition: str | None
    key: str | None

    def __repr__(self) -> str:  # without the address, which may have a password
        return f"PostgresSourceSettings({self.relation!r})"
