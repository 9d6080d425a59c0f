"""Combines the watermarks and statuses of input channels into one of each (Flink's StatusWatermarkValve)."""

from __future__ import annotations

from msgspec import Struct

from actors.protocol.elements import ACTIVE, IDLE, Watermark, WatermarkStatus
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp


class _Channel(Struct):
    """What one input channel has promised."""

    watermark: int = MIN_TIMESTAMP
    is_idle: bool = False
    is_aligned: bool = True
    """Whether it counts for the valve's watermark: not while it is idle, or behind what the valve has given out."""


class StatusWatermarkValve:
    """What so many channels together promise about event time.

    Channels are numbered through all gates of a task. Both methods give what must go downstream now, in order, often
    nothing. A channel that has promised MAX_TIMESTAMP has finished, and counts no more, so that the others can be idle
    for a while without their event time being over (FLINK-38477). The valve's watermark is the lowest of its aligned
    channels, and MAX_TIMESTAMP once all have finished; it never goes back. The valve is idle exactly while all channels
    are that have not finished. One thread calls it.
    """

    def __init__(self, channels: int) -> None:
        if channels < 1:
            raise ValueError(f"a watermark valve needs at least one channel, got {channels}")
        self._channels = [_Channel() for _ in range(channels)]
        self._watermark: int = MIN_TIMESTAMP
        self._is_idle = False

    @property
    def watermark(self) -> Timestamp:
        """The last one given out; MIN_TIMESTAMP before that."""
        return Timestamp(self._watermark)

    @property
    def is_idle(self) -> bool:
        return self._is_idle

    def on_watermark(self, timestamp: int, channel: int) -> list[Watermark | WatermarkStatus]:
        """A watermark came on `channel`. Ignored, not remembered, while the channel is idle or if it does not rise."""
        state = self._channels[channel]
        if state.is_idle or timestamp <= state.watermark:
            return []
        state.watermark = timestamp
        state.is_aligned = timestamp >= self._watermark
        return self._follow_channels()

    def on_status(self, is_idle: bool, channel: int) -> list[Watermark | WatermarkStatus]:
        """`channel` turned idle or active; ignored if it already was."""
        state = self._channels[channel]
        if state.is_idle == is_idle:
            return []
        state.is_idle = is_idle
        # Where one that resumes is the only aligned one, its watermark may be above the valve's already (FLINK-40475).
        state.is_aligned = not is_idle and state.watermark >= self._watermark
        return self._follow_channels()

    def _follow_channels(self) -> list[Watermark | WatermarkStatus]:
        unfinished = self._unfinished()
        was_idle, self._is_idle = self._is_idle, _are_idle(unfinished)
        if not self._is_idle:
            # No aligned channel: nobody has caught up yet, so nothing new is known.
            aligned = (channel.watermark for channel in unfinished if channel.is_aligned)
            lowest = min(aligned, default=self._watermark) if unfinished else int(MAX_TIMESTAMP)
            return [*([ACTIVE] if was_idle else []), *self._rise_to(lowest)]
        if was_idle:
            return []
        # No channel will move now, so everything that any of them promised counts. Older Flink did this only if the
        # last channel held the valve back, which made the result depend on the order of the statuses.
        return [*self._rise_to(max(channel.watermark for channel in unfinished)), IDLE]

    def _unfinished(self) -> list[_Channel]:
        return [channel for channel in self._channels if channel.watermark < MAX_TIMESTAMP]

    def _rise_to(self, timestamp: int) -> list[Watermark | WatermarkStatus]:
        if timestamp <= self._watermark:
            return []
        self._watermark = timestamp
        return [Watermark(Timestamp(timestamp))]

    def check(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        assert self._is_idle == _are_idle(self._unfinished()), "idle exactly if all channels are that have not finished"
        for index, channel in enumerate(self._channels):
            assert not (channel.is_idle and channel.is_aligned), f"channel {index} is idle and aligned"
            if not channel.is_idle:
                is_level = channel.watermark >= self._watermark
                assert channel.is_aligned == is_level, f"channel {index}: aligned exactly if not behind the valve"


def _are_idle(unfinished: list[_Channel]) -> bool:
    return bool(unfinished) and all(channel.is_idle for channel in unfinished)
