"""The checkpoint coordinator under random tasks, storage and users: what must hold whatever the order."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from actors.checkpoints.coordination.commands import (
    CheckpointCommand,
    CoordinatorsNotified,
    DropState,
    FailJob,
    SavepointDone,
    SendAborted,
    SendComplete,
    SendTrigger,
    SnapshotCoordinators,
    StoreCheckpoint,
)
from actors.checkpoints.coordination.completed import CompletedCheckpoint
from actors.protocol.checkpoint_handles import CheckpointMetrics, TaskSnapshot
from actors.protocol.elements import StopMode
from actors.protocol.task_messages import AcknowledgeCheckpoint, DeclineCheckpoint, EndOfDataReached
from flinkray.errors import ErrorInfo
from flinkray.execution import JobStatus
from flinkray.types.records import Millis, OperatorId
from graphs.execution_graph import AttemptId, Execution
from graphs.states import ExecutionState
from tests.support.checkpoint_coordination import JOB, ROAD, Job, settings, snapshot_of

STEPS = 250


class CoordinationWorld:
    """Plays JobMaster, tasks, storage and user in the order that the seed gives, and keeps its own books."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        choose = self.random.choice
        self.settings = settings(
            interval_ms=choose([None, Millis(300), Millis(1_000)]),
            timeout_ms=Millis(choose([400, 3_000])),
            min_pause_ms=Millis(choose([0, 0, 700])),
            max_concurrent=choose([1, 1, 3]),
            tolerable_failures=choose([0, 2]),
            is_unaligned=choose([False, True]),
            has_final=choose([True, True, False]),
        )
        self.job = Job(self.settings)
        self.coordinator = self.job.coordinator
        self.last_id = 0
        self.taking_part: dict[int, set[AttemptId]] = {}
        self.barriers: list[tuple[AttemptId, OperatorId, int]] = []
        """Tasks that are yet to answer; some whose attempts are past, or whose checkpoint is given up."""
        self.acknowledged: dict[tuple[int, AttemptId], TaskSnapshot] = {}
        self.dropped: Counter[int] = Counter()
        self.needed: set[int] = set()
        """Identities of snapshots that a complete checkpoint holds."""
        self.storing: CompletedCheckpoint | None = None
        self.completed: list[int] = []
        self.ended: Counter[int] = Counter()
        self.requests: set[str] = set()
        self.answers: Counter[str] = Counter()
        self.must_restart = False
        self.stops: dict[int, str] = {}
        """Savepoint -> the request for it, of those that stop the job."""
        self.stopping = ""
        """The request whose savepoint is complete, so that the job can only end."""

    # -- the JobMaster -------------------------------------------------------------------------------------------

    def settle(self) -> None:
        while commands := self.coordinator.take_commands():
            for command in commands:
                self.run(command)
        self.coordinator.check()

    def run(self, command: CheckpointCommand) -> None:
        match command:
            case SnapshotCoordinators():
                assert command.checkpoint_id > self.last_id, "ids ascend"
                self.last_id = command.checkpoint_id
                self.taking_part[self.last_id] = {each.attempt_id for each in self.running()}
                if self.random.random() < 0.03:
                    error = ErrorInfo.of(ValueError("no state"))
                    self.coordinator.coordinators_failed(command.checkpoint_id, error, self.job.now)
                else:
                    self.coordinator.coordinators_snapshotted(command.checkpoint_id, {}, self.job.now)
            case SendTrigger():
                if not any(each[2] == command.checkpoint_id for each in self.barriers):
                    for execution in self.running():
                        operator = execution.vertex.job_vertex.job_vertex.head.operator_id
                        self.barriers.append((execution.attempt_id, operator, command.checkpoint_id))
            case StoreCheckpoint():
                if command.stop_request:
                    self.stops[command.checkpoint.checkpoint_id] = command.stop_request
                self.on_store(command.checkpoint)
            case DropState():
                for snapshot in command.snapshots:
                    assert id(snapshot) not in self.needed, "state of a completed checkpoint is dropped"
                    self.dropped[id(snapshot)] += 1
            case CoordinatorsNotified():
                self.ended[command.checkpoint_id] += 1
            case SavepointDone():
                assert (command.directory is None) != (command.error is None)
                self.answers[command.request_id] += 1
                if command.request_id == self.stopping:
                    all_finished = all(each.state is ExecutionState.FINISHED for each in self.job.executions)
                    assert all_finished, "the job is not stopped yet"
                    assert command.directory is not None, "a restart does not keep the job from being stopped"
                    self.stopping = ""
            case FailJob():
                self.must_restart = True
            case SendComplete():
                assert command.checkpoint_id in self.completed
                assert command.attempt_id in self.taking_part[command.checkpoint_id]
            case SendAborted():
                assert command.checkpoint_id not in self.completed

    def on_store(self, checkpoint: CompletedCheckpoint) -> None:
        assert self.storing is None, "two at a time"
        self.storing = checkpoint
        written = {part.data.data.decode() for state in checkpoint.states() for part in state.parts}  # type: ignore[union-attr]
        expected = {f"{checkpoint.checkpoint_id} {each}" for each in self.taking_part[checkpoint.checkpoint_id]}
        assert written == expected, "exactly the attempts that ran at its trigger, with exactly its state"

    def running(self) -> list[Execution]:
        return [each for each in self.job.executions if each.state is ExecutionState.RUNNING]

    # -- what may happen -----------------------------------------------------------------------------------------

    def step(self) -> None:
        weights = {
            self.answer: 60,
            self.pass_time: 20,
            self.store: 15,
            self.end_data: 3,
            self.finish: 30 if self.stopping else 2,
            self.fail: 1,
            self.ask: 3,
        }
        self.random.choices(list(weights), list(weights.values()))[0]()
        self.settle()
        is_over = all(each.state.is_terminal for each in self.job.executions)
        if (self.must_restart or is_over) and not self.coordinator.is_storing:
            self.restart()

    def pass_time(self) -> None:
        end = self.job.now + self.random.randrange(600)
        while (due := self.coordinator.next_due()) is not None and due <= end:
            self.job.now = max(self.job.now, due)
            self.coordinator.tick(self.job.now)
            self.settle()
            assert self.coordinator.next_due() != due, "the same thing is due for ever"
        self.job.now = end

    def answer(self, is_healthy: bool = False) -> None:
        if not self.barriers:
            return
        attempt, operator, checkpoint_id = self.barriers.pop(self.random.randrange(len(self.barriers)))
        chance = 0.0 if is_healthy else self.random.random()
        if chance < 0.93:
            snapshot = snapshot_of(f"{checkpoint_id} {attempt}", operator)
            self.acknowledged[checkpoint_id, attempt] = snapshot
            message = AcknowledgeCheckpoint(JOB, attempt, checkpoint_id, snapshot, CheckpointMetrics())
            for _ in range(self.random.choice([1, 1, 1, 2])):
                pending = checkpoint_id in self.coordinator.pending_ids
                self.coordinator.acknowledged(message, self.job.now)
                if not pending:
                    break  # it would be dropped twice, as nobody remembers each late one
        elif chance < 0.98:
            error = ErrorInfo.of(OSError("disk full")) if chance < 0.95 else None
            decline = DeclineCheckpoint(JOB, attempt, checkpoint_id, "cannot", error)
            self.coordinator.declined(decline, self.job.now)

    def store(self, is_healthy: bool = False) -> None:
        if self.storing is None:
            return
        checkpoint, self.storing = self.storing, None
        if is_healthy or self.random.random() < 0.9:
            checkpoint_id = checkpoint.checkpoint_id
            self.completed.append(checkpoint_id)
            self.stopping = self.stops.get(checkpoint_id, self.stopping)
            self.needed.update(id(self.acknowledged[checkpoint_id, each]) for each in self.taking_part[checkpoint_id])
            assert not any(self.dropped[each] for each in self.needed)
            self.coordinator.stored(checkpoint_id, None, self.job.now)
        else:
            self.coordinator.stored(checkpoint.checkpoint_id, ErrorInfo.of(OSError("no space")), self.job.now)

    def end_data(self) -> None:
        for execution in self.running():
            if self.random.random() < 0.5:
                self.coordinator.end_of_data(EndOfDataReached(JOB, execution.attempt_id), self.job.now)

    def finish(self) -> None:
        if running := self.running():
            self.random.choice(running).transition(ExecutionState.FINISHED, self.job.now)

    def fail(self) -> None:
        if running := self.running():
            self.random.choice(running).transition(ExecutionState.FAILED, self.job.now)
            if self.job.graph.status.current is JobStatus.RUNNING:
                self.job.graph.transition_job(JobStatus.RESTARTING, self.job.now)
            self.must_restart = True

    def ask(self) -> None:
        request = f"request {len(self.requests)}"
        self.requests.add(request)
        stop = self.random.choice([StopMode.GO_ON, StopMode.GO_ON, StopMode.SUSPEND, StopMode.DRAIN])
        target = self.random.choice(["", "nowhere"])
        self.coordinator.trigger_savepoint(request, target, stop, self.job.now)

    def restart(self, is_healthy: bool = False) -> None:
        self.must_restart = False
        if self.job.graph.status.current is JobStatus.RUNNING:
            self.job.graph.transition_job(JobStatus.RESTARTING, self.job.now)
        self.settle()
        for execution in self.job.executions:
            if not execution.state.is_terminal:
                execution.transition(ExecutionState.CANCELING, self.job.now)
                execution.transition(ExecutionState.CANCELED, self.job.now)
            execution.vertex.new_attempt(self.job.now)
        self.job.graph.transition_job(JobStatus.RUNNING, self.job.now)
        for state in ROAD:
            for execution in self.job.executions:
                execution.transition(state, self.job.now)
                if not is_healthy and self.random.random() < 0.01:
                    self.ask()
                self.settle()
        self.settle()

    # -- what must be true at the end ----------------------------------------------------------------------------

    def conclude(self) -> None:
        """With all well from now on, everything under way comes to its end, and checkpoints go on."""
        self.store(is_healthy=True)
        self.settle()
        self.restart(is_healthy=True)
        completed, is_stopping = len(self.completed), bool(self.stopping)
        if is_stopping:
            for execution in self.running():
                self.coordinator.end_of_data(EndOfDataReached(JOB, execution.attempt_id), self.job.now)
                self.settle()
        for _ in range(40):
            self.pass_time()
            while self.barriers or self.storing is not None:
                self.answer(is_healthy=True)
                self.settle()
                self.store(is_healthy=True)
                self.settle()
        if self.settings.is_periodic and (self.settings.has_final or not is_stopping):
            assert len(self.completed) > completed, "no checkpoint is taken any more"
        if is_stopping:
            assert len(self.completed) <= completed + 1, "a job that is stopped takes its final checkpoint only"
            for execution in self.running():
                execution.transition(ExecutionState.FINISHED, self.job.now)
                self.settle()
        assert self.coordinator.pending_ids == ()
        assert self.answers == Counter(self.requests), "each request has one answer"
        for key, snapshot in self.acknowledged.items():
            kept = id(snapshot) in self.needed
            assert self.dropped[id(snapshot)] == (0 if kept else 1), f"state of {key}"
        assert all(times == 1 for times in self.ended.values()), "coordinators hear once of each end"


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_a_checkpoint_is_whole_or_leaves_nothing(seed: int) -> None:
    world = CoordinationWorld(seed)
    for _ in range(STEPS):
        world.step()
    world.conclude()
    if world.settings.is_periodic:
        assert world.last_id > 3, "the test did nothing"
