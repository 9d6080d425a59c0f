"""Holds the rows of a collecting sink until the driver takes them, with checkpoints until they can come only once."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from actors.coordinators.base import CoordinatorContext, OperatorCoordinator
from actors.protocol.operator_events import RowsCollected, RowsCut, RowsPersisted, RowsTaken
from flinkray.batches.batch import Batch
from flinkray.errors import CheckpointError, FlinkrayError
from flinkray.persistence import dumps, loads

# While fewer committed batches wait for the driver, sinks may send on: what is not committed yet the driver cannot
# take, and a sink that waited for it would keep the barrier of the checkpoint waiting that commits it.
BACKLOG = 16


class _Subtask(Struct):
    expected: int = 0
    """Sequence of the next batch."""
    may_jump: bool = False
    """The attempt was restored, and may begin above `expected`: what is between went to a former job's driver."""
    committed: int = 0
    """Batches with a lower sequence will not come again."""
    handed: int = 0
    """Sequence after the last batch that the driver was given."""
    acknowledged: int = 0
    """Sequence after the last batch of which the sink knows that it needs no room any more."""
    cuts: dict[int, int] = field(default_factory=dict)
    """Checkpoint -> sequence of the first batch behind its barrier. Ascending."""

    def cut(self, checkpoint_id: int | None) -> int:
        """Where an attempt goes on that starts from that checkpoint, or None: from nothing."""
        if checkpoint_id is None:
            return 0
        return max((cut for each, cut in self.cuts.items() if each <= checkpoint_id), default=0)


_Entry = tuple[int, int, Batch]
"""(subtask, sequence, batch)"""

_NOBODY = -1
"""Stands for the subtasks of a job that had another parallelism; its entries are numbered when the job is rescaled."""


class CollectCoordinatorSnapshot(Struct, frozen=True):
    """A part of the checkpoint's format. All its rows were sent before the barrier."""

    checkpoint_id: int
    expected: tuple[int, ...]
    entries: tuple[_Entry, ...]
    positions: tuple[int, ...] = ()
    """What the driver had: who starts from here gets the rest."""
    former: tuple[tuple[int, ...], ...] = ()
    """Per change of the parallelism, the latest first: of each subtask before, the sequence after what was here."""


