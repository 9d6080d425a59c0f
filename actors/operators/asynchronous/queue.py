"""Which rows are in flight, which wait for capacity, and what may be emitted next (Flink's StreamElementQueue)."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, field

from actors.protocol.elements import Watermark, WatermarkStatus
from flinkray.batches.batch import Batch

Control = Watermark | WatermarkStatus
"""Elements that keep their position among the rows."""


class InFlight(Struct, eq=False):
    """A row in flight: from its first call until its results are emitted."""

    value: Any
    timestamp: int | None
    deadline_ms: float
    kind: int | None = None
    """What the row does in a changelog; None: it is an insert."""
    attempt: int = 1
    results: Sequence[Any] | None = None
    """The results of the row; None: they have not come yet."""
    segment: _Segment | None = None
    work: Any = None
    """The call or timer that is under way for the row, which the operator cancels on a timeout."""


class _WaitingRows(Struct, eq=False):
    """Rows that wait for capacity."""

    values: list[Any]
    timestamps: Sequence[int | None]
    kinds: Sequence[int | None] | None
    source: Batch | None
    """The batch that they are; None: they come from a checkpoint."""
    position: int = 0
    """The index of the first row that still waits."""

    def __len__(self) -> int:
        return len(self.values) - self.position


class _Segment(Struct, eq=False):
    """Rows between two controls, which may overtake each other."""

    unfinished: int = 0
    finished: deque[InFlight] = field(default_factory=deque)
    end: Control | None = None
    """The control that ends the segment; None: it is the last one, and open."""


class AsyncQueue:
    """Rows and controls in, rows with their results and controls out; nothing is lost or given twice.

    Args:
        capacity: how many rows are in flight at most. Further rows wait, with all that comes behind them.
        is_ordered: rows come out as they went in; else as their results come, but none passes a control.
        timeout_ms: how long a row may take from its first call; 0: for ever.
    """

    def __init__(self, capacity: int, is_ordered: bool, timeout_ms: float) -> None:
        self._capacity = capacity
        self._timeout_ms = timeout_ms
        self._waiting: deque[_WaitingRows | Control] = deque()
        self._order: _Ordered | _Unordered = _Ordered() if is_ordered else _Unordered()
        self._in_flight: dict[InFlight, None] = {}
        self._unfinished: dict[InFlight, None] = {}
        """Rows in flight without results, oldest first: that is also the order of their deadlines."""
        self.rows = 0
        """How many rows there are, in flight or waiting."""

    # -- in ------------------------------------------------------------------------------------------------------

    def add_rows(
        self,
        values: list[Any],
        timestamps: Sequence[int | None],
        source: Batch | None = None,
        kinds: Sequence[int | None] | None = None,
    ) -> None:
        """Adds rows behind all that came before; `start` gives them out."""
        if values:
            self.rows += len(values)
            self._waiting.append(_WaitingRows(values, timestamps, kinds, source))

    def add_control(self, control: Control) -> None:
        """Comes out behind all rows that came before it. Of several watermarks in a row only the last is kept."""
        if not self._waiting:
            self._order.put_control(control)
        elif isinstance(control, Watermark) and isinstance(self._waiting[-1], Watermark):
            self._waiting[-1] = control
        else:
            self._waiting.append(control)

    def start(self, now_ms: float) -> list[InFlight]:
        """The rows for which there is room now: the function is to be called with each of them."""
        started: list[InFlight] = []
        while self._waiting:
            first = self._waiting[0]
            if not isinstance(first, _WaitingRows):
                self._order.put_control(first)
                self._waiting.popleft()
                continue
            room = self._capacity - len(self._in_flight)
            if not room:
                break
            end = min(first.position + room, len(first.values))
            for position in range(first.position, end):
                entry = InFlight(
                    first.values[position],
                    first.timestamps[position],
                    now_ms + self._timeout_ms,
                    None if first.kinds is None else first.kinds[position],
                )
                self._in_flight[entry] = self._unfinished[entry] = None
                self._order.put(entry)
                started.append(entry)
            first.position = end
            if not len(first):
                self._waiting.popleft()
        return started

    # -- results -------------------------------------------------------------------------------------------------

    def awaits(self, entry: InFlight, attempt: int) -> bool:
        """Whether the outcome of this attempt counts: nothing else has ended it before."""
        return entry.results is None and entry.attempt == attempt

    def complete(self, entry: InFlight, results: Sequence[Any]) -> None:
        """The row has got all its results; called once per row."""
        assert entry.results is None, "a row is completed once"
        entry.results = results
        del self._unfinished[entry]
        self._order.completed(entry)

    def expired(self, now_ms: float) -> list[InFlight]:
        """Rows without results whose deadline has passed; the caller completes them in another way."""
        if not self._timeout_ms:
            return []
        return list(itertools.takewhile(lambda entry: entry.deadline_ms <= now_ms, self._unfinished))

    @property
    def next_deadline_ms(self) -> float | None:
        """When to look for expired rows; None: there is nothing to wait for."""
        if not self._timeout_ms or not self._unfinished:
            return None
        return next(iter(self._unfinished)).deadline_ms

    # -- out -----------------------------------------------------------------------------------------------------

    def take(self) -> Iterator[InFlight | Control]:
        """What may be emitted now, in order; each element has left the queue when it is given."""
        while (element := self._order.take()) is not None:
            if isinstance(element, InFlight):
                del self._in_flight[element]
                self.rows -= 1
            yield element

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether no row is in flight and none waits; controls come out as soon as they are asked for."""
        return not self._in_flight and not self._waiting

    @property
    def is_full(self) -> bool:
        """Whether rows wait for capacity."""
        return bool(self._waiting)

    @property
    def in_flight(self) -> list[InFlight]:
        """The rows in flight, oldest first, also those whose results wait for others."""
        return list(self._in_flight)

    def waiting_rows(self) -> list[tuple[Any, int | None, int | None]]:
        """Rows with their event times and kinds that wait and come from a checkpoint; oldest first, before
        `waiting_batches`."""
        return [
            (
                waiting.values[position],
                waiting.timestamps[position],
                None if waiting.kinds is None else waiting.kinds[position],
            )
            for waiting in self._waiting
            if isinstance(waiting, _WaitingRows) and waiting.source is None
            for position in range(waiting.position, len(waiting.values))
        ]

    def waiting_batches(self) -> list[Batch]:
        """The rows of batches that wait, oldest first."""
        return [
            waiting.source.slice(waiting.position)
            for waiting in self._waiting
            if isinstance(waiting, _WaitingRows) and waiting.source is not None
        ]

    def check(self) -> None:
        """Raises AssertionError where the parts contradict each other."""
        assert len(self._in_flight) <= self._capacity
        waiting = sum(len(each) for each in self._waiting if isinstance(each, _WaitingRows))
        assert self.rows == len(self._in_flight) + waiting
        assert all(entry in self._in_flight and entry.results is None for entry in self._unfinished)
        assert all(entry in self._unfinished or entry.results is not None for entry in self._in_flight)
        assert self._order.rows() == len(self._in_flight)
        deadlines = [entry.deadline_ms for entry in self._unfinished]
        assert deadlines == sorted(deadlines)
        if self._waiting and isinstance(self._waiting[0], _WaitingRows):
            assert len(self._waiting[0]) > 0


