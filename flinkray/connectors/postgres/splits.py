"""What of a table or query is read by whom: ranges of its pages or of a key."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from msgspec import Struct

from flinkray.batches.numpy_arrays import fixed_width
from flinkray.connectors.postgres.columns import Column, quoted
from flinkray.errors import InvalidProgramError

_SPLITS_PER_SUBTASK = 4
"""So that a subtask that has read its own takes over from slower ones."""
_FEWEST_PAGES, _MOST_PAGES = 128, 16_384
"""1 and 128 MiB at 8 KiB a page: a query costs as much as some hundred pages, and a range that is read again after a
failure should be short."""
POSITION = "flinkray_position"
"""The first column of what is selected: where each row stands."""


class PostgresSplit(Struct, frozen=True):
    """Some rows of a table or query.

    By "page" they stand in its pages from `low` to before `high`, by "key" they have keys from `low` to before `high`;
    None: without a bound. By "null" they are those without a key. `after` is the position of the last row that was
    read: its page and place in it as one number (`page << 16 | place`), or its key.
    """

    split_id: str
    relation: str
    by: Literal["page", "key", "null"]
    low: int | None
    high: int | None
    after: int | None = None


def query_of(split: PostgresSplit, columns: Sequence[Column], key: str | None, condition: str | None) -> str:
    """The query for the rest of a split, in the order of positions."""
    name, order = quoted(key or ""), ""
    if split.by == "page":  # scanned in the order of pages, which sorting would not know
        position, conditions = "ctid", _bounds("ctid", split, lambda page: f"'({page},0)'::tid", _place)
    elif split.by == "key":
        position, conditions, order = f"{name}::int8", _bounds(name, split, str, str), f" ORDER BY {name}"
    else:  # all at once, so that there is nothing behind the first position
        position, conditions = "0::int8", [f"{name} IS NULL" if split.after is None else "false"]
    if condition is not None:
        conditions.append(f"({condition}\n)")  # it may end in a comment
    selected = ", ".join([f"{position} AS {quoted(POSITION)}", *(column.expression for column in columns)])
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {selected} FROM {split.relation}{where}{order}"


def _bounds(
    column: str, split: PostgresSplit, bound: Callable[[int], str], position: Callable[[int], str]
) -> list[str]:
    conditions = [f"{column} > {position(split.after)}"] if split.after is not None else []
    if split.low is not None and split.after is None:
        conditions.append(f"{column} >= {bound(split.low)}")
    if split.high is not None:
        conditions.append(f"{column} < {bound(split.high)}")
    return conditions


def _place(position: int) -> str:
    return f"'({position >> 16},{position & 0xFFFF})'::tid"


# -- finding splits


def splits_by_page(relations: Sequence[tuple[str, int]], parallelism: int) -> Iterator[PostgresSplit]:
    """Ranges of pages of tables.

    Args:
        relations: tables, partitions and the like, each as SQL names it, with its number of pages.
    """
    wanted = sum(pages for _, pages in relations) / (parallelism * _SPLITS_PER_SUBTASK)
    size = min(max(math.ceil(wanted), _FEWEST_PAGES), _MOST_PAGES)
    for relation, pages in relations:
        lows = range(0, max(pages, 1), size)
        for low in lows:
            # The last one has what was added since the pages were counted.
            high = low + size if low != lows[-1] else None
            yield PostgresSplit(f"{relation}@{low}", relation, "page", low, high)


def splits_by_key(
    relation: str, bounds: tuple[int, int] | None, has_nulls: bool, parallelism: int
) -> Iterator[PostgresSplit]:
    """Ranges of a key of integers, equally wide.

    Args:
        bounds: the lowest and the highest key; None: there is none.
    """
    lowest, highest = bounds or (0, 0)
    count = min(parallelism * _SPLITS_PER_SUBTASK, highest - lowest + 1)
    edges = [lowest + (highest - lowest + 1) * index // count for index in range(1, count)]
    for low, high in zip([None, *edges], [*edges, None], strict=True):
        yield PostgresSplit(f"key {low}", relation, "key", low, high)
    if has_nulls:
        yield PostgresSplit("key null", relation, "null", None, None)


def tables_of(connection: Any, table: str) -> list[tuple[str, int]]:
    """The tables that have the rows of a table: itself, its partitions, those that inherit from it; as SQL names them,
    with the number of their pages.

    Raises:
        InvalidProgramError: some rows are in no pages, as those of views and foreign tables.
    """
    rows = connection.execute(
        """
        WITH RECURSIVE members(id) AS (
            SELECT %s::regclass::oid
            UNION
            SELECT inhrelid FROM pg_inherits JOIN members ON inhparent = id)
        SELECT 'ONLY ' || id::regclass::text, relkind,
            CASE WHEN relkind IN ('r', 'm') THEN pg_relation_size(id) / current_setting('block_size')::int ELSE 0 END
        FROM members JOIN pg_class ON pg_class.oid = id WHERE relkind NOT IN ('p', 'I') ORDER BY id
        """,
        (table,),
    ).fetchall()
    for name, kind, _ in rows:
        if kind not in ("r", "m"):
            raise InvalidProgramError(
                f"PostgresSource: {name.removeprefix('ONLY ')} has no pages of its own, as a view or foreign table has "
                "none: name a column of integers that its rows are split by (key=)"
            )
    return [(name, int(pages)) for name, _, pages in rows]


def bounds_of(connection: Any, relation: str, key: str, condition: str | None) -> tuple[tuple[int, int] | None, bool]:
    """The lowest and highest key, if there is one, and whether there are rows without."""
    name = quoted(key)
    where = "" if condition is None else f" WHERE ({condition}\n)"
    and_null = f"{name} IS NULL" if condition is None else f"{name} IS NULL AND ({condition}\n)"
    query = (
        f"SELECT min({name}), max({name}), EXISTS (SELECT 1 FROM {relation} WHERE {and_null}) FROM {relation}{where}"
    )
    lowest, highest, has_nulls = connection.execute(query).fetchone()
    return (None if lowest is None else (int(lowest), int(highest))), bool(has_nulls)


# -- reading splits


def pieces(batches: Iterable[pa.RecordBatch], batch_rows: int, is_unique: bool) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Rows in batches of about so many, each with the position after which the others stand; without the column of it.

    Rows with one position come in one batch, so that nothing is lost or twice where reading goes on after it.

    Args:
        batches: their first column has the positions, in order.
        is_unique: no two rows have one position.
    """
    held: list[pa.RecordBatch] = []
    """Rows of the last position, of which there may be more in the next batch."""
    last: int | None = None
    for batch in filter(len, batches):
        positions = positions_of(batch.column(0))
        data = batch.select(range(1, batch.num_columns))
        if bool(np.any(positions[1:] < positions[:-1])) or (last is not None and positions[0] < last):
            raise ValueError("the server gave rows in another order than that of their positions")
        if held and positions[0] != last:
            yield _joined(held), int(last or 0)
            held = []
        begin = 0
        for end in _cuts(positions, batch_rows, is_unique):
            yield _joined([*held, data.slice(begin, end - begin)]), int(positions[end - 1])
            held, begin = [], end
        if begin < len(positions):
            held.append(data.slice(begin))
        last = int(positions[-1])
    if held:
        yield _joined(held), int(last or 0)


