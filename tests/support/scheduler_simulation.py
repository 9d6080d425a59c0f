"""A scheduler among slots and tasks that fail, hang, die and are late, as a seed decides. Single-threaded."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from actors.protocol.checkpoint_handles import TaskRestore
from actors.protocol.ports import Address
from actors.protocol.resources import AllocationId, ResourceProfile, SlotOffer
from actors.protocol.task_messages import TaskDeployment, TaskStateChanged
from actors.scheduling.commands import (
    CancelAttempt,
    DeployTask,
    KillSlot,
    ReleaseSlot,
    SchedulerCommand,
    SlotsTimedOut,
    SubtasksReset,
)
from actors.scheduling.failover.failover_strategies import RestartAll, RestartRegions
from actors.scheduling.failover.restart_strategies import (
    ExponentialDelayRestart,
    FailureRateRestart,
    FixedDelayRestart,
    NoRestart,
    RestartDecision,
    RestartStrategy,
)
from actors.scheduling.scheduler import Scheduler
from actors.scheduling.stuck_tasks import CANCEL_TIMEOUT_MS
from flinkray.errors import ConfigurationError, ErrorInfo, PartitionError
from flinkray.execution import JobStatus
from graphs.execution_graph import AttemptId, ExecutionGraph, ExecutionVertex, ExecutionVertexId
from graphs.regions import RegionTopology
from graphs.states import ExecutionState
from tests.support.control import JOB
from tests.support.scheduling import random_graph


class Recorded(RestartStrategy):
    """A strategy, with what it said last."""

    def __init__(self, strategy: RestartStrategy) -> None:
        self._strategy = strategy
        self.survived = 0
        self.has_refused = False

    def on_failure(self, now: int) -> RestartDecision:
        assert not self.has_refused, "asked after it had refused"
        decision = self._strategy.on_failure(now)
        self.has_refused = not decision.can_restart
        self.survived += decision.can_restart
        return decision


@dataclass
class Task:
    deployment: TaskDeployment
    is_stuck: bool
    """Once it is cancelled, nothing is heard of it any more."""
    state: str = "DEPLOYING"


@dataclass
class Slot:
    """A process; what it is told and what it says arrive in order, and independently of other slots."""

    allocation_id: AllocationId
    address: Address
    task_executor: Address
    is_alive: bool = True
    tasks: dict[AttemptId, Task] = field(default_factory=dict)
    inbox: deque[DeployTask | CancelAttempt | ReleaseSlot] = field(default_factory=deque)
    outbox: deque[TaskStateChanged | str] = field(default_factory=deque)
    """Text: its TaskExecutor says why the process has died."""


class SchedulerSimulation:
    """Chaos for a number of steps, and then a world in which everything works."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.now = 0
        self.is_bounded = chance.random() < 0.5
        self.is_calm = False
        self.was_cancelled = self.is_broken = False
        self.strategy = Recorded(self._strategy())
        self.graph = ExecutionGraph.from_job_graph(random_graph(chance))
        self.topology = RegionTopology(self.graph)
        self.scheduler = Scheduler(
            self.graph,
            ResourceProfile(1.0),
            chance.choice([500, 10**9]),
            chance.choice([0, 100, 10**9]),
            restart_strategy=self.strategy,
            failover_strategy=chance.choice([RestartAll, RestartRegions, RestartRegions]),
            restore_of=self._restore_of,
        )
        self.slots: dict[AllocationId, Slot] = {}
        self.resets: list[SubtasksReset] = []
        self.past: list[TaskStateChanged] = []
        self.restores: dict[ExecutionVertexId, int] = {}
        """Subtask -> the attempt that its restore was worked out for."""
        self.is_overview_wanted = False
        self.made_slots = 0
        self.scheduler.start(self.now)
        self._settle()

    def run(self, steps: int) -> None:
        """Raises AssertionError where a rule is broken, or the job is stuck in a world in which everything works."""
        for _ in range(steps):
            self._step()
        self.is_calm = True
        for _ in range(400):
            if self._is_over():
                return
            self._calm_round()
        states = {vertex.name: vertex.current.state.name for vertex in self.graph.vertices.values()}
        raise AssertionError(f"the job is stuck: {self.scheduler.status}, {states}")

    # -- one step ------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        actions: list[tuple[int, Callable[[], None]]] = [
            (20, self._deliver_to_slot),
            (20, self._deliver_from_slot),
            (20, self._advance_task),
            (10, self._offer),
            (10, self._pass_time),
            (6, self._answer),
            (3, self._answer_about_slots),
            (3, self._repeat_past),
            (2, self._lose_slot),
            (1, self._lose_task_executor),
            (1, self._fail_globally),
            (1, self._rare),
        ]
        (action,) = self.chance.choices([act for _, act in actions], [weight for weight, _ in actions])
        action()
        self._settle()

    def _calm_round(self) -> None:
        for act in (
            self._deliver_to_slot,
            self._deliver_from_slot,
            self._advance_task,
            self._offer,
            self._answer,
            self._answer_about_slots,
        ):
            for _ in range(20):
                act()
                self._settle()
        self.now += self.chance.choice([100, CANCEL_TIMEOUT_MS])
        self.scheduler.tick(self.now)
        self._settle()

    def _deliver_to_slot(self) -> None:
        slot = self._pick([slot for slot in self.slots.values() if slot.inbox])
        if slot is None:
            return
        message = slot.inbox.popleft()
        if not slot.is_alive:
            return  # its TaskExecutor has said so, or nobody is interested
        if not isinstance(message, ReleaseSlot) and self._happens(0.02):
            self.scheduler.give_up_slot(slot.allocation_id, "a message was lost", self.now)
            return
        match message:
            case DeployTask():
                self._run(slot, message.deployment)
            case CancelAttempt():
                task = slot.tasks.get(message.attempt_id)
                if task is not None and task.is_stuck:
                    task.state = "CANCELING"
                elif task is not None:
                    state = "FAILED" if self._happens(0.1) else "CANCELED"
                    self._end(slot, task, state, ErrorInfo.of(RuntimeError("interrupted")))
            case ReleaseSlot():
                self._die(slot)

    def _run(self, slot: Slot, deployment: TaskDeployment) -> None:
        vertex = (deployment.vertex_id, deployment.subtask_index)
        others = [
            task.deployment.attempt_id
            for other in self.slots.values()
            for task in other.tasks.values()
            if (task.deployment.vertex_id, task.deployment.subtask_index) == vertex
        ]
        assert not others, f"{others} still live when {deployment.attempt_id} starts"
        slot.tasks[deployment.attempt_id] = Task(deployment, is_stuck=self._happens(0.05))

    def _deliver_from_slot(self) -> None:
        slot = self._pick([slot for slot in self.slots.values() if slot.outbox])
        if slot is None:
            return
        message = slot.outbox.popleft()
        if isinstance(message, str):
            self.scheduler.lose_slot(slot.allocation_id, message, self.now)
        else:
            self.past.append(message)
            self.scheduler.change_task_state(message, self.now)

    def _advance_task(self) -> None:
        slot = self._pick([slot for slot in self.slots.values() if slot.tasks])
        if slot is None:
            return
        task = self.chance.choice(list(slot.tasks.values()))
        if task.state == "CANCELING":
            return
        if self._happens(0.06):
            self._end(slot, task, "FAILED", self._error(task))
        elif task.state == "RUNNING":
            if self.is_bounded:
                self._end(slot, task, "FINISHED")
        else:
            task.state = "INITIALIZING" if task.state == "DEPLOYING" else "RUNNING"
            self._report(slot, task, task.state)

    def _error(self, task: Task) -> ErrorInfo:
        if self._happens(0.03):
            self.is_broken = True
            return ErrorInfo.of(ConfigurationError("no such option"))
        inputs = [channel.partition_id for gate in task.deployment.gates for channel in gate.channels]
        if not inputs or self._happens(0.5):
            return ErrorInfo.of(ValueError("bad row"))
        error = PartitionError("the object is lost")
        error.partition_id = self.chance.choice(inputs)
        return ErrorInfo.of(error)

    def _end(self, slot: Slot, task: Task, state: str, error: ErrorInfo | None = None) -> None:
        del slot.tasks[task.deployment.attempt_id]
        self._report(slot, task, state, error)

    def _report(self, slot: Slot, task: Task, state: str, error: ErrorInfo | None = None) -> None:
        failed = error if state == "FAILED" else None
        slot.outbox.append(TaskStateChanged(JOB, task.deployment.attempt_id, state, failed))

    def _offer(self) -> None:
        label = self.chance.choice([slot.label for slot in self.scheduler.shared_slots])
        missing = [request.label for request in self.scheduler.pool.unserved()]
        if missing and not self._happens(0.1):
            label = self.chance.choice(missing)
        self.made_slots += 1
        executor = Address(f"c/te-{self.chance.randint(1, 3)}")
        allocation = AllocationId(f"allocation-{self.made_slots}")
        slot = Slot(allocation, Address(f"{executor}/slot-{self.made_slots}"), executor)
        offer = SlotOffer(allocation, self.made_slots, slot.address, ResourceProfile(1.0), label)
        if self.scheduler.offer_slots(executor, [offer], self.now):
            self.slots[allocation] = slot
            if self._happens(0.1):
                self._die(slot, "it cannot start")

    def _pass_time(self) -> None:
        self.now += self.chance.choice([0, 10, 100, 1_000, CANCEL_TIMEOUT_MS])
        self.scheduler.tick(self.now)

    def _answer_about_slots(self) -> None:
        if self.is_overview_wanted:
            self.is_overview_wanted = False
            self.scheduler.fail_for_slots(None, "they did not come", self.now, is_timeout=True)

    def _answer(self) -> None:
        if self.resets:
            reset = self.chance.choice(self.resets)
            is_last = reset is self.resets[-1]
            if is_last:
                for vertex in reset.vertices:
                    self.restores[vertex] = self.graph.vertices[vertex].current.attempt_number
            if is_last or self._happens(0.5):
                self.scheduler.deploy_restarted(reset.restart, self.now)

    def _repeat_past(self) -> None:
        past = [report for report in self.past if report.attempt_id not in self.graph.executions]
        if past:
            assert not self.scheduler.change_task_state(self.chance.choice(past), self.now)

    def _lose_slot(self) -> None:
        slot = self._pick([slot for slot in self.slots.values() if slot.is_alive])
        if slot is not None:
            self._die(slot, "kill -9")

    def _lose_task_executor(self) -> None:
        executor = Address(f"c/te-{self.chance.randint(1, 3)}")
        for slot in self.slots.values():
            if slot.task_executor == executor:
                self._die(slot)
                slot.outbox.clear()
        self.scheduler.lose_task_executor(executor, "its node is gone", self.now)

    def _fail_globally(self) -> None:
        self.scheduler.fail(ErrorInfo.of(ValueError("the enumerator broke")), self.now)

    def _rare(self) -> None:
        if self._happens(0.2):
            self.was_cancelled = True
            self.scheduler.cancel(self.now)

    def _die(self, slot: Slot, cause: str | None = None) -> None:
        if slot.is_alive:
            slot.is_alive = False
            slot.tasks.clear()
            if cause is not None:
                for _ in range(self.chance.randint(0, len(slot.outbox))):
                    slot.outbox.pop()
                slot.outbox.append(cause)

    # -- what the scheduler wants --------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Carries the commands out and looks whether all rules hold."""
        for command in self.scheduler.take_commands():
            self._carry_out(command)
        self.scheduler.check()
        self._check()

    def _carry_out(self, command: SchedulerCommand) -> None:
        match command:
            case DeployTask():
                self._check_deployment(command.deployment)
                self.slots[command.deployment.allocation_id].inbox.append(command)
            case CancelAttempt() | ReleaseSlot():
                self.slots[command.allocation_id].inbox.append(command)
            case KillSlot():
                for slot in self.slots.values():
                    if slot.address == command.slot:
                        self._die(slot)
            case SubtasksReset():
                self._check_reset(command)
                self.resets.append(command)
            case SlotsTimedOut():
                self.is_overview_wanted = True

    def _restore_of(self, vertex: ExecutionVertex) -> TaskRestore | None:
        attempt = self.restores.get(vertex.id)
        return None if attempt is None else TaskRestore(attempt, "memory")

    def _check_deployment(self, deployment: TaskDeployment) -> None:
        attempt = deployment.attempt_number
        restored = deployment.restore.checkpoint_id if deployment.restore is not None else 0
        assert restored == attempt, f"{deployment.attempt_id} has the restore of attempt {restored}"
        for gate in deployment.gates:
            for channel in gate.channels:
                current = {partition.current_id for partition in self.graph.partitions.values()}
                assert channel.partition_id in current, f"{deployment.attempt_id} reads what is made no more"

    def _check_reset(self, reset: SubtasksReset) -> None:
        """Whole regions, with all that read from them; and none of them runs."""
        vertices = set(reset.vertices)
        for vertex in vertices:
            region = self.topology.region_of(vertex)
            for each in (region, *self.topology.consumers_of(region)):
                assert vertices.issuperset(each.vertices), f"{vertex} restarts without {each!r}"
            assert self.graph.vertices[vertex].current.state is ExecutionState.CREATED
        assert not reset.is_global or len(vertices) == len(self.graph.vertices)

    def _check(self) -> None:
        status, failure = self.scheduler.status, self.scheduler.failure
        if self.strategy.has_refused and not self.was_cancelled:
            assert status in (JobStatus.FAILING, JobStatus.FAILED), f"{status} though the strategy has refused"
        if status in (JobStatus.FAILING, JobStatus.FAILED):
            assert failure is not None
            assert self.strategy.has_refused or not failure.is_recoverable, f"failed without need: {failure}"
        if failure is not None and failure.type_name == "ConfigurationError":
            assert self.is_broken
        assert status is not JobStatus.CANCELED or self.was_cancelled
        assert self.scheduler.restarts <= self.strategy.survived

    def _is_over(self) -> bool:
        """The job has ended, or runs with all that can run, and nothing is under way."""
        if self.scheduler.status.is_terminal:
            return True
        is_quiet = not any(slot.inbox or slot.outbox for slot in self.slots.values())
        if self.is_bounded or self.scheduler.status is not JobStatus.RUNNING or not is_quiet:
            return False
        return all(self._runs(vertex) for vertex in self.graph.vertices.values())

    def _runs(self, vertex: ExecutionVertex) -> bool:
        """It runs for ever; or what it waits for does."""
        if vertex.current.state is ExecutionState.CREATED:
            region = self.topology.region_of(vertex.id)
            return bool(self.topology.producers_of(region))
        return vertex.current.state is ExecutionState.RUNNING

    # -- chance --------------------------------------------------------------------------------------------------

    def _strategy(self) -> RestartStrategy:
        chance = self.chance
        return chance.choice(
            [
                NoRestart(),
                FixedDelayRestart(chance.randint(0, 3), chance.choice([0, 50, 1_000])),
                FixedDelayRestart(10**6, chance.choice([0, 50, 1_000])),
                FailureRateRestart(chance.randint(1, 5), 5_000, chance.choice([0, 50])),
                ExponentialDelayRestart(
                    chance, initial_ms=10, max_ms=500, factor=2.0, reset_ms=10_000, jitter=0.1, attempts=0
                ),
            ]
        )

    def _happens(self, probability: float) -> bool:
        """Whether something unusual does, in these times."""
        return not self.is_calm and self.chance.random() < probability

    def _pick(self, slots: list[Slot]) -> Slot | None:
        return self.chance.choice(slots) if slots else None
