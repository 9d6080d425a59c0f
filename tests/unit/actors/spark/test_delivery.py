"""Which checkpoints' rows are due to be handed to Spark, and when a commit waits."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.commits import requests_of

pytest.importorskip("pyspark")

from actors.blocks.sink import BlockSink, Committable, checkpoints, committed
from actors.spark import delivery
from actors.spark.delivery import Delivery, after_commit, due_rows
from actors.spark.spill import SpillBlockStore
from flinkray.batches.batch import Batch
from flinkray.errors import FlinkrayError, InvalidProgramError
from flinkray.types.records import Kind
from tests.support.spark_io import WriterContext, write_all

NONE: frozenset[str] = frozenset()


def committable(subtask: int, number: int, is_last: bool = False) -> Committable:
    return Committable(SpillBlockStore("store"), subtask, 2, "writer", number, (), is_last)


def ids(found: list[Committable], labels: dict[str, int], delivered: frozenset[str] = NONE) -> tuple[list, bool]:
    due, is_all = due_rows(found, labels, delivered)
    return [(group.checkpoint_id, sorted(each.subtask for each in group.committables)) for group in due], is_all


def batch(*values: int) -> Batch:
    return Batch(pa.record_batch({"x": pa.array(values, pa.int64())}), Kind.ROW)


def test_a_checkpoint_is_due_when_every_subtask_has_committed_it() -> None:
    first, second = committable(0, 0), committable(1, 0)
    labels = {first.key: 7, second.key: 7}
    assert ids([first], labels) == ([], False)
    assert ids([first, second], labels) == ([(7, [0, 1])], False)


def test_checkpoints_are_due_in_order_and_a_later_one_waits_for_an_earlier_one() -> None:
    found = [committable(0, 0), committable(0, 1)]
    labels = {found[0].key: 7, found[1].key: 8}
    assert ids(found, labels) == ([], False)
    found.append(committable(1, 0))
    labels[found[2].key] = 7
    assert ids(found, labels) == ([(7, [0, 1])], False)
    found.append(committable(1, 1))
    labels[found[3].key] = 8
    assert ids(found, labels) == ([(7, [0, 1]), (8, [0, 1])], False)


def test_a_subtask_that_has_ended_is_not_waited_for() -> None:
    found = [committable(0, 0, is_last=True), committable(1, 0), committable(1, 1)]
    labels = {found[0].key: 7, found[1].key: 7, found[2].key: 8}
    assert ids(found, labels) == ([(7, [0, 1]), (8, [1])], False)


def test_a_subtask_that_did_not_take_part_in_an_aborted_checkpoint_is_not_waited_for() -> None:
    """Subtask 0 prepared for checkpoint 7, which was aborted, and commits those rows together with checkpoint 8's."""
    found = [committable(0, 0), committable(0, 1)]
    labels = {found[0].key: 7, found[1].key: 8}
    assert ids(found, labels) == ([], False)
    found.append(committable(1, 0))
    labels[found[2].key] = 8
    assert ids(found, labels) == ([(7, [0]), (8, [0, 1])], False)


def test_rows_after_the_last_checkpoint_come_last_and_complete_the_job() -> None:
    found = [committable(0, 0), committable(1, 0), committable(0, 1, True), committable(1, 1, True)]
    labels = {found[0].key: 7, found[1].key: 7}
    assert ids(found, labels) == ([(7, [0, 1]), (None, [0, 1])], True)


def test_what_was_delivered_is_never_due_again() -> None:
    found = [committable(0, 0, True), committable(1, 0, True)]
    assert ids(found, {}, frozenset(each.key for each in found)) == ([], True)


def test_committing_twice_is_the_same_as_once_and_uncommitted_blocks_do_not_count(tmp_path: Path) -> None:
    store = SpillBlockStore.create(str(tmp_path))
    sink = BlockSink(store)
    failed = sink.create_writer(WriterContext(attempt_number=0))
    failed.write(batch(1, 2))
    failed.prepare_commit(1)
    writer = sink.create_writer(WriterContext(attempt_number=1))
    writer.write(batch(1, 2))
    prepared = writer.prepare_commit(1)
    writer.snapshot_state(41)
    for _ in range(2):
        sink.create_committer().commit(requests_of(prepared))
    assert [each.key for each in committed(store)] == [each.key for each in prepared]
    assert [block.rows for each in committed(store) for block in each.blocks] == [2]
    assert checkpoints(store)[prepared[0].key] == 41


