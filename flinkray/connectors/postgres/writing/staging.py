"""Tables that rows are copied into before one statement brings them to where they belong."""

from __future__ import annotations

import uuid
import zlib
from typing import Any

import pyarrow as pa

from flinkray.connectors.postgres.columns import quoted

_PREFIX = "flinkray_rows"


class Staging:
    """The staging tables of a connection.

    Args:
        schema: where they are made anew by each transaction, which drops them before it is prepared, as one that has
            used temporary tables cannot be. None: they are temporary, and seen by their session only.
    """

    def __init__(self, schema: str | None = None) -> None:
        self._schema = schema
        self._made: dict[str, str] = {}

    def filled(self, cursor: Any, columns: str, data: pa.RecordBatch) -> str:
        """The name, as SQL has it, of a table with these columns that has these rows alone."""
        if self._schema is not None:
            return self._filled_in_schema(cursor, columns, data, self._schema)
        name = f"{_PREFIX}_{zlib.crc32(columns.encode()):08x}"
        cursor.execute(f"CREATE TEMPORARY TABLE IF NOT EXISTS {name} ({columns}) ON COMMIT DELETE ROWS")
        cursor.execute(f"DELETE FROM pg_temp.{name}")  # those of a statement before in the same transaction
        cursor.adbc_ingest(name, data, mode="append", temporary=True)
        return f"pg_temp.{name}"

    def drop(self, cursor: Any) -> None:
        """Drops what the transaction has made."""
        while self._made:
            cursor.execute(f"DROP TABLE {self._qualified(self._made.popitem()[1])}")

    def _filled_in_schema(self, cursor: Any, columns: str, data: pa.RecordBatch, schema: str) -> str:
        name = self._made.get(columns)
        if name is None:
            name = f"{_PREFIX}_{uuid.uuid4().hex}"
            # Unlogged, so that nobody who follows changes of all tables gets those.
            cursor.execute(f"CREATE UNLOGGED TABLE {self._qualified(name)} ({columns})")
            self._made[columns] = name
        else:
            cursor.execute(f"TRUNCATE {self._qualified(name)}")
        cursor.adbc_ingest(name, data, mode="append", db_schema_name=schema)
        return self._qualified(name)

    def _qualified(self, name: str) -> str:
        return f"{quoted(self._schema or '')}.{name}"
