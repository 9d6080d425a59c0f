"""Windows with triggers and evictors worked out one row at a time, and random streams to try them on."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP
from tests.support.windows import Event

END = MAX_TIMESTAMP


@dataclass
class ModelRow:
    """A row, with the number of its arrival."""

    number: int
    time: int
    value: Any


@dataclass(eq=False)
class ModelPane:
    """A window of one key, [start, end), and what its trigger knows."""

    key: Any
    start: int
    end: int
    rows: list[ModelRow] = field(default_factory=list)
    timers: set[int] = field(default_factory=set)
    """In the time of the window."""
    count: int = 0
    fire_time: int | None = None
    last: Any = None

    @property
    def latest(self) -> int:
        return self.end - 1


class ModelTrigger:
    """Fires when time has reached the window's end, and with every row after that."""

    def on_row(self, pane: ModelPane, row: ModelRow, now: int) -> bool:
        if pane.latest <= now:
            return True
        pane.timers.add(pane.latest)
        return False

    def on_time(self, pane: ModelPane, time: int, now: int) -> bool:
        return time == pane.latest

    def on_merge(self, pane: ModelPane, parts: list[ModelPane], now: int) -> None:
        if pane.latest > now:
            pane.timers.add(pane.latest)


@dataclass
class Every(ModelTrigger):
    """With every so-manieth row."""

    rows: int

    def on_row(self, pane: ModelPane, row: ModelRow, now: int) -> bool:
        pane.count += 1
        if pane.count < self.rows:
            return False
        pane.count = 0
        return True

    def on_time(self, pane: ModelPane, time: int, now: int) -> bool:
        return False

    def on_merge(self, pane: ModelPane, parts: list[ModelPane], now: int) -> None:
        pane.count = sum(part.count for part in parts)


