"""Whole tasks under random interleavings of rows, barriers, time, I/O and notices: every row counts exactly once."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from actors.operators.contract import chunking
from actors.protocol.checkpoint_handles import TaskSnapshot
from actors.protocol.elements import CancelCheckpointMarker, CheckpointBarrier, Element, EndOfData, EndOfPartition
from flinkray.batches.batch import Batch
from tests.support.task_checkpoints import barrier, in_flight_of, items_of, restore_of
from tests.support.tasks import LOG, Node, TaskHarness, numbers
from tests.unit.actors.tasks.checkpoints.test_task_checkpoints import Counting

CHECKPOINTS = 5
DEADLINE_STEPS = 50_000


@dataclass
class Script:
    """What one channel brings, and which rows stand before and behind each barrier."""

    elements: list[Element] = field(default_factory=list)
    before: dict[int, list[int]] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)

    def add_row(self, *values: int) -> None:
        self.elements.append(numbers(*values))
        self.rows += values

    def add_barrier(self, sent: CheckpointBarrier) -> None:
        self.before[sent.checkpoint_id] = list(self.rows)
        self.elements.append(sent)


class Run:
    """One task from its start to its end."""

    def __init__(self, generator: random.Random, channels: int, mode: str) -> None:
        self.generator = generator
        self.mode = mode
        self.consumers = generator.randint(1, 2)
        self.task = make_task(channels, self.consumers, generator.choice([1, 3, 1000]))
        self.task.start()
        self.task.storage.is_slow = True
        self.scripts = [self._script(channel) for channel in range(channels)]
        self.outputs: list[list[Element]] = [[] for _ in range(self.consumers)]
        self.aborted: set[int] = set()

    def _script(self, channel: int) -> Script:
        generator, script = self.generator, Script()
        value = channel * 1000
        last = generator.randint(0, CHECKPOINTS) if generator.random() < 0.2 else CHECKPOINTS
        for checkpoint_id in range(1, last + 1):
            for _ in range(generator.randint(0, 4)):
                count = generator.randint(1, 4)
                script.add_row(*range(value, value + count))
                value += count
            if generator.random() < 0.03:
                script.elements.append(CancelCheckpointMarker(checkpoint_id))
            else:
                script.add_barrier(self._barrier(checkpoint_id))
        script.add_row(value)
        script.before |= {each: list(script.rows) for each in range(last + 1, CHECKPOINTS + 1)}
        script.elements += [EndOfData(), EndOfPartition()]
        return script

    def _barrier(self, checkpoint_id: int) -> CheckpointBarrier:
        if self.mode == "unaligned":
            return barrier(checkpoint_id, unaligned=True)
        if self.mode == "timeout":
            # The trigger of the first is now, and each later one comes a little later.
            triggered = 1_000_000 + checkpoint_id * 20
            return barrier(checkpoint_id, triggered, timeout_ms=self.generator.choice([30, 200]))
        return barrier(checkpoint_id, exactly_once=self.mode == "aligned")

    def run(self) -> None:
        waiting = [list(script.elements) for script in self.scripts]
        for _ in range(DEADLINE_STEPS):
            if self.task.task.is_done:
                break
            self._act(waiting)
        assert self.task.states[-1] == "FINISHED", (self.task.states, self.task.error)
        for index in range(self.consumers):
            self.outputs[index] += self.task.out(0, index)
        while self.task.storage.blocking:
            self.task.storage.write_one()

    def _act(self, waiting: list[list[Element]]) -> None:
        generator, task = self.generator, self.task
        choice = generator.random()
        if choice < 0.25:
            channel = generator.randrange(len(waiting))
            if waiting[channel]:
                task.put(waiting[channel].pop(0), channel=channel)
        elif choice < 0.75:
            task.task.step()
        elif choice < 0.9:
            self._poll(generator.randrange(self.consumers))
        elif choice < 0.94:
            task.time.advance(generator.randint(1, 15))
        elif choice < 0.98:
            if task.storage.blocking:
                task.storage.write_one(generator.randrange(len(task.storage.blocking)))
        elif choice < 0.985:
            checkpoint_id = generator.randint(1, CHECKPOINTS)
            if checkpoint_id not in task.storage.acknowledged():
                self.aborted.add(checkpoint_id)
                task.task.notify_checkpoint_aborted(checkpoint_id)
        elif task.storage.acknowledged():
            task.task.notify_checkpoint_complete(max(task.storage.acknowledged()))

    def _poll(self, index: int) -> None:
        view = self.task.network.views[0][index]
        polled = view.poll()
        if polled is not None:
            self.outputs[index].append(polled.buffer.element)
            if polled.buffer.blocks_upstream:
                view.resume()

    # -- what must hold ------------------------------------------------------------------------------------------

    def check(self) -> int:
        """How many checkpoints were acknowledged."""
        acknowledged = self.task.storage.acknowledged()
        for checkpoint_id, answer in acknowledged.items():
            self._check_one(checkpoint_id, answer.snapshot)
        assert not self.task.task.checkpoints_under_way
        self.task.storage.check()
        answered = set(acknowledged) | set(self.task.storage.declined())
        # Who cancels has declined; an unaligned barrier may overtake the cancel of an older checkpoint.
        cancelled = {each.checkpoint_id for each in self._all() if isinstance(each, CancelCheckpointMarker)}
        begun = {each.checkpoint_id for each in self._all() if isinstance(each, CheckpointBarrier)}
        unanswered = begun - answered - self.aborted - cancelled
        assert not unanswered, f"checkpoints {unanswered} are neither acknowledged nor declined nor aborted"
        return len(acknowledged)

    def _all(self) -> list[Element]:
        return [element for script in self.scripts for element in script.elements]

    def _check_one(self, checkpoint_id: int, snapshot: TaskSnapshot) -> None:
        expected = Counter(value for script in self.scripts for value in script.before[checkpoint_id])
        state = Counter(items_of(snapshot, "a"))
        in_flight = in_flight_of(snapshot)
        if self.mode == "at least once":
            assert not expected - state, "a row before the barrier is missing"
            assert not in_flight
        else:
            assert state + Counter(in_flight.get("gate 0", [])) == expected
        for index, output in enumerate(self.outputs):
            seen: list[int] = []
            for element in output:
                if isinstance(element, CheckpointBarrier) and element.checkpoint_id == checkpoint_id:
                    break
                if isinstance(element, Batch):
                    seen += element.data.column(0).to_pylist()
            else:
                raise AssertionError(f"barrier {checkpoint_id} did not go out on {index}")
            assert Counter(seen) + Counter(in_flight.get(f"result 0/{index}", [])) == state

    def check_restored(self) -> None:
        """From each checkpoint, the task gets to the same end."""
        everything = Counter(value for script in self.scripts for value in script.rows)
        for checkpoint_id, answer in self.task.storage.acknowledged().items():
            again = make_task(len(self.scripts), 1, 1000, answer.snapshot).start()
            for channel, script in enumerate(self.scripts):
                rows = script.rows[len(script.before[checkpoint_id]) :]
                again.put(*([numbers(*rows)] if rows else []), barrier(9), channel=channel)
            again.run_until_idle()
            assert Counter(items_of(again.storage.snapshot(9), "a")) == everything


def make_task(channels: int, consumers: int, max_buffers: int, restored: TaskSnapshot | None = None) -> TaskHarness:
    return TaskHarness(
        [Node("a", lambda: Counting("a"), out=[0], inputs=[0])],
        channels=[channels],
        consumers=[consumers],
        max_buffers=max_buffers,
        restore=None if restored is None else restore_of(restored),
    )


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("mode", ["aligned", "at least once", "unaligned", "timeout"])
def test_every_row_is_in_a_checkpoint_or_behind_it_and_never_both(
    mode: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:  # batches come in chunks, as where rows take long
        monkeypatch.setattr(chunking, "FIRST_SIZE", 0)
        monkeypatch.setattr(chunking.ChunkSizer, "passed", lambda *_: None)
    generator = random.Random(f"{mode} {seed}")
    run = Run(generator, generator.randint(1, 3), mode)
    run.run()
    run.check()
    if mode != "at least once":
        run.check_restored()
    LOG.clear()


def test_the_random_runs_do_complete_checkpoints() -> None:
    """Otherwise the test above would say nothing."""
    for mode in ("aligned", "at least once", "unaligned", "timeout"):
        total = 0
        for seed in range(5):
            generator = random.Random(f"{mode} {seed}")
            run = Run(generator, generator.randint(1, 3), mode)
            run.run()
            total += run.check()
        assert total >= 10, (mode, total)
    LOG.clear()
