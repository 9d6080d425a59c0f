"""Rows are cut into requests without loss, in order, and within the limits."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkray import InvalidProgramError, RequestLimits
from flinkray.connectors.request_buffer import RequestBuffer


def rows(*values: int, size: int = 1) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": list(values), "text": ["x" * size] * len(values)})


def numbers(batch: pa.RecordBatch) -> list[int]:
    found: list[int] = batch.column("n").to_pylist()
    return found


@settings(deadline=None)
@given(
    batches=st.lists(st.integers(0, 40), max_size=8),
    max_rows=st.integers(1, 20),
    max_bytes=st.integers(1, 600),
    failures=st.randoms(use_true_random=False),
)
def test_every_row_is_sent_until_it_succeeds_and_requests_keep_the_limits(
    batches: list[int], max_rows: int, max_bytes: int, failures: object
) -> None:
    buffer = RequestBuffer(RequestLimits(max_rows=max_rows, max_bytes=max_bytes))
    total = 0
    for size in batches:
        buffer.add(rows(*range(total, total + size)))
        total += size
    assert buffer.num_rows == total
    sent: list[int] = []
    first: list[int] = []
    while buffer.num_rows:
        before = buffer.num_rows
        request = buffer.next()
        assert 1 <= request.rows.num_rows <= max_rows
        assert request.rows.num_rows == 1 or request.rows.nbytes <= max_bytes + 16  # validity and offsets
        assert buffer.num_rows == before - request.rows.num_rows
        if request.attempt == 1:
            first += numbers(request.rows)
        failed = [index for index in range(request.rows.num_rows) if failures.random() < 0.3]  # type: ignore[attr-defined]
        sent += [number for index, number in enumerate(numbers(request.rows)) if index not in failed]
        if failed:
            buffer.put_back(request, failed)
    assert first == list(range(total))
    assert sorted(sent) == list(range(total))


def test_what_failed_comes_before_what_was_not_sent_yet_and_counts_its_attempts() -> None:
    buffer = RequestBuffer(RequestLimits(max_rows=2))
    buffer.add(rows(1, 2, 3))
    request = buffer.next()
    buffer.put_back(request, [1])
    assert buffer.has_full_request
    again = buffer.next()
    assert (numbers(again.rows), again.attempt) == ([2], 2)
    assert (numbers(buffer.next().rows), buffer.num_rows) == ([3], 0)


def test_rows_of_two_schemas_are_not_sent_together() -> None:
    buffer = RequestBuffer(RequestLimits())
    buffer.add(rows(1))
    buffer.add(pa.RecordBatch.from_pydict({"other": ["a"]}))
    assert buffer.next().rows.schema.names == ["n", "text"]
    assert buffer.next().rows.schema.names == ["other"]


def test_a_limit_that_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidProgramError, match=r"RequestLimits\(max_rows=...\) is at least 1, not 0"):
        RequestLimits(max_rows=0)