def _cuts(positions: np.ndarray[Any, Any], batch_rows: int, is_unique: bool) -> Iterator[int]:
    """Where to cut so that pieces have about `batch_rows` rows, and rows of one position stay together; what is behind
    the last cut may go on in the next batch."""
    count = len(positions)
    ends = np.arange(1, count + 1) if is_unique else np.flatnonzero(positions[1:] != positions[:-1]) + 1
    begin = 0
    while len(ends) and begin < ends[-1]:
        at_most = int(np.searchsorted(ends, begin + batch_rows, "right")) - 1
        at_least = int(np.searchsorted(ends, begin, "right"))
        begin = int(ends[max(at_most, at_least)])
        yield begin


_TID = np.dtype([("page", ">u4"), ("place", ">u2")])


def positions_of(column: pa.Array) -> np.ndarray[Any, Any]:
    """The positions of rows as numbers: keys as they are, places in pages as `page << 16 | place`."""
    if column.type == pa.int64():
        return fixed_width(column, np.dtype(np.int64))
    places = column.storage if isinstance(column, pa.ExtensionArray) else column
    first = pa.Array.from_buffers(pa.int32(), 1, [None, places.buffers()[1]], offset=places.offset)[0].as_py()
    found = np.frombuffer(places.buffers()[2], _TID, len(places), first)
    numbers: np.ndarray[Any, Any] = found["page"].astype(np.int64) << 16 | found["place"]
    return numbers


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
