"""Rules of barriers: when they make a checkpoint, and what becomes of channels and older checkpoints."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from actors.protocol.elements import CheckpointBarrier
from actors.tasks.checkpoints.barriers import (
    AbortCheckpoint,
    BarrierCommand,
    BarrierHandler,
    DropCapture,
    EndCapture,
    HoldInput,
    ResumeChannels,
    SetTimer,
    StartCapture,
    TakeCheckpoint,
)
from tests.support.task_checkpoints import barrier

START = 1_000_000


def brief(commands: Sequence[BarrierCommand]) -> list[str]:
    """Commands in few letters."""
    return [_brief(command) for command in commands]


def _brief(command: BarrierCommand) -> str:
    match command:
        case TakeCheckpoint(sent):
            return f"take {sent.checkpoint_id}" + (" unaligned" if sent.options.is_unaligned else "")
        case AbortCheckpoint(checkpoint_id, _, is_known):
            return f"abort {checkpoint_id}" + (" known" if is_known else "")
        case ResumeChannels(channels):
            return "resume " + ",".join(map(str, channels))
        case StartCapture(checkpoint_id):
            return f"capture {checkpoint_id}"
        case EndCapture(checkpoint_id):
            return f"captured {checkpoint_id}"
        case DropCapture(checkpoint_id):
            return f"drop {checkpoint_id}"
        case SetTimer(checkpoint_id, at_ms):
            return f"timer {checkpoint_id} at {at_ms - START}"
        case HoldInput(checkpoint_id):
            return f"hold {checkpoint_id}"


def aligned(channels: int) -> BarrierHandler:
    return BarrierHandler(channels)


# -- exactly once, aligned ---------------------------------------------------------------------------------------


def test_a_checkpoint_is_taken_at_the_last_barrier_and_then_the_waiting_channels_go_on() -> None:
    handler = aligned(3)
    assert brief(handler.on_barrier(0, barrier(1), START)) == []
    assert brief(handler.on_barrier(2, barrier(1), START)) == []
    assert brief(handler.on_barrier(1, barrier(1), START)) == ["take 1", "resume 0,1,2"]


def test_with_one_channel_every_barrier_is_a_checkpoint() -> None:
    handler = aligned(1)
    assert brief(handler.on_barrier(0, barrier(1), START)) == ["take 1", "resume 0"]
    assert brief(handler.on_barrier(0, barrier(2), START)) == ["take 2", "resume 0"]


def test_start_delay_and_alignment_are_measured() -> None:
    handler = aligned(2)
    handler.on_barrier(0, barrier(1, START), START + 30)
    take = handler.on_barrier(1, barrier(1, START), START + 80)[0]
    assert isinstance(take, TakeCheckpoint)
    assert (take.start_delay_ms, take.alignment_ms) == (30, 50)


def test_a_newer_barrier_aborts_the_pending_checkpoint_and_unblocks_its_channels() -> None:
    handler = aligned(3)
    handler.on_barrier(0, barrier(1), START)
    handler.on_barrier(1, barrier(1), START)
    assert brief(handler.on_barrier(2, barrier(2), START)) == ["resume 0,1", "abort 1"]
    handler.on_barrier(0, barrier(2), START)
    assert brief(handler.on_barrier(1, barrier(2), START)) == ["take 2", "resume 0,1,2"]


def test_a_late_barrier_of_an_aborted_checkpoint_blocks_nothing() -> None:
    handler = aligned(2)
    handler.on_barrier(0, barrier(1), START)
    handler.on_cancel(0, 1)
    assert brief(handler.on_barrier(1, barrier(1), START)) == ["resume 1"]
    assert handler.pending == ()


def test_a_barrier_older_than_a_taken_checkpoint_blocks_nothing() -> None:
    handler = aligned(2)
    handler.on_barrier(0, barrier(5), START)
    handler.on_barrier(1, barrier(5), START)
    assert brief(handler.on_barrier(0, barrier(4), START)) == ["resume 0"]


def test_a_cancel_aborts_the_pending_checkpoint_once() -> None:
    handler = aligned(3)
    handler.on_barrier(0, barrier(1), START)
    assert brief(handler.on_cancel(1, 1)) == ["resume 0", "abort 1"]
    assert brief(handler.on_cancel(2, 1)) == []


def test_a_cancel_before_any_barrier_is_passed_on_and_its_barriers_block_nothing() -> None:
    handler = aligned(2)
    assert brief(handler.on_cancel(0, 1)) == ["abort 1"]
    assert brief(handler.on_barrier(1, barrier(1), START)) == ["resume 1"]


def test_a_cancel_of_a_newer_checkpoint_aborts_the_pending_one_too() -> None:
    handler = aligned(2)
    handler.on_barrier(0, barrier(1), START)
    assert brief(handler.on_cancel(1, 2)) == ["resume 0", "abort 1", "abort 2"]
    assert brief(handler.on_barrier(0, barrier(2), START)) == ["resume 0"]


def test_the_end_of_the_last_missing_channel_completes_an_alignment() -> None:
    handler = aligned(3)
    handler.on_barrier(0, barrier(1), START)
    handler.on_end(2, START)
    assert brief(handler.on_barrier(1, barrier(1), START)) == ["take 1", "resume 0,1"]
    handler.on_barrier(0, barrier(2), START)
    assert brief(handler.on_end(1, START)) == ["take 2", "resume 0"]


def test_a_channel_that_sent_its_barrier_and_then_ended_counts_once() -> None:
    handler = aligned(3)
    handler.on_barrier(0, barrier(1), START)
    assert brief(handler.on_end(0, START)) == []
    assert brief(handler.on_barrier(1, barrier(1), START)) == []
    assert brief(handler.on_barrier(2, barrier(1), START)) == ["take 1", "resume 0,1,2"]


def test_a_notice_of_abort_unblocks_and_needs_no_answer() -> None:
    handler = aligned(2)
    handler.on_barrier(0, barrier(1), START)
    assert brief(handler.on_notice_of_abort(1)) == ["resume 0", "abort 1 known"]
    assert brief(handler.on_barrier(1, barrier(1), START)) == ["resume 1"]


def test_a_notice_of_abort_that_comes_before_the_barriers_lets_none_of_them_block_and_those_behind_know() -> None:
    handler = aligned(2)
    assert handler.on_notice_of_abort(2) == []
    handler.on_barrier(0, barrier(1), START)
    assert brief(handler.on_barrier(1, barrier(1), START)) == ["take 1", "resume 0,1"]
    assert brief(handler.on_barrier(0, barrier(2), START)) == ["resume 0", "abort 2 known"]
    assert brief(handler.on_barrier(1, barrier(2), START)) == ["resume 1"]
    assert brief(handler.on_barrier(0, barrier(3), START)) == []


def test_a_notice_of_abort_of_a_checkpoint_that_was_taken_does_nothing() -> None:
    handler = aligned(1)
    handler.on_barrier(0, barrier(1), START)
    assert handler.on_notice_of_abort(1) == []


# -- at least once -----------------------------------------------------------------------------------------------


def loose(checkpoint_id: int) -> CheckpointBarrier:
    return barrier(checkpoint_id, exactly_once=False)


def test_at_least_once_no_channel_waits_and_a_newer_barrier_drops_nothing() -> None:
    handler = BarrierHandler(2)
    assert brief(handler.on_barrier(0, loose(1), START)) == []
    assert brief(handler.on_barrier(0, loose(2), START)) == []
    assert handler.pending == (1, 2)
    assert brief(handler.on_barrier(1, loose(1), START)) == ["take 1"]
    assert brief(handler.on_barrier(1, loose(2), START)) == ["take 2"]


def test_at_least_once_a_checkpoint_that_is_taken_drops_all_older_ones() -> None:
    handler = BarrierHandler(2)
    for checkpoint_id in (1, 2, 3):
        handler.on_barrier(0, loose(checkpoint_id), START)
    assert brief(handler.on_barrier(1, loose(2), START)) == ["abort 1", "take 2"]
    assert handler.pending == (3,)
    assert brief(handler.on_barrier(1, loose(3), START)) == ["take 3"]


def test_at_least_once_an_end_takes_the_newest_checkpoint_that_it_completes() -> None:
    handler = BarrierHandler(3)
    for checkpoint_id in (1, 2):
        handler.on_barrier(0, loose(checkpoint_id), START)
        handler.on_barrier(1, loose(checkpoint_id), START)
    handler.on_barrier(0, loose(3), START)
    assert brief(handler.on_end(2, START)) == ["abort 1", "take 2"]
    assert handler.pending == (3,)


# -- unaligned ---------------------------------------------------------------------------------------------------


def urgent(checkpoint_id: int) -> CheckpointBarrier:
    return barrier(checkpoint_id, unaligned=True)


def test_unaligned_a_checkpoint_is_taken_at_the_first_barrier_and_captured_until_the_last() -> None:
    handler = BarrierHandler(3)
    assert brief(handler.on_barrier(1, urgent(1), START)) == ["capture 1", "take 1 unaligned"]
    assert brief(handler.on_barrier(0, urgent(1), START)) == []
    assert brief(handler.on_barrier(2, urgent(1), START + 40)) == ["captured 1"]
    handler = BarrierHandler(1)
    assert brief(handler.on_barrier(0, urgent(1), START)) == ["capture 1", "take 1 unaligned", "captured 1"]


def test_unaligned_the_end_of_a_channel_completes_the_capture() -> None:
    handler = BarrierHandler(2)
    handler.on_barrier(0, urgent(1), START)
    assert brief(handler.on_end(1, START)) == ["captured 1"]


def test_unaligned_a_newer_barrier_or_a_cancel_drops_what_was_captured() -> None:
    handler = BarrierHandler(2)
    handler.on_barrier(0, urgent(1), START)
    assert brief(handler.on_barrier(1, urgent(2), START)) == ["drop 1", "abort 1", "capture 2", "take 2 unaligned"]
    assert brief(handler.on_cancel(0, 2)) == ["drop 2", "abort 2"]
    assert brief(handler.on_barrier(0, urgent(2), START)) == []


# -- aligned with a timeout --------------------------------------------------------------------------------------


def patient(checkpoint_id: int) -> CheckpointBarrier:
    return barrier(checkpoint_id, timeout_ms=100)


def test_an_alignment_within_its_time_stays_aligned() -> None:
    handler = BarrierHandler(2)
    assert brief(handler.on_barrier(0, patient(1), START + 10)) == ["timer 1 at 100"]
    assert brief(handler.on_barrier(1, patient(1), START + 90)) == ["take 1", "resume 0,1"]
    assert handler.on_timer(1, START + 100) == []


def test_an_alignment_that_takes_too_long_turns_unaligned_and_frees_its_channels() -> None:
    handler = BarrierHandler(3)
    handler.on_barrier(0, patient(1), START + 10)
    commands = handler.on_timer(1, START + 100)
    assert brief(commands) == ["resume 0", "capture 1", "take 1 unaligned"]
    take = commands[-1]
    assert isinstance(take, TakeCheckpoint)
    assert take.barrier.options.aligned_timeout_ms is None
    assert brief(handler.on_barrier(1, patient(1), START + 110)) == ["resume 1"]
    assert brief(handler.on_barrier(2, urgent(1), START + 120)) == ["captured 1"]


def test_a_barrier_that_comes_after_its_time_does_not_wait_at_all() -> None:
    handler = BarrierHandler(2)
    assert brief(handler.on_barrier(0, patient(1), START + 100)) == ["resume 0", "capture 1", "take 1 unaligned"]


def test_an_unaligned_barrier_ends_the_alignment_that_the_others_wait_for() -> None:
    handler = BarrierHandler(3)
    handler.on_barrier(0, patient(1), START)
    assert brief(handler.on_barrier(1, urgent(1), START + 5)) == ["resume 0", "capture 1", "take 1 unaligned"]
    assert brief(handler.on_barrier(2, patient(1), START + 6)) == ["resume 2", "captured 1"]


def test_the_last_barrier_takes_an_aligned_checkpoint_even_after_its_time() -> None:
    handler = BarrierHandler(2)
    handler.on_barrier(0, patient(1), START)
    assert brief(handler.on_barrier(1, patient(1), START + 500)) == ["take 1", "resume 0,1"]


# -- triggers ----------------------------------------------------------------------------------------------------


def test_without_channels_a_trigger_is_a_checkpoint() -> None:
    handler = BarrierHandler(0)
    assert brief(handler.on_trigger(barrier(1), START)) == ["take 1"]
    assert brief(handler.on_trigger(barrier(1), START)) == []
    handler.on_notice_of_abort(2)
    assert brief(handler.on_trigger(barrier(2), START)) == ["abort 2 known"]


def test_a_trigger_stands_behind_the_data_of_every_channel() -> None:
    handler = BarrierHandler(3)
    handler.on_end(0, START)
    handler.on_end_of_data(1, START)
    assert brief(handler.on_trigger(barrier(1), START)) == []
    assert brief(handler.on_end_of_data(2, START)) == ["take 1"]


def test_a_channel_brings_its_own_barrier_after_a_trigger_and_counts_once() -> None:
    handler = BarrierHandler(2)
    handler.on_trigger(barrier(1), START)
    assert brief(handler.on_barrier(0, barrier(1), START)) == []
    assert brief(handler.on_end_of_data(0, START)) == []
    assert brief(handler.on_end_of_data(1, START)) == ["take 1", "resume 0"]


def test_a_trigger_of_a_task_whose_channels_have_ended_is_a_checkpoint() -> None:
    handler = BarrierHandler(2)
    handler.on_end(0, START)
    handler.on_end(1, START)
    assert brief(handler.on_trigger(barrier(9), START)) == ["take 9"]


def test_chained_sources_beside_channels_have_the_trigger_as_their_barrier() -> None:
    handler = BarrierHandler(1, has_chained_sources=True)
    assert brief(handler.on_trigger(barrier(1), START)) == []
    assert handler.is_between_trigger_and_snapshot
    assert brief(handler.on_barrier(0, barrier(1), START)) == ["take 1", "resume 0"]
    assert not handler.is_between_trigger_and_snapshot


def test_unaligned_with_chained_sources_nothing_is_read_between_the_first_barrier_and_the_trigger() -> None:
    handler = BarrierHandler(2, has_chained_sources=True)
    assert brief(handler.on_barrier(0, urgent(1), START)) == ["hold 1"]
    assert brief(handler.on_trigger(urgent(1), START)) == ["capture 1", "take 1 unaligned"]
    assert brief(handler.on_barrier(1, urgent(1), START)) == ["captured 1"]


# -- against a model ---------------------------------------------------------------------------------------------


@dataclass
class Model:
    """Looks at everything that has happened, after every event, and says what should have come of it so far.

    Exactly once: checkpoint n is taken if it is decided by then (all barriers are there, or one that overtakes), and
    nothing had ended it before: a barrier or cancel of a newer one, a cancel or notice of its own.
    """

    channels: int
    taken: list[int] = field(default_factory=list)
    aborted: list[int] = field(default_factory=list)
    came: dict[int, set[int]] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    given_up: set[int] = field(default_factory=set)
    open: list[int] = field(default_factory=list)
    newest: int = 0

    def _settle(self, is_exact: bool) -> None:
        ready = [each for each in self.open if len(self.came[each] | self.ended) == self.channels]
        if ready:
            best = max(ready)
            self._drop(each for each in list(self.open) if each < best)
            self.open.remove(best)
            self.taken.append(best)
            assert not is_exact or not self.open, "at most one is pending"

    def _drop(self, checkpoint_ids: Iterator[int]) -> None:
        for checkpoint_id in list(checkpoint_ids):
            if checkpoint_id in self.open:
                self.open.remove(checkpoint_id)
            self.aborted.append(checkpoint_id)

    def barrier(self, channel: int, checkpoint_id: int, is_exact: bool) -> None:
        if checkpoint_id > self.newest:
            if is_exact:
                self._drop(iter(self.open))
            self.newest = checkpoint_id
            if checkpoint_id in self.given_up:
                self.aborted.append(checkpoint_id)
            else:
                self.open.append(checkpoint_id)
        self.came.setdefault(checkpoint_id, set()).add(channel)
        self._settle(is_exact)

    def cancel(self, checkpoint_id: int) -> None:
        if checkpoint_id > self.newest or checkpoint_id in self.open:
            self._drop(each for each in [*self.open] if each < checkpoint_id)
            self._drop(iter([checkpoint_id]))
            self.newest = max(self.newest, checkpoint_id)

    def notice(self, checkpoint_id: int) -> None:
        if checkpoint_id in self.open:
            self._drop(iter([checkpoint_id]))
        elif checkpoint_id > self.newest:
            self.given_up.add(checkpoint_id)

    def end(self, channel: int, is_exact: bool) -> None:
        self.ended.add(channel)
        self._settle(is_exact)


@pytest.mark.parametrize("seed", range(400))
def test_any_order_of_events_is_handled_as_a_model_says_and_no_channel_stays_blocked(seed: int) -> None:
    generator = random.Random(seed)
    channels, is_exact = generator.randint(1, 4), generator.random() < 0.7
    handler, model = BarrierHandler(channels), Model(channels)
    streams = [_stream(generator) for _ in range(channels)]
    blocked: set[int] = set()
    taken: list[int] = []
    aborted: list[int] = []
    while any(streams[channel] and channel not in blocked for channel in range(channels)):
        if generator.random() < 0.1:
            checkpoint_id = generator.randint(1, 6)
            commands = handler.on_notice_of_abort(checkpoint_id)
            model.notice(checkpoint_id)
        else:
            channel = generator.choice([each for each in range(channels) if streams[each] and each not in blocked])
            what, checkpoint_id = streams[channel].pop(0)
            if what == "barrier":
                sent = barrier(checkpoint_id, exactly_once=is_exact)
                blocked |= {channel} if sent.blocks_channel else set()
                commands = handler.on_barrier(channel, sent, START)
                model.barrier(channel, checkpoint_id, is_exact)
            elif what == "cancel":
                commands = handler.on_cancel(channel, checkpoint_id)
                model.cancel(checkpoint_id)
            else:
                commands = handler.on_end(channel, START)
                model.end(channel, is_exact)
        for command in commands:
            match command:
                case ResumeChannels(resumed):
                    assert set(resumed) <= blocked, "resumed without being blocked"
                    blocked -= set(resumed)
                case TakeCheckpoint(sent):
                    taken.append(sent.checkpoint_id)
                case AbortCheckpoint(checkpoint_id):
                    aborted.append(checkpoint_id)
        assert (taken, aborted) == (model.taken, model.aborted)
        assert list(handler.pending) == model.open
        assert bool(blocked) <= bool(handler.pending), "a channel waits for nothing"
    assert not blocked, "all channels have ended, and one is still blocked"
    assert taken == sorted(set(taken))


def _stream(generator: random.Random) -> list[tuple[str, int]]:
    """What a channel brings: of each checkpoint a barrier, a cancel, both or neither; then its end."""
    events: list[tuple[str, int]] = []
    for checkpoint_id in range(1, 7):
        kind = generator.choices(["barrier", "cancel", "both", "nothing"], [12, 1, 1, 1])[0]
        if kind in ("barrier", "both"):
            events.append(("barrier", checkpoint_id))
        if kind in ("cancel", "both"):
            events.append(("cancel", checkpoint_id))
    cut = generator.randint(0, len(events)) if generator.random() < 0.3 else len(events)
    return [*events[:cut], ("end", 0)]


@pytest.mark.parametrize("seed", range(200))
def test_unaligned_captures_begin_before_each_snapshot_and_end_or_are_dropped_once(seed: int) -> None:
    generator = random.Random(seed)
    channels = generator.randint(1, 4)
    handler = BarrierHandler(channels)
    streams = [_stream(generator) for _ in range(channels)]
    blocked: set[int] = set()
    captures: dict[int, str] = {}
    received: dict[int, set[int]] = {}
    ended: set[int] = set()
    now = START
    while any(streams[channel] and channel not in blocked for channel in range(channels)):
        now += generator.randint(0, 20)
        channel = generator.choice([each for each in range(channels) if streams[each] and each not in blocked])
        if generator.random() < 0.1 and handler.pending:
            commands = handler.on_timer(handler.pending[-1], now)
        else:
            what, checkpoint_id = streams[channel].pop(0)
            if what == "barrier":
                is_unaligned = generator.random() < 0.5
                sent = barrier(checkpoint_id, START, unaligned=is_unaligned, timeout_ms=None if is_unaligned else 150)
                blocked |= {channel} if sent.blocks_channel else set()
                received.setdefault(checkpoint_id, set()).add(channel)
                commands = handler.on_barrier(channel, sent, now)
            elif what == "cancel":
                commands = handler.on_cancel(channel, checkpoint_id)
            else:
                ended.add(channel)
                commands = handler.on_end(channel, now)
        for command in commands:
            match command:
                case StartCapture(checkpoint_id):
                    assert checkpoint_id not in captures
                    captures[checkpoint_id] = "started"
                case TakeCheckpoint(sent):
                    is_captured = captures.get(sent.checkpoint_id) == "started"
                    assert is_captured == sent.options.is_unaligned
                    if not is_captured:
                        assert len(received[sent.checkpoint_id] | ended) == channels
                case EndCapture(checkpoint_id):
                    assert captures[checkpoint_id] == "started"
                    assert len(received[checkpoint_id] | ended) == channels
                    captures[checkpoint_id] = "ended"
                case DropCapture(checkpoint_id):
                    assert captures[checkpoint_id] == "started"
                    captures[checkpoint_id] = "dropped"
                case ResumeChannels(resumed):
                    assert set(resumed) <= blocked
                    blocked -= set(resumed)
    assert not blocked
    assert "started" not in captures.values(), "all channels have ended, and one is still captured"


# -- on exchanges where barriers never overtake rows -------------------------------------------------------------


@pytest.mark.parametrize("timeout_ms", [None, 10])
@pytest.mark.parametrize("is_unaligned", [True, False])
def test_where_barriers_overtake_no_rows_a_checkpoint_waits_for_all_of_them(
    is_unaligned: bool, timeout_ms: int | None
) -> None:
    handler = BarrierHandler(2, may_overtake=False)
    sent = replace(barrier(1, unaligned=is_unaligned, timeout_ms=timeout_ms), may_overtake=False)
    assert sent.blocks_channel
    assert brief(handler.on_barrier(0, sent, START)) == []
    commands = handler.on_barrier(1, sent, START + 1_000)
    assert [each.split()[0] for each in brief(commands)] == ["take", "resume"]
    (take, _) = commands
    assert isinstance(take, TakeCheckpoint)
    assert take.barrier.options == sent.options
    assert not take.is_capturing
