"""Sends the rows of a collecting sink to the driver, by way of its coordinator."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from actors.operators.contract.operator import OperatorContext
from actors.protocol.operator_events import RowsCollected, RowsCut
from flinkray.batches.batch import Batch, concat, is_same_layout
from flinkray.connectors.sink import SinkWriter

# Messages that a collecting sink has under way to the driver. Their rows wait in the JobMaster's memory, so it is few;
# more than one, so that the next is there when the driver comes for more.
COLLECT_WINDOW = 4

# A round trip to the driver takes some 20 ms, however few rows it carries: the rows that wait for it go together, even
# where the job's own batches are tiny.
COLLECT_ROWS = 8_192

# A subtask that had finished leaves no state, but the coordinator knows its sequence numbers: an attempt that begins
# without state counts from the number of its checkpoint times this, above all that was sent before.
_FRESH_COUNT = 1 << 40


class KeptRows(Struct, frozen=True):
    """A message that a restored attempt may have to send again. A part of the checkpoint's format."""

    sequence: int
    batch: Batch
    former: tuple[tuple[int, int], ...]
    """As `RowsCollected.former`."""


class CollectWriterState(Struct, frozen=True):
    """What a snapshot has of a writer. A part of the checkpoint's format."""

    subtask_index: int
    next_sequence: int
    kept: tuple[KeptRows, ...]


class CollectWriter(SinkWriter):
    """Sends rows to the collect coordinator, at most COLLECT_WINDOW messages ahead of the driver.

    Rows that come while the window is full wait and are coalesced, up to COLLECT_ROWS. Once there are as many, the
    writer is not available. At a barrier and at the end of input everything is sent.

    Messages are kept until a checkpoint of the coordinator has them for certain, or without checkpoints the driver: the
    coordinator says when (`on_rows_kept`). What is kept is a part of each snapshot, and sent again by an attempt that
    starts from it: the coordinator knows each message by its sequence.
    """

    def __init__(self, context: OperatorContext) -> None:
        self._context = context
        self._waiting: deque[Batch] = deque()
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._next_sequence = 0
        self._taken = 0
        """How many messages need no room any more: the driver has taken them."""
        self._kept: deque[KeptRows] = deque()
        self._has_ended = False

    @property
    def is_available(self) -> bool:
        if self._has_ended:
            return True
        # A barrier sends more than the window, and then the window must be as it was before anything may wait again:
        # else each barrier would let more rows through to a driver that does not take them.
        is_behind = self._next_sequence - self._taken > COLLECT_WINDOW
        return not is_behind and self._waiting_rows < COLLECT_ROWS and self._waiting_bytes < self._context.batch_bytes

    def write(self, batch: Batch) -> None:
        # The driver sees the rows' values and kinds only.
        values = Batch(batch.data, batch.kind, kinds=batch.kinds)
        self._waiting.append(values)
        self._waiting_rows += values.num_rows
        self._waiting_bytes += values.nbytes
        self._send(COLLECT_WINDOW)

    def on_rows_taken(self, sequence: int) -> None:
        """The driver has taken the messages up to this sequence, which need no room any more."""
        self._taken = max(self._taken, sequence + 1)
        self._send(COLLECT_WINDOW)

    def on_rows_kept(self, sequence: int) -> None:
        """A complete checkpoint of the coordinator, or without checkpoints the driver, has the messages below this
        one."""
        while self._kept and self._kept[0].sequence < sequence:
            self._kept.popleft()

    def flush(self, end_of_input: bool) -> None:
        self._has_ended = self._has_ended or end_of_input
        self._send(None)

    def snapshot(self, checkpoint_id: int) -> CollectWriterState:
        """The barrier comes now: sends what waits, and tells the coordinator which rows are before the barrier."""
        self._send(None)
        self._context.send_to_coordinator(RowsCut(checkpoint_id, self._next_sequence))
        return CollectWriterState(self._context.subtask_index, self._next_sequence, tuple(self._kept))

    def snapshot_state(self, checkpoint_id: int) -> CollectWriterState:
        return self.snapshot(checkpoint_id)

    def restore(self, states: Sequence[CollectWriterState], is_rescaled: bool, checkpoint_id: int = 0) -> None:
        """Before anything is written: goes on from the checkpoint, and sends again what its writers had kept.

        Args:
            states: what this subtask gets of `snapshot`; several only if `is_rescaled`.
            is_rescaled: the job had another parallelism. Counts begin anew then, at the coordinator too.
            checkpoint_id: that the attempt starts from.
        """
        if is_rescaled:
            for state in states:
                for kept in state.kept:
                    self._send_rows(kept.batch, ((state.subtask_index, kept.sequence), *kept.former))
        elif states:
            (state,) = states
            self._next_sequence = state.next_sequence
            self._kept.extend(state.kept)
            for kept in state.kept:
                self._tell(kept)
        else:
            self._next_sequence = (checkpoint_id + 1) * _FRESH_COUNT
        # The coordinator may have all of it, and then no message will ever say that it needs no room any more.
        self._taken = self._next_sequence

    def close(self) -> None:
        self._waiting.clear()
        self._waiting_rows = self._waiting_bytes = 0
        self._kept.clear()

    def check(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        assert self._taken <= self._next_sequence, "the driver took what was never sent"
        assert self._waiting_rows == sum(batch.num_rows for batch in self._waiting), "waiting rows are counted wrongly"
        assert self._waiting_bytes == sum(batch.nbytes for batch in self._waiting), "waiting bytes are counted wrongly"
        sequences = [kept.sequence for kept in self._kept]
        assert sequences == list(range(self._next_sequence - len(sequences), self._next_sequence)), "kept with gaps"

    def _send(self, window: int | None) -> None:
        while self._waiting and (window is None or self._next_sequence - self._taken < window):
            batch = self._next_batch()
            # It may be kept for long, so it is copied: a slice holds the memory of the whole batch that it comes from.
            self._send_rows(_copied(batch) if self._context.has_checkpoints else batch, ())

    def _send_rows(self, batch: Batch, former: tuple[tuple[int, int], ...]) -> None:
        kept = KeptRows(self._next_sequence, batch, former)
        self._next_sequence += 1
        self._kept.append(kept)
        self._tell(kept)

    def _tell(self, kept: KeptRows) -> None:
        event = RowsCollected(self._context.subtask_index, kept.sequence, kept.batch, kept.former)
        self._context.send_to_coordinator(event)

    def _next_batch(self) -> Batch:
        first = self._waiting.popleft()
        batches, rows, nbytes = [first], first.num_rows, first.nbytes
        while self._waiting:
            following = self._waiting[0]
            rows_then, nbytes_then = rows + following.num_rows, nbytes + following.nbytes
            if rows_then > COLLECT_ROWS or nbytes_then > self._context.batch_bytes:
                break
            if not is_same_layout(first, following):
                break
            batches.append(self._waiting.popleft())
            rows, nbytes = rows_then, nbytes_then
        self._waiting_rows -= rows
        self._waiting_bytes -= nbytes
        return concat(batches)


def _copied(batch: Batch) -> Batch:
    copy: Batch = pickle.loads(pickle.dumps(batch, protocol=5))
    return copy
