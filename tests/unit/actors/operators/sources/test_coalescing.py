"""Which small batches of a source become one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

import pyarrow as pa
import pytest

from actors.operators.sources.coalescing import Given, PollResult, coalesced_polls
from flinkray.batches.batch import FEW_ROWS, Batch
from flinkray.connectors.source import ReaderStatus, SourceBatch, SourceProgress
from flinkray.types.records import Timestamp

NOTHING = ReaderStatus.NOTHING_AVAILABLE


def rows(*values: object, split: str = "a") -> SourceBatch:
    return SourceBatch(Batch(pa.record_batch({"n": list(values)})), split)


def coded(*texts: str) -> SourceBatch:
    return SourceBatch(Batch(pa.record_batch({"n": pa.array(texts).dictionary_encode()})), "a")


def shown(polled: PollResult) -> object:
    given = polled.given
    return given.batch.data.column("n").to_pylist() if isinstance(given, SourceBatch) else given


def gather(
    polls: Iterable[Given], batch_rows: int = 65_536, batch_bytes: int = 1 << 20, ms_per_look: float = 0.0
) -> list[object]:
    following, clock = iter(polls), count()

    def poll() -> PollResult:
        return PollResult(next(following))

    return [shown(each) for each in coalesced_polls(poll, batch_rows, batch_bytes, lambda: next(clock) * ms_per_look)]


def test_small_batches_that_are_there_come_as_one_and_what_ended_them_behind() -> None:
    assert gather([rows(1), rows(2, 3), rows(4), NOTHING]) == [[1, 2, 3, 4], NOTHING]
    progress = SourceProgress("a", Timestamp(5))
    assert gather([rows(1), progress]) == [[1], progress]


def test_a_large_batch_waits_for_no_other() -> None:
    assert gather([rows(*range(FEW_ROWS))]) == [list(range(FEW_ROWS))]
    assert gather([rows("x" * 100)], batch_bytes=100) == [["x" * 100]]


def test_batches_of_other_splits_types_or_dictionaries_stay_apart() -> None:
    assert gather([rows(1), rows(2, split="b")]) == [[1], [2]]
    assert gather([rows(1), rows("x")]) == [[1], ["x"]]
    assert gather([coded("x"), coded("x"), coded("y")]) == [["x", "x"], ["y"]]


def test_no_batch_is_larger_than_one_aims_at() -> None:
    assert gather([rows(1), rows(2), rows(3)], batch_rows=2) == [[1, 2]]
    assert gather([rows(1), rows(2, 3)], batch_rows=2) == [[1], [2, 3]]
    assert gather([rows(1), rows(2), rows(3)], batch_bytes=16) == [[1, 2]]
    assert gather([rows(1), rows(2, 3)], batch_bytes=16) == [[1], [2, 3]]


def test_a_slow_reader_is_not_polled_again() -> None:
    assert gather([rows(1), rows(2)], ms_per_look=2.0) == [[1]]


def test_finished_splits_come_with_the_last_rows_that_were_polled_before() -> None:
    polls = iter([PollResult(rows(1)), PollResult(rows(2), ("x",)), PollResult(rows(3, split="b"), ("b", "a"))])
    first, second = coalesced_polls(lambda: next(polls), 65_536, 1 << 20, lambda: 0.0)
    assert (shown(first), first.finished_splits) == ([1, 2], ("x",))
    assert (shown(second), second.finished_splits) == ([3], ("b", "a"))


def test_an_error_comes_behind_the_rows_before_it() -> None:
    def failing() -> Iterator[PollResult]:
        yield PollResult(rows(1))
        yield PollResult(rows(2))
        raise ValueError("the third line is broken")

    following = failing()
    polled = coalesced_polls(lambda: next(following), 65_536, 1 << 20, lambda: 0.0)
    assert shown(next(polled)) == [1, 2]
    with pytest.raises(ValueError, match="third line"):
        next(polled)
