"""Drives a job through its life: the JobMaster's core (Flink's DefaultScheduler with pipelined-region scheduling).

Events go in as method calls, commands come out of `take_commands`. A region is deployed when all of its slots are
there, and not before; a region that reads blocking results is scheduled when their producers have finished. All times
are epoch milliseconds.

What a failure leads to is decided in one place, `_on_execution_failed`: the job fails, and everything else in it is
cancelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from actors.control_messages import ClusterOverview, ResourceProfile, SlotOffer, SlotRequest
from actors.messages import AllocationId, TaskDeployment, TaskStateChanged
from actors.ports import Address
from actors.scheduling.deployment import deployment_of
from actors.scheduling.shortage import shortage_error
from actors.scheduling.slot_pool import PooledSlot, SlotPool
from actors.scheduling.slot_sharing import SharedSlot, share_slots
from flinkray.errors import ErrorInfo, FlinkrayError
from flinkray.execution import JobStatus
from graphs.execution_graph import AttemptId, Execution, ExecutionGraph, ExecutionVertex, ExecutionVertexId
from graphs.job_graph import JobVertexId
from graphs.regions import PipelinedRegion, pipelined_regions
from graphs.states import ExecutionState

# A task that does not stop by then has its slot's process ended (Flink waits 180 s and then ends the TaskManager).
CANCEL_TIMEOUT_MS = 30_000

# A slot's process that dies before it was given a task is replaced; one that does so every time never will live.
MAX_LOST_SLOTS = 3


@dataclass(frozen=True, slots=True)
class DeclareSlots:
    """Declare these requirements to the ResourceManager."""

    requests: tuple[SlotRequest, ...]


@dataclass(frozen=True, slots=True)
class DeployTask:
    """Submit the task."""

    task_executor: Address
    deployment: TaskDeployment


@dataclass(frozen=True, slots=True)
class CancelAttempt:
    """Cancel the task."""

    task_executor: Address
    allocation_id: AllocationId
    attempt_id: AttemptId


@dataclass(frozen=True, slots=True)
class ReleaseSlot:
    """Give the slot back; whatever runs in it is killed."""

    task_executor: Address
    allocation_id: AllocationId
    reason: str


@dataclass(frozen=True, slots=True)
class KillSlot:
    """End the slot's process yourself: its TaskExecutor is gone and cannot."""

    slot: Address


@dataclass(frozen=True, slots=True)
class SubtaskStarted:
    """An attempt is being set up: its operators' coordinators may send to it."""

    vertex_id: JobVertexId
    subtask_index: int


@dataclass(frozen=True, slots=True)
class StatusChanged:
    """The job's status moved."""

    status: JobStatus


@dataclass(frozen=True, slots=True)
class SlotsTimedOut:
    """Slots are missing for too long: find out what the cluster has, then call `fail_for_slots`."""


Command = (
    DeclareSlots | DeployTask | CancelAttempt | ReleaseSlot | KillSlot | SubtaskStarted | StatusChanged | SlotsTimedOut
)


@dataclass(frozen=True, slots=True)
class _Bulk:
    """A region that waits for its slots; it is deployed only if no vertex has got a newer version meanwhile."""

    vertices: tuple[ExecutionVertexId, ...]
    labels: frozenset[str]
    versions: dict[ExecutionVertexId, int]
    since: int


