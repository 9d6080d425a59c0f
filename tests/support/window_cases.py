"""Sessions worked out one row at a time, and random streams with keys, nulls and disorder to try windows on."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP


@dataclass
class Session:
    start: int
    end: int
    key: Any
    values: list[Any]
    has_fired: bool = False


@dataclass
class SessionModel:
    """What Flink's WindowOperator does with each element of a session window.

    Args:
        gap: of (time, key, value).
    """

    gap: Callable[[tuple[int, Any, Any]], int]
    lateness: int = 0
    watermark: int = MIN_TIMESTAMP
    sessions: list[Session] = field(default_factory=list)
    late: list[tuple[int, Any, Any]] = field(default_factory=list)

    def batch(self, events: list[tuple[int, Any, Any]]) -> list[Session]:
        fired: list[Session] = []
        for event in events:
            time, key, value = event
            start, end = time, time + self.gap(event)
            joined = [each for each in self.sessions if each.key == key and each.start <= end and each.end >= start]
            merged = Session(min([start, *(s.start for s in joined)]), max([end, *(s.end for s in joined)]), key, [])
            if self.cleanup(merged) <= self.watermark:
                self.late.append(event)
                continue
            # By arrival: what an older session holds came first.
            merged.values = sorted([value for each in joined for value in each.values] + [(self._next(), value)])
            self.sessions = [each for each in self.sessions if each not in joined] + [merged]
            if merged.end - 1 <= self.watermark and self._fire(merged):
                fired.append(merged)
        return fired

    def advance(self, watermark: int) -> list[Session]:
        self.watermark = watermark
        due = [each for each in self.sessions if each.end - 1 <= watermark and not each.has_fired]
        fired = [each for each in self._ordered(due) if self._fire(each)]
        self.sessions = [each for each in self.sessions if self.cleanup(each) > watermark]
        return fired

    def cleanup(self, session: Session) -> int:
        return min(session.end - 1 + self.lateness, MAX_TIMESTAMP)

    def _fire(self, session: Session) -> bool:
        session.has_fired = True
        return True

    def _ordered(self, sessions: list[Session]) -> list[Session]:
        return sorted(sessions, key=lambda each: (each.end, each.start, each.values[0][0]))

    _count: int = 0

    def _next(self) -> int:
        self._count += 1
        return self._count


KEY_TYPES: dict[str, tuple[list[str], Callable[[int], list[Any]], list[pa.DataType]]] = {
    "int": (["key"], lambda number: [number if number else None], [pa.int64()]),
    "string": (["key"], lambda number: [f"key {number}" if number else None], [pa.string()]),
    "composite": (
        ["key", "other"],
        lambda number: [number % 3 if number % 5 else None, f"key {number // 3}"],
        [pa.int32(), pa.string()],
    ),
}
"""Names of the key columns, the values of key number n (some of them null), and the columns' types."""


@dataclass(frozen=True)
class WindowCase:
    """A random stream.

    Attributes:
        batches: (columns, times) in order of arrival; `row` numbers the rows.
        watermarks: after each batch; None: it does not rise.
    """

    seed: int
    key_names: tuple[str, ...]
    batches: list[tuple[pa.RecordBatch, list[int]]]
    watermarks: list[int | None]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows with their time, `at`."""
        return [
            row | {"at": time}
            for data, times in self.batches
            for row, time in zip(data.to_pylist(), times, strict=True)
        ]

    def key_of(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.key_names)


def random_case(seed: int, most_rows: int = 400) -> WindowCase:
    """Keys of any kind, rates, disorder, nulls and batch sizes drawn from the seed. The last watermark ends all."""
    chance = random.Random(seed)
    names, key_of, types = KEY_TYPES[chance.choice(list(KEY_TYPES))]
    keys = chance.choice((1, 3, 12))
    step, disorder = chance.choice((0.2, 1.0, 6.0)), chance.choice((0, 5, 30, 120))
    bound = chance.choice((0, disorder // 2, disorder))
    rows = chance.randint(1, most_rows)
    nulls = chance.choice((0.0, 0.2))
    base = chance.choice((-300, 0, 1_700_000_000_000))
    events = []
    for number in range(rows):
        at = base + int(number * step) - (chance.randrange(disorder + 1) if chance.random() < 0.7 else 0)
        value = None if chance.random() < nulls else chance.randrange(-20, 20)
        events.append((at, key_of(chance.randrange(keys)), value, number))
    batches, watermarks, highest = [], [], MIN_TIMESTAMP
    most, offset = chance.choice((1, 20, 60, 500, 500)), 0
    while offset < rows:
        some = events[offset : offset + chance.randint(1, most)]
        offset += len(some)
        columns = [pa.array([key[place] for _, key, _, _ in some], types[place]) for place in range(len(names))]
        values = pa.array([value for _, _, value, _ in some], pa.int64())
        numbers = pa.array([number for _, _, _, number in some], pa.int64())
        data = pa.RecordBatch.from_arrays([*columns, values, numbers], names=[*names, "value", "row"])
        batches.append((data, [at for at, _, _, _ in some]))
        highest = max(highest, *(at for at, _, _, _ in some))
        watermarks.append(highest - bound - 1 if chance.random() < 0.7 else None)
    watermarks[-1] = int(MAX_TIMESTAMP)
    return WindowCase(seed, tuple(names), batches, watermarks)


def assert_updates_then_results(found: list[Any], updates: list[Any], results: list[Any]) -> None:
    """That there are these updates by late rows, in order for each key, which rows begin with; then these results."""
    assert sorted(found[: len(updates)], key=_key) == sorted(updates, key=_key)
    assert found[len(updates) :] == results


def _key(row: Any) -> str:
    return str(row[0]) if isinstance(row, tuple) else str(row).partition(")")[0]
