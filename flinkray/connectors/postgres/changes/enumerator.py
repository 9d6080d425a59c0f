"""Brings the readers from the snapshot of a table to its log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from flinkray.connectors.postgres.changes import slots
from flinkray.connectors.postgres.changes.settings import ChangesSettings
from flinkray.connectors.postgres.changes.splits import ChangesSplit, LogSplit, SnapshotSplit, snapshot_splits
from flinkray.connectors.postgres.connections import PostgresError, control, refuse, shown, sqlstate
from flinkray.connectors.source import SplitEnumerator, SplitEnumeratorContext

log = logging.getLogger(__name__)

_WHERE = "PostgresChangesSource"
_SPLITS_PER_SUBTASK = 4
"""So that a subtask that has read its own takes over from slower ones."""
_LOCK_TIMEOUT = "2s"
_POLL_MS = 200
_RETRY_MS = 1_000
_LONGEST_WAIT_MS = 600_000
"""For so long it waits for transactions of others, which may be forgotten ones."""
_LOCK_NOT_AVAILABLE = "55P03"
_READER_OF_LOG = 0


class ReaderStarted(Struct, frozen=True):
    """Reader -> enumerator: whether the job takes checkpoints."""

    has_checkpoints: bool


class SplitRead(Struct, frozen=True):
    """Reader -> enumerator: a part of the snapshot is read, for the first time or before a checkpoint."""

    split: SnapshotSplit


class ChangesEnumeratorState(Struct, frozen=True):
    """Where the log begins (None: nothing was begun), how many splits the snapshot has, those that no reader has, and
    whether one has the log. Those that are read are in the state of the readers, which report them again."""

    lsn: int | None
    splits: int = 0
    waiting: tuple[SnapshotSplit, ...] = ()
    is_log_given: bool = False
    table_id: int = 0
    """Which table has this name; 0: that was not noted."""


class ChangesEnumerator(SplitEnumerator):
    """Prepares the server, gives the parts of the snapshot to whoever asks, and then the log to one reader.

    Before that, a checkpoint has to be complete if others have read of the snapshot too: else a change could overtake
    the row that it changes, on its way to where both come together. Without checkpoints one reader reads everything.
    """

    def __init__(
        self, context: SplitEnumeratorContext, settings: ChangesSettings, restored: ChangesEnumeratorState | None
    ) -> None:
        state = restored or ChangesEnumeratorState(None)
        self._context = context
        self._settings = settings
        self._table_id = state.table_id
        self._lsn = state.lsn
        self._count = state.splits
        self._waiting = list(state.waiting)
        self._read: dict[int, tuple[int, SnapshotSplit]] = {}
        """By their numbers the splits that are read, and the subtasks that have read them, as far as they run."""
        self._is_log_given = state.is_log_given
        self._asking: set[int] = set()
        self._has_checkpoints = True
        self._is_shared = False
        """Whether others than the reader of the log have read of the snapshot."""
        self._checkpoint: int | None = None
        """The first checkpoint that has all rows of the snapshot."""
        self._time_ms = 0
        self._said_to_wait = False
        self._waits_since: int | None = None

    def start(self) -> None:
        if self._lsn is None:
            self._prepare_server()
        elif self._table_id not in (0, self._settings.table_id):
            slots.refuse_other_table(self._settings, _WHERE)

    def add_reader(self, subtask_index: int) -> None:
        self._asking.discard(subtask_index)
        self._forget(subtask_index)
        if self._is_log_given and self._settings.is_bounded:
            self._context.signal_no_more_splits(subtask_index)

    def handle_split_request(self, subtask_index: int) -> None:
        self._asking.add(subtask_index)
        self._assign()

    def handle_source_event(self, subtask_index: int, event: Any) -> None:
        if isinstance(event, ReaderStarted):
            self._has_checkpoints = event.has_checkpoints
        elif isinstance(event, SplitRead):
            self._read[event.split.number] = subtask_index, event.split
            self._is_shared |= subtask_index != _READER_OF_LOG
            self._assign()

    def add_splits_back(self, splits: Sequence[ChangesSplit], subtask_index: int) -> None:
        self._forget(subtask_index)
        for split in splits:
            if isinstance(split, LogSplit):
                self._is_log_given = False
            else:
                self._waiting.append(split)
        self._assign()

    def snapshot_state(self, checkpoint_id: int) -> ChangesEnumeratorState:
        if self._is_snapshot_read and self._checkpoint is None:
            self._checkpoint = checkpoint_id
        waiting, table_id = tuple(self._waiting), self._settings.table_id
        return ChangesEnumeratorState(self._lsn, self._count, waiting, self._is_log_given, table_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if self._checkpoint is not None and checkpoint_id >= self._checkpoint:
            self._is_shared = False
            self._assign()

    # -- the server

    def _prepare_server(self) -> None:
        """Makes publication and slot, where they are not there."""
        settings = self._settings
        what = f"cannot prepare {shown(settings.uri)} for the changes of {settings.relation}"
        with control(settings.uri, _WHERE) as connection:
            try:
                self._time_ms = slots.now_ms(connection)
                slots.ensure_publication(connection, settings, _WHERE)
                lsn = slots.slot_position(connection, settings, _WHERE)
                if lsn is None:
                    connection.execute(f"SET lock_timeout = '{_LOCK_TIMEOUT}'")
                    lsn = slots.create_slot(connection, settings)
                following = slots.running(connection)[1]
            except Exception as error:
                if sqlstate(error) != _LOCK_NOT_AVAILABLE:
                    refuse(error, _WHERE, what)
                self._wait("the slot can be made", self._prepare_server, _RETRY_MS)
                return
        self._begin_when_seen(lsn, following)

    def _begin_when_seen(self, lsn: int, following: int) -> None:
        """Begins when all moments see what is in the log before the slot's position: a transaction may be there, and be
        seen only later, as while it waits for a synchronous standby."""
        settings = self._settings
        with control(settings.uri, _WHERE) as connection:
            try:
                bounds = None
                if settings.split_key is None or slots.running(connection)[0] >= following:
                    splits = self._context.parallelism * _SPLITS_PER_SUBTASK
                    bounds = [] if settings.split_key is None else slots.bounds_of(connection, settings, splits)
            except Exception as error:
                refuse(error, _WHERE, f"cannot split {settings.relation} of {shown(settings.uri)}")
        if bounds is None:
            self._wait("the snapshot begins", lambda: self._begin_when_seen(lsn, following), _POLL_MS)
            return
        self._lsn = lsn
        if settings.split_key is not None:
            self._waiting = list(snapshot_splits(bounds, self._time_ms))
            self._count = len(self._waiting)
        self._assign()

    def _wait(self, what: str, then: Callable[[], None], delay_ms: int) -> None:
        now = self._context.now_ms()
        self._waits_since = now if self._waits_since is None else self._waits_since
        if now - self._waits_since >= _LONGEST_WAIT_MS:
            raise PostgresError(
                f"{_WHERE}: transactions that were open on {shown(self._settings.uri)} have not ended for "
                f"{_LONGEST_WAIT_MS // 1000} s, and have to before {what}; pg_stat_activity has them (backend_xid), "
                "and pg_terminate_backend ends their sessions"
            )
        if not self._said_to_wait:
            self._said_to_wait = True
            log.warning(
                "%s: transactions that are open on %s have to end before %s; pg_stat_activity has them (backend_xid)",
                _WHERE,
                shown(self._settings.uri),
                what,
            )
        self._context.call_later(delay_ms, then)

    # -- splits

    def _forget(self, subtask_index: int) -> None:
        """A reader starts again: it may have to read again, at other moments, and reports what it need not."""
        self._read = {number: read for number, read in self._read.items() if read[0] != subtask_index}
        self._checkpoint = None

    @property
    def _is_snapshot_read(self) -> bool:
        return self._lsn is not None and not self._waiting and len(self._read) == self._count

    def _assign(self) -> None:
        for subtask in sorted(self._asking & self._context.registered_readers):
            if self._waiting and (self._has_checkpoints or subtask == _READER_OF_LOG):
                self._asking.discard(subtask)
                self._context.assign_splits([self._waiting.pop(0)], subtask)
        if self._is_snapshot_read and not self._is_log_given and not self._is_shared:
            self._is_log_given = True
            self._context.assign_splits([self._whole_log(self._lsn or 0)], _READER_OF_LOG)
            if self._settings.is_bounded:
                for subtask in self._context.registered_readers:
                    self._context.signal_no_more_splits(subtask)

    def _whole_log(self, lsn: int) -> LogSplit:
        settings = self._settings
        pieces = tuple(piece for _, (_, split) in sorted(self._read.items()) for piece in split.pieces)
        with control(settings.uri, _WHERE) as connection:
            try:
                if not self._has_checkpoints:  # the slot moves on with what is read
                    lsn = max(lsn, slots.slot_position(connection, settings, _WHERE) or 0)
                stop = slots.mark_log(connection) if settings.is_bounded else None
            except Exception as error:
                refuse(error, _WHERE, f"cannot ask {shown(settings.uri)} for its log")
        return LogSplit(lsn, 0, pieces, stop)