@dataclass
class Continuously(ModelTrigger):
    """At every multiple of an interval, and at the end."""

    interval: int

    def on_row(self, pane: ModelPane, row: ModelRow, now: int) -> bool:
        if pane.latest <= now:
            return True
        pane.timers.add(pane.latest)
        if pane.fire_time is None:
            self._next(pane, row.time // self.interval * self.interval, now)
        return False

    def on_time(self, pane: ModelPane, time: int, now: int) -> bool:
        if time == pane.latest:
            return True
        if time != pane.fire_time:
            return False
        self._next(pane, time, now)
        return True

    def _next(self, pane: ModelPane, time: int, now: int) -> None:
        pane.fire_time = min(time + self.interval, pane.latest) if now < pane.latest or pane.latest < END else END
        pane.timers.add(pane.fire_time)

    def on_merge(self, pane: ModelPane, parts: list[ModelPane], now: int) -> None:
        pane.fire_time = min((part.fire_time for part in parts if part.fire_time is not None), default=None)
        if pane.fire_time is not None:
            pane.timers.add(pane.fire_time)


@dataclass
class Beyond(ModelTrigger):
    """With a row that differs by more than a threshold from the one that fired last."""

    threshold: float

    def on_row(self, pane: ModelPane, row: ModelRow, now: int) -> bool:
        if pane.last is None:
            pane.last = row.value
            return False
        if abs(row.value - pane.last) <= self.threshold:
            return False
        pane.last = row.value
        return True

    def on_time(self, pane: ModelPane, time: int, now: int) -> bool:
        return False


def is_same(key: Any, other: Any) -> bool:
    """As keys: a NaN is one."""
    return key is other or bool(key == other)


Evict = Callable[[list[ModelRow]], list[ModelRow]]


def keep_all(rows: list[ModelRow]) -> list[ModelRow]:
    return rows


@dataclass
class GeneralModel:
    """What Flink's window operator does with each row, in event time.

    Attributes:
        windows: the [start, end) of a row, by its time.
        merges: whether windows that overlap or touch become one.
    """

    windows: Callable[[Event], Iterable[tuple[int, int]]]
    trigger: ModelTrigger
    lateness: int = 0
    merges: bool = False
    purges: bool = False
    evict_before: Evict = keep_all
    evict_after: Evict = keep_all
    watermark: int = MIN_TIMESTAMP
    panes: list[ModelPane] = field(default_factory=list)
    late: list[Any] = field(default_factory=list)
    fired: list[tuple[Any, int, int, list[ModelRow]]] = field(default_factory=list)
    """(key, start, end, rows), since it was taken last."""
    _arrived: int = 0

    def row(self, event: Event) -> None:
        row = ModelRow(self._arrived, event.time, event.value)
        self._arrived += 1
        is_taken = False
        for start, end in self.windows(event):
            parts = [pane for pane in self.panes if is_same(pane.key, event.key) and self._is_met(pane, start, end)]
            whole = min([start, *(p.start for p in parts)]), max([end, *(p.end for p in parts)])
            if self._cleanup(whole[1]) <= self.watermark:
                continue
            is_taken = True
            pane = self._pane(event.key, whole, parts)
            pane.rows.append(row)
            if self.trigger.on_row(pane, row, self.watermark):
                self._fire(pane)
        if not is_taken and event.time + self.lateness <= self.watermark:
            self.late.append(event.value)

    def _is_met(self, pane: ModelPane, start: int, end: int) -> bool:
        if self.merges:
            return pane.start <= end and start <= pane.end
        return (pane.start, pane.end) == (start, end)

    def _pane(self, key: Any, whole: tuple[int, int], parts: list[ModelPane]) -> ModelPane:
        if len(parts) == 1 and (parts[0].start, parts[0].end) == whole:
            return parts[0]
        merged = ModelPane(key, *whole)
        in_order = sorted(parts, key=lambda part: part.start)
        merged.rows = [row for part in in_order for row in part.rows]
        if parts:
            self.trigger.on_merge(merged, in_order, self.watermark)
        self.panes = [pane for pane in self.panes if pane not in parts] + [merged]
        return merged

    def advance(self, watermark: int) -> None:
        if watermark <= self.watermark:
            return
        self.watermark = watermark
        for pane in list(self.panes):
            while due := sorted(time for time in pane.timers if time <= watermark):
                if due[0] > self._cleanup(pane.end):
                    break
                pane.timers.remove(due[0])
                if self.trigger.on_time(pane, due[0], watermark):
                    self._fire(pane)
            if self._cleanup(pane.end) <= watermark:
                self.panes.remove(pane)

    def _fire(self, pane: ModelPane) -> None:
        if not pane.rows:
            return
        pane.rows = self.evict_before(pane.rows)
        self.fired.append((pane.key, pane.start, pane.end, list(pane.rows)))
        pane.rows = [] if self.purges else self.evict_after(pane.rows)

    def _cleanup(self, end: int) -> int:
        return min(end - 1 + self.lateness, END)

    def take(self) -> list[tuple[Any, int, int, list[ModelRow]]]:
        taken, self.fired = self.fired, []
        return taken


Step = list[Event] | int


def random_steps(chance: random.Random, keys: list[Any], rows: int = 40, spread: int = 30) -> list[Step]:
    """Batches of 1 to 500 events, out of order within bounds and some far behind, and rising watermarks."""
    now = chance.randrange(-100, 100)
    events = []
    for number in range(rows):
        now += chance.choice((0, 1, 1, 2, 5, 12))
        behind = chance.choice((0, 0, 1, chance.randrange(spread), chance.randrange(4 * spread)))
        events.append(Event(now - behind, chance.choice(keys), number))
    steps: list[Step] = []
    start = 0
    while start < len(events):
        size = chance.choice((1, 2, 5, 20, 500))
        steps.append(events[start : start + size])
        start += size
        if chance.random() < 0.7:
            latest = max(event.time for event in events[:start])
            steps.append(latest - chance.randrange(spread))
    return [*steps, int(END)]
