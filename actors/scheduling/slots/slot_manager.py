"""Which slot goes to which job, and how many TaskExecutors there should be: the ResourceManager's core.

Jobs *declare* all slots they need; TaskExecutors register the slots they have. Whenever either changes, open requests
are matched with free slots, and what remains is covered by TaskExecutors that are being started. The core tells nobody
anything itself: its methods give commands. Times are milliseconds of any clock that never goes back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from actors.protocol.ports import Address, SessionId
from actors.protocol.resources import AllocationId, ClusterOverview, ResourceProfile, SlotReport, SlotRequest
from actors.scheduling.slots.node_room import NodeRoom
from flinkray.types.records import JobId

# How long a job waits before it is told that it can never fit: a host may still be learning what it has.
SHORTAGE_GRACE_MS = 3_000.0

# A TaskExecutor that is larger than a slot, and has not come by then, waits for room that somebody else has taken: no
# node may ever have as much in one piece, while each of its slots may fit somewhere.
ROOM_TIMEOUT_MS = 15_000.0

# A TaskExecutor that dies before it registers is replaced; after so many in a row none ever will come.
MAX_FAILED_STARTS = 3

# How long a TaskExecutor that was ended before it registered is remembered: what it had sent comes long before.
GIVEN_UP_MS = 60_000.0


class StartTaskExecutor(Struct, frozen=True):
    """Start a TaskExecutor with `slots` slots of this profile."""

    task_executor: Address
    number: int
    slots: int
    profile: ResourceProfile


class ReleaseTaskExecutor(Struct, frozen=True):
    """End this TaskExecutor: it is idle, or not needed any more before it has even started."""

    task_executor: Address
    reason: str


class AllocateSlot(Struct, frozen=True):
    """Ask the TaskExecutor to give this slot to the job."""

    task_executor: Address
    slot_index: int
    allocation_id: AllocationId
    job: JobTarget
    label: str


class ReportShortage(Struct, frozen=True):
    """Tell the job that waiting longer does not help."""

    job: JobTarget
    reason: str
    is_about_starts: bool = False
    """As in ResourcesMissing."""


SlotManagerCommand = StartTaskExecutor | ReleaseTaskExecutor | AllocateSlot | ReportShortage


class JobTarget(Struct, frozen=True):
    """A job that declares requirements."""

    job_id: JobId
    job_master: Address
    session: SessionId
    runtime_env: str = ""
    """What the processes of its slots are to have."""


class _TaskExecutorSlot(Struct, eq=False):
    profile: ResourceProfile
    allocation_id: AllocationId | None = None
    job_id: JobId | None = None
    label: str = ""

    @property
    def is_free(self) -> bool:
        return self.allocation_id is None


class _PendingTaskExecutor(Struct):
    """A TaskExecutor that has not registered."""

    profile: ResourceProfile
    slots: int
    started_at: float


class _RegisteredTaskExecutor(Struct):
    slots: list[_TaskExecutorSlot]
    idle_since: float | None
    """When the last of its slots was freed; None: a slot is in use."""
    registration: int = 0
    """Number of its newest registration, as RegisterTaskExecutor has it."""


class _Requirements(Struct):
    job: JobTarget
    requests: dict[str, SlotRequest] = field(default_factory=dict)
    declared_at: float = 0.0
    is_shortage_reported: bool = False


class SlotManager:
    """Gives slots to jobs, and says which TaskExecutors are to be started and ended. Not thread-safe."""

    def __init__(
        self,
        cluster_id: str,
        slots_per_task_executor: int | None,
        slot_profile: ResourceProfile,
        idle_timeout_ms: float,
        releases_without_jobs: bool = False,
        life: str = "",
    ) -> None:
        """
        Args:
            slots_per_task_executor: None: as many as are needed when it starts, where a node has room (`set_room`).
            idle_timeout_ms: how long a TaskExecutor without allocated slots is kept.
            releases_without_jobs: release idle ones at once when no job is left (a cluster for one job).
            life: tells the TaskExecutors and allocations of this ResourceManager from those of one before it.
        """
        self._cluster_id = cluster_id
        self._slots_per_task_executor = slots_per_task_executor
        self._slot_profile = slot_profile
        self._idle_timeout_ms = idle_timeout_ms
        self._releases_without_jobs = releases_without_jobs
        self._task_executors: dict[Address, _RegisteredTaskExecutor] = {}
        self._pending: dict[Address, _PendingTaskExecutor] = {}
        self._room = NodeRoom()
        self._given_up: dict[Address, float] = {}
        """TaskExecutors that were not needed any more before they had registered, and when that was."""
        self._requirements: dict[JobId, _Requirements] = {}
        self._had_requirements = False
        self._expected: tuple[SlotRequest, ...] = ()
        """What a job that is on its way will declare."""
        self._life = f"-{life}" if life else ""
        self._total_cpus: float | None = None
        self._total_memory_bytes: int | None = None
        self._is_autoscaled = False
        self._started = 0
        self._allocations = 0
        self._failed_starts = 0

    # -- jobs ----------------------------------------------------------------------------------------------------

    def declare(self, job: JobTarget, requests: Sequence[SlotRequest], now: float) -> list[SlotManagerCommand]:
        """The job needs exactly these slots now, those that it has included."""
        self._expected = ()
        former = self._requirements.get(job.job_id)
        needed = {request.label: request for request in requests}
        if former is not None and former.job == job and former.requests == needed:
            return []
        self._requirements[job.job_id] = _Requirements(job, needed, declared_at=now)
        self._had_requirements = True
        return self._balance(now)

    def expect(self, requests: Sequence[SlotRequest], now: float) -> list[SlotManagerCommand]:
        """A job that will need these slots is on its way: what they take time to start is started already.

        Of no effect once a job has declared anything.
        """
        if not self._had_requirements:
            self._expected = tuple(requests)
        return self._balance(now)

    def remove_job(self, job_id: JobId, now: float, *, is_lost: bool = False) -> list[SlotManagerCommand]:
        """The job is over or lost. Its slots come back one by one, when their TaskExecutors report them free.

        Args:
            is_lost: another JobMaster of it will come, and need TaskExecutors.
        """
        self._requirements.pop(job_id, None)
        if is_lost:
            self._had_requirements = False
        return self._balance(now)

    # -- TaskExecutors -------------------------------------------------------------------------------------------

    def is_registered(self, task_executor: Address) -> bool:
        return task_executor in self._task_executors

    def register(
        self, task_executor: Address, slots: Iterable[SlotReport], now: float, registration: int = 0
    ) -> list[SlotManagerCommand]:
        """A TaskExecutor is there, with these slots: one that was started here, or by a ResourceManager before.

        The same registration a second time changes nothing. With a later one it says that it has not listened
        meanwhile, so that what it reports counts, and not what it was asked to do.
        """
        known = self._task_executors.get(task_executor)
        if known is not None and known.registration >= registration:
            return []
        self._pending.pop(task_executor, None)
        self._failed_starts = 0
        reports = sorted(slots, key=lambda slot: slot.slot_index)
        entries = [_TaskExecutorSlot(slot.profile, slot.allocation_id, slot.job_id, slot.label) for slot in reports]
        is_idle = all(slot.is_free for slot in entries)
        self._task_executors[task_executor] = _RegisteredTaskExecutor(entries, now if is_idle else None, registration)
        return self._balance(now)

    def doubt_registration(self, task_executor: Address, registration: int) -> None:
        """It may not know that it is registered, and has not listened then: what it reports when it registers again
        counts, though it is the same registration to it."""
        known = self._task_executors.get(task_executor)
        if known is not None and known.registration == registration:
            known.registration -= 1

    def remove_task_executor(self, task_executor: Address, cause: str, now: float) -> list[SlotManagerCommand]:
        """A TaskExecutor died or was lost; what it had is needed from elsewhere."""
        commands: list[SlotManagerCommand] = []
        if self._pending.pop(task_executor, None) is not None:
            self._failed_starts += 1
            if self._failed_starts >= MAX_FAILED_STARTS:
                commands += self._report_failed_starts(cause)
        self._task_executors.pop(task_executor, None)
        self._given_up.pop(task_executor, None)
        self._room.lose(task_executor)
        return commands + self._balance(now)

    def free_slot(
        self, task_executor: Address, slot_index: int, allocation_id: AllocationId, now: float
    ) -> list[SlotManagerCommand]:
        """The TaskExecutor reports that this allocation is over."""
        slot = self._slot(task_executor, slot_index)
        if slot is None or slot.allocation_id != allocation_id:
            return []
        self._set(task_executor, slot_index, SlotReport(slot_index, slot.profile), now)
        return self._balance(now)

    def repeat_allocation(
        self, task_executor: Address, slot_index: int, allocation_id: AllocationId, now: float
    ) -> list[SlotManagerCommand]:
        """The TaskExecutor may not have heard of this allocation: it is asked for the same slot again, unless all is
        over meanwhile.

        Under a new id: if it has heard after all, it refuses and says what it has, and what it says of the former
        allocation is of no effect whenever it comes.
        """
        slot = self._slot(task_executor, slot_index)
        if slot is None or slot.allocation_id != allocation_id or slot.job_id is None:
            return []
        requirements = self._requirements.get(slot.job_id)
        if requirements is None:
            return self.free_slot(task_executor, slot_index, allocation_id, now)
        return [self._allocate_slot(task_executor, slot_index, requirements.job, slot.label, now)]

    def refuse_allocation(
        self, task_executor: Address, allocation_id: AllocationId, actual: SlotReport, now: float
    ) -> list[SlotManagerCommand]:
        """The slot could not be allocated, since it is in use as `actual` says."""
        slot = self._slot(task_executor, actual.slot_index)
        if slot is None or slot.allocation_id != allocation_id:
            return []
        self._set(task_executor, actual.slot_index, actual, now)
        return self._balance(now)

    def set_total(
        self, total_cpus: float, is_autoscaled: bool, now: float, total_memory_bytes: int | None = None
    ) -> list[SlotManagerCommand]:
        """What the host has in total, which decides whether a job can ever fit; None: that is not known."""
        self._total_cpus = total_cpus
        self._total_memory_bytes = total_memory_bytes
        self._is_autoscaled = is_autoscaled
        return self.tick(now)

    def set_growth(self, is_autoscaled: bool, now: float) -> list[SlotManagerCommand]:
        """Whether the host may get more, which was not known before."""
        self._is_autoscaled = is_autoscaled
        return self.tick(now)

    def set_room(self, free_cpus: Iterable[float]) -> None:
        """What is free on each node now, which decides how large the next TaskExecutors are."""
        self._room.update(free_cpus)

    def release_all(self) -> tuple[list[Address], list[Address]]:
        """Forgets everything; gives the TaskExecutors that are registered, and those that have not registered yet."""
        registered, pending = list(self._task_executors), list(self._pending)
        self._requirements.clear()
        self._task_executors.clear()
        self._pending.clear()
        self._room.update(())
        return registered, pending

    def is_expected(self, task_executor: Address) -> bool:
        """Whether it was started here, is still wanted, and has not registered."""
        return task_executor in self._pending

    def is_given_up(self, task_executor: Address) -> bool:
        """Whether it was started here, and was not needed any more before it had registered."""
        return task_executor in self._given_up

    # -- time ----------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> list[SlotManagerCommand]:
        """Called now and then: releases what has been idle for too long, and finds jobs that can never fit."""
        commands: list[SlotManagerCommand] = []
        self._given_up = {address: since for address, since in self._given_up.items() if now - since < GIVEN_UP_MS}
        for requirements in self._requirements.values():
            reason = self._why_it_never_fits(requirements)
            waited = now - requirements.declared_at >= SHORTAGE_GRACE_MS
            if reason and waited and not requirements.is_shortage_reported:
                requirements.is_shortage_reported = True
                commands.append(ReportShortage(requirements.job, reason))
        return commands + self._release_idle(now) + self._break_up_what_does_not_come(now)

    # -- looking at it -------------------------------------------------------------------------------------------

    def overview(self) -> ClusterOverview:
        slots = [slot for executor in self._task_executors.values() for slot in executor.slots]
        return ClusterOverview(
            task_executors=len(self._task_executors),
            pending_task_executors=len(self._pending),
            slots=len(slots),
            free_slots=sum(slot.is_free for slot in slots),
            cpus=sum(slot.profile.cpus for slot in slots),
            slots_per_task_executor=self._slots_per_task_executor or 1,
            slot_profile=self._slot_profile,
            total_cpus=self._total_cpus,
            total_memory_bytes=self._total_memory_bytes,
        )

    def reports(self) -> dict[Address, tuple[SlotReport, ...]]:
        """The TaskExecutors that are registered, with their slots."""
        return {
            address: tuple(
                SlotReport(index, slot.profile, slot.allocation_id, slot.job_id, slot.label)
                for index, slot in enumerate(executor.slots)
            )
            for address, executor in self._task_executors.items()
        }

    def check(self) -> None:
        """What always holds: no allocation twice, no request served twice, no request open beside a slot that fits."""
        slots = [slot for executor in self._task_executors.values() for slot in executor.slots]
        allocations = [slot.allocation_id for slot in slots if slot.allocation_id is not None]
        assert len(allocations) == len(set(allocations)), "an allocation id is used for two slots"
        assert not self._pending.keys() & self._task_executors.keys(), "a TaskExecutor is both pending and registered"
        known = self._pending.keys() | self._task_executors.keys()
        assert self._room.holders() <= known, "room is held for a TaskExecutor that is gone"
        free = [slot for slot in slots if slot.is_free]
        for _, request in self._open_requests():
            fitting = [slot for slot in free if slot.profile.covers(request.profile)]
            assert not fitting, f"{request.label} waits although a slot is free"
        for executor in self._task_executors.values():
            is_idle = all(slot.is_free for slot in executor.slots)
            assert is_idle == (executor.idle_since is not None), "idle_since does not say what the slots say"

    # -- inside --------------------------------------------------------------------------------------------------

    def _slot(self, task_executor: Address, slot_index: int) -> _TaskExecutorSlot | None:
        executor = self._task_executors.get(task_executor)
        return None if executor is None or slot_index >= len(executor.slots) else executor.slots[slot_index]

    def _set(self, task_executor: Address, slot_index: int, report: SlotReport, now: float) -> None:
        executor = self._task_executors[task_executor]
        executor.slots[slot_index] = _TaskExecutorSlot(
            report.profile, report.allocation_id, report.job_id, report.label
        )
        is_idle = all(slot.is_free for slot in executor.slots)
        executor.idle_since = (executor.idle_since if executor.idle_since is not None else now) if is_idle else None

    def _open_requests(self) -> list[tuple[_Requirements, SlotRequest]]:
        """Declared requests without a slot, oldest declaration first."""
        held: dict[JobId, list[_TaskExecutorSlot]] = {}
        for executor in self._task_executors.values():
            for slot in executor.slots:
                if slot.job_id is not None:
                    held.setdefault(slot.job_id, []).append(slot)
        return [
            (requirements, request)
            for job_id, requirements in self._requirements.items()
            for request in _without_slot(requirements.requests.values(), held.get(job_id, []))
        ]

    def _balance(self, now: float) -> list[SlotManagerCommand]:
        """Serves open requests from free slots, and has just as many TaskExecutors on their way as the others need."""
        commands: list[SlotManagerCommand] = []
        unserved: list[SlotRequest] = []
        with_room = {
            address: executor
            for address, executor in self._task_executors.items()
            if any(slot.is_free for slot in executor.slots)
        }
        for requirements, request in self._open_requests():
            allocation = self._allocate(with_room, requirements.job, request, now)
            if allocation is None:
                unserved.append(request)
            else:
                commands.append(allocation)
        if self._expected:
            slots = [slot for executor in self._task_executors.values() for slot in executor.slots if slot.is_free]
            unserved += _without_slot(self._expected, slots)
        return commands + self._balance_pending(unserved, now) + self._release_idle(now)

    def _allocate(
        self, with_room: dict[Address, _RegisteredTaskExecutor], job: JobTarget, request: SlotRequest, now: float
    ) -> AllocateSlot | None:
        """
        Args:
            with_room: the TaskExecutors that have free slots; one that has none then is taken out.
        """
        # A TaskExecutor that is in use already comes first, so that idle ones can be released.
        candidates = sorted(with_room.items(), key=lambda item: item[1].idle_since is not None)
        for address, executor in candidates:
            for index, slot in enumerate(executor.slots):
                if slot.is_free and slot.profile.covers(request.profile):
                    allocation = self._allocate_slot(address, index, job, request.label, now)
                    if not any(slot.is_free for slot in executor.slots):
                        del with_room[address]
                    return allocation
        return None

    def _allocate_slot(self, address: Address, index: int, job: JobTarget, label: str, now: float) -> AllocateSlot:
        self._allocations += 1
        allocation_id = AllocationId(f"{job.job_id}-{self._allocations}{self._life}")
        profile = self._task_executors[address].slots[index].profile
        self._set(address, index, SlotReport(index, profile, allocation_id, job.job_id, label), now)
        return AllocateSlot(address, index, allocation_id, job, label)

    def _balance_pending(self, unserved: list[SlotRequest], now: float) -> list[SlotManagerCommand]:
        commands: list[SlotManagerCommand] = []
        coming = [(address, each.profile) for address, each in self._pending.items() for _ in range(each.slots)]
        needed: set[Address] = set()
        for index, request in enumerate(unserved):
            match = next((entry for entry in coming if entry[1].covers(request.profile)), None)
            if match is None:
                started = self._start(self._profile_for(request), unserved[index:], now)
                commands.append(started)
                match = (started.task_executor, started.profile)
                coming += [match] * started.slots
            coming.remove(match)
            needed.add(match[0])
        unneeded = [address for address in self._pending if address not in needed]
        return commands + [self._give_up(address, "it is not needed any more", now) for address in unneeded]

    def _give_up(self, address: Address, reason: str, now: float) -> ReleaseTaskExecutor:
        del self._pending[address]
        self._given_up[address] = now
        self._room.give_back(address)
        return ReleaseTaskExecutor(address, reason)

    def _profile_for(self, request: SlotRequest) -> ResourceProfile:
        return self._slot_profile if self._slot_profile.covers(request.profile) else request.profile

    def _start(self, profile: ResourceProfile, unserved: list[SlotRequest], now: float) -> StartTaskExecutor:
        self._started += 1
        address = Address(f"{self._cluster_id}/te-{self._started}{self._life}")
        slots = self._slots_per_task_executor
        if slots is None:
            alike = sum(self._profile_for(request) == profile for request in unserved)
            slots = self._room.take(address, profile, alike)
        self._pending[address] = _PendingTaskExecutor(profile, slots, now)
        return StartTaskExecutor(address, self._started, slots, profile)

    def _break_up_what_does_not_come(self, now: float) -> list[SlotManagerCommand]:
        """Gives up large TaskExecutors that find no room; their slots are started one by one instead."""
        late = [
            address
            for address, pending in self._pending.items()
            if pending.slots > 1 and now - pending.started_at >= ROOM_TIMEOUT_MS
        ]
        if self._slots_per_task_executor is not None or not late:
            return []
        commands = [self._give_up(address, "there is no room for it in one place", now) for address in late]
        self._room.update(())
        return commands + self._balance(now)

    def _release_idle(self, now: float) -> list[SlotManagerCommand]:
        # Right after a restart, of this or of a JobMaster, the jobs are yet to say what they need.
        is_jobless = self._releases_without_jobs and self._had_requirements and not self._requirements
        timeout = 0.0 if is_jobless else self._idle_timeout_ms
        idle = [
            address
            for address, executor in self._task_executors.items()
            if executor.idle_since is not None and now - executor.idle_since >= timeout
        ]
        if idle:
            self._expected = ()  # what was expected has not come in all that time
        for address in idle:
            del self._task_executors[address]
            self._room.give_back(address)
        return [ReleaseTaskExecutor(address, "it has been idle") for address in idle]

    def _why_it_never_fits(self, requirements: _Requirements) -> str:
        """ "" where the cluster is large enough for the job alone, or may grow."""
        if self._total_cpus is None or self._is_autoscaled:
            return ""
        by_profile: dict[ResourceProfile, int] = {}
        for request in requirements.requests.values():
            profile = self._profile_for(request)
            by_profile[profile] = by_profile.get(profile, 0) + 1
        per_executor = self._slots_per_task_executor or 1
        slots = {profile: math.ceil(n / per_executor) * per_executor for profile, n in by_profile.items()}
        cpus = sum(n * profile.cpus for profile, n in slots.items())
        if cpus > self._total_cpus:
            return f"its TaskExecutors take {cpus:g} CPUs, and the whole cluster has {self._total_cpus:g}"
        memory, total = sum(n * profile.memory_bytes for profile, n in slots.items()), self._total_memory_bytes
        if total is not None and memory > total:
            needs, has = (f"{each / 2**20:.0f} MiB" for each in (memory, total))
            return f"its TaskExecutors take {needs} of memory, and the whole cluster has {has}"
        return ""

    def _report_failed_starts(self, cause: str) -> list[SlotManagerCommand]:
        """Jobs that wait are told. What they want is kept until they want something else, as one that is about to
        restart does not wait right now: it is told when as many have died again."""
        waiting = dict.fromkeys(requirements.job for requirements, _ in self._open_requests())
        reason = f"{self._failed_starts} TaskExecutors in a row died before they could register; the last: {cause}"
        self._failed_starts = 0
        return [ReportShortage(job, reason, is_about_starts=True) for job in waiting]


def _without_slot(requests: Iterable[SlotRequest], slots: list[_TaskExecutorSlot]) -> list[SlotRequest]:
    """The requests that none of the job's slots can serve.

    What counts is how many slots there are of which profile: the job may use a slot for another request than the one
    whose label it was allocated with, so labels only decide between equals.
    """
    by_label = {slot.label: slot for slot in slots}
    spare = dict.fromkeys(slots)
    unmatched = []
    for request in requests:
        slot = by_label.get(request.label)
        if slot is not None and slot.profile.covers(request.profile) and slot in spare:
            del spare[slot]
        else:
            unmatched.append(request)
    unserved = []
    for request in unmatched:
        match = next((slot for slot in spare if slot.profile.covers(request.profile)), None)
        if match is None:
            unserved.append(request)
        else:
            del spare[match]
    return unserved
