"""The valve's rules, one by one, and against a model that recomputes everything from the history of events."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.operators.time.watermark_valve import StatusWatermarkValve
from actors.protocol.elements import ACTIVE, IDLE, Watermark
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP


def test_output_is_the_minimum_over_the_channels_and_only_when_it_rises() -> None:
    valve = StatusWatermarkValve(2)
    assert valve.on_watermark(5, 0) == []
    assert valve.on_watermark(3, 1) == [Watermark(3)]
    assert valve.on_watermark(4, 1) == [Watermark(4)]
    assert valve.on_watermark(9, 1) == [Watermark(5)]
    valve.check()


def test_a_single_channel_passes_its_watermarks_on() -> None:
    valve = StatusWatermarkValve(1)
    assert valve.on_watermark(MIN_TIMESTAMP + 1, 0) == [Watermark(MIN_TIMESTAMP + 1)]
    assert valve.on_watermark(7, 0) == [Watermark(7)]


def test_a_watermark_that_does_not_rise_on_its_channel_is_ignored() -> None:
    valve = StatusWatermarkValve(1)
    valve.on_watermark(7, 0)
    assert valve.on_watermark(7, 0) == []
    assert valve.on_watermark(6, 0) == []
    assert valve.watermark == 7


def test_a_watermark_on_an_idle_channel_is_ignored_and_not_remembered() -> None:
    valve = StatusWatermarkValve(2)
    valve.on_watermark(1, 0)
    valve.on_watermark(1, 1)
    valve.on_status(True, 1)
    assert valve.on_watermark(100, 1) == []
    valve.on_status(False, 1)
    assert valve.on_watermark(50, 0) == []  # channel 1 still stands at 1
    valve.check()


def test_a_channel_that_turns_idle_no_longer_holds_the_others_back() -> None:
    valve = StatusWatermarkValve(3)
    for channel, timestamp in enumerate((5, 8, 12)):
        valve.on_watermark(timestamp, channel)
    assert valve.watermark == 5
    assert valve.on_status(True, 0) == [Watermark(8)]
    assert valve.on_status(True, 2) == []
    assert not valve.is_idle


def test_a_channel_ahead_of_the_valve_turning_idle_changes_nothing() -> None:
    valve = StatusWatermarkValve(2)
    valve.on_watermark(5, 0)
    valve.on_watermark(9, 1)
    assert valve.on_status(True, 1) == []


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
def test_when_the_last_channel_turns_idle_the_maximum_of_all_comes_before_idle_whatever_the_order(
    order: tuple[int, ...],
) -> None:
    valve = StatusWatermarkValve(3)
    for channel, timestamp in enumerate((5, 8, 12)):
        valve.on_watermark(timestamp, channel)
    given_out: list[Any] = []
    for channel in order:
        given_out += valve.on_status(True, channel)
    assert given_out[-1] == IDLE
    assert valve.watermark == 12
    assert valve.is_idle
    valve.check()


def test_all_channels_idle_without_any_watermark_gives_idle_and_no_watermark() -> None:
    valve = StatusWatermarkValve(2)
    assert valve.on_status(True, 0) == []
    assert valve.on_status(True, 1) == [IDLE]
    assert valve.watermark == MIN_TIMESTAMP


def test_an_unaligned_last_channel_does_not_make_the_watermark_jump_to_infinity() -> None:
    valve = StatusWatermarkValve(2)
    valve.on_watermark(10, 0)
    valve.on_status(True, 1)  # the valve goes to 10
    valve.on_status(True, 0)
    valve.on_status(False, 1)  # behind: unaligned, and the only active channel
    assert valve.on_watermark(3, 1) == []
    assert valve.watermark == 10
    valve.check()


def test_a_resumed_channel_is_left_out_of_the_minimum_until_it_has_caught_up() -> None:
    valve = StatusWatermarkValve(2)
    valve.on_watermark(5, 0)
    valve.on_watermark(5, 1)
    valve.on_status(True, 1)
    assert valve.on_watermark(10, 0) == [Watermark(10)]
    valve.on_status(False, 1)
    assert valve.on_watermark(7, 1) == []
    assert valve.on_watermark(12, 0) == [Watermark(12)]  # 7 does not count
    assert valve.on_watermark(12, 1) == []  # caught up: from now on it counts
    assert valve.on_watermark(20, 0) == []
    assert valve.on_watermark(15, 1) == [Watermark(15)]
    valve.check()


def test_a_channel_that_resumes_as_the_only_aligned_one_lifts_the_valve_to_its_watermark() -> None:
    valve = StatusWatermarkValve(3)
    for channel, timestamp in enumerate((10, 20, 10)):
        valve.on_watermark(timestamp, channel)
    valve.on_status(True, 1)
    assert valve.on_watermark(15, 2) == []
    assert valve.on_status(True, 0) == [Watermark(15)]
    assert valve.on_status(False, 0) == []  # behind, so not aligned
    assert valve.on_status(True, 2) == []
    assert valve.on_status(False, 1) == [Watermark(20)]
    valve.check()


def test_a_channel_that_resumes_at_the_valves_watermark_counts_at_once() -> None:
    valve = StatusWatermarkValve(2)
    valve.on_watermark(5, 0)
    valve.on_watermark(9, 1)
    valve.on_status(True, 1)
    valve.on_status(False, 1)
    assert valve.on_watermark(20, 0) == [Watermark(9)]


def test_an_idle_valve_says_active_when_one_channel_does_and_only_once() -> None:
    valve = StatusWatermarkValve(2)
    valve.on_status(True, 0)
    valve.on_status(True, 1)
    assert valve.on_status(False, 1) == [ACTIVE]
    assert valve.on_status(False, 0) == []


def test_the_same_status_again_is_ignored() -> None:
    valve = StatusWatermarkValve(2)
    assert valve.on_status(False, 0) == []
    valve.on_status(True, 0)
    assert valve.on_status(True, 0) == []
    valve.check()


def test_watermarks_stop_while_the_valve_is_idle() -> None:
    valve = StatusWatermarkValve(1)
    valve.on_status(True, 0)
    assert valve.on_watermark(5, 0) == []


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_idle_channels_beside_finished_ones_do_not_end_event_time_whatever_the_order(order: tuple[int, ...]) -> None:
    valve = StatusWatermarkValve(3)
    for channel, timestamp in enumerate((5, 8, 3)):
        valve.on_watermark(timestamp, channel)
    given_out: list[Any] = []
    for channel in order:
        given_out += valve.on_watermark(MAX_TIMESTAMP, 1) if channel == 1 else valve.on_status(True, channel)
        valve.check()
    assert given_out[-1] == IDLE
    assert valve.watermark in (5, 8)  # what the finished one had promised counts if it was the last
    assert valve.on_status(False, 2) == [ACTIVE]
    assert valve.on_watermark(9, 2) == [Watermark(9)], "its rows are not late"
    assert valve.on_watermark(MAX_TIMESTAMP, 2) == [IDLE]
    assert valve.on_status(False, 0) == [ACTIVE]
    assert valve.on_watermark(MAX_TIMESTAMP, 0) == [Watermark(MAX_TIMESTAMP)]
    valve.check()


def test_a_valve_needs_a_channel() -> None:
    with pytest.raises(ValueError, match="at least one channel"):
        StatusWatermarkValve(0)


@dataclass
class Model:
    """Flink's rules as sets: who is active, who has caught up, what each has promised; MAX_TIMESTAMP ends a channel."""

    promised: list[int]
    idle: set[int] = field(default_factory=set)
    behind: set[int] = field(default_factory=set)
    watermark: int = MIN_TIMESTAMP

    @property
    def unfinished(self) -> set[int]:
        return {channel for channel, promised in enumerate(self.promised) if promised < MAX_TIMESTAMP}

    @property
    def is_idle(self) -> bool:
        return set() < self.unfinished <= self.idle

    def event(self, channel: int, event: int | bool) -> None:
        was_idle = self.is_idle
        if isinstance(event, bool):
            if event == (channel in self.idle):
                return
            if event:
                self.idle.add(channel)
            else:
                self.idle.remove(channel)
                self.behind.discard(channel)
                if self.promised[channel] < self.watermark:
                    self.behind.add(channel)
        elif channel not in self.idle and event > self.promised[channel]:
            self.promised[channel] = event
            if event >= self.watermark:
                self.behind.discard(channel)
        if self.is_idle:
            if not was_idle:
                self.watermark = max(self.watermark, *(self.promised[each] for each in self.unfinished))
        elif not self.unfinished:
            self.watermark = MAX_TIMESTAMP
        elif counted := self.unfinished - self.idle - self.behind:
            self.watermark = max(self.watermark, min(self.promised[each] for each in counted))


@given(
    channels=st.integers(1, 4),
    events=st.lists(
        st.tuples(st.integers(0, 3), st.one_of(st.integers(0, 20), st.booleans(), st.just(int(MAX_TIMESTAMP)))),
        max_size=60,
    ),
)
@settings(max_examples=300, deadline=None)
def test_the_valve_agrees_with_the_model_and_never_goes_back(
    channels: int, events: list[tuple[int, int | bool]]
) -> None:
    valve = StatusWatermarkValve(channels)
    model = Model([int(MIN_TIMESTAMP)] * channels)
    was_idle, watermark = False, int(MIN_TIMESTAMP)
    for chosen, event in events:
        channel = chosen % channels
        model.event(channel, event)
        given_out = valve.on_status(event, channel) if isinstance(event, bool) else valve.on_watermark(event, channel)
        valve.check()
        for element in given_out:
            if isinstance(element, Watermark):
                assert not was_idle, "no watermark while idle"
                assert element.timestamp > watermark
                watermark = element.timestamp
            else:
                assert element.is_idle != was_idle, "a status is sent when it changes"
                was_idle = element.is_idle
        assert (watermark, was_idle) == (model.watermark, model.is_idle)
