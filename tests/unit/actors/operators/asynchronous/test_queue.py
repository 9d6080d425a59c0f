"""What comes out of the queue of asynchronous calls, and when: held against plain lists, in random orders."""

from __future__ import annotations

import functools
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from actors.operators.asynchronous.queue import AsyncQueue, InFlight
from actors.protocol.elements import Watermark, WatermarkStatus
from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import decode
from flinkray.types.records import Kind, Timestamp

CASES = 400


def batch_of(numbers: list[int]) -> Batch:
    return Batch(pa.record_batch({"value": numbers}), Kind.SCALAR, pa.array(numbers, pa.int64()))


def add(queue: AsyncQueue, numbers: list[int]) -> None:
    queue.add_rows(list(numbers), list(numbers), batch_of(numbers))


def outputs(queue: AsyncQueue) -> list[Any]:
    return [piece.value if isinstance(piece, InFlight) else piece for piece in queue.take()]


def watermark(time: int) -> Watermark:
    return Watermark(Timestamp(time))


class Case:
    """Random input into a queue, with a list of what went in and of what came out."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.capacity = self.random.choice([1, 2, 3, 5, 20])
        self.is_ordered = self.random.random() < 0.5
        self.timeout_ms = self.random.choice([0, 0, 20, 100])
        self.queue = AsyncQueue(self.capacity, self.is_ordered, self.timeout_ms)
        self.now = 0.0
        self.number = 0
        self.went_in: list[Any] = []
        self.came_out: list[Any] = []
        self.running: list[tuple[InFlight, int]] = []
        """Attempts whose outcome is yet to come; those too that nobody waits for any more."""
        self.results: dict[int, list[str]] = {}
        self.began: dict[int, float] = {}
        self.timed_out: set[int] = set()

    def run(self) -> None:
        for _ in range(self.random.randrange(5, 60)):
            self.random.choice([self.rows, self.rows, self.control, self.outcome, self.outcome, self.time_passes])()
            self.settle()
        while not self.queue.is_empty:
            self.outcome()
            self.time_passes()
            self.settle()

    def rows(self) -> None:
        numbers = list(range(self.number, self.number + self.random.randrange(1, 8)))
        self.number = numbers[-1] + 1
        self.went_in += numbers
        add(self.queue, numbers)

    def control(self) -> None:
        control: Any = watermark(self.number) if self.random.random() < 0.7 else WatermarkStatus(self.number % 2 == 0)
        self.went_in.append(control)
        self.queue.add_control(control)

    def outcome(self) -> None:
        """One that comes, in any order; now and then it leads to another attempt."""
        if not self.running:
            return
        entry, attempt = self.running.pop(self.random.randrange(len(self.running)))
        if not self.queue.awaits(entry, attempt):
            return
        if attempt < 3 and self.random.random() < 0.2:
            entry.attempt += 1
            self.running.append((entry, entry.attempt))
            if self.random.random() < 0.5:
                self.running.append((entry, attempt))  # the same one comes again
        else:
            self.complete(entry, [f"{entry.value}/{n}" for n in range(self.random.randrange(3))])

    def time_passes(self) -> None:
        self.now += self.random.choice([0, 1, 10, 50])
        for entry in self.queue.expired(self.now):
            assert self.now >= self.began[entry.value] + self.timeout_ms
            self.timed_out.add(entry.value)
            self.complete(entry, [f"{entry.value}/late"])
        if self.timeout_ms and self.queue.next_deadline_ms is not None:
            assert self.queue.next_deadline_ms > self.now

    def complete(self, entry: InFlight, results: list[str]) -> None:
        self.results[entry.value] = results
        self.queue.complete(entry, results)

    def settle(self) -> None:
        """As the operator does after everything that happens."""
        while True:
            started = self.queue.start(self.now)
            for entry in started:
                self.running.append((entry, 1))
                self.began[entry.value] = self.now
            taken = list(self.queue.take())
            for piece in taken:
                if isinstance(piece, InFlight):
                    assert piece.results == self.results[piece.value]
                    self.came_out.append(piece.value)
                else:
                    self.came_out.append(piece)
            self.queue.check()
            if not started and not taken:
                return self.check()

    def check(self) -> None:
        rows_out = {piece for piece in self.came_out if isinstance(piece, int)}
        rows_in = [piece for piece in self.went_in if isinstance(piece, int)]
        under_way = [entry.value for entry in self.queue.in_flight]
        waiting = [number for batch in self.queue.waiting_batches() for number in decode(batch)]
        # What a checkpoint would hold now is exactly what has not come out, oldest first.
        assert under_way + waiting == [number for number in rows_in if number not in rows_out]
        assert self.queue.is_full == bool(waiting) or not waiting


@functools.cache
def case_of(seed: int) -> Case:
    case = Case(seed)
    case.run()
    return case


def as_segments(pieces: list[Any]) -> list[Any]:
    """Rows between controls as multisets; of watermarks in a row the last."""
    segments: list[Any] = [Counter()]
    for piece in pieces:
        if isinstance(piece, int):
            segments[-1][piece] += 1
            continue
        if isinstance(piece, Watermark) and not segments[-1] and isinstance(segments[-2:][0], Watermark):
            segments[-2] = piece
            continue
        segments += [piece, Counter()]
    return segments


@pytest.mark.parametrize("seed", range(CASES))
def test_each_row_comes_out_once_and_none_passes_a_watermark(seed: int) -> None:
    case = case_of(seed)
    assert as_segments(case.came_out) == as_segments(case.went_in)
    if case.is_ordered:
        assert [each for each in case.came_out if isinstance(each, int)] == list(range(case.number))


def test_the_random_cases_reach_what_they_are_about() -> None:
    cases = [case_of(seed) for seed in range(CASES)]
    rows = [[each for each in case.came_out if isinstance(each, int)] for case in cases]
    assert sum(bool(case.timed_out) for case in cases) > 50
    assert sum(numbers != sorted(numbers) for numbers in rows) > 100
    assert sum(any(isinstance(each, WatermarkStatus) for each in case.came_out) for case in cases) > 100


@pytest.mark.parametrize("is_ordered", [False, True])
def test_no_more_rows_are_under_way_than_the_capacity(is_ordered: bool) -> None:
    queue = AsyncQueue(2, is_ordered, 0)
    add(queue, [1, 2, 3])
    first, _second = queue.start(0)
    assert queue.is_full
    queue.complete(first, [])
    assert queue.start(0) == []  # its results have not been emitted
    assert outputs(queue) == [1]
    assert [entry.value for entry in queue.start(0)] == [3]
    assert not queue.is_full


def test_a_row_that_is_ordered_waits_for_those_before_it() -> None:
    queue = AsyncQueue(3, True, 0)
    add(queue, [1, 2, 3])
    first, second, third = queue.start(0)
    queue.complete(third, ["c"])
    queue.complete(second, ["b"])
    assert outputs(queue) == []
    queue.complete(first, ["a"])
    assert outputs(queue) == [1, 2, 3]


def test_rows_overtake_each_other_up_to_the_next_watermark() -> None:
    queue = AsyncQueue(5, False, 0)
    add(queue, [1, 2])
    queue.add_control(watermark(2))
    add(queue, [3])
    first, second, third = queue.start(0)
    queue.complete(third, [])
    queue.complete(second, [])
    assert outputs(queue) == [2]
    queue.complete(first, [])
    assert outputs(queue) == [1, watermark(2), 3]


@pytest.mark.parametrize("is_ordered", [False, True])
def test_of_watermarks_in_a_row_the_last_is_kept(is_ordered: bool) -> None:
    queue = AsyncQueue(1, is_ordered, 0)
    add(queue, [1])
    (first,) = queue.start(0)
    for time in range(100):
        queue.add_control(watermark(time))
    add(queue, [2])
    for time in range(100, 200):
        queue.add_control(watermark(time))
    queue.complete(first, [])
    assert outputs(queue) == [1, watermark(99)]
    (second,) = queue.start(0)
    queue.complete(second, [])
    assert queue.start(0) == []
    assert outputs(queue) == [2, watermark(199)]


def test_a_row_expires_once_its_own_time_is_over() -> None:
    queue = AsyncQueue(1, True, 10)
    add(queue, [1, 2])
    (first,) = queue.start(100)
    assert (queue.next_deadline_ms, queue.expired(109)) == (110, [])
    assert queue.expired(110) == [first]
    queue.complete(first, [])
    assert queue.next_deadline_ms is None
    assert outputs(queue) == [1]
    queue.start(200)
    assert queue.next_deadline_ms == 210


def test_an_outcome_counts_for_the_attempt_that_it_belongs_to() -> None:
    queue = AsyncQueue(1, True, 0)
    add(queue, [1])
    (entry,) = queue.start(0)
    entry.attempt = 2
    assert not queue.awaits(entry, 1)
    assert queue.awaits(entry, 2)
    queue.complete(entry, [])
    assert not queue.awaits(entry, 2)
