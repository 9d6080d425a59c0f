"""Rows of a table looked up for those of a stream: a query for each batch of keys, and a cache."""

from __future__ import annotations

import contextlib
import functools
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.connectors.postgres.columns import INTEGERS, Column, as_arrow, chosen, columns_of, quoted, schema_of
from flinkray.connectors.postgres.connections import checked_uri, columnar, control, refuse, shown, tried
from flinkray.errors import InvalidProgramError, RecordError, UnknownColumnError
from flinkray.time.durations import Duration, to_millis

_NAME = "PostgresLookup"
_KEY, _NUMBER = "flinkray_key", "flinkray_number"
_MOST_KEYS = 10_000
"""The most keys of a query, which has them as text."""


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
        self._where = _NAME

    def __repr__(self) -> str:
        return f"{_NAME}({self._table!r}, {self._key!r})"

    def open(self, runtime_context: Any) -> None:
        """Called in the task before any batch; asks the server what the table has.

        Raises:
            PostgresError, InvalidProgramError: it cannot be asked, or has no such table or columns.
        """
        metrics = runtime_context.get_metrics_group()
        self._retries = metrics.counter("lookups_retried")
        self._cached = metrics.counter("lookups_cached")
        self._connection: Any = None
        self._known: pa.Table | None = None
        self._ages: deque[tuple[float, int]] = deque()
        """When keys of the cache were looked up, and how many, oldest first: in the order of its rows."""
        with control(self._uri, self._where) as connection:
            try:
                self._describe(connection)
            except Exception as error:
                refuse(error, self._where, f"cannot look up rows of table {self._table!r} of {shown(self._uri)}")

    def close(self) -> None:
        """Gives the connection back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):  # the server may have closed it
                connection.close()

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

    # -- the table

    def _describe(self, connection: Any) -> None:
        ((self._relation,),) = connection.execute("SELECT %s::regclass::text", (self._table,)).fetchall()
        everything = columns_of(connection, self._relation)
        self._key_columns = chosen(everything, list(self._key.values()), f"{_NAME}(key=...)")
        wanted = self._columns or [each.name for each in everything if each.name not in self._key.values()]
        self._value_columns: tuple[Column, ...] = chosen(everything, wanted, f"{_NAME}(columns=...)")
        rows = connection.execute(
            "SELECT pg_type.oid, quote_ident(nspname) || '.' || quote_ident(typname) FROM pg_type JOIN pg_namespace ON "
            "pg_namespace.oid = typnamespace WHERE pg_type.oid = ANY(%s)",
            ([each.type_id for each in self._key_columns],),
        ).fetchall()
        self._key_types = {**dict(rows), **dict.fromkeys(INTEGERS, "int8")}
        schema = schema_of(self._value_columns)
        self._known = schema.insert(0, pa.field(_KEY, pa.string())).empty_table()

    # -- keys

    def _keys_of(self, batch: pa.RecordBatch) -> pa.Array:
        """Each row's key as one text; null where a column of it is."""
        texts = []
        for (name, _), column in zip(self._key.items(), self._key_columns, strict=True):
            index = batch.schema.get_field_index(name)
            if index < 0:
                raise UnknownColumnError(name, batch.schema.names, f"{_NAME}(key=...)")
            texts.append(_elements(batch.column(index), column))
        for name in (column.name for column in self._value_columns):
            if name in batch.schema.names:
                raise InvalidProgramError(
                    f"{_NAME} would make two columns named {name!r}; leave it out of columns=, or rename the stream's"
                )
        return texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, ",")

    def _fetched(self, new: pa.RecordBatch) -> pa.Table:
        """The rows of the table for the keys of a batch that are not known, nulls where there is none."""
        numbered = pa.table([new[_KEY], from_numpy(np.arange(len(new)))], names=[_KEY, _NUMBER])
        first = numbered.group_by(_KEY, use_threads=False).aggregate([(_NUMBER, "min")])[f"{_NUMBER}_min"]
        new = new.take(first.combine_chunks())
        parts = []
        for begin in range(0, len(new), _MOST_KEYS):
            keys = new.slice(begin, _MOST_KEYS)
            what = f"cannot look up rows of {self._relation} of {shown(self._uri)}"
            read = functools.partial(self._read, self._query(keys))
            parts.append(self._placed(keys, tried(read, self._where, what, on_retry=self._retries.inc)))
        return pa.concat_tables(parts)

    def _query(self, wanted: pa.RecordBatch) -> str:
        """A query for rows, each with the number of its key in front, counted from 1."""
        arrays, conditions = [], []
        for index, (name, column) in enumerate(zip(self._key, self._key_columns, strict=True)):
            arrays.append(f"{_literal(_elements(wanted[name], column))}::{self._key_types[column.type_id]}[]")
            conditions.append(f"t.{quoted(column.name)} = k.flinkray_k{index}")
        if self._condition is not None:
            conditions.append(f"({self._condition}\n)")  # it may end in a comment
        names = ", ".join([*(f"flinkray_k{index}" for index in range(len(arrays))), _NUMBER])
        selected = ", ".join([_NUMBER, *(column.expression for column in self._value_columns)])
        return (
            f"SELECT {selected} FROM unnest({', '.join(arrays)}) WITH ORDINALITY AS k({names}) "
            f"JOIN {self._relation} AS t ON {' AND '.join(conditions)}"
        )

    def _placed(self, wanted: pa.RecordBatch, found: pa.Table) -> pa.Table:
        """What a query gave, as a row for each key, in their order."""
        numbers = as_numpy(found.column(0).combine_chunks()) - 1
        places = np.full(len(wanted), -1)
        places[numbers] = np.arange(len(numbers))
        if np.count_nonzero(places >= 0) < len(numbers):
            (twice, *_) = numbers[places[numbers] != np.arange(len(numbers))]
            raise RecordError(
                f"{self._where}: several rows of {self._relation} have the key {wanted[_KEY][int(twice)]}, and a "
                "lookup gives one row for each; name a key that is unique, or a view that has one row for each"
            )
        schema = schema_of(self._value_columns)
        values = [as_arrow(*each, self._where) for each in zip(found.columns[1:], schema, strict=True)]
        rows = pa.table(values, schema=schema).take(from_numpy(places, places < 0))
        return rows.add_column(0, pa.field(_KEY, pa.string()), wanted[_KEY])

    def _read(self, query: str) -> pa.Table:
        try:
            if self._connection is None:
                self._connection = columnar(self._uri, self._where)
            with self._connection.cursor() as cursor:
                cursor.execute(query)
                table = cursor.fetch_arrow_table()
            self._connection.commit()
            return table
        except BaseException:
            self.close()
            raise

    # -- the cache

    def _fresh(self) -> pa.Table:
        """The cache without what is too old."""
        assert self._known is not None
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


def _elements(values: pa.Array, column: Column) -> pa.Array:
    """The values as PostgreSQL has them in the text of an array: quoted, since a text may have commas in it."""
    # A key of the stream may be larger than the table's integers, and is in no row then.
    arrow_type = pa.int64() if column.type_id in INTEGERS else column.arrow_type
    try:
        texts = values.cast(arrow_type).cast(pa.string())
    except pa.ArrowException as error:
        raise RecordError(
            f"{_NAME}: column {column.name!r} of the table is {column.arrow_type}, and a key of the stream is no such: "
            f"{error}"
        ) from error
    escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    return pc.binary_join_element_wise('"', escaped, '"', "")


def _literal(elements: pa.Array) -> str:
    """The elements as an array in SQL."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(elements)], pa.int32()), elements)
    escaped = pc.binary_join(whole, ",")[0].as_py().replace("\\", "\\\\").replace("'", "\\'")
    return f"E'{{{escaped}}}'"
