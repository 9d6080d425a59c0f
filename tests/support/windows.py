"""Event-time windows worked out one row at a time, and random streams to try them on."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP
from flinkray.windows.assigners import CumulativeWindows, WindowAssigner


class Event(NamedTuple):
    time: int
    key: Any
    value: Any


class Firing(NamedTuple):
    """A window of one key fired with these values, in order of arrival."""

    start: int
    end: int
    key: Any
    values: tuple[Any, ...]


@dataclass
class WindowModel:
    """What Flink's window operator does with each element. Windows are told apart by when they end: by the start that
    they have, or would have if they were as long as the longest."""

    assigner: WindowAssigner
    lateness: int = 0
    watermark: int = MIN_TIMESTAMP
    contents: dict[int, dict[Any, list[Any]]] = field(default_factory=dict)
    late: list[Event] = field(default_factory=list)

    def batch(self, events: list[Event]) -> list[Firing]:
        fired = []
        for event in events:
            starts = self.starts(event.time)
            still_open = [start for start in starts if self.cleanup_time(start) > self.watermark]
            if still_open:
                for start in still_open:
                    self.contents.setdefault(start, {}).setdefault(event.key, []).append(event.value)
                    if self.end(start) - 1 <= self.watermark:
                        fired.append(self.firing(start, event.key))
            elif starts or event.time + self.lateness <= self.watermark:
                self.late.append(event)
        return fired

    def advance(self, watermark: int) -> list[Firing]:
        before, self.watermark = self.watermark, watermark
        due = [start for start in sorted(self.contents) if before < self.end(start) - 1 <= watermark]
        fired = [self.firing(start, key) for start in due for key in self.contents[start]]
        for start in [start for start in self.contents if self.cleanup_time(start) <= watermark]:
            del self.contents[start]
        return fired

    def firing(self, start: int, key: Any) -> Firing:
        end = self.end(start)
        is_cumulative = isinstance(self.assigner, CumulativeWindows)
        return Firing(self.begin(end - 1) if is_cumulative else start, end, key, tuple(self.contents[start][key]))

    def begin(self, time: int) -> int:
        """When the cumulative windows over this time begin."""
        begin, size = self.assigner.offset_ms, self.assigner.size_ms
        while begin > time:
            begin -= size
        while begin + size <= time:
            begin += size
        return int(begin)

    def starts(self, time: int) -> list[int]:
        if isinstance(self.assigner, CumulativeWindows):
            begin, size = self.begin(time), int(self.assigner.size_ms)
            ends = range(begin + int(self.assigner.slide_ms), begin + size + 1, int(self.assigner.slide_ms))
            return [end - size for end in ends if end > time]
        aligned = self.assigner.offset_ms
        while aligned > time:
            aligned -= self.assigner.slide_ms
        while aligned + self.assigner.slide_ms <= time:
            aligned += self.assigner.slide_ms
        starts = []
        while aligned + self.assigner.size_ms > time:
            starts.append(aligned)
            aligned -= self.assigner.slide_ms
        return starts

    def end(self, start: int) -> int:
        return start + self.assigner.size_ms

    def cleanup_time(self, start: int) -> int:
        return min(self.end(start) - 1 + self.lateness, MAX_TIMESTAMP)


def random_steps(
    chance: random.Random, keys: list[Any], values: list[Any], batches: int = 8, most_rows: int = 60, spread: int = 40
) -> list[list[Event] | int]:
    """Batches of events around a time that moves on, some far behind it, and rising watermarks between them."""
    steps: list[list[Event] | int] = []
    now, watermark = chance.randrange(-200, 200), int(MIN_TIMESTAMP)
    for _ in range(batches):
        events = []
        for _ in range(chance.randint(1, most_rows)):
            now += chance.choice((0, 0, 1, 2))
            behind = chance.choice((0, 0, 1, chance.randrange(spread), chance.randrange(5 * spread)))
            events.append(Event(now - behind, chance.choice(keys), chance.choice(values)))
        steps.append(events)
        if chance.random() < 0.8:
            watermark = max(watermark, now - chance.randrange(spread))
            steps.append(watermark)
    return [*steps, int(MAX_TIMESTAMP)]
