"""Tables of PostgreSQL that are asked for rows by key, as lookup joins of SQL do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from flinkray.connectors.lookup import LookupCache, LookupReader, LookupTable
from flinkray.connectors.postgres.columns import as_arrow, schema_of
from flinkray.connectors.postgres.connections import checked_uri
from flinkray.connectors.postgres.keyed_query import MOST_KEYS, KeyedQuery

_NAME = "PostgresTable"


class PostgresTable(LookupTable):
    """A table, one query for the keys of a batch that are not known.

    Args:
        uri: "postgresql://host:5432/database", or "host=... dbname=...", with options of libpq; shown nowhere.
        table: its name as SQL has it, such as "orders" or 'sales."Orders"'.
        cache: what is remembered of it.
    """

    def __init__(self, uri: str, table: str, cache: LookupCache) -> None:
        self._uri = checked_uri(uri, _NAME)
        self._table = table
        self.cache = cache

    def __repr__(self) -> str:
        return f"{_NAME}({self._table!r})"

    def reader(self, keys: Sequence[str], columns: Sequence[str]) -> LookupReader:
        return _PostgresReader(self._uri, self._table, tuple(keys), tuple(columns))


class _PostgresReader(LookupReader):
    def __init__(self, uri: str, table: str, keys: Sequence[str], columns: Sequence[str]) -> None:
        self._asked = (uri, table, keys, columns)
        self._query: KeyedQuery | None = None

    def open(self, runtime_context: Any) -> None:
        retries = runtime_context.get_metrics_group().counter("lookups_retried")
        self._query = KeyedQuery(*self._asked, _NAME, retries.inc)

    def lookup(self, keys: pa.RecordBatch) -> pa.Table:
        query = self._query
        assert query is not None
        schema = schema_of(query.values)
        parts = [schema.empty_table()]
        for begin in range(0, keys.num_rows, MOST_KEYS):
            found = query.rows(keys.slice(begin, MOST_KEYS).columns)
            values = [as_arrow(*each, _NAME) for each in zip(found.columns[1:], schema, strict=True)]
            parts.append(pa.table(values, schema=schema))
        return pa.concat_tables(parts)

    def close(self) -> None:
        if self._query is not None:
            self._query.close()
