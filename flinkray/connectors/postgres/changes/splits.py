"""What is read by whom: ranges of a key for the snapshot, and the log; and which changes the snapshot has already."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from msgspec import Struct

from flinkray.connectors.postgres.changes.settings import ChangesSettings, SplitKey
from flinkray.connectors.postgres.splits import POSITION

LOG = "log"
_IS_SAME = "flinkray_same"


class Piece(Struct, frozen=True):
    """Rows of the snapshot that were read at one moment: those behind the piece before, up to the key `high`."""

    high: str | None
    """As the server writes it; None: to the end."""
    includes_high: bool
    snapshot: str
    """The moment as `pg_current_snapshot()` has it."""
    lsn: int
    """What that moment sees was committed before this position of the log."""


class SnapshotSplit(Struct, frozen=True):
    """A part of the snapshot: rows with keys from `low` to before `high` (None: without a bound), of which those up to
    `after` were read, in `pieces`: one, and another for each time that reading was begun anew."""

    number: int
    low: str | None
    high: str | None
    time_ms: int
    """The event time of its rows: a moment before any change in the log."""
    after: str | None = None
    pieces: tuple[Piece, ...] = ()
    is_read: bool = False

    @property
    def split_id(self) -> str:
        return f"snapshot {self.number}"


class LogSplit(Struct, frozen=True):
    """The log behind `lsn`, where all transactions before it are read, and `rows` changes of the one behind it.

    `pieces`, in the order of keys, are those of the snapshot that may have changes which are still to come.
    """

    lsn: int
    rows: int = 0
    pieces: tuple[Piece, ...] = ()
    stop: int | None = None
    is_read: bool = False

    @property
    def split_id(self) -> str:
        return LOG


ChangesSplit = SnapshotSplit | LogSplit


def lsn_of(text: str) -> int:
    """A position of the log as a number, from the server's "16/B374D848"."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def shown_lsn(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def snapshot_splits(bounds: Iterable[str], time_ms: int) -> tuple[SnapshotSplit, ...]:
    """The splits between some keys, which are in order."""
    edges = [None, *bounds, None]
    return tuple(
        SnapshotSplit(number, low, high, time_ms) for number, (low, high) in enumerate(itertools.pairwise(edges))
    )


def query_of(split: SnapshotSplit, settings: ChangesSettings) -> str:
    """The query for the rest of a split, in the order of keys. In front are the key as text and, unless it is unique,
    whether it equals that of the row before, as texts may differ and be equal (1.0 and 1.00)."""
    key = settings.split_key
    assert key is not None
    conditions = []
    if split.after is not None:
        conditions.append(f"{key.column} > {key.literal(split.after)}")
    elif split.low is not None:
        conditions.append(f"{key.column} >= {key.literal(split.low)}")
    if split.high is not None:
        conditions.append(f"{key.column} < {key.literal(split.high)}")
    position = [f"{key.column}::text AS {POSITION}"]
    if not key.is_unique:
        position.append(
            f"lag({key.column}) OVER (ORDER BY {key.column}) IS NOT DISTINCT FROM {key.column} AS {_IS_SAME}"
        )
    selected = ", ".join([*position, *(column.expression for column in settings.columns)])
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    # By the column of the table: a name alone would be what is selected under it, which may be its text.
    return f"SELECT {selected} FROM {settings.relation} AS flinkray_table{where} ORDER BY flinkray_table.{key.column}"


# -- what the snapshot has


class Moment:
    """A moment of the database: which transactions it sees.

    Args:
        snapshot: as `pg_current_snapshot()` has it: "xmin:xmax:running,running".
    """

    def __init__(self, snapshot: str) -> None:
        lowest, end, running = snapshot.split(":")
        self._lowest, self._end = int(lowest), int(end)
        self._running = frozenset(int(each) for each in running.split(",") if each)

    def sees(self, xid: int) -> bool:
        """
        Args:
            xid: the lower 32 bits of a transaction's id, which is less than 2^31 transactions away.
        """
        distance = (xid - self._end + (1 << 31)) % (1 << 32) - (1 << 31)
        full = self._end + distance
        return full < self._lowest or (full < self._end and full not in self._running)


def pieces_query(pieces: Sequence[Piece], key: SplitKey) -> str:
    """A query that finds the pieces, by their places, for keys given as an array of texts; null keys are in none."""
    value = key.converted("key")
    cases = "".join(
        f" WHEN {value} {'<=' if piece.includes_high else '<'} {key.literal(piece.high)} THEN {place}"
        for place, piece in enumerate(pieces)
        if piece.high is not None
    )
    found = f"CASE{cases} ELSE {len(pieces) - 1} END" if cases else "0"
    found = found.replace("%", "%%")  # a value with this sign would stand for a parameter
    return f"SELECT {found} FROM unnest(%s::text[]) WITH ORDINALITY AS keys (key, place) ORDER BY place"