def test_without_checkpoints_a_restarted_subtask_replaces_what_its_earlier_attempt_committed(tmp_path: Path) -> None:
    store = SpillBlockStore.create(str(tmp_path))
    for attempt, values in enumerate([(1, 2), (3, 4, 5)]):
        writer = BlockSink(store).create_writer(WriterContext(attempt_number=attempt))
        writer.write(batch(*values))
        writer.flush(end_of_input=True)
        BlockSink(store).create_committer().commit(requests_of(writer.prepare_commit(1)))
    assert [block.rows for each in committed(store) for block in each.blocks] == [3]


def test_what_follows_the_last_checkpoint_is_handed_over_once_even_if_the_job_restarts_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed: list[tuple[list[str], int | None]] = []
    monkeypatch.setattr(delivery, "read_blocks", lambda _spark, _store, block_ids, _schema: block_ids)
    store = SpillBlockStore.create(str(tmp_path))
    thread = Delivery(None, store, lambda rows, checkpoint: handed.append((rows, checkpoint)))
    for attempt in range(2):
        writer = BlockSink(store).create_writer(WriterContext(attempt_number=attempt))
        writer.write(batch(1, 2))
        writer.flush(end_of_input=True)
        BlockSink(store).create_committer().commit(requests_of(writer.prepare_commit(1)))
        assert thread.step()
        after_commit(store, is_last=True)  # would raise or wait if it were not delivered
    assert [(len(block_ids), checkpoint) for block_ids, checkpoint in handed] == [(1, None)]


def test_aborting_frees_the_blocks(tmp_path: Path) -> None:
    store = SpillBlockStore.create(str(tmp_path))
    sink = BlockSink(store)
    writer = sink.create_writer(WriterContext())
    writer.write(batch(1))
    prepared = writer.prepare_commit(1)
    sink.create_committer().abort(prepared)
    assert not list(tmp_path.rglob("*.arrow"))


def test_python_objects_cannot_go_to_spark(tmp_path: Path) -> None:
    writer = BlockSink(SpillBlockStore.create(str(tmp_path))).create_writer(WriterContext())
    with pytest.raises(InvalidProgramError, match=r"'test sink'.*output_type"):
        writer.write(Batch(pa.record_batch({"value": pa.array([b"pickle"])}), Kind.OBJECT))


def test_small_batches_become_one_block_and_a_change_of_type_begins_another(tmp_path: Path) -> None:
    store = SpillBlockStore.create(str(tmp_path))
    other = Batch(pa.record_batch({"x": pa.array([1.5])}), Kind.ROW)
    write_all(BlockSink(store), [[batch(1), batch(2), batch(3), other]])
    assert [block.rows for each in committed(store) for block in each.blocks] == [3, 1]


def test_a_write_function_that_raises_fails_the_commit_with_its_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(_rows: object, _checkpoint_id: int | None) -> None:
        raise ZeroDivisionError("the table is locked")

    monkeypatch.setattr(delivery, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(delivery, "read_blocks", lambda *_: None)
    store = SpillBlockStore.create(str(tmp_path))
    thread = Delivery(None, store, write)
    thread.start()
    with pytest.raises(FlinkrayError, match="the table is locked") as caught:
        write_all(BlockSink(store, after_commit), [[batch(1)]])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    thread.stop()


def test_the_last_commit_waits_for_the_delivery_and_a_gone_driver_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(delivery, "DRIVER_SILENCE_SECONDS", -1.0)
    store = SpillBlockStore.create(str(tmp_path))
    with pytest.raises(FlinkrayError, match=r"the driver.*is gone"):
        write_all(BlockSink(store, after_commit), [[batch(1)]])
