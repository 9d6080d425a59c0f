"""What a DataFrame's blocks promise as a source, with blocks in a temporary directory and no Spark."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec import structs

from actors.blocks.source import ORDERED_SPLIT_ROWS, BlockReader, BlockSource, RowsChangedError
from actors.blocks.store import Block, coalesce
from actors.spark.spill import SpillBlockStore
from flinkray.batches.batch import Batch
from flinkray.errors import PartitionError
from flinkray.types.records import Kind, RecordType
from tests.support.spark_io import SourceDriver

SCHEMA = pa.schema([("n", pa.int64())])


def make_source(directory: Path, sizes: Sequence[int], is_ordered: bool = False) -> BlockSource:
    """Blocks of these sizes, which hold 0, 1, 2 ... over all."""
    store = SpillBlockStore.create(str(directory))
    blocks, first = [], 0
    for index, size in enumerate(sizes):
        rows = pa.record_batch([pa.array(range(first, first + size), pa.int64())], schema=SCHEMA)
        blocks.append(Block.of(f"{index:06d}", rows))
        store.put(f"{index:06d}", rows)
        first += size
    return BlockSource(store, blocks, RecordType(Kind.ROW, SCHEMA), is_ordered)


def numbers(batches: Sequence[Batch]) -> list[int]:
    return [value for batch in batches for value in batch.data.column(0).to_pylist()]


def test_every_row_is_read_once_in_the_blocks_order(tmp_path: Path) -> None:
    driver = SourceDriver(make_source(tmp_path, [10, 1, 25]), batch_rows=7)
    assert numbers(driver.drain()[0]) == list(range(36))


def test_a_source_without_rows_ends_at_once(tmp_path: Path) -> None:
    assert SourceDriver(make_source(tmp_path, []), parallelism=3).drain() == [[], [], []]


def test_subtasks_share_the_rows_and_a_source_survives_pickling(tmp_path: Path) -> None:
    source = pickle.loads(pickle.dumps(make_source(tmp_path, [5] * 10)))
    found = SourceDriver(source, parallelism=3).drain()
    assert sorted(number for batches in found for number in numbers(batches)) == list(range(50))
    assert all(found)


@pytest.mark.parametrize("may_read_again", [True, False])
def test_what_was_read_is_freed_where_the_job_cannot_go_back(tmp_path: Path, may_read_again: bool) -> None:
    source = make_source(tmp_path, [10, 3, 8])
    driver = SourceDriver(source, batch_rows=4)
    for context in driver.contexts:
        context.may_read_again = may_read_again
    driver.start()
    assert numbers(list(iter(lambda: driver.next(0), None))) == list(range(21))
    (reader,) = driver.readers
    assert isinstance(reader, BlockReader)
    reader._pool.shutdown(wait=True)
    if may_read_again:
        assert source.store.get("000002").num_rows == 8
    else:
        for block in source.blocks:
            with pytest.raises(PartitionError):
                source.store.get(block.block_id)


def test_replay_from_any_snapshot_gives_exactly_the_rows_that_follow(tmp_path: Path) -> None:
    source = make_source(tmp_path, [10, 3, 8])
    for steps in range(9):
        before = SourceDriver(source, batch_rows=3)
        before.start()
        read = [batch for _ in range(steps) if (batch := before.next(0)) is not None]
        splits = pickle.loads(pickle.dumps(before.readers[0].snapshot_state(1)))
        rest = pickle.loads(pickle.dumps(before.enumerator.snapshot_state(1)))
        before.close()
        after = SourceDriver(source, batch_rows=4, restored=rest)
        after.readers[0].add_splits(splits)
        assert numbers(read) + numbers(after.drain()[0]) == list(range(21)), steps


def test_an_ordered_source_gives_each_subtask_values_that_only_move_forward_and_all_of_them_side_by_side(
    tmp_path: Path,
) -> None:
    rows = 5 * ORDERED_SPLIT_ROWS + 17
    driver = SourceDriver(make_source(tmp_path, [rows, 40], is_ordered=True), parallelism=2, batch_rows=50_000)
    found = [numbers(batches) for batches in driver.drain()]
    assert sorted(found[0] + found[1]) == list(range(rows + 40))
    for values in found:
        assert values == sorted(values)
        assert len(values) > rows // 4, "one block must not keep one subtask busy alone"


def test_splits_of_a_failed_attempt_go_to_the_next_attempt_of_the_same_subtask(tmp_path: Path) -> None:
    driver = SourceDriver(make_source(tmp_path, [4] * 4), parallelism=2)
    for subtask in (0, 1, 1):
        driver.enumerator.handle_split_request(subtask)
    lost = [split for subtask, split in driver.assigned if subtask == 0]
    driver.enumerator.add_splits_back(lost, 0)
    assert len(driver.enumerator.snapshot_state(1)) == 2
    driver.enumerator.handle_split_request(1)
    driver.enumerator.handle_split_request(0)
    assert [split.block_index for _, split in driver.assigned[-2:]] == [3, 0]
    driver.close()


def test_restored_splits_of_several_subtasks_are_read_in_order(tmp_path: Path) -> None:
    source = make_source(tmp_path, [4] * 4, is_ordered=True)
    driver = SourceDriver(source, restored=[])
    driver.readers[0].add_splits(list(reversed(source.splits())))
    assert numbers(driver.drain()[0]) == list(range(16))


def test_a_restore_on_other_rows_is_refused_by_name(tmp_path: Path) -> None:
    source = make_source(tmp_path, [4, 4])
    driver = SourceDriver(source)
    split = structs.replace(source.splits()[1], checksum=1, position=2)
    with pytest.raises(RowsChangedError, match=r"'test source'.*row 2 of block 1"):
        driver.readers[0].add_splits([split])
    driver.close()


def test_a_lost_block_fails_the_reader_and_names_the_block(tmp_path: Path) -> None:
    source = make_source(tmp_path, [4, 4])
    source.store.discard([source.blocks[1].block_id])
    driver = SourceDriver(source)
    with pytest.raises(PartitionError, match="'000001'"):
        driver.drain()
    driver.close()


def test_the_store_is_renewed_while_the_job_runs_and_unused_some_time_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_source(tmp_path, [4])
    driver = SourceDriver(source)
    driver.close()
    assert not source.store.is_unused
    monkeypatch.setattr("actors.spark.spill.GRACE_SECONDS", -1.0)
    assert source.store.is_unused
    SourceDriver(source).drain()
    assert source.store.is_unused
    source.store.close()
    assert not source.store.is_unused
    assert list(tmp_path.iterdir()) == []


def test_coalesced_blocks_keep_rows_and_order_and_are_near_the_size_asked_for() -> None:
    batches = [pa.record_batch([pa.array(range(n, n + 10), pa.int64())], schema=SCHEMA) for n in range(0, 100, 10)]
    empty = pa.record_batch([pa.array([], pa.int64())], schema=SCHEMA)
    blocks = list(coalesce([empty, *batches, empty], block_bytes=200))
    assert [value for block in blocks for value in block.column(0).to_pylist()] == list(range(100))
    assert [block.num_rows for block in blocks] == [30, 30, 30, 10]
