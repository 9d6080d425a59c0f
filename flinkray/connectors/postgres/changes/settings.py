"""What a PostgresChangesSource is to do, as its enumerator and its readers are told."""

from __future__ import annotations

from msgspec import Struct

from flinkray.connectors.postgres.columns import Column, quoted


class SplitKey(Struct, frozen=True):
    """The column that the snapshot is split by; `sql_type` and `collation` as SQL has them (empty: the usual one);
    `is_unique`: no two rows have one value in it."""

    name: str
    sql_type: str
    collation: str
    is_unique: bool

    def literal(self, text: str) -> str:
        """A value of the column, given as the server writes it."""
        escaped = text.replace("'", "''")
        return f"'{escaped}'::{self.sql_type}"

    def converted(self, expression: str) -> str:
        """A text as a value that compares as the column's do."""
        return f"({expression})::{self.sql_type}{self.collation and ' COLLATE ' + self.collation}"

    @property
    def column(self) -> str:
        return quoted(self.name)


class ChangesSettings(Struct, frozen=True):
    """The arguments of a PostgresChangesSource, and what the server said about them."""

    uri: str
    relation: str
    """The table's name in SQL."""
    table_id: int
    columns: tuple[Column, ...]
    type_ids: tuple[int, ...]
    """Of the columns' types as the log has them: of domains, where a column has the id of what that is made of."""
    key: tuple[str, ...]
    """An update of these is a deletion and an insertion."""
    is_full: bool
    """Whether the log has rows as they were before (REPLICA IDENTITY FULL)."""
    split_key: SplitKey | None
    """None: there is no snapshot."""
    slot: str
    publication: str
    is_bounded: bool
    skips_truncations: bool
    metadata: tuple[tuple[str, str], ...] = ()
    """Columns that rows have in front of the table's: their names, and what they have."""
    names: tuple[str, ...] = ()
    """Of the database, the schema and the table, for `metadata`."""

    @property
    def logged(self) -> tuple[str, ...]:
        """The columns that are taken from the log: those that are read, then those of the key that are not."""
        names = [column.name for column in self.columns]
        keys = self.key if self.split_key is None else (*self.key, self.split_key.name)
        return (*names, *(name for name in dict.fromkeys(keys) if name not in names))

    def __repr__(self) -> str:  # without the address, which may have a password
        return f"ChangesSettings({self.relation!r}, slot={self.slot!r})"
