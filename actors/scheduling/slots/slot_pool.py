"""The slots that a job holds: the JobMaster's core for slots.

Requests are opened by the scheduler, one per execution slot sharing group; slots are offered by TaskExecutors. An
offer is accepted exactly when a request is open that it can serve, and a slot whose request is closed stays for a
while as idle, to serve a later one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct

from actors.protocol.ports import Address
from actors.protocol.resources import AllocationId, ResourceProfile, SlotOffer, SlotRequest


class PooledSlot(Struct):
    """A slot that the job holds."""

    allocation_id: AllocationId
    task_executor: Address
    address: Address
    """Address of the TaskSlot."""
    profile: ResourceProfile
    label: str
    request: str | None
    """Label of the request that it serves; None: idle."""
    idle_since: float = 0.0
    is_used: bool = False
    """Whether a task was deployed to it, so that its process has lived."""


class SlotPool:
    """The slots of one job, and the requests that they serve. Not thread-safe."""

    def __init__(self) -> None:
        self._slots: dict[AllocationId, PooledSlot] = {}
        self._requests: dict[str, SlotRequest] = {}
        self._serving: dict[str, AllocationId] = {}

    # -- requests ------------------------------------------------------------------------------------------------

    def open(self, request: SlotRequest) -> None:
        """Asks for a slot; an idle one that fits serves it at once. No effect when the request is open already."""
        if request.label in self._requests:
            return
        self._requests[request.label] = request
        self._serve_with_idle(request)

    def close(self, label: str, now: float) -> None:
        """The request is not needed any more; its slot serves another one that is open, or is idle from now on."""
        self._requests.pop(label, None)
        allocation_id = self._serving.pop(label, None)
        if allocation_id is not None:
            slot = self._slots[allocation_id]
            slot.request = None
            slot.idle_since = now
            fitting = [request for request in self.unserved() if slot.profile.covers(request.profile)]
            if fitting:
                self._serve(fitting[0].label, slot)

    def requests(self) -> tuple[SlotRequest, ...]:
        """All open requests, served or not: what the job declares to the ResourceManager."""
        return tuple(self._requests.values())

    def is_open(self, label: str) -> bool:
        return label in self._requests

    def unserved(self) -> list[SlotRequest]:
        return [request for label, request in self._requests.items() if label not in self._serving]

    def is_served(self, label: str) -> bool:
        """Whether a slot serves this request."""
        return label in self._serving

    def slot_of(self, label: str) -> PooledSlot | None:
        """The slot that serves this request."""
        allocation_id = self._serving.get(label)
        return None if allocation_id is None else self._slots[allocation_id]

    # -- slots ---------------------------------------------------------------------------------------------------

    def offer(self, task_executor: Address, offers: Iterable[SlotOffer]) -> frozenset[AllocationId]:
        """Takes offered slots that can serve a request; gives those that are taken. One that the pool holds is taken
        again."""
        return frozenset(offer.allocation_id for offer in offers if self._accept(task_executor, offer))

    def slot(self, allocation_id: AllocationId) -> PooledSlot | None:
        return self._slots.get(allocation_id)

    def slots(self) -> list[PooledSlot]:
        return list(self._slots.values())

    def slots_of(self, task_executor: Address) -> list[PooledSlot]:
        return [slot for slot in self._slots.values() if slot.task_executor == task_executor]

    def remove(self, allocation_id: AllocationId) -> PooledSlot | None:
        """The slot is lost or given back; a request that it served is open again, or served by an idle one."""
        slot = self._slots.pop(allocation_id, None)
        if slot is not None and slot.request is not None:
            del self._serving[slot.request]
            self._serve_with_idle(self._requests[slot.request])
        return slot

    def take_idle(
        self, now: float, timeout_ms: float, retained: Collection[AllocationId] = frozenset()
    ) -> list[PooledSlot]:
        """Removes and gives the slots that have served nothing for so long, except those that are to be kept."""
        idle = [
            slot
            for slot in self._slots.values()
            if slot.request is None and now - slot.idle_since >= timeout_ms and slot.allocation_id not in retained
        ]
        for slot in idle:
            del self._slots[slot.allocation_id]
        return idle

    def take_all(self) -> list[PooledSlot]:
        """Removes and gives all slots, and closes all requests."""
        slots = list(self._slots.values())
        self._slots.clear()
        self._requests.clear()
        self._serving.clear()
        return slots

    def check(self) -> None:
        """What always holds: requests and slots point at each other, and nothing fits and is left unserved."""
        for label, allocation_id in self._serving.items():
            assert label in self._requests, f"{label} is served but not requested"
            assert self._slots[allocation_id].request == label, f"{label} is served by a slot that says otherwise"
            assert self._slots[allocation_id].profile.covers(self._requests[label].profile)
        for slot in self._slots.values():
            assert slot.request is None or self._serving.get(slot.request) == slot.allocation_id
        idle = [slot for slot in self._slots.values() if slot.request is None]
        for request in self.unserved():
            assert not any(slot.profile.covers(request.profile) for slot in idle), f"{request.label} could be served"

    # -- inside --------------------------------------------------------------------------------------------------

    def _accept(self, task_executor: Address, offer: SlotOffer) -> bool:
        held = self._slots.get(offer.allocation_id)
        if held is not None:
            return held.task_executor == task_executor
        fitting = [request for request in self.unserved() if offer.profile.covers(request.profile)]
        if not fitting:
            return False
        # The slot's process carries the label of the request that it was allocated for, so that one comes first.
        request = min(fitting, key=lambda request: request.label != offer.label)
        slot = PooledSlot(offer.allocation_id, task_executor, offer.slot, offer.profile, offer.label, None)
        self._slots[offer.allocation_id] = slot
        self._serve(request.label, slot)
        return True

    def _serve_with_idle(self, request: SlotRequest) -> None:
        idle = [slot for slot in self._slots.values() if slot.request is None and slot.profile.covers(request.profile)]
        if idle:
            self._serve(request.label, min(idle, key=lambda slot: slot.label != request.label))

    def _serve(self, label: str, slot: PooledSlot) -> None:
        slot.request = label
        self._serving[label] = slot.allocation_id
