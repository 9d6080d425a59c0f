"""What a PostgresChangesSource has to do with: a table, and a server that is scripted."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from flinkray.connectors.postgres.changes import enumerator, slots
from flinkray.connectors.postgres.changes.enumerator import SplitRead
from flinkray.connectors.postgres.changes.settings import ChangesSettings, SplitKey
from flinkray.connectors.postgres.changes.splits import Piece, SnapshotSplit
from flinkray.connectors.postgres.columns import Column

TABLE, OTHER = 7, 8
SETTINGS = ChangesSettings(
    uri="host=h",
    relation="t",
    table_id=TABLE,
    columns=(Column("word", 25, -1), Column("id", 20, -1)),
    type_ids=(25, 20),
    key=("id",),
    is_full=False,
    split_key=SplitKey("id", "bigint", "", True),
    slot="s",
    publication="p",
    is_bounded=False,
    skips_truncations=False,
)


class ScriptedServer:
    """Answers what an enumerator asks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slots_made = 0
        self.blocks_slots = 0
        self.oldest = [10]
        connection = contextlib.nullcontext(type("Connection", (), {"execute": lambda *_: None})())
        monkeypatch.setattr(enumerator, "control", lambda *_, **__: connection)
        answers: dict[str, Callable[..., Any]] = {
            "now_ms": lambda _: 5,
            "ensure_publication": lambda *_: None,
            "slot_position": lambda *_: None,
            "create_slot": self._make_slot,
            "running": lambda _: (self.oldest.pop(0) if len(self.oldest) > 1 else self.oldest[0], 10),
            "bounds_of": lambda _, __, splits: [str(number) for number in range(1, splits // 4)],
            "mark_log": lambda _: 900,
        }
        for name, answer in answers.items():
            monkeypatch.setattr(slots, name, answer)

    def _make_slot(self, *_: Any) -> int:
        if self.blocks_slots:
            self.blocks_slots -= 1
            raise psycopg.errors.LockNotAvailable
        self.slots_made += 1
        return 100


def read(split: SnapshotSplit) -> SplitRead:
    piece = Piece(split.high, False, "1:1:", 10 + split.number)
    return SplitRead(replace(split, pieces=(piece,), is_read=True))
