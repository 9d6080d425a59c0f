"""How the readers of a table's changes come from its snapshot to its log, with a server that is scripted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from flinkray.connectors.postgres.changes import slots
from flinkray.connectors.postgres.changes.enumerator import ChangesEnumerator, ReaderStarted
from flinkray.connectors.postgres.changes.splits import LogSplit, Piece, SnapshotSplit
from flinkray.connectors.postgres.connections import PostgresError
from tests.support.api import Assignments
from tests.support.table_changes import SETTINGS, ScriptedServer, read


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> ScriptedServer:
    return ScriptedServer(monkeypatch)


class Context(Assignments):
    def __init__(self, parallelism: int = 2) -> None:
        super().__init__(parallelism)
        self.timers: list[Callable[[], None]] = []
        self.now = 0

    def now_ms(self) -> int:
        return self.now

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        self.timers.append(callback)

    def logs(self) -> list[tuple[int, LogSplit]]:
        return [
            (subtask, split)
            for subtask, splits in self.assigned.items()
            for split in splits
            if isinstance(split, LogSplit)
        ]


def started(context: Context, restored: Any = None, has_checkpoints: bool = True, **settings: Any) -> ChangesEnumerator:
    made = ChangesEnumerator(context, replace(SETTINGS, **settings), restored)
    made.start()
    for subtask in range(context.parallelism):
        made.handle_source_event(subtask, ReaderStarted(has_checkpoints))
        made.handle_split_request(subtask)
    return made


def read_all(made: ChangesEnumerator, context: Context) -> None:
    """All readers read what they have."""
    for subtask, splits in list(context.assigned.items()):
        for split in splits:
            made.handle_source_event(subtask, read(split))


def test_the_log_is_given_when_a_checkpoint_has_the_whole_snapshot(server: ScriptedServer) -> None:
    context = Context()
    made = started(context)
    assert {subtask: [(split.low, split.high) for split in splits] for subtask, splits in context.assigned.items()} == {
        0: [(None, "1")],
        1: [("1", None)],
    }
    assert context.assigned[0][0].time_ms == 5
    early = made.snapshot_state(1)
    read_all(made, context)
    made.notify_checkpoint_complete(1)
    assert context.logs() == []
    state = made.snapshot_state(2)
    made.notify_checkpoint_complete(2)
    pieces = (Piece("1", False, "1:1:", 10), Piece(None, False, "1:1:", 11))
    assert context.logs() == [(0, LogSplit(100, 0, pieces))]
    # What starts from either goes on from there, on the same slot, and hears of what is read again.
    for restored in (early, state):
        other = Context()
        again = started(other, restored)
        assert other.logs() == []
        for subtask, splits in context.assigned.items():
            for split in splits:
                if isinstance(split, SnapshotSplit):
                    again.handle_source_event(subtask, read(split))
        again.snapshot_state(3)
        again.notify_checkpoint_complete(3)
        assert other.logs() == [(0, LogSplit(100, 0, pieces))]
        assert len([split for splits in other.assigned.values() for split in splits]) == 1
    assert server.slots_made == 1


@pytest.mark.usefixtures("server")
def test_one_reader_needs_no_checkpoint_and_without_them_there_is_one() -> None:
    for parallelism, has_checkpoints in ((1, True), (2, False)):
        context = Context(parallelism)
        made = started(context, has_checkpoints=has_checkpoints)
        while not context.logs():
            assert set(context.assigned) == {0}
            made.handle_source_event(0, read(context.assigned[0][-1]))
            made.handle_split_request(0)


@pytest.mark.usefixtures("server")
def test_a_reader_that_is_lost_gives_back_what_it_had() -> None:
    context = Context(1)
    made = started(context)
    lost = context.assigned.pop(0)
    made.add_splits_back(lost, 0)
    assert not context.assigned
    made.add_reader(0)
    made.handle_split_request(0)
    assert context.assigned.pop(0) == lost
    made.handle_source_event(0, read(lost[0]))
    (log,) = context.assigned.pop(0)
    # It may have to read of the snapshot again before that, at other moments.
    made.add_splits_back([log], 0)
    assert not context.assigned
    made.add_reader(0)
    made.handle_source_event(0, read(replace(lost[0], after="7")))
    assert context.assigned == {0: [log]}


@pytest.mark.usefixtures("server")
def test_a_checkpoint_from_before_a_reader_started_again_does_not_count() -> None:
    context = Context()
    made = started(context)
    read_all(made, context)
    made.snapshot_state(1)
    made.add_reader(1)
    made.handle_source_event(1, read(context.assigned[1][0]))
    made.notify_checkpoint_complete(1)
    assert context.logs() == []
    made.snapshot_state(2)
    made.notify_checkpoint_complete(2)
    assert len(context.logs()) == 1


@pytest.mark.usefixtures("server")
def test_a_source_that_ends_says_so_to_all_readers_with_the_log() -> None:
    context = Context()
    made = started(context, is_bounded=True)
    assert context.ended == []
    read_all(made, context)
    made.snapshot_state(1)
    made.notify_checkpoint_complete(1)
    assert [split.stop for _, split in context.logs()] == [900]
    assert sorted(context.ended) == [0, 1]
    made.add_reader(1)
    assert context.ended.count(1) == 2


def test_transactions_that_are_open_are_waited_for_and_nothing_is_begun_before(server: ScriptedServer) -> None:
    server.blocks_slots, server.oldest = 2, [8, 9, 10]
    context = Context(1)
    made = started(context)
    waited = 0
    while not context.assigned:
        assert made.snapshot_state(1).lsn is None
        waited += 1
        context.timers.pop(0)()
    assert (waited, server.slots_made) == (3, 1)


@pytest.mark.usefixtures("server")
def test_a_snapshot_is_not_read_on_from_a_table_that_was_made_anew() -> None:
    """The rows that were read of the former one would stay."""
    state = started(Context()).snapshot_state(1)
    with pytest.raises(PostgresError, match="another one than when the source began"):
        started(Context(), state, table_id=SETTINGS.table_id + 1)
    started(Context(), replace(state, table_id=0), table_id=SETTINGS.table_id + 1)  # of a version that noted none


@pytest.mark.usefixtures("server")
def test_changes_alone_begin_at_once() -> None:
    context = Context()
    started(context, split_key=None)
    assert context.logs() == [(0, LogSplit(100))]


def test_a_log_that_is_not_logical_is_refused() -> None:
    level = type("Cursor", (), {"fetchall": lambda _: [("replica",)]})()
    connection = type("Connection", (), {"execute": lambda *_: level})()
    with pytest.raises(PostgresError, match=r"here: .*wal_level is 'replica' there; set it to 'logical'"):
        slots.check_server(connection, "here")


def test_transactions_that_never_end_are_not_waited_for_for_ever(server: ScriptedServer) -> None:
    server.oldest = [8]
    context = Context(1)
    started(context)
    context.now = 599_999
    context.timers.pop(0)()
    context.now = 600_000
    with pytest.raises(PostgresError, match=r"have not ended for 600 s.*pg_terminate_backend"):
        context.timers.pop(0)()
