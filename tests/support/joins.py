"""Random streams for two inputs, and what Flink's interval join does with each row."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP


class Event(NamedTuple):
    key: Any
    value: int
    """No two events of a stream have the same."""
    time: int


class Rows(NamedTuple):
    side: int
    events: list[Event]


class Mark(NamedTuple):
    side: int
    watermark: int


class Status(NamedTuple):
    side: int
    is_idle: bool


Step = Rows | Mark | Status


def random_steps(chance: random.Random, keys: list[Any], most_rows: int, batches: int = 8) -> list[Step]:
    """Batches for both inputs, whose times and watermarks go on independently, at rates of their own; some rows are
    behind the watermarks, and inputs fall idle and wake up. Ends with the last watermark of both."""
    steps: list[Step] = []
    # Many rows far apart would be in many windows each.
    rates = [chance.choice((0, 1, 3, 20)), chance.choice((1, 2, 10))] if most_rows <= 40 else [chance.choice((0, 1)), 1]
    disorder = chance.choice((0, 3, 30))
    now = [chance.randrange(-100, 100)] * 2
    marks = [int(MIN_TIMESTAMP)] * 2
    idle = [False, False]
    number = 0
    for _ in range(batches):
        side = chance.randrange(2)
        events = []
        for _ in range(chance.choice((1, chance.randint(1, most_rows)))):
            now[side] += chance.randint(0, rates[side]) if rates[side] else chance.random() < 0.1
            behind = chance.choice((0, chance.randint(0, disorder), chance.randint(0, 4 * disorder)))
            events.append(Event(chance.choice(keys), number, now[side] - behind))
            number += 1
            if chance.random() < 0.1:
                events.append(events[-1]._replace(value=number))  # again at the same time
                number += 1
        if idle[side]:
            idle[side] = False
            steps.append(Status(side, False))
        steps.append(Rows(side, events))
        for each in (0, 1):
            if not idle[each] and chance.random() < 0.5:
                marks[each] = max(marks[each], now[each] - chance.randint(0, disorder))
                steps.append(Mark(each, marks[each]))
            if not idle[each] and chance.random() < 0.15:
                idle[each] = True
                steps.append(Status(each, True))
    steps += [Status(each, False) for each in (0, 1) if idle[each]]
    return [*steps, Mark(0, int(MAX_TIMESTAMP)), Mark(1, int(MAX_TIMESTAMP))]


@dataclass
class TwoInputs:
    """The watermark of two inputs together."""

    watermark: int = MIN_TIMESTAMP
    marks: list[int] = field(default_factory=lambda: [int(MIN_TIMESTAMP)] * 2)
    idle: list[bool] = field(default_factory=lambda: [False, False])

    def apply(self, step: Mark | Status) -> bool:
        """Whether the watermark rose."""
        if isinstance(step, Mark):
            self.marks[step.side] = step.watermark
        else:
            self.idle[step.side] = step.is_idle
        unfinished = [side for side in (0, 1) if self.marks[side] < MAX_TIMESTAMP]
        active = [self.marks[side] for side in unfinished if not self.idle[side]]
        idle = [self.marks[side] for side in unfinished if self.idle[side]]
        before = self.watermark
        self.watermark = max(before, min(active) if active else max(idle, default=int(MAX_TIMESTAMP)))
        return self.watermark > before


class Pair(NamedTuple):
    key: Any
    left: int
    right: int
    left_time: int
    right_time: int


@dataclass
class IntervalJoinModel:
    """Each row in turn, by a loop over all rows that are kept of the other input."""

    lower: int
    upper: int
    inputs: TwoInputs = field(default_factory=TwoInputs)
    kept: tuple[list[Event], list[Event]] = field(default_factory=lambda: ([], []))
    late: tuple[list[Event], list[Event]] = field(default_factory=lambda: ([], []))

    def apply(self, step: Step) -> list[Pair]:
        if isinstance(step, Rows):
            return [pair for event in step.events for pair in self.row(event, step.side)]
        if self.inputs.apply(step):
            for side, reach in ((0, self.upper), (1, -self.lower)):
                still = [e for e in self.kept[side] if e.time + max(0, reach) > self.inputs.watermark]
                self.kept[side][:] = still if self.inputs.watermark < MAX_TIMESTAMP else []
        return []

    def row(self, event: Event, side: int) -> list[Pair]:
        if event.time < self.inputs.watermark:
            self.late[side].append(event)
            return []
        self.kept[side].append(event)
        found = []
        for other in self.kept[1 - side]:
            if same(event.key, other.key):
                left, right = (event, other) if side == 0 else (other, event)
                if left.time + self.lower <= right.time <= left.time + self.upper:
                    found.append(Pair(left.key, left.value, right.value, left.time, right.time))
        return found


def same(one: Any, other: Any) -> bool:
    return one == other or (one != one and other != other)


def columns_of(events: list[Event], side: int, key_type: pa.DataType) -> dict[str, pa.Array]:
    """The left has (key, value, at); the right (value, id, note)."""
    keys = pa.array([event.key for event in events], key_type)
    values = pa.array([event.value for event in events], pa.int64())
    if side == 0:
        return {"key": keys, "value": values, "at": pa.array([event.time for event in events], pa.int64())}
    notes = pa.array([None if event.value % 5 == 0 else f"note {event.value}" for event in events], pa.string())
    return {"value": values, "id": keys, "note": notes}


class Group(NamedTuple):
    """A window of one key fired with these values of both inputs, in order of arrival."""

    key: str
    timestamp: int
    first: tuple[int, ...]
    second: tuple[int, ...]


@dataclass
class Pane:
    start: int
    end: int
    rows: list[tuple[int, int]] = field(default_factory=list)
    """(side, value)"""
    count: int = 0


@dataclass
class UnionWindowModel:
    """What Flink's co-group does with each row: windows over the rows of both inputs.

    Args:
        gap: of sessions; 0: windows of `size` every `slide`; both 0: one window for everything.
        count: fires with so many rows in place of the assigner's trigger.
        is_purging: what has fired goes.
        kept: so many last rows a firing leaves.
    """

    size: int = 0
    slide: int = 0
    gap: int = 0
    is_event_time: bool = True
    lateness: int = 0
    count: int = 0
    is_purging: bool = False
    kept: int = 0
    now: int = MIN_TIMESTAMP
    """The watermark, or the clock."""
    panes: dict[str, list[Pane]] = field(default_factory=dict)
    late: list[Event] = field(default_factory=list)

    def row(self, event: Event, side: int) -> list[Group]:
        time = event.time if self.is_event_time else self.now
        fired, is_skipped = [], True
        for start, end in self.windows(time):
            key = repr(event.key)
            pane = self.pane(key, start, end)
            if self.is_over(pane):
                self.panes[key].remove(pane)
                continue
            is_skipped = False
            pane.rows.append((side, event.value))
            pane.count += 1
            if self.count:
                if pane.count >= self.count:
                    pane.count = 0
                    fired += self.fire(key, pane)
            elif self.is_event_time and self.is_due(pane):
                fired += self.fire(key, pane)
        if is_skipped and self.is_event_time and time + self.lateness <= self.now:
            self.late.append(event)
        return fired

    def windows(self, time: int) -> list[tuple[int, int]]:
        if self.gap:
            return [(time, time + self.gap)]
        if not self.size:
            return [(MIN_TIMESTAMP, MAX_TIMESTAMP + 1)]
        last = time - time % self.slide
        return [(start, start + self.size) for start in range(last, time - self.size, -self.slide)]

    def pane(self, key: str, start: int, end: int) -> Pane:
        panes = self.panes.setdefault(key, [])
        if not self.gap:
            found = [pane for pane in panes if pane.start == start]
        else:
            found = sorted((p for p in panes if p.start <= end and start <= p.end), key=lambda p: p.start)
            for pane in found:
                panes.remove(pane)
            start, end = min([start, *(p.start for p in found)]), max([end, *(p.end for p in found)])
            merged = Pane(start, end, [row for p in found for row in p.rows], sum(p.count for p in found))
            found = [merged] if found else []
            panes += found
        if not found:
            found = [Pane(start, end)]
            panes += found
        return found[0]

    def advance(self, now: int) -> list[Group]:
        """The watermark or the clock goes on."""
        before, self.now = self.now, now
        fired = []
        for key, panes in self.panes.items():
            for pane in list(panes):
                was_due = pane.end - 1 <= before if self.is_event_time else pane.end <= before
                if not self.count and self.size + self.gap and self.is_due(pane) and not was_due:
                    fired += self.fire(key, pane)
                if self.is_over(pane):
                    panes.remove(pane)
        return fired

    def is_due(self, pane: Pane) -> bool:
        return pane.end - 1 <= self.now if self.is_event_time else pane.end <= self.now

    def is_over(self, pane: Pane) -> bool:
        if pane.end > MAX_TIMESTAMP:
            return self.is_event_time and self.now == MAX_TIMESTAMP
        if not self.is_event_time:
            return pane.end <= self.now
        return min(pane.end - 1 + self.lateness, MAX_TIMESTAMP) <= self.now

    def fire(self, key: str, pane: Pane) -> list[Group]:
        if not pane.rows:
            return []
        if self.kept:
            pane.rows = pane.rows[-self.kept :]
        sides = [tuple(value for side, value in pane.rows if side == wanted) for wanted in (0, 1)]
        if self.is_purging:
            pane.rows = []
        return [Group(key, min(pane.end - 1, MAX_TIMESTAMP), *sides)]
