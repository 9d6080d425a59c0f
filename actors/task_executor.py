"""The TaskExecutor: owns the slots of one worker, and stands between their processes and the JobMasters.

What it decides about slots is in `actors.scheduling.slots.slot_table`; here messages go in and out. A ResourceManager
that is lost is replaced by one that knows nothing: until it answers, jobs keep the slots that they have.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from msgspec import Struct

from actors.logs.setting_up import LogSettings
from actors.protocol.client_requests import GetSlotProcesses
from actors.protocol.control_messages import (
    FreeSlot,
    HeartbeatAnswered,
    HeartbeatRequested,
    OfferSlots,
    RegisterTaskExecutor,
    RequestSlot,
    SlotFailed,
    SlotFreed,
    SlotOffersAnswered,
    SlotRequestRefused,
    StopTaskExecutor,
    TaskExecutorRegistered,
    TaskExecutorStopped,
)
from actors.protocol.main_thread import MainThread, RunAsync
from actors.protocol.ports import (
    Address,
    DeliveryFailed,
    Endpoint,
    EndpointContext,
    EndpointDied,
    EndpointSpec,
    Payloads,
    SessionId,
)
from actors.protocol.resources import AllocationId, OfferId, ResourceProfile
from actors.protocol.task_messages import (
    EndOfDataReached,
    OperatorEventSent,
    SubmitTask,
    TaskCommand,
    TaskReport,
    TaskStateChanged,
)
from actors.scheduling.liveness.heartbeats import HEARTBEATS_STOPPED, Heartbeats
from actors.scheduling.liveness.lost_messages import UnheardMessages
from actors.scheduling.liveness.registration import RetryingRegistration
from actors.scheduling.slots.slot_table import Lease, SlotTable
from flinkray.config.configuration import Configuration
from flinkray.config.options import HEARTBEAT_INTERVAL, HEARTBEAT_TIMEOUT
from flinkray.errors import FlinkrayError
from flinkray.types.records import JobId

log = logging.getLogger(__name__)

# How long it tries to register: a worker that no ResourceManager wants is of no use (taskmanager.registration.timeout).
REGISTRATION_TIMEOUT_MS = 300_000.0

# How long a slot stays reserved that its JobMaster does not accept (Flink's taskmanager.slot.timeout).
RESERVATION_TIMEOUT_MS = 10_000.0


class _Job(Struct):
    """A job that has slots of this TaskExecutor."""

    job_master: Address
    session: SessionId
    newest_offer: OfferId = OfferId(0)


class TaskExecutor(Endpoint):
    """Owns the slots of one worker (Flink's TaskExecutor, with its tasks in processes of their own)."""

    def __init__(
        self,
        context: EndpointContext,
        resource_manager: Address,
        slots: int,
        profile: ResourceProfile,
        configuration: Configuration,
    ) -> None:
        """
        Args:
            slots: how many there are, each of `profile`.
            configuration: the cluster's; handed on to the slots.
        """
        super().__init__(context, LogSettings.of(configuration))
        self._resource_manager = resource_manager
        self._configuration = configuration
        self._table = SlotTable([profile] * slots)
        self._jobs: dict[JobId, _Job] = {}
        self._main_thread = MainThread(context)
        self._heartbeat_timeout_ms = float(configuration.get(HEARTBEAT_TIMEOUT))
        self._registration = RetryingRegistration(
            context, self._main_thread, resource_manager, self._heartbeat_timeout_ms, self._register
        )
        self._unreported: list[Lease] = []
        """Leases that ended while no ResourceManager had answered, which hears of them when it does."""
        self._unheard = UnheardMessages(context, self._main_thread)
        """What JobMasters did not get: SlotFailed, TaskStateChanged and EndOfDataReached."""
        self._is_stopping = False
        self._slots_started = 0
        self._offers_made = 0
        # Its address is used once, and so can fence the answers of its slots.
        self._heartbeats = Heartbeats(context, self._main_thread, self._on_silent, session=SessionId(context.address))

    def on_start(self) -> None:
        self.context.watch(self._resource_manager)
        self._registration.begin()
        interval_ms = max(1.0, float(self._configuration.get(HEARTBEAT_INTERVAL)))
        self._heartbeats.start(interval_ms, self._heartbeat_timeout_ms)

    def on_message(self, message: Any, payloads: Payloads) -> None:
        match message:
            case _ if isinstance(message, TaskReport):
                self._forward_to_job_master(message)
            case _ if isinstance(message, TaskCommand):
                self._forward_to_slot(message)
            case RequestSlot():
                self._on_request_slot(message)
            case SlotOffersAnswered():
                self._on_offers_answered(message)
            case FreeSlot():
                self._on_free_slot(message)
            case HeartbeatRequested() | HeartbeatAnswered():
                self._heartbeats.on_message(message)
            case TaskExecutorRegistered():
                self._on_registered(message)
            case StopTaskExecutor():
                self._on_stop_requested(message)
            case EndpointDied():
                self._on_endpoint_died(message)
            case DeliveryFailed():
                self._on_delivery_failed(message)
            case RunAsync():
                message.callback()
            case _:
                raise TypeError(f"a TaskExecutor does not understand {message!r}")

    def on_request(self, request: Any) -> Any:
        if isinstance(request, GetSlotProcesses):
            leases = self._table.leases()
            return tuple(lease.slot for lease in leases if request.job_id in (None, lease.job_id))
        return super().on_request(request)

    def check(self) -> None:
        """What always holds between two messages."""
        self._table.check()
        assert {lease.job_id for lease in self._table.leases()} == set(self._jobs), "jobs and leases disagree"

    # -- registration and heartbeats -----------------------------------------------------------------------------

    def _register(self, number: int) -> bool:
        """Registers, and gives whether that is to be repeated until it is answered."""
        if self._is_stopping:
            return False
        waited = self._registration.waited_ms
        if waited >= REGISTRATION_TIMEOUT_MS and not self._jobs:
            self.context.fatal(FlinkrayError(f"{self._resource_manager} did not answer for {waited / 1000:.0f} s"))
            return False
        registration = RegisterTaskExecutor(self.context.address, self._table.reports(), number)
        self.context.tell(self._resource_manager, registration)
        return True

    def _on_registered(self, message: TaskExecutorRegistered) -> None:
        if not self._registration.answer(message.session, message.registration):
            log.debug("%s: ignored the answer to a past registration", self.context.address)
            return
        # The ResourceManager may take these slots to be in use, as the last registration said so.
        for lease in self._unreported:
            self._tell_freed(message.session, lease)
        self._unreported.clear()
        self._heartbeats.monitor(self._resource_manager, asks_itself=True)

    def _on_silent(self, peer: Address) -> None:
        lease = self._table.lease_at(peer)
        if lease is None:
            self._on_peer_lost(peer, HEARTBEATS_STOPPED)
        else:
            self._fail_slot(lease, HEARTBEATS_STOPPED)

    def _on_peer_lost(self, peer: Address, cause: str) -> None:
        if peer == self._resource_manager:
            self._on_resource_manager_lost(cause)
        for job_id in [job_id for job_id, job in self._jobs.items() if job.job_master == peer]:
            log.info("%s: %s is lost (%s), its slots are freed", self.context.address, peer, cause)
            for lease in self._table.leases(job_id):
                # The JobMaster may be alive, and have heard of this worker all the time: then it counts on the slot.
                failed = SlotFailed(self._jobs[job_id].session, self.context.address, lease.allocation_id, cause)
                self.context.tell(peer, failed)
                self._free(lease)

    def _on_resource_manager_lost(self, cause: str) -> None:
        """Registers at the ResourceManager that takes its place, unless the cluster is at its end."""
        log.info("%s: %s is lost (%s)", self.context.address, self._resource_manager, cause)
        if self._is_stopping:
            self.context.kill(self.context.address)
            return
        self._register_anew()

    def _register_anew(self) -> None:
        """Registers once more, so that the ResourceManager believes what this says of its slots, and not what it
        knew."""
        self._heartbeats.unmonitor(self._resource_manager)
        self._registration.begin_anew()

    # -- slots ---------------------------------------------------------------------------------------------------

    def _on_request_slot(self, request: RequestSlot) -> None:
        if request.session != self._registration.session or self._is_stopping:
            log.debug("%s: ignored %r of a past session", self.context.address, request)
            return
        known = self._table.lease(request.allocation_id)
        if known is None and not self._table.is_free(request.slot_index):
            actual = self._table.report(request.slot_index)
            refusal = SlotRequestRefused(request.session, self.context.address, request.allocation_id, actual)
            self.context.tell(self._resource_manager, refusal)
            return
        job = self._jobs.get(request.job_id)
        if job is None or job.session != request.job_session:
            self._connect(request)
        if known is None:
            self._reserve(request)
        self._offer(request.job_id)

    def _connect(self, request: RequestSlot) -> None:
        """Notes a job that is new here, or that has a new JobMaster, which knows nothing of the slots of the former
        one."""
        for lease in self._table.leases(request.job_id):
            self._free(lease)
        self._jobs[request.job_id] = _Job(request.job_master, request.job_session)
        self.context.watch(request.job_master)
        self._heartbeats.monitor(request.job_master, asks_itself=True)

    def _reserve(self, request: RequestSlot) -> None:
        self._slots_started += 1
        address = Address(f"{self.context.address}/slot-{request.slot_index}.{self._slots_started}")
        self._table.reserve(request.slot_index, request.allocation_id, address, request.job_id, request.label)
        self.context.spawn(
            EndpointSpec(
                address,
                "actors.task_slot:TaskSlot",
                (self.context.address, self._configuration),
                display_name=f"TaskSlot({request.label})",
                node_of=self.context.address,
                dies_with_spawner=True,
                runtime_env=request.runtime_env,
            )
        )
        self._heartbeats.monitor(address, is_starting=True, is_installing=bool(request.runtime_env))
        expired = partial(self._on_reservation_expired, request.allocation_id)
        self._main_thread.run_later(RESERVATION_TIMEOUT_MS, expired)

    def _offer(self, job_id: JobId) -> None:
        job = self._jobs[job_id]
        # Counted over all jobs: a job that lost its last slot here and gets another is a new `_Job`, and the answer to
        # an offer before that must not be taken for one to its first.
        self._offers_made += 1
        job.newest_offer = OfferId(self._offers_made)
        self._unheard.tell(job.job_master)  # for a slot that it does not know to be lost it takes no other
        offers = self._table.offers(job_id)
        self.context.tell(job.job_master, OfferSlots(job.session, self.context.address, job.newest_offer, offers))

    def _on_offers_answered(self, answer: SlotOffersAnswered) -> None:
        job = self._jobs.get(answer.job_id)
        if job is None or answer.session != job.session or answer.offer_id != job.newest_offer:
            log.debug("%s: ignored %r to an offer that is not the newest", self.context.address, answer)
            return
        for lease in self._table.leases(answer.job_id):
            if lease.allocation_id in answer.accepted:
                lease.is_active = True
            elif not lease.is_active:
                self._free(lease)

    def _on_reservation_expired(self, allocation_id: AllocationId) -> None:
        lease = self._table.lease(allocation_id)
        if lease is not None and not lease.is_active:
            log.info("%s: %s was not accepted in time", self.context.address, allocation_id)
            # The JobMaster may have accepted the slot after all, and its answer be under way.
            job = self._jobs[lease.job_id]
            failed = SlotFailed(job.session, self.context.address, allocation_id, "it was not accepted in time")
            self.context.tell(job.job_master, failed)
            self._free(lease)

    def _on_free_slot(self, message: FreeSlot) -> None:
        lease = self._lease_of(message.session, message.allocation_id)
        if lease is None:
            log.debug("%s: ignored %r", self.context.address, message)
            return
        self._free(lease)

    def _free(self, lease: Lease) -> None:
        """Ends the lease and its process; the ResourceManager may give the slot to another job."""
        self._table.free(lease.allocation_id)
        self._heartbeats.unmonitor(lease.slot)
        self.context.kill(lease.slot)
        self._report_freed(lease)

    def _report_freed(self, lease: Lease) -> None:
        if not self._table.leases(lease.job_id):
            job = self._jobs.pop(lease.job_id)
            self._heartbeats.unmonitor(job.job_master)
        if self._registration.session is not None:
            self._tell_freed(self._registration.session, lease)
        else:
            self._unreported.append(lease)

    def _tell_freed(self, session: SessionId, lease: Lease) -> None:
        freed = SlotFreed(session, self.context.address, lease.slot_index, lease.allocation_id)
        self.context.tell(self._resource_manager, freed)

    def _lease_of(self, session: SessionId, allocation_id: AllocationId) -> Lease | None:
        """The lease, if it belongs to the JobMaster of this session."""
        lease = self._table.lease(allocation_id)
        if lease is None or self._jobs[lease.job_id].session != session:
            return None
        return lease

    # -- between JobMaster and slots -----------------------------------------------------------------------------

    def _forward_to_slot(self, message: TaskCommand) -> None:
        lease = self._lease_of(message.session, message.allocation_id)
        if lease is None:
            log.debug("%s: ignored %r for a slot that it does not hold", self.context.address, message)
            if isinstance(message, SubmitTask):
                self._refuse_task(message)
            return
        self.context.tell(lease.slot, message)

    def _refuse_task(self, message: SubmitTask) -> None:
        """Reports a slot that was freed here meanwhile, and in which the JobMaster would wait for its task for ever."""
        job = self._jobs.get(message.job_id)
        if job is not None and job.session == message.session:
            cause = "it was given back before the task came"
            failed = SlotFailed(job.session, self.context.address, message.allocation_id, cause)
            self.context.tell(job.job_master, failed)

    def _forward_to_job_master(self, message: TaskReport) -> None:
        job = self._jobs.get(message.job_id)
        if job is None:
            log.debug("%s: ignored %r of a job without slots here", self.context.address, message)
            return
        self.context.tell(job.job_master, message)

    def _on_endpoint_died(self, message: EndpointDied) -> None:
        self._unheard.forget(message.address)
        lease = self._table.lease_at(message.address)
        if lease is None:
            self._on_peer_lost(message.address, message.cause)
        else:
            self._fail_slot(lease, f"its process died ({message.cause})")

    def _on_delivery_failed(self, message: DeliveryFailed) -> None:
        """The receiver is gone, which a death notice says as well, or could not be reached and waits for the
        message."""
        log.debug("%s: %s did not get %r: %s", self.context.address, message.address, message.message, message.cause)
        lease, lost = self._table.lease_at(message.address), message.message
        if isinstance(lost, HeartbeatRequested | HeartbeatAnswered):
            return  # the next one may get through
        if lease is not None:
            # The JobMaster counts on whatever was lost: the start of a task, or a notice of a checkpoint.
            self._fail_slot(lease, f"it did not get its {type(lost).__name__} ({message.cause})")
        elif isinstance(lost, SlotFreed | SlotRequestRefused):
            self._on_report_lost(lost.session)
        elif isinstance(lost, SlotFailed | TaskStateChanged | EndOfDataReached):
            self._unheard.add(message.address, lost)
        elif isinstance(lost, OfferSlots | OperatorEventSent):
            # An event must not come twice, and may have come all the same: the job's tasks here start again instead.
            self._on_peer_lost(message.address, message.cause)

    def _on_report_lost(self, session: SessionId) -> None:
        """Registers once more: the ResourceManager would hold a slot for taken for ever, unless it has heard of all
        since."""
        if session == self._registration.session and not self._is_stopping:
            self._register_anew()

    def _fail_slot(self, lease: Lease, cause: str) -> None:
        """Frees a slot of which nothing can be used any more, and reports it to the JobMaster."""
        job = self._jobs[lease.job_id]
        failed = SlotFailed(job.session, self.context.address, lease.allocation_id, cause)
        self.context.tell(job.job_master, failed)
        self._free(lease)

    # -- the end -------------------------------------------------------------------------------------------------

    def _on_stop_requested(self, message: StopTaskExecutor) -> None:
        if message.session != self._registration.session:
            log.debug("%s: ignored %r of a past session", self.context.address, message)
            return
        self._is_stopping = True
        for lease in self._table.leases():
            self._free(lease)
        self.context.tell(self._resource_manager, TaskExecutorStopped(message.session, self.context.address))
