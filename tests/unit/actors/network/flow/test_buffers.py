"""Small batches become buffers; large ones stay as they are."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.network.flow.buffers import Buffer, Coalescer
from actors.protocol.elements import CheckpointBarrier, CheckpointOptions, EndOfData, Watermark
from flinkray.batches.batch import Batch
from flinkray.types.records import Timestamp
from tests.support.network import FakeStore, numbers, values_of


def contents(buffers: list[Buffer]) -> list[list[int]]:
    return [values_of(buffer.element) for buffer in buffers]


def test_small_batches_wait_until_together_they_reach_the_target() -> None:
    coalescer = Coalescer(target_rows=5, target_bytes=1 << 20)
    assert coalescer.add(numbers(1, 2)) == []
    assert coalescer.add(numbers(3)) == []
    assert contents(coalescer.add(numbers(4, 5))) == [[1, 2, 3, 4, 5]]
    assert coalescer.is_empty


def test_bytes_count_as_well_as_rows() -> None:
    coalescer = Coalescer(target_rows=100, target_bytes=24)
    assert coalescer.add(numbers(1)) == []
    assert coalescer.nbytes == 8
    assert contents(coalescer.add(numbers(2))) == [], "8 bytes are less than half of 24"
    assert contents(coalescer.add(numbers(3))) == [[1, 2, 3]]


def test_a_batch_of_half_the_target_is_not_copied_and_does_not_overtake() -> None:
    coalescer = Coalescer(target_rows=4, target_bytes=1 << 20)
    large = numbers(2, 3)
    coalescer.add(numbers(1))
    finished = coalescer.add(large)
    assert contents(finished) == [[1], [2, 3]]
    assert finished[1].batch is large


def test_a_batch_of_another_layout_finishes_what_waits() -> None:
    coalescer = Coalescer(target_rows=10, target_bytes=1 << 20)
    coalescer.add(numbers(1))
    other = numbers(2).with_times(numbers(7).data.column(0))
    assert contents(coalescer.add(other)) == [[1]]
    assert contents(coalescer.finish()) == [[2]]
    assert coalescer.finish() == []


def test_batches_with_other_dictionaries_stay_apart() -> None:
    """Two dictionaries of 100 texts each do not fit one with an index of 8 bits."""
    coalescer = Coalescer(target_rows=1_000, target_bytes=1 << 20)
    texts = [pa.array([f"{letter}{number}" for number in range(100)]) for letter in "ab"]
    first, second = (
        Batch(pa.record_batch({"text": pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), each)}))
        for each in texts
    )
    buffers = [*coalescer.add(first), *coalescer.add(first), *coalescer.add(second), *coalescer.finish()]
    assert [buffer.batch.data.column("text").to_pylist() for buffer in buffers] == [
        texts[0].to_pylist() * 2,
        texts[1].to_pylist(),
    ]


TIMES = st.lists(st.one_of(st.integers(0, 2), st.lists(st.integers(0, 2), min_size=2, max_size=2)), min_size=1)


@given(TIMES)
def test_what_waits_counts_the_event_times_that_it_is_going_to_have(times: list[int | list[int]]) -> None:
    coalescer = Coalescer(target_rows=1_000, target_bytes=1 << 20)
    for each in times:
        coalescer.add(numbers(1, 2).with_times(each if isinstance(each, int) else pa.array(each)))
    waiting = coalescer.nbytes
    (buffer,) = coalescer.finish()
    assert (
        buffer.nbytes
        == waiting
        == buffer.batch.data.nbytes + (0 if isinstance(buffer.batch.times, int) else buffer.batch.times.nbytes)
    )
    assert buffer.batch.timestamps.to_pylist() == [
        time for each in times for time in ([each, each] if isinstance(each, int) else each)
    ]
    assert isinstance(buffer.batch.times, int) == (times == [times[0]] * len(times) and isinstance(times[0], int))


def test_a_buffer_of_several_batches_has_their_rows_and_bytes() -> None:
    coalescer = Coalescer(target_rows=100, target_bytes=1 << 20)
    coalescer.add(numbers(1, 2))
    coalescer.add(numbers(3))
    (buffer,) = coalescer.finish()
    assert (buffer.rows, buffer.nbytes) == (3, 24)


@pytest.mark.parametrize(
    ("event", "blocks"),
    [
        (CheckpointBarrier(1, 0), True),
        (CheckpointBarrier(1, 0, CheckpointOptions(is_exactly_once=False)), False),
        (CheckpointBarrier(1, 0, CheckpointOptions(is_unaligned=True)), False),
        (Watermark(Timestamp(1)), False),
        (EndOfData(), False),
    ],
)
def test_only_an_aligned_exactly_once_barrier_blocks_what_is_behind_it(event: object, blocks: bool) -> None:
    assert Buffer.of_event(event).blocks_upstream is blocks  # type: ignore[arg-type]


def test_a_buffer_is_put_into_the_object_store_once_and_lets_go_of_it_with_its_own_end() -> None:
    store = FakeStore()
    buffer = Buffer.of_batch(numbers(1))
    assert buffer.reference(store) is buffer.reference(store)
    assert (store.puts, store.alive) == (1, 1)
    del buffer
    assert store.alive == 0