class _Ordered:
    """Gives rows in the order in which they came."""

    def __init__(self) -> None:
        self._elements: deque[InFlight | Control] = deque()

    def put(self, entry: InFlight) -> None:
        self._elements.append(entry)

    def put_control(self, control: Control) -> None:
        if self._elements and isinstance(control, Watermark) and isinstance(self._elements[-1], Watermark):
            self._elements[-1] = control
        else:
            self._elements.append(control)

    def completed(self, entry: InFlight) -> None:
        """Nothing to do: the row comes out when it is the first."""

    def take(self) -> InFlight | Control | None:
        if not self._elements:
            return None
        first = self._elements[0]
        if isinstance(first, InFlight) and first.results is None:
            return None
        return self._elements.popleft()

    def rows(self) -> int:
        return sum(isinstance(element, InFlight) for element in self._elements)


class _Unordered:
    """Gives rows in the order in which their results come, segment after segment."""

    def __init__(self) -> None:
        self._segments: deque[_Segment] = deque([_Segment()])

    def put(self, entry: InFlight) -> None:
        entry.segment = self._segments[-1]
        entry.segment.unfinished += 1

    def put_control(self, control: Control) -> None:
        last = self._segments[-1]
        if isinstance(control, Watermark) and len(self._segments) > 1 and not last.unfinished and not last.finished:
            former = self._segments[-2]
            if isinstance(former.end, Watermark):
                former.end = control
                return
        last.end = control
        self._segments.append(_Segment())

    def completed(self, entry: InFlight) -> None:
        segment = entry.segment
        assert segment is not None, "it was put into one"
        segment.unfinished -= 1
        segment.finished.append(entry)

    def take(self) -> InFlight | Control | None:
        first = self._segments[0]
        if first.finished:
            return first.finished.popleft()
        if first.unfinished or first.end is None:
            return None
        self._segments.popleft()
        return first.end

    def rows(self) -> int:
        return sum(segment.unfinished + len(segment.finished) for segment in self._segments)
