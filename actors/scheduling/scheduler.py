"""Drives a job through its life: the JobMaster's core (Flink's DefaultScheduler with pipelined-region scheduling).

Events go in as method calls, commands come out of `take_commands`. A region is deployed when all of its slots are
there, and not before; a region that reads blocking results is scheduled when their producers have finished. All times
are epoch milliseconds.

A job of several stages needs no more slots than its largest region: a slot whose tasks have finished serves others,
of this stage or the next. What it holds of results is read there, so it stays with the job until nobody needs them.

What a failure leads to is decided in one place, `_recover`: the restart strategy says whether the job goes on, the
failover strategy what runs again. A restart goes like this, and everything else in the job goes on meanwhile:

    failure -> its subtasks are cancelled -> all have ended and the delay is over -> each gets a new attempt
        -> SubtasksReset -> deploy_restarted -> scheduled -> deployed, in the slots that they had, or in new ones

Another failure before `deploy_restarted` joins the restart: more subtasks, perhaps a later time. Events that one thing
leads to (the tasks of a slot or TaskExecutor that is lost) are one failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from actors.protocol.checkpoint_handles import TaskRestore
from actors.protocol.failure_records import FailureRecord, TaskFailure
from actors.protocol.ports import Address
from actors.protocol.resources import AllocationId, ClusterOverview, ResourceProfile, SlotOffer, SlotRequest
from actors.protocol.task_messages import TaskStateChanged
from actors.scheduling.checks import check_scheduling
from actors.scheduling.commands import (
    CancelAttempt,
    DeclareSlots,
    DeployTask,
    KillSlot,
    ReleaseSlot,
    SchedulerCommand,
    SlotsTimedOut,
    StatusChanged,
    SubtasksReset,
    SubtaskStarted,
)
from actors.scheduling.deployment import allocation_of, deployment_of, task_executor_of
from actors.scheduling.failover.failover_strategies import FailoverStrategy, RestartRegions
from actors.scheduling.failover.failure_handler import FailureHandler
from actors.scheduling.failover.restart_strategies import NoRestart, RestartStrategy
from actors.scheduling.failover.restarts import Restarts
from actors.scheduling.result_tracker import ResultTracker
from actors.scheduling.scheduling_strategy import PipelinedRegionSchedulingStrategy
from actors.scheduling.slots.rescale_room import RescaleRoom
from actors.scheduling.slots.shortage import fit_one_by_one, shortage_error
from actors.scheduling.slots.slot_pool import PooledSlot, SlotPool
from actors.scheduling.slots.slot_sharing import SharedSlot, share_slots
from actors.scheduling.stuck_tasks import slots_that_do_not_stop
from actors.scheduling.waiting_regions import WaitingRegions
from flinkray.errors import ErrorInfo, FlinkrayError
from flinkray.execution import JobStatus
from graphs.execution_graph import (
    AttemptId,
    Execution,
    ExecutionGraph,
    ExecutionVertex,
    ExecutionVertexId,
    ResultPartitionKey,
)
from graphs.job_graph import JobVertexId
from graphs.regions import PipelinedRegion, RegionTopology
from graphs.states import JOB_ENDS, ExecutionState

# A slot's process that dies before it was given a task is replaced; after this many in a row that is a failure.
MAX_LOST_SLOTS = 3


class Scheduler:
    """Decides for one job what runs where and when. Not thread-safe."""

    def __init__(
        self,
        graph: ExecutionGraph,
        slot_profile: ResourceProfile,
        slot_request_timeout_ms: int,
        slot_idle_timeout_ms: int,
        *,
        restart_strategy: RestartStrategy | None = None,
        failover_strategy: type[FailoverStrategy] = RestartRegions,
        restore_of: Callable[[ExecutionVertex], TaskRestore | None] = lambda _vertex: None,
        has_run: bool = False,
    ) -> None:
        """
        Args:
            restart_strategy: None: the first failure ends the job.
            restore_of: what a subtask that is deployed now starts from; must not raise.
            has_run: the job has run under another JobMaster.
        """
        self.graph = graph
        self.pool = SlotPool()
        self.failure: ErrorInfo | None = None
        """What ended a job that is FAILING or FAILED."""
        self.room = RescaleRoom(self.pool, slot_request_timeout_ms)
        """The slots for the parallelism that the job is to have next."""
        self._slot_profile = slot_profile
        self._failover_strategy = failover_strategy
        self._restarts = Restarts(graph)
        self._failure_handler = FailureHandler(graph, restart_strategy or NoRestart())
        self._restore_of = restore_of
        self._slot_request_timeout_ms = slot_request_timeout_ms
        self._slot_idle_timeout_ms = slot_idle_timeout_ms
        self._is_timeout_reported = False
        self._has_run = has_run
        """All slots that the job wanted were there once: the cluster is large enough for it, and may be so again."""
        self._lost_slots = 0
        self._declared: tuple[SlotRequest, ...] = ()
        self._commands: list[SchedulerCommand] = []
        graph.status.add_listener(lambda _former, status, _now: self._commands.append(StatusChanged(status)))
        self._unfold()

    def _unfold(self) -> None:
        """Finds out what follows from the subtasks that the graph has, none of which runs."""
        self.shared_slots: tuple[SharedSlot, ...] = share_slots(self.graph, self._slot_profile)
        self._shared_slot = {vertex: shared for shared in self.shared_slots for vertex in shared.vertices}
        topology = RegionTopology(self.graph)
        self._results = ResultTracker(self.graph, topology)
        self._has_stages = len(topology.source_regions()) < len(topology.regions)
        self._strategy = PipelinedRegionSchedulingStrategy(self.graph, topology, self._restarts.includes)
        self._failure_handler.failover_strategy = self._failover_strategy(topology)
        self._waiting = WaitingRegions(self.graph.vertices, self._slot_request_timeout_ms)
        self._addresses: dict[AttemptId, Address] = {}
        """The TaskSlot of every current attempt that was deployed."""

    @property
    def status(self) -> JobStatus:
        return self.graph.status.current

    def take_commands(self) -> list[SchedulerCommand]:
        """What to do now, in this order; each command is given once."""
        commands, self._commands = self._commands, []
        return commands

    # -- events: the job -----------------------------------------------------------------------------------------

    def start(self, now: int) -> None:
        """Schedules every region that can start."""
        self.graph.transition_job(JobStatus.CREATED, now)
        self.graph.transition_job(JobStatus.RUNNING, now)
        self._schedule_regions(now)
        self._go_on(now)

    def cancel(self, now: int) -> None:
        """Stops everything; the job ends CANCELED."""
        if self.status.is_terminal or self.status is JobStatus.CANCELLING:
            return
        self.graph.transition_job(JobStatus.CANCELLING, now)
        self._cancel_all(now)

    def fail(self, error: ErrorInfo, now: int) -> None:
        """The job as a whole has failed: it is restarted as a whole, or ends FAILED with this as its cause.

        Without effect on a job that is failing or cancelling already.
        """
        self._recover(None, [TaskFailure(now, error)], now)
        self._go_on(now)

    def fail_for_slots(
        self,
        overview: ClusterOverview | None,
        reason: str,
        now: int,
        *,
        is_timeout: bool = False,
        is_about_starts: bool = False,
    ) -> None:
        """The slots will not come; without effect when they have come meanwhile. As in Flink the restart strategy
        decides what this leads to, but not for a job that never had all its slots, which would not get them later.

        Args:
            overview: what the cluster has; None where nobody could be asked.
            reason: why waiting longer does not help.
            is_timeout: it answers SlotsTimedOut: without effect when nothing waits for so long any more.
            is_about_starts: see ResourcesMissing.
        """
        self._is_timeout_reported = False
        if self.room.missing and (not is_timeout or self.room.is_late(now)):
            self.room.refuse(overview, reason, now)
        if is_timeout:
            is_hopeless = self._has_waited_too_long(now)
        else:
            is_hopeless = bool(self._waiting) and (is_about_starts or not self._fit_one_by_one(overview))
        if is_hopeless:
            name, missing = self.graph.name, len(self.pool.unserved())
            error = shortage_error(name, self.shared_slots, missing, overview, reason, has_run=self._has_run)
            self._recover(self._waiting.vertices, [TaskFailure(now, error)], now)
            self._go_on(now)

    def ask_for_room(self, rescaled: ExecutionGraph, now: int) -> None:
        """Asks for the slots that the job needs to be unfolded like that graph; `room` tells whether they come."""
        self.room.ask([shared.request for shared in share_slots(rescaled, self._slot_profile)], now)
        self._declare()

    def restart(self, now: int) -> None:
        """Restarts the job as a whole although nothing has failed: SubtasksReset will follow. For one that runs."""
        self._restart_later(frozenset(self.graph.vertices), now, True, now, failed=False)
        self._go_on(now)

    def rescale(self, parallelism: Mapping[JobVertexId, int], now: int) -> None:
        """Gives these vertices so many subtasks. For a job that is restarted as a whole: between SubtasksReset and
        `deploy_restarted`."""
        for shared in self.shared_slots:
            self.pool.close(shared.label, now)
        self.room.close(now)
        self.graph.rescale(parallelism, now)
        self._unfold()
        self._restarts.include_all()

    def deploy_restarted(self, restart: int, now: int) -> None:
        """Answers SubtasksReset: what `restore_of` gives is known. Ignored for a restart that has changed meanwhile."""
        if self._restarts.end(restart):
            self._schedule_regions(now)
            self._go_on(now)

    def tick(self, now: int) -> None:
        """Called now and then: restarts that are due, slots that do not come or that nobody needs, tasks that do not
        stop."""
        if (self._has_waited_too_long(now) or self.room.is_late(now)) and not self._is_timeout_reported:
            self._is_timeout_reported = True
            self._commands.append(SlotsTimedOut())
        for slot in self.pool.take_idle(now, self._slot_idle_timeout_ms, self._results.holding_slots()):
            self._release(slot, "the job has not needed it for a while")
        self._kill_what_does_not_stop(now)
        self._go_on(now)

    # -- events: tasks -------------------------------------------------------------------------------------------

    def change_task_state(self, report: TaskStateChanged, now: int, *, fails_job: bool = False) -> bool:
        """A task reports. False: it is of a past attempt or comes too late, and changes nothing.

        Args:
            fails_job: if the task has failed, the job has failed as a whole (see `fail`).
        """
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
            self._on_execution_failed(execution, error, now, fails_job)
        else:
            return False
        self._go_on(now)
        return True

    # -- events: slots -------------------------------------------------------------------------------------------

    def offer_slots(self, task_executor: Address, offers: Iterable[SlotOffer], now: int) -> frozenset[AllocationId]:
        """Slots that a TaskExecutor has reserved for the job; gives those that are taken."""
        accepted = self.pool.offer(task_executor, offers)
        self._deploy_ready(now)
        self._go_on(now)
        return accepted

    def lose_slot(self, allocation_id: AllocationId, cause: str, now: int) -> None:
        """The process of a slot is gone; what ran in it has failed."""
        self._lose([allocation_id], cause, now)
        self._go_on(now)

    def give_up_slot(self, allocation_id: AllocationId, cause: str, now: int) -> None:
        """A message for a task in the slot was lost, so that nobody knows what happens there: as if it was lost.

        For every undeliverable SubmitTask, CancelTask and DeliverOperatorEvent: who waits for what these lead to would
        wait for ever.
        """
        slot = self.pool.slot(allocation_id)
        if slot is not None:
            self._release_at_once(slot, cause)
            self.lose_slot(allocation_id, cause, now)

    def lose_task_executor(self, task_executor: Address, cause: str, now: int) -> None:
        """A TaskExecutor is gone with all its slots."""
        slots = self.pool.slots_of(task_executor)
        for slot in slots:
            # A TaskExecutor that is alive after all, and could only not be heard, learns that it has lost its slots.
            self._release_at_once(slot, cause)
        self._lose([slot.allocation_id for slot in slots], cause, now)
        self._go_on(now)

    # -- looking at it -------------------------------------------------------------------------------------------

    @property
    def restarts(self) -> int:
        """How many restarts have begun; failures that join a restart do not count."""
        return self._restarts.begun

    @property
    def failures(self) -> tuple[FailureRecord, ...]:
        """The last failures, oldest first."""
        return self._failure_handler.history.records

    def slot_of(self, execution: Execution) -> Address | None:
        """The TaskSlot that the attempt, which must be a current one, was deployed to; None: it was not."""
        return self._addresses.get(execution.attempt_id)

    def check(self) -> None:
        """What always holds between two events."""
        check_scheduling(self.graph, self.pool, self._waiting, self._restarts, self._addresses)

    # -- inside: scheduling --------------------------------------------------------------------------------------

    def _schedule_regions(self, now: int) -> None:
        """Schedules each region whose inputs can all be consumed, unless it runs or its tasks are to end first."""
        for region in self._strategy.take_consumable():
            self._schedule(region, now)
        self._close_unneeded_requests(self.shared_slots, now)
        self._deploy_ready(now)
        self._declare()

    def _use_slots_of(self, finished: Execution, now: int) -> None:
        """A subtask has finished whose results nobody waits for: its slot may serve others."""
        vertex = finished.vertex
        # Only the last reader lets slots go that are not its own.
        is_last_reader = self._strategy.was_last_reader(vertex)
        self._close_unneeded_requests(self.shared_slots if is_last_reader else [self._shared_slot[vertex.id]], now)
        self._deploy_ready(now)
        self._declare()

    def _schedule(self, region: PipelinedRegion, now: int) -> None:
        for vertex in region.vertices:
            self.graph.vertices[vertex].current.transition(ExecutionState.SCHEDULED, now)
        shared = {self._shared_slot[vertex].label: self._shared_slot[vertex] for vertex in region.vertices}
        for slot in shared.values():
            self.pool.open(slot.request)
        self._waiting.add(region.vertices, frozenset(shared), now)

    def _deploy_ready(self, now: int) -> None:
        for region in self._waiting.take_ready(self.pool.is_served):
            self._deploy(region.vertices, now)
            self._has_run = self._has_run or not self._waiting

    def _has_waited_too_long(self, now: int) -> bool:
        """Whether a region waits for slots beyond its time, which begins when tasks of an earlier stage have ended."""
        states = (execution.state for execution in self.graph.executions.values())
        is_taken = any(state.is_deployed or state is ExecutionState.CANCELING for state in states)
        if self._has_stages and self._waiting and is_taken:
            self._waiting.count_from(now)  # when those tasks end, their slots are free
        return self._waiting.are_late(now)

    def _fit_one_by_one(self, overview: ClusterOverview | None) -> bool:
        """Whether the cluster is too small only for all regions of a stage at once, which is not needed."""
        requests = {shared.label: shared.request for shared in self.shared_slots}
        return self._has_stages and fit_one_by_one(
            ([requests[label] for label in region.labels] for region in self._waiting.regions), overview
        )

    def _deploy(self, region: Iterable[ExecutionVertexId], now: int) -> None:
        """Gives every vertex its slot first: deployments name the slots of their producers."""
        self._lost_slots = 0
        executions = [self.graph.vertices[vertex].current for vertex in region]
        for execution in executions:
            slot = self.pool.slot_of(self._shared_slot[execution.vertex.id].label)
            assert slot is not None
            slot.is_used = True
            execution.allocation_id = slot.allocation_id
            execution.location = slot.task_executor
            self._addresses[execution.attempt_id] = slot.address
            execution.transition(ExecutionState.DEPLOYING, now)
        for execution in executions:
            deployment = deployment_of(execution, self._address_of, self._restore_of(execution.vertex))
            self._commands.append(DeployTask(task_executor_of(execution), deployment))

    def _address_of(self, vertex: ExecutionVertex) -> Address:
        return self._addresses[vertex.current.attempt_id]

    def _declare(self) -> None:
        requests = self.pool.requests()
        if requests != self._declared:
            self._declared = requests
            self._commands.append(DeclareSlots(requests))

    # -- inside: states ------------------------------------------------------------------------------------------

    def _go_on(self, now: int) -> None:
        """Does what an event has made possible; called after every one."""
        self._reset_if_due(now)
        self._declare()
        if self.status is JobStatus.RESTARTING and self._restarts.pending is None and not self._waiting:
            self.graph.transition_job(JobStatus.RUNNING, now)
        self._end_if_done(now)

    def _advance(self, execution: Execution, to: ExecutionState, now: int) -> bool:
        """Moves the attempt through its states up to `to`; False if it is there already or being cancelled."""
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
            # It finished before the cancellation came; the tasks that were cancelled with it have not, nor has the job.
            execution.transition(ExecutionState.CANCELED, now)
            self._results.on_finished_late(execution)
            return
        self._advance(execution, ExecutionState.FINISHED, now)
        self._commands += self._results.on_finished(execution)
        if self.status in (JobStatus.RUNNING, JobStatus.RESTARTING):
            if all(each.result.result_type.is_pipelined for each in execution.vertex.results):
                self._use_slots_of(execution, now)
            else:
                self._schedule_regions(now)

    def _cancel_all(self, now: int) -> None:
        """Cancels all attempts, as the job is to end."""
        self._restarts.end()
        for execution in list(self.graph.executions.values()):
            if execution.state is ExecutionState.CREATED:
                execution.transition(ExecutionState.CANCELED, now)
            self._cancel(execution, now)
        self._waiting.drop_outdated()
        self._end_if_done(now)

    def _cancel(self, execution: Execution, now: int) -> None:
        """Ends an attempt that was scheduled; without effect on others."""
        self._waiting.outdate(execution.vertex.id)
        if execution.state is ExecutionState.SCHEDULED:
            execution.transition(ExecutionState.CANCELED, now)
        elif execution.state.is_deployed:
            execution.transition(ExecutionState.CANCELING, now)
            command = CancelAttempt(task_executor_of(execution), allocation_of(execution), execution.attempt_id)
            self._commands.append(command)

    def _kill_what_does_not_stop(self, now: int) -> None:
        for allocation_id, reason in slots_that_do_not_stop(self.graph.executions.values(), now).items():
            slot = self.pool.slot(allocation_id)
            if slot is not None:
                self._release_at_once(slot, reason)
                self._lose([allocation_id], reason, now)

    def _end_if_done(self, now: int) -> None:
        """Ends the job when no execution is left; its slots are given back first."""
        # From the back, where tasks finish last: most calls end at the first.
        executions = reversed(self.graph.executions.values())
        if self.status not in JOB_ENDS or not all(execution.state.is_terminal for execution in executions):
            return
        self._results.clear()
        for slot in self.pool.take_all():
            self._release(slot, "the job has ended")
        self._declare()
        self.graph.transition_job(JOB_ENDS[self.status], now)

    # -- inside: failures ----------------------------------------------------------------------------------------

    def _on_execution_failed(self, execution: Execution, error: ErrorInfo, now: int, fails_job: bool) -> None:
        was_cancelling = execution.state is ExecutionState.CANCELING
        failure = self._record_failure(execution, error, now)
        if was_cancelling:
            self._on_late_failure(failure, now)
        else:
            self._recover(None if fails_job else [execution.vertex.id], [failure], now)

    def _record_failure(self, execution: Execution, error: ErrorInfo, now: int) -> TaskFailure:
        execution.error = error
        execution.transition(ExecutionState.FAILED, now)
        location = None if execution.location is None else Address(execution.location)
        return TaskFailure(now, error, execution.vertex.name, location)

    def _on_late_failure(self, failure: TaskFailure, now: int) -> None:
        """A task failed that was to end anyway: that changes nothing, unless it is the reason for what is under way."""
        is_rescaled = self.status is JobStatus.RESTARTING and not self._restarts.are_of_failure
        if self.status is JobStatus.CANCELLING or is_rescaled:
            return
        error = failure.error
        is_reason = self._failure_handler.history.add_concurrent(failure)
        if self.status is not JobStatus.FAILING:
            if is_reason and not error.is_recoverable:
                self._fail_job(error, now)
        elif self.failure is not None and self.failure.is_consequence and not error.is_consequence:
            self.failure = error

    def _recover(self, failed: Iterable[ExecutionVertexId] | None, failures: Sequence[TaskFailure], now: int) -> None:
        """Something that should go on does not (see `FailureHandler.handle`): the job restarts it, or fails."""
        if self.status.is_terminal or self.status is JobStatus.CANCELLING:
            return
        if self.status is JobStatus.FAILING:
            for failure in failures:
                self._on_late_failure(failure, now)
            return
        handling = self._failure_handler.handle(
            failed,
            failures,
            now,
            has_started=self.status in (JobStatus.RUNNING, JobStatus.RESTARTING),
            is_restarting=self._restarts.are_of_failure,
            is_available=self._is_available,
        )
        if handling.can_restart:
            self._restart_later(handling.vertices, now + handling.delay_ms, failed is None, now)
        else:
            self._fail_job(handling.error, now)

    def _is_available(self, key: ResultPartitionKey) -> bool:
        """Whether the result is being made, or is still there."""
        execution = self.graph.partitions[key].producer.current
        if execution.state is ExecutionState.FINISHED:
            return self._results.is_available(key)
        return not execution.state.is_terminal

    def _fail_job(self, error: ErrorInfo, now: int) -> None:
        self.failure = error
        self.graph.transition_job(JobStatus.FAILING, now)
        self._cancel_all(now)

    def _restart_later(
        self, vertices: frozenset[ExecutionVertexId], due: int, is_global: bool, now: int, failed: bool = True
    ) -> None:
        self.room.close(now)  # what is to run again goes before what the job will want later
        involved = self._restarts.begin(vertices, due, is_global, is_of_failure=failed)
        if self.status is JobStatus.RUNNING:
            self.graph.transition_job(JobStatus.RESTARTING, now)
        for vertex in involved:
            self._cancel(self.graph.vertices[vertex].current, now)
        self._waiting.drop_outdated()

    def _reset_if_due(self, now: int) -> None:
        """Gives what is to run again its new attempts, once all of it has ended and the delay is over."""
        restart = self._restarts.take_due(now)
        if restart is None:
            return
        vertices = tuple(vertex for vertex in self.graph.vertices if vertex in restart.vertices)
        for vertex in map(self.graph.vertices.__getitem__, vertices):
            if vertex.current.state is not ExecutionState.CREATED:
                self._commands += self._results.on_reset(vertex.current)
                self._addresses.pop(vertex.current.attempt_id, None)
                vertex.new_attempt(now)
        self._strategy.reset(vertices)
        self._commands.append(SubtasksReset(restart.number, vertices, restart.is_global))

    # -- inside: slots -------------------------------------------------------------------------------------------

    def _close_unneeded_requests(self, slots: Iterable[SharedSlot], now: int) -> None:
        for shared in self._strategy.unneeded(each for each in slots if self.pool.is_open(each.label)):
            self.pool.close(shared.label, now)

    def _lose(self, allocation_ids: list[AllocationId], cause: str, now: int) -> None:
        """These slots are lost. All of it is one failure, however many tasks ran there."""
        lost = [slot for slot in map(self.pool.remove, allocation_ids) if slot is not None]
        failed: list[ExecutionVertexId] = []
        failures: list[TaskFailure] = []
        for slot in lost:
            running = self._end_tasks_of(slot, now)
            names = ", ".join(execution.vertex.name for execution in running)
            text = f"the slot of {slot.task_executor} that ran {names} is lost: {cause}"
            error = ErrorInfo.of(FlinkrayError(text))
            failures += [self._record_failure(execution, error, now) for execution in running]
            failed += [execution.vertex.id for execution in running]
            for vertex in self._results.on_slot_lost(slot.allocation_id):
                name = self.graph.vertices[vertex].name
                text = f"the result of {name} is lost with its slot of {slot.task_executor}: {cause}"
                failures.append(TaskFailure(now, ErrorInfo.of(FlinkrayError(text)), name, slot.task_executor))
                failed.append(vertex)
        if failed:
            self._recover(failed, failures, now)
        elif self._waiting and any(not slot.is_used for slot in lost):
            self._on_unused_slot_lost(cause, now)
        self._deploy_ready(now)  # an idle slot may have taken the place of a lost one

    def _end_tasks_of(self, slot: PooledSlot, now: int) -> list[Execution]:
        """Attempts that were cancelled have ended with their slot; gives the others that ran there."""
        executions = [e for e in self.graph.executions.values() if e.allocation_id == slot.allocation_id]
        for execution in executions:
            if execution.state is ExecutionState.CANCELING:
                execution.transition(ExecutionState.CANCELED, now)
        return [execution for execution in executions if not execution.state.is_terminal]

    def _on_unused_slot_lost(self, cause: str, now: int) -> None:
        """A slot that was lost unused is replaced, as its request is still open; but if no slot lives, something is
        wrong."""
        self._lost_slots += 1
        if self._lost_slots >= MAX_LOST_SLOTS:
            text = f"{self._lost_slots} slots were lost before they could be used; the last: {cause}"
            self._lost_slots = 0
            self._recover(self._waiting.vertices, [TaskFailure(now, ErrorInfo.of(FlinkrayError(text)))], now)

    def _release(self, slot: PooledSlot, reason: str) -> None:
        self._commands.append(ReleaseSlot(slot.task_executor, slot.allocation_id, reason))

    def _release_at_once(self, slot: PooledSlot, reason: str) -> None:
        """Ends the slot also without its TaskExecutor: what runs there must have ended before it runs elsewhere."""
        self._release(slot, reason)
        self._commands.append(KillSlot(slot.address))
