"""Rows of a table by key: one query for the keys of a batch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkray.connectors.postgres.columns import INTEGERS, Column, chosen, columns_of, quoted
from flinkray.connectors.postgres.connections import columnar, control, refuse, shown, tried
from flinkray.errors import RecordError

NUMBER = "flinkray_number"
MOST_KEYS = 10_000
"""The most keys of a query, which has them as text."""


class KeyedQuery:
    """Asks for rows of a table by keys. The server is asked what the table has when this is made.

    Args:
        key: the columns of the key.
        columns: those to give; None: all that are no key.
        where: names who asks in errors.
        on_retry: called when a query is tried again.
        condition: consider only rows for which this is true, in SQL.
    Raises:
        PostgresError, InvalidProgramError: the server cannot be asked, or has no such table or columns.
    """

    def __init__(
        self,
        uri: str,
        table: str,
        key: Sequence[str],
        columns: Iterable[str] | None,
        where: str,
        on_retry: Callable[[], None],
        condition: str | None = None,
    ) -> None:
        self._uri = uri
        self._where = where
        self._on_retry = on_retry
        self._condition = condition
        self._connection: Any = None
        with control(uri, where) as connection:
            try:
                self._describe(connection, table, key, columns)
            except Exception as error:
                refuse(error, where, f"cannot look up rows of table {table!r} of {shown(uri)}")

    def _describe(self, connection: Any, table: str, key: Sequence[str], columns: Iterable[str] | None) -> None:
        ((self.relation,),) = connection.execute("SELECT %s::regclass::text", (table,)).fetchall()
        everything = columns_of(connection, self.relation)
        self.keys = chosen(everything, list(key), f"{self._where}(key=...)")
        wanted = columns or [each.name for each in everything if each.name not in key]
        self.values: tuple[Column, ...] = chosen(everything, list(wanted), f"{self._where}(columns=...)")
        rows = connection.execute(
            "SELECT pg_type.oid, quote_ident(nspname) || '.' || quote_ident(typname) FROM pg_type JOIN pg_namespace ON "
            "pg_namespace.oid = typnamespace WHERE pg_type.oid = ANY(%s)",
            ([each.type_id for each in self.keys],),
        ).fetchall()
        self._key_types = {**dict(rows), **dict.fromkeys(INTEGERS, "int8")}

    def rows(self, keys: Sequence[pa.Array]) -> pa.Table:
        """The rows that have one of at most `MOST_KEYS` keys, each with the number of its key, counted from 1, in
        front."""
        query = self._text(keys)
        what = f"cannot look up rows of {self.relation} of {shown(self._uri)}"
        return tried(lambda: self._read(query), self._where, what, on_retry=self._on_retry)

    def close(self) -> None:
        """Gives the connection back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):  # the server may have closed it
                connection.close()

    def _text(self, keys: Sequence[pa.Array]) -> str:
        arrays, conditions = [], []
        for index, (values, column) in enumerate(zip(keys, self.keys, strict=True)):
            literal = _literal(elements(values, column, self._where))
            arrays.append(f"{literal}::{self._key_types[column.type_id]}[]")
            conditions.append(f"t.{quoted(column.name)} = k.flinkray_k{index}")
        if self._condition is not None:
            conditions.append(f"({self._condition}\n)")  # it may end in a comment
        names = ", ".join([*(f"flinkray_k{index}" for index in range(len(arrays))), NUMBER])
        selected = ", ".join([NUMBER, *(column.expression for column in self.values)])
        return (
            f"SELECT {selected} FROM unnest({', '.join(arrays)}) WITH ORDINALITY AS k({names}) "
            f"JOIN {self.relation} AS t ON {' AND '.join(conditions)}"
        )

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


def elements(values: pa.Array, column: Column, where: str) -> pa.Array:
    """The values as PostgreSQL has them in the text of an array: quoted, since a text may have commas in it."""
    # A key of the stream may be larger than the table's integers, and is in no row then.
    arrow_type = pa.int64() if column.type_id in INTEGERS else column.arrow_type
    try:
        keys = values.cast(arrow_type)
        texts = _digits(keys) if pa.types.is_binary(keys.type) else keys.cast(pa.string())
    except pa.ArrowException as error:
        raise RecordError(
            f"{where}: column {column.name!r} of the table is {column.arrow_type}, and a key of the stream is no such: "
            f"{error}"
        ) from error
    escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    return pc.binary_join_element_wise('"', escaped, '"', "")


def _digits(values: pa.Array) -> pa.Array:
    """Bytes as texts such as \\x00ff."""
    lengths = pc.binary_length(values).fill_null(0).to_numpy()
    offsets = np.concatenate([[0], np.cumsum(2 * lengths)]).astype(np.int32)
    found = b"".join(values.drop_null().to_pylist()).hex().encode()
    buffers = [pc.is_valid(values).buffers()[1], pa.py_buffer(offsets), pa.py_buffer(found)]
    texts = pa.Array.from_buffers(pa.string(), len(values), buffers)
    return pc.binary_join_element_wise("\\x", texts, "")


def _literal(texts: pa.Array) -> str:
    """The elements as an array in SQL."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    escaped = pc.binary_join(whole, ",")[0].as_py().replace("\\", "\\\\").replace("'", "\\'")
    return f"E'{{{escaped}}}'"