class Scheduler:
    """See the module. Not thread-safe."""

    def __init__(
        self,
        graph: ExecutionGraph,
        slot_profile: ResourceProfile,
        slot_request_timeout_ms: int,
        slot_idle_timeout_ms: int,
    ) -> None:
        self.graph = graph
        self.pool = SlotPool()
        self.failure: ErrorInfo | None = None
        """The first failure of a job that is FAILING or FAILED."""
        self.shared_slots: tuple[SharedSlot, ...] = share_slots(graph, slot_profile)
        self._shared_slot = {vertex: shared for shared in self.shared_slots for vertex in shared.vertices}
        self._regions: Sequence[PipelinedRegion] = pipelined_regions(graph)
        self._scheduled: set[PipelinedRegion] = set()
        self._versions = dict.fromkeys(graph.vertices, 0)
        self._waiting: list[_Bulk] = []
        self._addresses: dict[AttemptId, Address] = {}
        """The TaskSlot of every attempt that was deployed."""
        self._slot_request_timeout_ms = slot_request_timeout_ms
        self._slot_idle_timeout_ms = slot_idle_timeout_ms
        self._cancelled_at: int | None = None
        self._is_timeout_reported = False
        self._lost_slots = 0
        self._declared: tuple[SlotRequest, ...] = ()
        self._commands: list[Command] = []
        graph.status.add_listener(lambda _former, status, _now: self._commands.append(StatusChanged(status)))

    @property
    def status(self) -> JobStatus:
        return self.graph.status.current

    def take_commands(self) -> list[Command]:
        """What to do now, in this order; each command is given once."""
        commands, self._commands = self._commands, []
        return commands

    # -- events: the job -----------------------------------------------------------------------------------------

    def start(self, now: int) -> None:
        """Schedules every region that can start."""
        self.graph.transition_job(JobStatus.CREATED, now)
        self.graph.transition_job(JobStatus.RUNNING, now)
        self._schedule_regions(now)
        self._end_if_done(now)

    def cancel(self, now: int) -> None:
        """Stops everything; the job ends CANCELED."""
        if self.status.is_terminal or self.status is JobStatus.CANCELLING:
            return
        self.graph.transition_job(JobStatus.CANCELLING, now)
        self._cancel_all(now)

    def fail(self, error: ErrorInfo, now: int) -> None:
        """The job cannot go on; it ends FAILED with this as its cause, unless it is failing or cancelling already."""
        if self.status is JobStatus.FAILING and self.failure is not None and self.failure.is_consequence:
            # Reports of different slots overtake each other: the consumer's complaint came before the reason for it.
            self.failure = self.failure if error.is_consequence else error
        if self.status.is_terminal or self.status in (JobStatus.FAILING, JobStatus.CANCELLING):
            return
        self.failure = error
        self.graph.transition_job(JobStatus.FAILING, now)
        self._cancel_all(now)

    def fail_for_slots(self, overview: ClusterOverview | None, reason: str, now: int) -> None:
        """The slots will not come; without effect when they have come meanwhile.

        Args:
            overview: what the cluster has; None where nobody could be asked.
            reason: why waiting longer does not help.
        """
        self._is_timeout_reported = False
        if self._waiting:
            needed = [shared.request for shared in self.shared_slots]
            error = shortage_error(self.graph.name, needed, len(self.pool.unserved()), overview, reason)
            self.fail(ErrorInfo.of(error), now)

    def tick(self, now: int) -> None:
        """Called now and then: slots that do not come, slots that nobody needs, tasks that do not stop."""
        late = [bulk for bulk in self._waiting if now - bulk.since >= self._slot_request_timeout_ms]
        if late and not self._is_timeout_reported:
            self._is_timeout_reported = True
            self._commands.append(SlotsTimedOut())
        for slot in self.pool.take_idle(now, self._slot_idle_timeout_ms):
            self._release(slot, "the job has not needed it for a while")
        if self._cancelled_at is not None and now - self._cancelled_at >= CANCEL_TIMEOUT_MS:
            self._kill_what_does_not_stop(now)

    # -- events: tasks -------------------------------------------------------------------------------------------

    def change_task_state(self, report: TaskStateChanged, now: int) -> bool:
        """A task reports. False: it is of a past attempt or comes too late, and changes nothing."""
        execution = self.graph.executions.get(report.attempt_id)
        if execution is None or execution.state.is_terminal or execution.attempt_id not in self._addresses:
            return False
        if report.accumulators:
            execution.accumulators = dict(report.accumulators)
        state = ExecutionState[report.state]
        if state in (ExecutionState.INITIALIZING, ExecutionState.RUNNING):
            return self._advance(execution, state, now)
        if state is ExecutionState.FINISHED:
            self._on_finished(execution, now)
        elif state is ExecutionState.CANCELED and execution.state is ExecutionState.CANCELING:
            execution.transition(ExecutionState.CANCELED, now)
        elif state.is_terminal:
            error = report.error or ErrorInfo.of(FlinkrayError(f"task {execution.vertex.name!r} ended as {state.name}"))
            self._on_execution_failed(execution, error, now)
        else:
            return False
        self._close_unneeded_requests(now)
        self._end_if_done(now)
        return True

    # -- events: slots -------------------------------------------------------------------------------------------

    def offer_slots(self, task_executor: Address, offers: Iterable[SlotOffer], now: int) -> frozenset[AllocationId]:
        """Slots that a TaskExecutor has reserved for the job; gives those that are taken."""
        accepted = self.pool.offer(task_executor, offers)
        self._deploy_ready(now)
        return accepted

    def lose_slot(self, allocation_id: AllocationId, cause: str, now: int) -> None:
        """The process of a slot is gone; what ran in it has failed."""
        self._lose([allocation_id], cause, now)

    def lose_task_executor(self, task_executor: Address, cause: str, now: int) -> None:
        """A TaskExecutor is gone with all its slots."""
        slots = self.pool.slots_of(task_executor)
        for slot in slots:
            # If it is alive after all, and only could not be heard, it gets to know that it has lost them.
            self._release(slot, cause)
            self._commands.append(KillSlot(slot.address))
        self._lose([slot.allocation_id for slot in slots], cause, now)

    # -- looking at it -------------------------------------------------------------------------------------------

    @property
    def is_waiting_for_slots(self) -> bool:
        return bool(self._waiting)

    def slot_of(self, execution: Execution) -> Address | None:
        """The TaskSlot that the attempt was deployed to."""
        return self._addresses.get(execution.attempt_id)

    def check(self) -> None:
        """What always holds between two events."""
        self.pool.check()
        for execution in self.graph.executions.values():
            runs = execution.state not in (ExecutionState.CREATED, ExecutionState.SCHEDULED)
            is_ended = execution.state.is_terminal
            assert is_ended or runs == (execution.attempt_id in self._addresses), f"{execution!r} and its slot"
            if runs and not is_ended:
                allocation_id = AllocationId(execution.allocation_id or "")
                assert self.pool.slot(allocation_id) is not None, f"{execution!r} runs in a slot that is not held"
        if self.status.is_terminal:
            assert all(execution.state.is_terminal for execution in self.graph.executions.values())
            assert not self.pool.slots(), "a job that has ended holds slots"
        for bulk in self._waiting:
            served = all(self.pool.slot_of(label) is not None for label in bulk.labels)
            assert not served, "a region has all its slots and was not deployed"

    # -- inside: scheduling --------------------------------------------------------------------------------------

    def _schedule_regions(self, now: int) -> None:
        """Schedules each region whose inputs can all be consumed and that has not been scheduled before."""
        for region in self._regions:
            if region not in self._scheduled and self._is_consumable(region):
                self._scheduled.add(region)
                self._schedule(region, now)
        self._deploy_ready(now)
        self._declare()

    def _is_consumable(self, region: PipelinedRegion) -> bool:
        """Everything that the region reads from others has been written to its end."""
        producers = (self.graph.partitions[key].producer for group in region.consumed for key in group)
        return all(
            producer.current.state is ExecutionState.FINISHED for producer in producers if producer.id not in region
        )

    def _schedule(self, region: PipelinedRegion, now: int) -> None:
        for vertex in region.vertices:
            self._versions[vertex] += 1
            self.graph.vertices[vertex].current.transition(ExecutionState.SCHEDULED, now)
        shared = {self._shared_slot[vertex].label: self._shared_slot[vertex] for vertex in region.vertices}
        for slot in shared.values():
            self.pool.open(slot.request)
        versions = {vertex: self._versions[vertex] for vertex in region.vertices}
        self._waiting.append(_Bulk(region.vertices, frozenset(shared), versions, now))

    def _deploy_ready(self, now: int) -> None:
        ready = [bulk for bulk in self._waiting if all(self.pool.slot_of(label) for label in bulk.labels)]
        for bulk in ready:
            self._waiting.remove(bulk)
            if all(self._versions[vertex] == version for vertex, version in bulk.versions.items()):
                self._deploy(bulk, now)

    def _deploy(self, bulk: _Bulk, now: int) -> None:
        """Gives every vertex its slot first: deployments name the slots of their producers."""
        executions = [self.graph.vertices[vertex].current for vertex in bulk.vertices]
        for execution in executions:
            slot = self.pool.slot_of(self._shared_slot[execution.vertex.id].label)
            assert slot is not None
            execution.allocation_id = slot.allocation_id
            execution.location = slot.task_executor
            self._addresses[execution.attempt_id] = slot.address
            execution.transition(ExecutionState.DEPLOYING, now)
        for execution in executions:
            deployment = deployment_of(execution, AllocationId(execution.allocation_id or ""), self._address_of)
            self._commands.append(DeployTask(Address(execution.location or ""), deployment))

    def _address_of(self, vertex: ExecutionVertex) -> Address:
        return self._addresses[vertex.current.attempt_id]

    def _declare(self) -> None:
        requests = self.pool.requests()
        if requests != self._declared:
            self._declared = requests
            self._commands.append(DeclareSlots(requests))

    # -- inside: states ------------------------------------------------------------------------------------------

    def _advance(self, execution: Execution, to: ExecutionState, now: int) -> bool:
        """Moves through the states up to `to`; False if it is there already or being cancelled."""
        road = (ExecutionState.INITIALIZING, ExecutionState.RUNNING, ExecutionState.FINISHED)
        if execution.state is ExecutionState.CANCELING or execution.state is to:
            return False
        done = road.index(execution.state) + 1 if execution.state in road else 0
        steps = road[done : road.index(to) + 1]
        for state in steps:
            execution.transition(state, now)
            if state is ExecutionState.INITIALIZING:
                vertex = execution.vertex.id
                self._commands.append(SubtaskStarted(vertex.vertex_id, vertex.subtask_index))
        return bool(steps)

    def _on_finished(self, execution: Execution, now: int) -> None:
        if execution.state is ExecutionState.CANCELING:
            # It was faster than the cancellation; what it was cancelled with has not, so the job has not finished.
            execution.transition(ExecutionState.CANCELED, now)
            return
        self._advance(execution, ExecutionState.FINISHED, now)
        if self.status is JobStatus.RUNNING:
            self._schedule_regions(now)

    def _on_execution_failed(self, execution: Execution, error: ErrorInfo, now: int) -> None:
        """One attempt is lost, and with it, without a failover strategy, the job."""
        execution.error = error
        execution.transition(ExecutionState.FAILED, now)
        self.fail(error, now)

    def _cancel_all(self, now: int) -> None:
        self._waiting.clear()
        for execution in self.graph.executions.values():
            if execution.state.is_terminal:
                continue
            self._versions[execution.vertex.id] += 1
            if execution.state in (ExecutionState.CREATED, ExecutionState.SCHEDULED):
                execution.transition(ExecutionState.CANCELED, now)
            elif execution.state is not ExecutionState.CANCELING:
                execution.transition(ExecutionState.CANCELING, now)
                self._commands.append(_cancel_command(execution))
        if self._cancelled_at is None:
            self._cancelled_at = now
        self._end_if_done(now)

    def _kill_what_does_not_stop(self, now: int) -> None:
        stuck = [execution for execution in self.graph.executions.values() if not execution.state.is_terminal]
        for execution in stuck:
            execution.transition(ExecutionState.CANCELED, now)
            slot = self.pool.remove(AllocationId(execution.allocation_id or ""))
            if slot is not None:
                reason = f"task {execution.vertex.name!r} did not stop within {CANCEL_TIMEOUT_MS // 1000} s"
                self._release(slot, reason)
        self._end_if_done(now)

    def _end_if_done(self, now: int) -> None:
        """Ends the job when no execution is left; its slots are given back first."""
        executions = self.graph.executions.values()
        if self.status.is_terminal or not all(execution.state.is_terminal for execution in executions):
            return
        end = {JobStatus.FAILING: JobStatus.FAILED, JobStatus.CANCELLING: JobStatus.CANCELED}.get(self.status)
        for slot in self.pool.take_all():
            self._release(slot, "the job has ended")
        self._declare()
        self.graph.transition_job(end or JobStatus.FINISHED, now)

    # -- inside: slots -------------------------------------------------------------------------------------------

    def _close_unneeded_requests(self, now: int) -> None:
        """Lets go of slots whose tasks have ended, once nobody reads from them any more."""
        if self.status is not JobStatus.RUNNING:
            return
        open_labels = {request.label for request in self.pool.requests()}
        for shared in self.shared_slots:
            if shared.label in open_labels and all(self._is_over(vertex) for vertex in shared.vertices):
                self.pool.close(shared.label, now)
        self._declare()

    def _is_over(self, vertex_id: ExecutionVertexId) -> bool:
        """The subtask has ended, and so have those that read what it left in its slot."""
        vertex = self.graph.vertices[vertex_id]
        readers = (reader for partition in vertex.results for group in partition.consumer_groups for reader in group)
        return vertex.current.state.is_terminal and all(
            self.graph.vertices[reader].current.state.is_terminal for reader in readers
        )

    def _lose(self, allocation_ids: list[AllocationId], cause: str, now: int) -> None:
        lost = [slot for slot in map(self.pool.remove, allocation_ids) if slot is not None]
        for slot in lost:
            self._fail_tasks_of(slot, cause, now)
        if lost and self._waiting:
            self._lost_slots += len(lost)
            if self._lost_slots >= MAX_LOST_SLOTS:
                text = f"{self._lost_slots} slots were lost before they could be used; the last: {cause}"
                self.fail(ErrorInfo.of(FlinkrayError(text)), now)
        self._end_if_done(now)

    def _fail_tasks_of(self, slot: PooledSlot, cause: str, now: int) -> None:
        executions = [e for e in self.graph.executions.values() if e.allocation_id == slot.allocation_id]
        running = [execution for execution in executions if not execution.state.is_terminal]
        names = ", ".join(execution.vertex.name for execution in running)
        for execution in running:
            if execution.state is ExecutionState.CANCELING:
                execution.transition(ExecutionState.CANCELED, now)
            else:
                text = f"the slot of {slot.task_executor} that ran {names} is lost: {cause}"
                self._on_execution_failed(execution, ErrorInfo.of(FlinkrayError(text)), now)

    def _release(self, slot: PooledSlot, reason: str) -> None:
        self._commands.append(ReleaseSlot(slot.task_executor, slot.allocation_id, reason))


def _cancel_command(execution: Execution) -> CancelAttempt:
    return CancelAttempt(
        Address(execution.location or ""),
        AllocationId(execution.allocation_id or ""),
        execution.attempt_id,
    )
