"""How the log of PostgreSQL is followed, from messages that are written here."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from flinkray.connectors.fetcher import Fetched
from flinkray.connectors.postgres.changes.log import Log
from flinkray.connectors.postgres.changes.settings import ChangesSettings
from flinkray.connectors.postgres.changes.splits import LogSplit, Moment, Piece
from flinkray.connectors.postgres.changes.values import from_texts
from flinkray.connectors.postgres.columns import Column
from flinkray.connectors.postgres.connections import PostgresError
from flinkray.errors import RecordError
from flinkray.types.rows import RowKind
from tests.support.table_changes import OTHER, SETTINGS, TABLE


def no_pieces(keys: list[str]) -> list[int]:
    raise AssertionError(keys)


def message(content: bytes) -> bytes:
    return b"w" + bytes(24) + content


def begin(commit_lsn: int, xid: int = 1) -> bytes:
    return message(b"B" + struct.pack(">QqI", commit_lsn, 0, xid))


def commit(lsn: int, end_lsn: int) -> bytes:
    return message(b"C\0" + struct.pack(">QQq", lsn, end_lsn, 0))


def keepalive(lsn: int) -> bytes:
    return b"k" + struct.pack(">Qqb", lsn, 0, 0)


def relation(is_full: bool = False, columns: Sequence[tuple[str, int]] = (("id", 20), ("word", 25))) -> bytes:
    described = b"".join(b"\0" + name.encode() + b"\0" + struct.pack(">Ii", type_id, -1) for name, type_id in columns)
    identity = b"f" if is_full else b"d"
    return message(
        b"R" + struct.pack(">I", TABLE) + b"public\0t\0" + identity + struct.pack(">H", len(columns)) + described
    )


def values(*texts: str | type | None) -> bytes:
    found = struct.pack(">H", len(texts))
    for text in texts:
        if isinstance(text, str):
            found += b"t" + struct.pack(">I", len(text.encode())) + text.encode()
        else:
            found += b"n" if text is None else b"u"
    return found


UNCHANGED = object
"""A large value that an update leaves as it is."""


def inserted(number: int, table: int = TABLE) -> bytes:
    return message(b"I" + struct.pack(">I", table) + b"N" + values(str(number), f"wört {number}"))


def rows_of(fetched: Sequence[Fetched[LogSplit]]) -> list[tuple[str, Any, Any]]:
    found = []
    for each in fetched:
        if each.batch is not None:
            kinds = each.batch.row_kinds.to_pylist()
            rows = zip(kinds, each.batch.data["id"].to_pylist(), each.batch.data["word"].to_pylist(), strict=True)
            found += [(str(RowKind(kind)), number, word) for kind, number, word in rows]
    return found


def followed(
    split: LogSplit, messages: Sequence[bytes], settings: ChangesSettings = SETTINGS
) -> list[Fetched[LogSplit]]:
    """What some messages give, of which a few are received at a time."""
    log = Log(split, settings, "here", lambda keys: [int(int(key) >= 50) for key in keys])
    generator = random.Random(split.lsn + split.rows)
    found: list[Fetched[LogSplit]] = []
    at = 0
    while at < len(messages):
        length = generator.randrange(1, 6)
        found += log.take(messages[at : at + length])
        at += length
    return found


def transactions(seed: int) -> list[bytes]:
    """Some, also empty ones and of another table; each begins right where the one before ends."""
    generator = random.Random(seed)
    messages, lsn = [keepalive(100), relation()], 100
    for _ in range(12):
        rows = [
            inserted(generator.randrange(100), generator.choice((TABLE, TABLE, OTHER)))
            for _ in range(generator.randrange(9))
        ]
        messages += [begin(lsn), *rows, commit(lsn, lsn + 10)]
        lsn += 10
        if generator.random() < 0.3:
            messages.append(keepalive(lsn))
    return messages


def test_rows_have_what_is_known_of_their_table_and_change() -> None:
    asked = (("t", "table_name"), ("at", "op_ts"), ("k", "row_kind"))
    settings = replace(SETTINGS, metadata=asked, names=("db", "public", "orders"))
    messages = [keepalive(100), relation(), begin(100), inserted(5), commit(100, 110)]
    (batch,) = [each.batch for each in followed(LogSplit(100), messages, settings) if each.batch is not None]
    at = datetime(2000, 1, 1, tzinfo=UTC)
    assert batch.data.to_pylist() == [{"t": "orders", "at": at, "k": "+I", "id": 5, "word": "wört 5"}]


@pytest.mark.parametrize("seed", range(3))
def test_wherever_reading_begins_anew_nothing_is_lost_or_twice(seed: int) -> None:
    messages = transactions(seed)
    whole = followed(LogSplit(100), messages)
    assert len({(each.split.lsn, each.split.rows) for each in whole}) > 12
    assert any(each.split.rows for each in whole)
    for place, each in enumerate(whole):
        again = followed(each.split, messages)
        assert rows_of(whole[: place + 1]) + rows_of(again) == rows_of(whole), each.split
        if again:  # and once more, perhaps before it has come so far
            assert rows_of(again[:1]) + rows_of(followed(again[0].split, messages)) == rows_of(again), each.split


def test_a_keepalive_moves_the_position_between_transactions_alone() -> None:
    messages = [relation(), begin(200), inserted(1), keepalive(900), inserted(2), commit(200, 210), keepalive(300)]
    log = Log(LogSplit(100), SETTINGS, "here", no_pieces)
    positions = [(each.split.lsn, each.split.rows) for message in messages for each in log.take([message])]
    assert positions == [(100, 1), (100, 2), (210, 0), (300, 0)]


def test_a_source_that_ends_does_so_at_its_stop() -> None:
    messages = [relation(), begin(200), inserted(1), commit(200, 210), begin(300), inserted(2), commit(300, 310)]
    for stop, expected in ((205, 1), (300, 1), (305, 2)):
        found = followed(LogSplit(100, stop=stop), messages)
        assert len(rows_of(found)) == expected
        assert [each.is_end for each in found] == [False] * (len(found) - 1) + [True]
        assert found[-1].split.is_read
    assert followed(LogSplit(100, stop=300), [relation(), keepalive(300)])[-1].is_end


def test_changes_that_the_snapshot_has_are_left_out_where_it_has_them() -> None:
    # The rows below 50 were read while transaction 12 ran, the others when it was over.
    pieces = (Piece("50", False, "11:14:12,13", 400), Piece(None, False, "14:14:", 500))
    messages = [relation()]
    for xid in (10, 12, 13, 14):
        messages += [begin(xid * 20, xid), inserted(1), inserted(99), commit(xid * 20, xid * 20 + 5)]
    found = followed(LogSplit(100, pieces=pieces), messages)
    assert [number for _, number, _ in rows_of(found)] == [1, 1, 1, 99]
    assert [bool(each.split.pieces) for each in found][-1]
    (last,) = followed(found[-1].split, [keepalive(500)])
    assert not last.split.pieces


def test_what_a_moment_sees_when_ids_of_transactions_begin_anew() -> None:
    epoch = 1 << 32
    moment = Moment(f"{epoch - 2}:{epoch + 3}:{epoch - 1},{epoch + 1}")
    assert [moment.sees(xid) for xid in (epoch - 3, epoch - 2, epoch - 1, 0, 1, 2, 3)] == [
        *(True, True, False),
        *(True, False, True, False),
    ]


def updated(*parts: bytes) -> bytes:
    return message(b"U" + struct.pack(">I", TABLE) + b"".join(parts))


OLD = values("1", "a")
UPDATES: dict[str, tuple[bytes, list[tuple[str, Any, Any]]]] = {
    "without the row before": (updated(b"N", values("1", "b")), [("+U", 1, "b")]),
    "with the row before": (updated(b"O", OLD, b"N", values("1", "b")), [("-U", 1, "a"), ("+U", 1, "b")]),
    "of the key": (updated(b"K", values("1", None), b"N", values("2", "b")), [("-D", 1, None), ("+I", 2, "b")]),
    "of the key, with the row before": (updated(b"O", OLD, b"N", values("2", "a")), [("-D", 1, "a"), ("+I", 2, "a")]),
    "with the key before, which is the same": (
        updated(b"K", values("1", None), b"N", values("1", "b")),
        [("+U", 1, "b")],
    ),
    "that leaves a large key": (updated(b"K", values("1", None), b"N", values(UNCHANGED, "b")), [("+U", 1, "b")]),
    "that leaves a large value": (updated(b"O", OLD, b"N", values("1", UNCHANGED)), [("-U", 1, "a"), ("+U", 1, "a")]),
    "deletion": (message(b"D" + struct.pack(">I", TABLE) + b"K" + values("1", None)), [("-D", 1, None)]),
    "deletion with the row": (message(b"D" + struct.pack(">I", TABLE) + b"O" + OLD), [("-D", 1, "a")]),
}


def test_what_updates_and_deletions_give() -> None:
    messages = [relation(), begin(200), *(change for change, _ in UPDATES.values()), commit(200, 210)]
    expected = [row for _, rows in UPDATES.values() for row in rows]
    assert rows_of(followed(LogSplit(100), messages)) == expected
    assert rows_of(list(Log(LogSplit(100), SETTINGS, "here", no_pieces).take(messages))) == expected


@pytest.mark.parametrize(
    ("messages", "settings", "message"),
    [
        (
            [relation(columns=[("id", 20)])],
            SETTINGS,
            r"here: table t has no column 'word' any more; its columns are id",
        ),
        ([relation(columns=[("id", 23), ("word", 25)])], SETTINGS, "'id' as int32 now, where it was int64"),
        ([relation()], replace(SETTINGS, is_full=True), "has no REPLICA IDENTITY FULL any more"),
        (
            [relation(True), begin(200), updated(b"N", values("1", "b"))],
            replace(SETTINGS, is_full=True),
            "lacks the row as it was before, as a partition",
        ),
        ([relation(), begin(200), updated(b"N", values("1", UNCHANGED))], SETTINGS, "large value of column 'word'"),
        (
            [begin(200), message_of_truncation := message(b"T" + struct.pack(">IbII", 2, 0, OTHER, TABLE))],
            SETTINGS,
            "was truncated",
        ),
    ],
)
def test_what_cannot_be_followed_is_named(messages: list[bytes], settings: ChangesSettings, message: str) -> None:
    with pytest.raises((PostgresError, RecordError), match=message):
        list(Log(LogSplit(100), settings, "here", no_pieces).take(messages))


def test_a_truncation_that_is_to_be_skipped_or_is_known_gives_nothing() -> None:
    messages = [begin(200), message_of_truncation, commit(200, 210)]
    assert rows_of(followed(LogSplit(100), messages, replace(SETTINGS, skips_truncations=True))) == []
    assert rows_of(followed(LogSplit(210), messages)) == []
    # The snapshot was read after it.
    assert rows_of(followed(LogSplit(100, pieces=(Piece(None, False, "5:5:", 900),)), messages)) == []


@pytest.mark.parametrize("count", [0, 1])
def test_texts_of_arrays(count: int) -> None:
    texts = ['{a,NULL,"NULL"}', None, "{}", '[2:3]={"a,\\"b\\\\","{}"}'] * count
    found = from_texts(pa.array(texts, pa.large_string()), Column("v", 1009, -1, 25), "here")
    assert found.to_pylist() == [["a", None, "NULL"], None, [], ['a,"b\\', "{}"]] * count
    assert found.type == pa.list_(pa.string())


def test_times_that_are_far_away_are_what_they_are_or_errors() -> None:
    def read(type_id: int, *texts: str) -> list[int | None]:
        found = from_texts(pa.array([*texts, None], pa.large_string()), Column("v", type_id, -1), "here")
        numbers: list[int | None] = found.view(pa.int32() if type_id == 1082 else pa.int64()).to_pylist()
        return numbers

    assert read(1082, "5874897-12-31", "0044-03-15 BC", "2024-02-29") == [2_145_042_905, -735_160, 19_782, None]
    moments = read(1114, "294246-12-31 23:59:59.999999", "0001-01-01 00:00:00 BC")
    assert moments == [9_223_371_244_799_999_999, -62_167_219_200_000_000, None]
    with pytest.raises(RecordError, match=r"column 'v' is no timestamp.*so far away that there is no number for it"):
        read(1114, "294276-12-31 00:00:00")
