"""Rows of a table looked up for those of a stream: a query for each batch of keys, and a cache."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.connectors.postgres.columns import as_arrow, schema_of
from flinkray.connectors.postgres.connections import checked_uri
from flinkray.connectors.postgres.keyed_query import MOST_KEYS, NUMBER, KeyedQuery, elements
from flinkray.errors import InvalidProgramError, RecordError, UnknownColumnError
from flinkray.time.durations import Duration, to_millis

_NAME = "PostgresLookup"
_KEY = "flinkray_key"


class PostgresLookup:
    """Adds to each row the columns of the row of a table that has its key, and nulls where none has: for
    `map_batches(PostgresLookup(...))`. Rows keep their order and event time. Comes with `flinkray[postgres]`.

    Each batch asks once for all keys that are not cached. What is found is how the table is at that moment: rows that
    are processed again after a failure may find something else.

    Args:
        uri: "postgresql://host:5432/database", or "host=... dbname=...", with options of libpq; shown nowhere.
        table: its name as SQL has it, such as "orders" or 'sales."Orders"'; a view will do.
        key: the columns that the stream and the table have in common, or the stream's column -> the table's. At most
            one row of the table may have a key; an index on it makes that fast.
        columns: those to add; None: all that are no key.
        where: consider only rows of the table for which this condition in SQL is true.
        cache: for how long what was found, or not found, is good (an int counts milliseconds); None: for the batch.
        cache_rows: the most keys that each subtask remembers; the oldest are forgotten first.
    """

    def __init__(
        self,
        uri: str,
        table: str,
        key: str | Iterable[str] | Mapping[str, str],
        columns: Iterable[str] | None = None,
        where: str | None = None,
        cache: Duration | None = None,
        cache_rows: int = 10_000,
    ) -> None:
        self._uri = checked_uri(uri, _NAME)
        self._table = table
        names = (key,) if isinstance(key, str) else key
        self._key = dict(names) if isinstance(names, Mapping) else {name: name for name in names}
        if not self._key:
            raise InvalidProgramError(f"{_NAME}(key=...) names no column")
        self._columns = None if columns is None else tuple(columns)
        self._condition = where
        self._cache_ms = 0 if cache is None else to_millis(cache, "cache")
        self._cache_rows = cache_rows if self._cache_ms else 0
        self._now_ms: Callable[[], float] = _monotonic_ms

    def __repr__(self) -> str:
        return f"{_NAME}({self._table!r}, {self._key!r})"

    def open(self, runtime_context: Any) -> None:
        """Called in the task before any batch; asks the server what the table has.

        Raises:
            PostgresError, InvalidProgramError: it cannot be asked, or has no such table or columns.
        """
        metrics = runtime_context.get_metrics_group()
        self._cached = metrics.counter("lookups_cached")
        self._query = KeyedQuery(
            self._uri,
            self._table,
            list(self._key.values()),
            self._columns,
            _NAME,
            metrics.counter("lookups_retried").inc,
            self._condition,
        )
        schema = schema_of(self._query.values)
        self._known = schema.insert(0, pa.field(_KEY, pa.string())).empty_table()
        self._ages: deque[tuple[float, int]] = deque()
        """When keys of the cache were looked up, and how many, oldest first: in the order of its rows."""

    def close(self) -> None:
        """Gives the connection back."""
        query: KeyedQuery | None = getattr(self, "_query", None)  # None: the server could not be asked
        if query is not None:
            query.close()

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        keys = self._keys_of(batch)
        known = self._fresh()
        is_new = pc.and_(keys.is_valid(), pc.invert(pc.is_in(keys, known[_KEY].combine_chunks())))
        new = batch.append_column(_KEY, keys).filter(is_new)
        self._cached.inc(len(keys) - len(new))
        if len(new):
            fetched = self._fetched(new)
            known = pa.concat_tables([known, fetched]).combine_chunks()
            self._ages.append((self._now_ms(), len(fetched)))
        found = known.take(pc.index_in(keys, known[_KEY].combine_chunks())).drop_columns([_KEY])
        self._remember(known)
        names = [*batch.schema.names, *found.schema.names]
        columns = [*batch.columns, *(column.combine_chunks() for column in found.columns)]
        return pa.RecordBatch.from_arrays(columns, names)

    # -- keys

    def _keys_of(self, batch: pa.RecordBatch) -> pa.Array:
        """Each row's key as one text; null where a column of it is."""
        texts = []
        for (name, _), column in zip(self._key.items(), self._query.keys, strict=True):
            index = batch.schema.get_field_index(name)
            if index < 0:
                raise UnknownColumnError(name, batch.schema.names, f"{_NAME}(key=...)")
            texts.append(elements(batch.column(index), column, _NAME))
        for name in (column.name for column in self._query.values):
            if name in batch.schema.names:
                raise InvalidProgramError(
                    f"{_NAME} would make two columns named {name!r}; leave it out of columns=, or rename the stream's"
                )
        return texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, ",")

    def _fetched(self, new: pa.RecordBatch) -> pa.Table:
        """The rows of the table for the keys of a batch that are not known, nulls where there is none."""
        numbered = pa.table([new[_KEY], from_numpy(np.arange(len(new)))], names=[_KEY, NUMBER])
        first = numbered.group_by(_KEY, use_threads=False).aggregate([(NUMBER, "min")])[f"{NUMBER}_min"]
        new = new.take(first.combine_chunks())
        parts = []
        for begin in range(0, len(new), MOST_KEYS):
            keys = new.slice(begin, MOST_KEYS)
            parts.append(self._placed(keys, self._query.rows([keys[name] for name in self._key])))
        return pa.concat_tables(parts)

    def _placed(self, wanted: pa.RecordBatch, found: pa.Table) -> pa.Table:
        """What a query gave, as a row for each key, in their order."""
        numbers = as_numpy(found.column(0).combine_chunks()) - 1
        places = np.full(len(wanted), -1)
        places[numbers] = np.arange(len(numbers))
        if np.count_nonzero(places >= 0) < len(numbers):
            (twice, *_) = numbers[places[numbers] != np.arange(len(numbers))]
            raise RecordError(
                f"{_NAME}: several rows of {self._query.relation} have the key {wanted[_KEY][int(twice)]}, and a "
                "lookup gives one row for each; name a key that is unique, or a view that has one row for each"
            )
        schema = schema_of(self._query.values)
        values = [as_arrow(*each, _NAME) for each in zip(found.columns[1:], schema, strict=True)]
        rows = pa.table(values, schema=schema).take(from_numpy(places, places < 0))
        return rows.add_column(0, pa.field(_KEY, pa.string()), wanted[_KEY])

    # -- the cache

    def _fresh(self) -> pa.Table:
        """The cache without what is too old."""
        expired = 0
        while self._ages and self._ages[0][0] + self._cache_ms <= self._now_ms():
            expired += self._ages.popleft()[1]
        return self._known.slice(expired)

    def _remember(self, known: pa.Table) -> None:
        forgotten = max(0, len(known) - self._cache_rows)
        self._known = known.slice(forgotten)
        while forgotten:
            looked_up, count = self._ages.popleft()
            if count > forgotten:
                self._ages.appendleft((looked_up, count - forgotten))
            forgotten -= min(forgotten, count)


def _monotonic_ms() -> float:
    return time.monotonic() * 1_000
