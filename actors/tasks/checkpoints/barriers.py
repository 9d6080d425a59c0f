"""When the barriers of a task's channels make a checkpoint: decides, and leaves acting on it to the task. Pure.

After Flink's SingleCheckpointBarrierHandler (exactly once) and CheckpointBarrierTracker (at least once). Which of the
two rules apply is said by the barrier itself:

- Exactly once, aligned: a channel that has sent its barrier waits for the others. A newer barrier aborts the pending
  checkpoint.
- Exactly once, unaligned: the checkpoint is taken at the first barrier; what each other channel still brings before
  its own barrier is captured, and is part of it.
- Aligned with a timeout: as aligned, and from the timeout on as unaligned.
- On exchanges where barriers never overtake rows (forward, rescale, broadcast): as aligned, whatever the barrier says.
- At least once: nothing waits. Several checkpoints may be pending; one that is taken drops all older ones.

Ids grow. What is older than the newest checkpoint that was seen, and not pending, is over.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from actors.protocol.elements import CheckpointBarrier


class TakeCheckpoint(Struct, frozen=True):
    """Snapshot the task and send the barrier on, now."""

    barrier: CheckpointBarrier
    """As it goes on: unaligned, where the checkpoint has become that."""
    start_delay_ms: int
    """From the trigger to the first barrier here."""
    alignment_ms: int
    """From the first barrier to this moment; where a capture goes on, its end has it."""
    is_capturing: bool = False
    """What came before the other barriers is part of it; EndCapture follows."""


class AbortCheckpoint(Struct, frozen=True):
    """It cannot be taken any more: tell those downstream not to wait for it, and the coordinator unless it said so."""

    checkpoint_id: int
    reason: str
    is_known: bool = False
    """The coordinator itself has given it up."""


class ResumeChannels(Struct, frozen=True):
    """These have waited at their barrier, and need not any more."""

    channels: tuple[int, ...]


class StartCapture(Struct, frozen=True):
    """Of each channel: keep a copy of what comes before its barrier. Goes before the TakeCheckpoint."""

    checkpoint_id: int


class EndCapture(Struct, frozen=True):
    """All barriers have come: what was captured is complete."""

    checkpoint_id: int
    alignment_ms: int
    """From the first barrier to the last."""


class DropCapture(Struct, frozen=True):
    """What was captured is not needed. Goes before the AbortCheckpoint."""

    checkpoint_id: int


class SetTimer(Struct, frozen=True):
    """Call `on_timer` then."""

    checkpoint_id: int
    at_ms: int


class HoldInput(Struct, frozen=True):
    """Take no input before this checkpoint is taken or aborted."""

    checkpoint_id: int


Command = (
    TakeCheckpoint | AbortCheckpoint | ResumeChannels | StartCapture | EndCapture | DropCapture | SetTimer | HoldInput
)


class _Pending(Struct):
    """A checkpoint of which some barriers have come, and not all."""

    barrier: CheckpointBarrier
    first_ms: int
    received: set[int] = field(default_factory=set)
    blocked: set[int] = field(default_factory=set)
    is_capturing: bool = False
    """Unaligned, and taken; the rest of the barriers end the capture."""


class BarrierHandler:
    """One per task, for all its channels, numbered through. Belongs to the task's thread.

    A task with chained sources beside its channels counts these as one more channel, the last one: their barrier is
    the coordinator's trigger, which such a task gets too.

    Every method gives what is to be done, in that order. Times are epoch milliseconds, as those of barriers are.
    """

    def __init__(self, channels: int, *, has_chained_sources: bool = False, may_overtake: bool = True) -> None:
        """
        Args:
            may_overtake: False: on none of the channels do barriers overtake rows.
        """
        self._may_overtake = may_overtake
        self._channels = channels + has_chained_sources
        self._sources = frozenset({channels} if has_chained_sources else ())
        self._pending: dict[int, _Pending] = {}
        """By id, oldest first."""
        self._newest = -1
        """The highest id of a checkpoint that was begun or given up."""
        self._given_up: set[int] = set()
        """Newer ones of which the coordinator said so already."""
        self._ended: set[int] = set()
        self._without_data: set[int] = set()
        self._triggered: CheckpointBarrier | None = None
        """By the coordinator: stands at the end of the data of every channel that has no barrier of its own."""

    @property
    def pending(self) -> tuple[int, ...]:
        """Checkpoints whose barriers have not all come, oldest first."""
        return tuple(self._pending)

    @property
    def is_between_trigger_and_snapshot(self) -> bool:
        """Chained sources have their barrier, and their state is yet to be taken."""
        return any(
            not pending.is_capturing and not self._sources.isdisjoint(pending.received)
            for pending in self._pending.values()
        )

    def is_over(self, checkpoint_id: int) -> bool:
        """It was taken, dropped or given up."""
        is_old = checkpoint_id <= self._newest and checkpoint_id not in self._pending
        return is_old or checkpoint_id in self._given_up

    # -- what happens --------------------------------------------------------------------------------------------

    def on_barrier(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> list[Command]:
        """A barrier has come on a channel."""
        return self._on_barrier(channel, barrier, now_ms, blocks=barrier.blocks_channel)

    def on_trigger(self, barrier: CheckpointBarrier, now_ms: int) -> list[Command]:
        """The coordinator sends a barrier that no upstream task can send: they have all ended, or there are none.

        Its place on each channel is behind the last row; where that has not come yet, it waits for it.
        """
        if len(self._ended) == self._channels:
            return self._take_at_once(barrier, now_ms)
        self._triggered = barrier
        commands: list[Command] = []
        for channel in sorted((self._without_data | self._sources) - self._ended):
            commands += self._on_barrier(channel, barrier, now_ms, blocks=False)
        return commands

    def on_end_of_data(self, channel: int, now_ms: int) -> list[Command]:
        """The last row of a channel has come; barriers may still follow."""
        self._without_data.add(channel)
        triggered = self._triggered
        if triggered is None or triggered.checkpoint_id < self._newest:
            return []
        return self._on_barrier(channel, triggered, now_ms, blocks=False)

    def on_end(self, channel: int, now_ms: int) -> list[Command]:
        """Nothing comes on a channel any more. No checkpoint waits for it."""
        self._ended.add(channel)
        for pending in reversed(list(self._pending.values())):
            if self._has_all(pending):
                return self._completed(pending, now_ms)
        return []

    def on_cancel(self, channel: int, checkpoint_id: int) -> list[Command]:
        """A task upstream says that it sends no barrier for that checkpoint."""
        if checkpoint_id <= self._newest and checkpoint_id not in self._pending:
            return []
        commands = self._abort(
            [each for each in self._pending if each < checkpoint_id], f"checkpoint {checkpoint_id} was cancelled"
        )
        self._newest = max(self._newest, checkpoint_id)
        self._given_up.discard(checkpoint_id)
        return commands + self._abort([checkpoint_id], f"a task upstream cannot take part (channel {channel})")

    def on_notice_of_abort(self, checkpoint_id: int) -> list[Command]:
        """The coordinator has given it up. Older ones go on."""
        if checkpoint_id in self._pending:
            return self._abort([checkpoint_id], "the coordinator has given it up", is_known=True)
        if checkpoint_id > self._newest:
            self._given_up.add(checkpoint_id)
        return []

    def on_timer(self, checkpoint_id: int, now_ms: int) -> list[Command]:
        """The time of a `SetTimer` has come."""
        pending = self._pending.get(checkpoint_id)
        if pending is None or pending.is_capturing or not self._sources <= pending.received:
            return []
        return self._overtake(pending, now_ms)

    # -- inside --------------------------------------------------------------------------------------------------

    def _on_barrier(self, channel: int, barrier: CheckpointBarrier, now_ms: int, *, blocks: bool) -> list[Command]:
        checkpoint_id = barrier.checkpoint_id
        late: list[Command] = [ResumeChannels((channel,))] if blocks else []
        pending = self._pending.get(checkpoint_id)
        if pending is None and checkpoint_id <= self._newest:
            return late
        commands: list[Command] = []
        if pending is None:
            if barrier.options.is_exactly_once:
                commands += self._abort(list(self._pending), f"checkpoint {checkpoint_id} has begun")
            self._newest = checkpoint_id
            if checkpoint_id in self._given_up:
                self._forget_given_up()
                reason = "the coordinator had given it up before its first barrier came"
                return [*commands, *late, AbortCheckpoint(checkpoint_id, reason, is_known=True)]
            self._forget_given_up()
            pending = self._pending[checkpoint_id] = _Pending(barrier, now_ms)
        pending.received.add(channel)
        if blocks:
            pending.blocked.add(channel)
        return commands + self._progress(pending, barrier, now_ms)

    def _progress(self, pending: _Pending, barrier: CheckpointBarrier, now_ms: int) -> list[Command]:
        """One more barrier has come."""
        options = barrier.options
        if not self._may_overtake:
            return self._completed(pending, now_ms) if self._has_all(pending) else []
        commands: list[Command] = []
        if self._has_all(pending) and not pending.is_capturing and not options.is_unaligned:
            return self._completed(pending, now_ms)
        if pending.is_capturing:
            commands += self._resume(pending)
        elif options.is_unaligned:
            if self._sources <= pending.received:
                commands += self._overtake(pending, now_ms)
            else:
                # What the coordinator sent to the sources before the checkpoint may be under way, and must be part of
                # it; what comes on this channel from here on must not.
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

    def _overtake(self, pending: _Pending, now_ms: int) -> list[Command]:
        """Takes the checkpoint without waiting for the other channels."""
        barrier = pending.barrier
        barrier = replace(barrier, options=replace(barrier.options, is_unaligned=True, aligned_timeout_ms=None))
        pending.barrier, pending.is_capturing = barrier, True
        take = TakeCheckpoint(barrier, self._start_delay(pending), max(0, now_ms - pending.first_ms), is_capturing=True)
        return [*self._resume(pending), StartCapture(barrier.checkpoint_id), take]

    def _completed(self, pending: _Pending, now_ms: int) -> list[Command]:
        """The last barrier has come, or its channel has ended; older checkpoints have become pointless."""
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

    def _take_at_once(self, barrier: CheckpointBarrier, now_ms: int) -> list[Command]:
        """No channel is left to wait for."""
        if barrier.checkpoint_id <= self._newest:
            return []
        self._newest = barrier.checkpoint_id
        if barrier.checkpoint_id in self._given_up:
            self._forget_given_up()
            return [AbortCheckpoint(barrier.checkpoint_id, "the coordinator had given it up", is_known=True)]
        self._forget_given_up()
        return [TakeCheckpoint(barrier, max(0, now_ms - barrier.timestamp_ms), 0)]

    def _abort(self, checkpoint_ids: Iterable[int], reason: str, is_known: bool = False) -> list[Command]:
        commands: list[Command] = []
        for checkpoint_id in checkpoint_ids:
            pending = self._pending.pop(checkpoint_id, None)
            if pending is not None:
                commands += self._resume(pending)
                if pending.is_capturing:
                    commands.append(DropCapture(checkpoint_id))
            commands.append(AbortCheckpoint(checkpoint_id, reason, is_known))
        return commands

    def _has_all(self, pending: _Pending) -> bool:
        return len(pending.received | self._ended) == self._channels

    @staticmethod
    def _start_delay(pending: _Pending) -> int:
        return max(0, pending.first_ms - pending.barrier.timestamp_ms)

    @staticmethod
    def _resume(pending: _Pending) -> list[Command]:
        blocked, pending.blocked = tuple(sorted(pending.blocked)), set()
        return [ResumeChannels(blocked)] if blocked else []

    def _forget_given_up(self) -> None:
        self._given_up = {each for each in self._given_up if each > self._newest}
