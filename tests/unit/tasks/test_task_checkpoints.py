"""Rules of a task's part in checkpoints: barriers in and out, snapshots, notices, the end, restoring."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from actors.elements import CancelCheckpointMarker, CheckpointBarrier, CheckpointOptions, StopMode
from actors.state.snapshot import OperatorSnapshot, RestoredState
from tests.support.task_checkpoints import barrier, items_of, restore_of
from tests.support.tasks import END, LOG, Node, Probe, TaskHarness, numbers, plain


@pytest.fixture(autouse=True)
def _fresh_log() -> Iterator[None]:
    LOG.clear()
    yield
    LOG.clear()


@dataclass
class Counting(Probe):
    """Keeps the values that it has seen as its state."""

    values: list[int] = field(default_factory=list)

    def initialize_state(self, restored: RestoredState | None) -> None:
        super().initialize_state(restored)
        if restored is not None:
            self.values = restored.items("seen")

    def process_batch(self, batch: Any, input_index: int = 0) -> None:
        self.values += batch.data.column(0).to_pylist()
        super().process_batch(batch, input_index)

    def prepare_barrier(self, checkpoint_id: int) -> None:
        self._note(f"prepare {checkpoint_id}")

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot:
        self._note(f"snapshot {checkpoint_id}")
        snapshot = OperatorSnapshot()
        snapshot.add_list("seen", self.values)
        return snapshot

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._note(f"complete {checkpoint_id}")

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._note(f"aborted {checkpoint_id}")


def chain(*names: str, channels: int = 1, consumers: int = 1, **options: Any) -> TaskHarness:
    """head -> ... -> tail -> network."""
    nodes = [
        Node(
            name,
            lambda name=name: Counting(name, fail_in=options.get(f"fail_{name}", "")),
            to=[position + 1] if position + 1 < len(names) else [],
            out=[0] if position + 1 == len(names) else [],
            inputs=[0] if position == 0 else [],
        )
        for position, name in enumerate(names)
    ]
    others = {name: value for name, value in options.items() if not name.startswith("fail_")}
    return TaskHarness(nodes, channels=[channels], consumers=[consumers], **others)


# -- aligned -----------------------------------------------------------------------------------------------------


def test_a_barrier_separates_the_rows_before_it_from_those_after_in_state_and_output() -> None:
    task = chain("a", "b").start()
    task.put(numbers(1, 2), barrier(7), numbers(3))
    task.run_until_idle()
    assert plain(task.out()) == [[1, 2], ("barrier", 7), [3]]
    snapshot = task.storage.snapshot(7)
    assert items_of(snapshot, "a") == items_of(snapshot, "b") == [1, 2]
    assert not snapshot.is_finished


def test_operators_prepare_from_head_to_tail_and_are_snapshotted_behind_the_barrier() -> None:
    task = chain("a", "b").start()
    LOG.clear()
    task.put(barrier(1))
    task.run_until_idle()
    assert LOG == ["a prepare 1", "b prepare 1", "b snapshot 1", "a snapshot 1"]


def test_a_channel_that_has_sent_its_barrier_waits_for_the_others() -> None:
    task = chain("a", channels=2).start()
    task.put(numbers(1), barrier(1), numbers(2), channel=0)
    task.put(numbers(10), channel=1)
    task.run_until_idle()
    assert plain(task.out()) == [[1], [10]]
    task.put(numbers(11), barrier(1), numbers(12), channel=1)
    task.run_until_idle()
    assert items_of(task.storage.snapshot(1), "a") == [1, 10, 11]
    out = plain(task.out())
    assert out[:2] == [[11], ("barrier", 1)]
    assert sorted(out[2:]) == [[2], [12]]


def test_a_restored_task_starts_with_the_state_of_its_snapshot() -> None:
    task = chain("a", "b").start()
    task.put(numbers(1, 2), barrier(3))
    task.run_until_idle()
    again = chain("a", "b", restore=restore_of(task.storage.snapshot(3), 3)).start()
    again.put(numbers(3), barrier(4))
    again.run_until_idle()
    assert items_of(again.storage.snapshot(4), "b") == [1, 2, 3]