class CollectCoordinator(OperatorCoordinator):
    """A buffer of batches between the sink's subtasks and the driver. One subtask's stay in order; none counts twice.

    Without checkpoints the driver gets rows at once, and the buffer is bounded, as a subtask has a bounded number of
    batches that were not acknowledged with RowsTaken, and only `take` acknowledges.

    With checkpoints the driver gets the rows of a checkpoint when it is complete, as those of Flink's collecting sink;
    what came after the last one is here, however much it is, and is dropped again when its subtask is restarted.

    Args:
        has_checkpoints: the job takes checkpoints periodically.
        retained: of how many complete ones it may start again from each.
    """

    def __init__(
        self,
        operator_name: str,
        collect_id: str,
        context: CoordinatorContext,
        has_checkpoints: bool = False,
        retained: int = 1,
    ) -> None:
        self.collect_id = collect_id
        """Which CollectSink this is (`JobClient.collected`)."""
        self._operator_name = operator_name
        self._context = context
        self._has_checkpoints = has_checkpoints
        # One more than are retained, as it may be the savepoint that ends the job.
        self._completed: deque[int] = deque(maxlen=retained + 1)
        """The last complete checkpoints, oldest first."""
        self._subtasks = [_Subtask() for _ in range(context.parallelism)]
        self._buffer: deque[_Entry] = deque()
        """The batches that the driver may have now."""
        self._uncommitted: list[_Entry] = []
        """The batches that may come again, as no complete checkpoint has them, in the order of arrival."""
        self._in_snapshots: dict[int, tuple[int, ...]] = {}
        """Checkpoint -> per subtask, the sequence of the first batch that its snapshot of this does not have."""
        self._former: tuple[tuple[int, ...], ...] = ()
        """As in `CollectCoordinatorSnapshot`; it tells which rows that come with a former sequence are here already."""
        self._nobodys_handed = 0
        """Sequence after the last of the entries of nobody that the driver was given."""
        self._last_positions: tuple[int, ...] = ()
        self._last_batches: list[Batch] = []
        """What the driver was given last; `_last_positions` is what it had before."""
        self._initial_id = 0
        """The checkpoint that this was restored from."""
        self._restored_id: int | None = None
        """The checkpoint that this was restored from, until the next is complete: of it only the cut of this
        coordinator is known, and not that of the sinks."""
        self._is_closed = False
        self._error: FlinkrayError | None = None

    def start(self) -> None: ...

    def handle_event(self, subtask_index: int, event: Any) -> None:
        match event:
            case RowsCollected():
                self._on_rows(subtask_index, event)
            case RowsCut():
                self._subtasks[subtask_index].cuts[event.checkpoint_id] = event.sequence
            case _:
                raise TypeError(f"the coordinator of sink {self._operator_name!r} cannot handle {event!r}")

    def subtask_failed(self, subtask_index: int, checkpoint_id: int | None = None) -> None:
        """The next attempt sends everything since that checkpoint again, so what is here of that must go.

        Rows that the driver may have already cannot be called back: then every further `take` raises, as Flink's
        collecting iterator does for a job that restarts without checkpoints.
        """
        subtask = self._subtasks[subtask_index]
        cut = subtask.cut(checkpoint_id)
        if subtask.handed > cut and (checkpoint_id is None or checkpoint_id != self._restored_id):
            self._error = FlinkrayError(
                f"sink {self._operator_name!r} (subtask {subtask_index + 1} of {len(self._subtasks)}) was restarted "
                "after some of its rows had been handed to the driver, which would now get them twice; run the job "
                "again, with checkpoints (execution.checkpointing.interval), or write to a sink that commits"
            )
        self._buffer = deque(each for each in self._buffer if each[0] != subtask_index or each[1] < cut)
        self._uncommitted = [each for each in self._uncommitted if each[0] != subtask_index or each[1] < cut]
        subtask.cuts = {each: cut for each, cut in subtask.cuts.items() if each <= (checkpoint_id or 0)}
        while self._completed and self._completed[-1] > (checkpoint_id or 0):
            self._completed.pop()
        subtask.expected = min(subtask.expected, cut)
        subtask.may_jump = checkpoint_id is not None
        subtask.committed = min(subtask.committed, cut)
        subtask.acknowledged = 0

    def survives_restart(self, checkpoint_id: int | None) -> bool:
        """Whether the job does not go back to before the checkpoint that this was restored from, of which nothing is
        known."""
        return checkpoint_id is None or checkpoint_id >= self._initial_id

    def snapshot(self, checkpoint_id: int) -> bytes:
        expected = tuple(subtask.expected for subtask in self._subtasks)
        self._in_snapshots[checkpoint_id] = expected
        entries = tuple(each for each in (*self._buffer, *self._uncommitted) if not self._was_handed(each))
        snapshot = CollectCoordinatorSnapshot(checkpoint_id, expected, entries, self.positions, self._former)
        return dumps(snapshot)

    def restore(self, state: bytes) -> None:
        """At another parallelism sequences mean nothing, and every subtask begins a new count; what sinks kept of the
        old one comes with its former sequence."""
        try:
            snapshot: CollectCoordinatorSnapshot = loads(state)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            raise CheckpointError(
                f"sink {self._operator_name!r}: rows for the driver cannot be read ({text})"
            ) from error
        is_same = len(snapshot.expected) == len(self._subtasks)
        if is_same:
            self._buffer.extend(snapshot.entries)
            self._former = snapshot.former
            self._skip(snapshot.positions)
        else:
            self._buffer.extend((_NOBODY, number, batch) for number, (_, _, batch) in enumerate(snapshot.entries))
            was_here = tuple(max(*each) for each in zip(snapshot.expected, snapshot.positions, strict=False))
            self._former = (was_here, *snapshot.former)
        self._initial_id = self._restored_id = snapshot.checkpoint_id
        for index, subtask in enumerate(self._subtasks):
            subtask.expected = subtask.committed = snapshot.expected[index] if is_same else 0
            subtask.may_jump = True
            # A subtask sends again after each restart what it sent between this snapshot and its own.
            subtask.cuts = {snapshot.checkpoint_id: subtask.expected}

    def begin_without_state(self, checkpoint_id: int) -> None:
        """The sink is new, or had finished: its subtasks begin a count that is above all that were before."""
        self._initial_id = checkpoint_id
        for subtask in self._subtasks:
            subtask.may_jump = True

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if not self._has_checkpoints:
            return
        self._restored_id = None
        self._completed.append(checkpoint_id)
        for subtask in self._subtasks:
            cut = subtask.cuts[checkpoint_id] = subtask.cut(checkpoint_id)
            subtask.committed = max(subtask.committed, cut)
            # Attempts start from this checkpoint or a later one from now on, or from another one that is retained.
            ids = (each for each in sorted(subtask.cuts) if each > checkpoint_id or self._may_be_restored(each))
            subtask.cuts = {each: subtask.cuts[each] for each in ids}
        uncommitted: list[_Entry] = []
        for entry in self._uncommitted:
            is_committed = entry[1] < self._subtasks[entry[0]].committed
            (self._buffer if is_committed else uncommitted).append(entry)
        self._uncommitted = uncommitted
        in_snapshot = self._in_snapshots.get(checkpoint_id, ())
        self._in_snapshots = {each: found for each, found in self._in_snapshots.items() if each > checkpoint_id}
        for subtask_index, sequence in enumerate(in_snapshot):
            self._context.send_event(subtask_index, RowsPersisted(sequence))

    def close(self) -> None:
        """No more rows will come; those that are here can still be taken."""
        self._is_closed = True
        self._buffer.extend(self._uncommitted)
        self._uncommitted = []

    @property
    def positions(self) -> tuple[int, ...]:
        """What the driver has been given so far; it brings this along when it asks for more."""
        return (*(subtask.handed for subtask in self._subtasks), self._nobodys_handed)

    def take(self, max_batches: int, positions: Sequence[int]) -> tuple[list[Batch], bool]:
        """Up to that many batches, oldest first, and whether the driver has everything now (the job has ended).

        Args:
            positions: what `positions` was after the last answer that came; () before the first. Where the last answer
                did not arrive, it is given again. A JobMaster that has taken the place of another does not give rows a
                second time that the driver got from that one.

        Raises:
            FlinkrayError: rows that were taken before would come again (see `subtask_failed`).
        """
        if self._error is not None:
            raise self._error
        if self._last_batches and tuple(positions) == self._last_positions:
            return self._last_batches, self._is_closed and not self._buffer
        self._skip(positions)
        batches: list[Batch] = []
        highest: dict[int, int] = {}
        while self._buffer and len(batches) < max_batches:
            entry = self._buffer.popleft()
            subtask_index, sequence, batch = entry
            if not self._was_handed(entry):
                batches.append(batch)
            if subtask_index == _NOBODY:
                self._nobodys_handed = max(self._nobodys_handed, sequence + 1)
            else:
                subtask = self._subtasks[subtask_index]
                subtask.handed = max(subtask.handed, sequence + 1)
                highest[subtask_index] = sequence
        self._make_room(highest)
        self._last_positions, self._last_batches = tuple(positions), batches
        return batches, self._is_closed and not self._buffer

    def check(self) -> None:
        """What always holds between two calls."""
        for subtask_index, sequence, _ in self._uncommitted:
            subtask = self._subtasks[subtask_index]
            assert subtask.committed <= sequence < subtask.expected, "a batch is in the wrong place"
        assert self._has_checkpoints or not self._uncommitted, "a batch waits for a checkpoint that never comes"

    # -- inside --------------------------------------------------------------------------------------------------

    def _may_be_restored(self, checkpoint_id: int) -> bool:
        return checkpoint_id == self._initial_id or checkpoint_id in self._completed

    def _on_rows(self, subtask_index: int, event: RowsCollected) -> None:
        subtask = self._subtasks[subtask_index]
        if event.sequence >= subtask.expected and subtask.may_jump:
            subtask.expected = event.sequence
        subtask.may_jump = False
        if event.sequence > subtask.expected:
            missing = f"batch {event.sequence} came where {subtask.expected} was due"
            self._context.fail_job(
                FlinkrayError(f"sink {self._operator_name!r} (subtask {subtask_index + 1}): rows were lost, {missing}")
            )
            return
        if event.sequence == subtask.expected:
            subtask.expected += 1
            entry = (subtask_index, event.sequence, event.batch)
            if not self._is_here(event):
                is_uncommitted = self._has_checkpoints and not self._is_closed
                (self._uncommitted if is_uncommitted else self._buffer).append(entry)
        self._make_room({})

    def _skip(self, positions: Sequence[int]) -> None:
        """Counts batches up to these positions as given to the driver, whoever gave them."""
        if len(positions) == len(self._subtasks) + 1:
            *of_subtasks, of_nobody = positions
            for subtask, position in zip(self._subtasks, of_subtasks, strict=True):
                subtask.handed = max(subtask.handed, position)
            self._nobodys_handed = max(self._nobodys_handed, of_nobody)

    def _was_handed(self, entry: _Entry) -> bool:
        """Whether a JobMaster before this one gave the batch to the driver."""
        subtask_index, sequence, _ = entry
        handed = self._nobodys_handed if subtask_index == _NOBODY else self._subtasks[subtask_index].handed
        return sequence < handed

    def _is_here(self, event: RowsCollected) -> bool:
        """Whether the coordinator, or the driver, had these rows at a checkpoint from which the job was rescaled."""
        return any(
            sequence < expected[subtask]
            for (subtask, sequence), expected in zip(event.former, self._former, strict=False)
        )

    def _make_room(self, highest: dict[int, int]) -> None:
        """Lets the sinks send more: without checkpoints as much as the driver took of each (its highest sequence)."""
        if self._is_closed:
            return
        if self._has_checkpoints:
            has_room = len(self._buffer) < BACKLOG
            highest = {index: subtask.expected - 1 for index, subtask in enumerate(self._subtasks)} if has_room else {}
        for subtask_index, sequence in highest.items():
            if sequence >= self._subtasks[subtask_index].acknowledged:
                self._subtasks[subtask_index].acknowledged = sequence + 1
                if not self._has_checkpoints:
                    self._context.send_event(subtask_index, RowsPersisted(sequence + 1))
                self._context.send_event(subtask_index, RowsTaken(sequence))
