"""Decides when the barriers of a task's channels make a checkpoint; the task acts on the commands. Pure.

After Flink's SingleCheckpointBarrierHandler (exactly once) and CheckpointBarrierTracker (at least once). The barrier
itself says which rule applies:

- Exactly once, aligned: a channel that has sent its barrier waits for the others. A newer barrier aborts the pending
  checkpoint.
- Exactly once, unaligned: the checkpoint is taken at the first barrier; the rows that each other channel brings before
  its own barrier are captured, and are part of the checkpoint.
- Aligned with a timeout: as aligned, and from the timeout on as unaligned.
- On exchanges where barriers never overtake rows (forward, rescale, broadcast): as aligned, whatever the barrier says.
- At least once: no channel waits. Several checkpoints may be pending; one that is taken drops all older ones.

Ids of checkpoints ascend. A checkpoint is over if it is not pending and no newer than the newest that was seen.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from actors.protocol.elements import CheckpointBarrier


class TakeCheckpoint(Struct, frozen=True):
    """Snapshot the task and send the barrier on, now."""

    barrier: CheckpointBarrier
    """The barrier to send on; an unaligned one if the checkpoint has become unaligned."""
    start_delay_ms: int
    """Time from the trigger to the first barrier at this task."""
    alignment_ms: int
    """Time from the first barrier until now; if rows are captured, EndCapture has the final figure."""
    is_capturing: bool = False
    """Whether rows that come before the other barriers are part of the checkpoint; EndCapture follows."""


class AbortCheckpoint(Struct, frozen=True):
    """The checkpoint cannot be taken: tell tasks downstream not to wait for it, and the coordinator unless it knows."""

    checkpoint_id: int
    reason: str
    is_known: bool = False
    """Whether the coordinator itself has aborted the checkpoint."""


class ResumeChannels(Struct, frozen=True):
    """Let channels go on that have waited at their barrier."""

    channels: tuple[int, ...]


class StartCapture(Struct, frozen=True):
    """Copy the rows that each channel brings before its barrier. Comes before the TakeCheckpoint."""

    checkpoint_id: int


class EndCapture(Struct, frozen=True):
    """All barriers have come, so that the captured rows are complete."""

    checkpoint_id: int
    alignment_ms: int
    """Time from the first barrier to the last."""


class DropCapture(Struct, frozen=True):
    """Drop the rows that were captured. Comes before the AbortCheckpoint."""

    checkpoint_id: int


class SetTimer(Struct, frozen=True):
    """Call `on_timer` at that time (epoch milliseconds)."""

    checkpoint_id: int
    at_ms: int


class HoldInput(Struct, frozen=True):
    """Take no input before this checkpoint is taken or aborted."""

    checkpoint_id: int


BarrierCommand = (
    TakeCheckpoint | AbortCheckpoint | ResumeChannels | StartCapture | EndCapture | DropCapture | SetTimer | HoldInput
)


class _PendingBarriers(Struct):
    """A checkpoint of which some barriers have come, but not all."""

    barrier: CheckpointBarrier
    first_ms: int
    """When the first barrier came."""
    received: set[int] = field(default_factory=set)
    """Channels whose barrier has come."""
    blocked: set[int] = field(default_factory=set)
    """Channels that wait at their barrier."""
    is_capturing: bool = False
    """Whether the checkpoint is unaligned and was taken; the last barrier ends the capture."""


class BarrierHandler:
    """Follows the barriers of all channels of a task, which are numbered through. Belongs to the task's thread.

    A task with chained sources beside its channels counts these as one more channel, the last one; their barrier is the
    coordinator's trigger, which such a task gets as well.

    Every method returns commands, to be carried out in that order. Times are epoch milliseconds, as those of barriers.
    """

    def __init__(self, channels: int, *, has_chained_sources: bool = False, may_overtake: bool = True) -> None:
        """
        Args:
            may_overtake: False: on none of the channels do barriers overtake rows.
        """
        self._may_overtake = may_overtake
        self._channels = channels + has_chained_sources
        self._sources = frozenset({channels} if has_chained_sources else ())
        self._pending: dict[int, _PendingBarriers] = {}
        """Pending checkpoints by id, oldest first."""
        self._newest = -1
        """The highest id of a checkpoint that has begun here, or was aborted."""
        self._aborted: set[int] = set()
        """Newer checkpoints that the coordinator has aborted before their first barrier came."""
        self._ended: set[int] = set()
        """Channels on which nothing comes any more."""
        self._without_data: set[int] = set()
        """Channels on which no more rows come, but perhaps barriers."""
        self._triggered: CheckpointBarrier | None = None
        """The coordinator's last trigger, which is the barrier at the end of every channel that gets none otherwise."""

    @property
    def pending(self) -> tuple[int, ...]:
        """The ids of checkpoints whose barriers have not all come, oldest first."""
        return tuple(self._pending)

    @property
    def is_between_trigger_and_snapshot(self) -> bool:
        """Whether chained sources have had their trigger, and their state is yet to be snapshotted."""
        return any(
            not pending.is_capturing and not self._sources.isdisjoint(pending.received)
            for pending in self._pending.values()
        )

    def is_over(self, checkpoint_id: int) -> bool:
        """Whether a checkpoint was taken, dropped or aborted."""
        is_old = checkpoint_id <= self._newest and checkpoint_id not in self._pending
        return is_old or checkpoint_id in self._aborted

    # -- what happens --------------------------------------------------------------------------------------------

    def on_barrier(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> list[BarrierCommand]:
        """A barrier has come on a channel."""
        return self._on_barrier(channel, barrier, now_ms, blocks=barrier.blocks_channel)

    def on_trigger(self, barrier: CheckpointBarrier, now_ms: int) -> list[BarrierCommand]:
        """The coordinator triggers a checkpoint, as upstream tasks that would send a barrier have ended or do not
        exist.

        On each channel the barrier is behind the last row, and has to wait for it if it has not come yet.
        """
        if len(self._ended) == self._channels:
            return self._take_at_once(barrier, now_ms)
        self._triggered = barrier
        commands: list[BarrierCommand] = []
        for channel in sorted((self._without_data | self._sources) - self._ended):
            commands += self._on_barrier(channel, barrier, now_ms, blocks=False)
        return commands

    def on_end_of_data(self, channel: int, now_ms: int) -> list[BarrierCommand]:
        """The last row of a channel has come. Barriers may still follow."""
        self._without_data.add(channel)
        triggered = self._triggered
        if triggered is None or triggered.checkpoint_id < self._newest:
            return []
        return self._on_barrier(channel, triggered, now_ms, blocks=False)

    def on_end(self, channel: int, now_ms: int) -> list[BarrierCommand]:
        """Nothing comes on a channel any more, so that no checkpoint waits for it."""
        self._ended.add(channel)
        for pending in reversed(list(self._pending.values())):
            if self._has_all(pending):
                return self._completed(pending, now_ms)
        return []

    def on_cancel(self, channel: int, checkpoint_id: int) -> list[BarrierCommand]:
        """A task upstream says that it will send no barrier for a checkpoint."""
        if checkpoint_id <= self._newest and checkpoint_id not in self._pending:
            return []
        commands = self._abort(
            [each for each in self._pending if each < checkpoint_id], f"checkpoint {checkpoint_id} was cancelled"
        )
        self._newest = max(self._newest, checkpoint_id)
        self._aborted.discard(checkpoint_id)
        return commands + self._abort([checkpoint_id], f"a task upstream cannot take part (channel {channel})")

    def on_notice_of_abort(self, checkpoint_id: int) -> list[BarrierCommand]:
        """The coordinator has aborted a checkpoint. Older ones go on."""
        if checkpoint_id in self._pending:
            return self._abort([checkpoint_id], "the coordinator has given it up", is_known=True)
        if checkpoint_id > self._newest:
            self._aborted.add(checkpoint_id)
        return []

    def on_timer(self, checkpoint_id: int, now_ms: int) -> list[BarrierCommand]:
        """The time of a SetTimer has come."""
        pending = self._pending.get(checkpoint_id)
        if pending is None or pending.is_capturing or not self._sources <= pending.received:
            return []
        return self._overtake(pending, now_ms)

    # -- inside --------------------------------------------------------------------------------------------------

    def _on_barrier(
        self, channel: int, barrier: CheckpointBarrier, now_ms: int, *, blocks: bool
    ) -> list[BarrierCommand]:
        checkpoint_id = barrier.checkpoint_id
        late: list[BarrierCommand] = [ResumeChannels((channel,))] if blocks else []
        pending = self._pending.get(checkpoint_id)
        if pending is None and checkpoint_id <= self._newest:
            return late
        commands: list[BarrierCommand] = []
        if pending is None:
            if barrier.options.is_exactly_once:
                commands += self._abort(list(self._pending), f"checkpoint {checkpoint_id} has begun")
            self._newest = checkpoint_id
            if checkpoint_id in self._aborted:
                self._forget_aborted()
                reason = "the coordinator had given it up before its first barrier came"
                return [*commands, *late, AbortCheckpoint(checkpoint_id, reason, is_known=True)]
            self._forget_aborted()
            pending = self._pending[checkpoint_id] = _PendingBarriers(barrier, now_ms)
        pending.received.add(channel)
        if blocks:
            pending.blocked.add(channel)
        return commands + self._progress(pending, barrier, now_ms)

    def _progress(self, pending: _PendingBarriers, barrier: CheckpointBarrier, now_ms: int) -> list[BarrierCommand]:
        """What follows from one more barrier of a pending checkpoint."""
        options = barrier.options
        if not self._may_overtake:
            return self._completed(pending, now_ms) if self._has_all(pending) else []
        commands: list[BarrierCommand] = []
        if self._has_all(pending) and not pending.is_capturing and not options.is_unaligned:
            return self._completed(pending, now_ms)
        if pending.is_capturing:
            commands += self._resume(pending)
        elif options.is_unaligned:
            if self._sources <= pending.received:
                commands += self._overtake(pending, now_ms)
            else:
                # Events that the coordinator sent to the sources before the checkpoint may be under way and must be
                # part of it; rows that come on this channel from here on must not.
                commands.append(HoldInput(barrier.checkpoint_id))
        elif options.is_exactly_once and options.aligned_timeout_ms is not None:
            deadline = barrier.timestamp_ms + options.aligned_timeout_ms
            if now_ms >= deadline and self._sources <= pending.received:
                commands += self._overtake(pending, now_ms)
            elif len(pending.received) == 1:
                commands.append(SetTimer(barrier.checkpoint_id, deadline))
        if pending.is_capturing and self._has_all(pending):
            commands += self._completed(pending, now_ms)
        return commands

    def _overtake(self, pending: _PendingBarriers, now_ms: int) -> list[BarrierCommand]:
        """Takes a checkpoint without waiting for the other channels."""
        barrier = pending.barrier
        barrier = replace(barrier, options=replace(barrier.options, is_unaligned=True, aligned_timeout_ms=None))
        pending.barrier, pending.is_capturing = barrier, True
        take = TakeCheckpoint(barrier, self._start_delay(pending), max(0, now_ms - pending.first_ms), is_capturing=True)
        return [*self._resume(pending), StartCapture(barrier.checkpoint_id), take]

    def _completed(self, pending: _PendingBarriers, now_ms: int) -> list[BarrierCommand]:
        """The last barrier of a checkpoint has come, or its channel has ended; aborts older checkpoints."""
        checkpoint_id = pending.barrier.checkpoint_id
        commands = self._abort(
            [each for each in self._pending if each < checkpoint_id], f"checkpoint {checkpoint_id} came before it"
        )
        del self._pending[checkpoint_id]
        alignment_ms = max(0, now_ms - pending.first_ms)
        if pending.is_capturing:
            return [*commands, *self._resume(pending), EndCapture(checkpoint_id, alignment_ms)]
        take = TakeCheckpoint(pending.barrier, self._start_delay(pending), alignment_ms)
        return [*commands, take, *self._resume(pending)]

    def _take_at_once(self, barrier: CheckpointBarrier, now_ms: int) -> list[BarrierCommand]:
        """Takes a checkpoint for which no channel is left to wait."""
        if barrier.checkpoint_id <= self._newest:
            return []
        self._newest = barrier.checkpoint_id
        if barrier.checkpoint_id in self._aborted:
            self._forget_aborted()
            return [AbortCheckpoint(barrier.checkpoint_id, "the coordinator had given it up", is_known=True)]
        self._forget_aborted()
        return [TakeCheckpoint(barrier, max(0, now_ms - barrier.timestamp_ms), 0)]

    def _abort(self, checkpoint_ids: Iterable[int], reason: str, is_known: bool = False) -> list[BarrierCommand]:
        commands: list[BarrierCommand] = []
        for checkpoint_id in checkpoint_ids:
            pending = self._pending.pop(checkpoint_id, None)
            if pending is not None:
                commands += self._resume(pending)
                if pending.is_capturing:
                    commands.append(DropCapture(checkpoint_id))
            commands.append(AbortCheckpoint(checkpoint_id, reason, is_known))
        return commands

    def _has_all(self, pending: _PendingBarriers) -> bool:
        return len(pending.received | self._ended) == self._channels

    @staticmethod
    def _start_delay(pending: _PendingBarriers) -> int:
        return max(0, pending.first_ms - pending.barrier.timestamp_ms)

    @staticmethod
    def _resume(pending: _PendingBarriers) -> list[BarrierCommand]:
        blocked, pending.blocked = tuple(sorted(pending.blocked)), set()
        return [ResumeChannels(blocked)] if blocked else []

    def _forget_aborted(self) -> None:
        self._aborted = {each for each in self._aborted if each > self._newest}
