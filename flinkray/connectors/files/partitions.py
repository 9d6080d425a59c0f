"""Columns whose values are names of directories: `dt=2024-01-01/hour=3`, as Hive and Flink write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from flinkray.errors import InvalidProgramError

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""What Hive and Spark call the partition of null."""
_OF_NULL = frozenset({DEFAULT_PARTITION, "__DEFAULT_PARTITION__"})
"""The same with what Flink calls it."""
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
"""The characters that Hive escapes in names of directories."""
_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")


class Partitions(Struct, frozen=True):
    """The columns that name directories, outermost first; and the value there for what has none."""

    columns: tuple[str, ...]
    default: str


def partition_values(path: str, columns: Sequence[str], default: str) -> dict[str, str | None]:
    """The text of each column in the directories of a file's path.

    Args:
        default: the value in a directory's name that stands for null, as do those that Hive and Flink write.

    Raises:
        ValueError: no directory has one of the columns.
    """
    found: dict[str, str | None] = {}
    for part in path.split("/")[:-1]:
        name, is_there, value = part.partition("=")
        if is_there:
            found[_unescaped(name)] = None if value in {default, *_OF_NULL} else _unescaped(value)
    for column in columns:
        if column not in found:
            raise ValueError(f"no directory of its path is called {_escaped(column)}=..., which has the column's value")
    return {column: found[column] for column in columns}


def by_partition(data: pa.RecordBatch, partitions: Partitions) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each directory, in their order, without the columns that the directory's name has."""
    columns, default = partitions.columns, partitions.default
    texts = [_text(data, name) for name in columns]
    for values, rows in by_values(data.drop_columns(list(columns)), texts):
        yield directory_of(zip(columns, values, strict=True), default), rows


def by_values(data: pa.RecordBatch, keys: Sequence[pa.Array]) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
    """The rows of each combination of values of the keys, in their order.

    Args:
        keys: a value for each row, of types that Arrow makes dictionaries of; not empty.
    """
    if not data.num_rows:
        return
    codes = np.zeros(data.num_rows, np.int64)
    for key in keys:
        encoded = key.dictionary_encode(null_encoding="encode")
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
        codes = np.unique(codes, return_inverse=True)[1].reshape(-1)  # no product of numbers grows too large
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
        values = tuple(key[order[start]].as_py() for key in keys)
        yield values, data if len(starts) == 1 else data.take(pa.array(order[start:stop]))


def directory_of(values: Iterable[tuple[str, str | None]], default: str) -> str:
    """The directory of rows with these values of columns, outermost first."""
    return "/".join(f"{_escaped(name)}={_escaped(value) if value else default}" for name, value in values)


def partition_column(value: str | None, kind: pa.DataType, rows: int) -> pa.Array:
    """The value of a directory's name in so many rows."""
    scalar = pa.scalar(value, pa.string())
    return pa.nulls(rows, kind) if value is None else pa.repeat(scalar.cast(kind), rows)


def _text(data: pa.RecordBatch, column: str) -> pa.Array:
    found = data.column(column)
    if pa.types.is_dictionary(found.type):
        found = found.dictionary_decode()
    try:
        return found.cast(pa.string())
    except pa.ArrowException as error:
        raise InvalidProgramError(
            f"column {column!r} of type {found.type} cannot name directories: {error}; map it to text first"
        ) from error


def _escaped(text: str) -> str:
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", text)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
