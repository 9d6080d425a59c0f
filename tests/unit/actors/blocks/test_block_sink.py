"""Rows in blocks for the driver: what counts after failures, under another JobMaster, and in another submission."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from actors.blocks.sink import BlockSink, Committable, committed
from actors.spark.spill import SpillBlockStore
from flinkray.batches.batch import Batch
from flinkray.errors import InvalidProgramError
from flinkray.types.records import Kind
from tests.support.commits import requests_of
from tests.support.spark_io import WriterContext


class Clock(WriterContext):
    """A writer's context with a time of its own."""

    now = 0

    def now_ms(self) -> int:
        return Clock.now


def batch(*values: int) -> Batch:
    return Batch(pa.record_batch({"x": pa.array(values, pa.int64())}), Kind.ROW)


def rows_of(store: Any) -> list[int]:
    blocks = [block for committable in committed(store) for block in committable.blocks]
    return [value for block in blocks for value in store.get(block.block_id).column(0).to_pylist()]


def prepared(writer: Any, checkpoint_id: int) -> list[Committable]:
    """At a barrier; as the snapshot gives it back."""
    writer.flush(end_of_input=False)
    committables = writer.prepare_commit(1)
    writer.snapshot_state(checkpoint_id)
    restored: list[Committable] = pickle.loads(pickle.dumps(committables))
    return restored


def blocks_in(directory: Path) -> int:
    return len(list(directory.rglob("*.arrow")))


def test_attempts_of_one_number_replace_nothing_of_each_other(tmp_path: Path) -> None:
    """Each JobMaster counts attempts from 0."""
    store = SpillBlockStore.create(str(tmp_path))
    sink = BlockSink(store)
    for checkpoint_id in (1, 2):
        writer = sink.create_writer(WriterContext())
        writer.write(batch(checkpoint_id))
        sink.create_committer().commit(requests_of(prepared(writer, checkpoint_id)))
        writer.close()
    assert rows_of(store) == [1, 2]


def test_without_checkpoints_the_attempt_that_began_last_counts_whoever_numbered_it(tmp_path: Path) -> None:
    store = SpillBlockStore.create(str(tmp_path))
    sink = BlockSink(store)
    for Clock.now, values in enumerate([(1, 2), (3,)]):
        writer = sink.create_writer(Clock())
        writer.write(batch(*values))
        writer.flush(end_of_input=True)
        sink.create_committer().commit(requests_of(writer.prepare_commit(1)))
    assert rows_of(store) == [3]


def test_a_writer_that_is_closed_frees_what_it_has_not_prepared(tmp_path: Path) -> None:
    store = SpillBlockStore.create(str(tmp_path))
    writer = BlockSink(store).create_writer(WriterContext())
    writer.write(batch(1))
    (committable,) = prepared(writer, 1)
    writer.write(batch(2))
    writer.flush(end_of_input=False)
    assert blocks_in(tmp_path) == 2
    writer.close()
    assert blocks_in(tmp_path) == 1
    assert store.get(committable.blocks[0].block_id).num_rows == 1
    store.close()
    BlockSink(store).create_writer(WriterContext()).close()  # a store that is gone is no error here


def test_rows_that_wait_for_an_earlier_submission_are_not_forgotten_in_silence(tmp_path: Path) -> None:
    former = BlockSink(SpillBlockStore.create(str(tmp_path)))
    writer = former.create_writer(WriterContext())
    writer.write(batch(1, 2))
    waiting = prepared(writer, 1)
    sink = BlockSink(SpillBlockStore.create(str(tmp_path)))
    with pytest.raises(InvalidProgramError, match=r"^2 rows wait for a commit to the driver of an earlier submission"):
        sink.create_committer().commit(requests_of(waiting))
    former.store.close()
    with pytest.raises(InvalidProgramError, match="without the state of this sink"):
        sink.create_committer().commit(requests_of(waiting))


def test_a_savepoint_whose_rows_the_earlier_driver_has_can_be_restored(tmp_path: Path) -> None:
    former = BlockSink(SpillBlockStore.create(str(tmp_path)))
    writer = former.create_writer(WriterContext())
    writer.write(batch(1))
    with_rows, without = prepared(writer, 1), prepared(writer, 2)
    former.create_committer().commit(requests_of(with_rows))
    sink = BlockSink(SpillBlockStore.create(str(tmp_path)))
    sink.create_committer().commit(requests_of(with_rows + without))
    assert committed(sink.store) == []
    assert rows_of(former.store) == [1]


@pytest.mark.parametrize("seed", range(10))
def test_every_row_counts_once_and_in_order_whatever_fails(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    store = SpillBlockStore.create(str(tmp_path))
    sink = BlockSink(store)
    Clock.now = checkpoint_id = row = 0
    last: tuple[int, list[Committable]] = (0, [])
    writer, waiting = sink.create_writer(Clock()), []
    for _ in range(60):
        action = draw.random()
        if action < 0.5:
            writer.write(batch(row))
            row += 1
            continue
        if action < 0.85:
            checkpoint_id += 1
            waiting += prepared(writer, checkpoint_id)
            if draw.random() < 0.7:  # complete
                last = row, list(waiting)
            if draw.random() < 0.6 and last[0] == row:  # and the notice arrives
                sink.create_committer().commit(requests_of(waiting))
                waiting = []
            continue
        if draw.random() < 0.5:
            writer.close()  # else the task is killed, or goes on unseen
        Clock.now += draw.randrange(2)
        row, committables = last
        sink.create_committer().commit(requests_of(committables))
        writer, waiting = sink.create_writer(Clock(attempt_number=draw.randrange(3))), []
    waiting += prepared(writer, checkpoint_id + 1)
    sink.create_committer().commit(requests_of(waiting))
    assert rows_of(store) == list(range(row))
