"""The slots of one TaskExecutor and whose they are (Flink's TaskSlotTable).

    FREE -> RESERVED -> ACTIVE
      ^        |          |
      +--------+----------+

A slot is reserved when the ResourceManager asks for it and active once the JobMaster has accepted the offer.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from actors.protocol.ports import Address
from actors.protocol.resources import AllocationId, ResourceProfile, SlotOffer, SlotReport
from flinkray.types.records import JobId


class Lease(Struct):
    """A slot that belongs to a job."""

    allocation_id: AllocationId
    slot_index: int
    slot: Address
    """Address of the TaskSlot."""
    job_id: JobId
    label: str
    is_active: bool = False


class SlotTable:
    """The slots of one TaskExecutor, and the leases on them. Not thread-safe."""

    def __init__(self, profiles: Iterable[ResourceProfile]) -> None:
        self._profiles = tuple(profiles)
        self._leases: dict[AllocationId, Lease] = {}

    def report(self, slot_index: int) -> SlotReport:
        """The slot as it is now."""
        lease = next((lease for lease in self._leases.values() if lease.slot_index == slot_index), None)
        if lease is None:
            return SlotReport(slot_index, self._profiles[slot_index])
        return SlotReport(slot_index, self._profiles[slot_index], lease.allocation_id, lease.job_id, lease.label)

    def reports(self) -> tuple[SlotReport, ...]:
        return tuple(self.report(index) for index in range(len(self._profiles)))

    def is_free(self, slot_index: int) -> bool:
        return all(lease.slot_index != slot_index for lease in self._leases.values())

    def reserve(self, slot_index: int, allocation_id: AllocationId, slot: Address, job_id: JobId, label: str) -> Lease:
        """Gives a free slot to a job."""
        assert self.is_free(slot_index), f"slot {slot_index} is in use"
        lease = Lease(allocation_id, slot_index, slot, job_id, label)
        self._leases[allocation_id] = lease
        return lease

    def offers(self, job_id: JobId) -> tuple[SlotOffer, ...]:
        """All slots reserved for the job that it has not accepted yet."""
        return tuple(
            SlotOffer(lease.allocation_id, lease.slot_index, lease.slot, self._profiles[lease.slot_index], lease.label)
            for lease in self._leases.values()
            if lease.job_id == job_id and not lease.is_active
        )

    def lease(self, allocation_id: AllocationId) -> Lease | None:
        return self._leases.get(allocation_id)

    def lease_at(self, slot: Address) -> Lease | None:
        """The lease whose TaskSlot has this address."""
        return next((lease for lease in self._leases.values() if lease.slot == slot), None)

    def leases(self, job_id: JobId | None = None) -> list[Lease]:
        """All leases, or those of one job."""
        return [lease for lease in self._leases.values() if job_id in (None, lease.job_id)]

    def free(self, allocation_id: AllocationId) -> Lease | None:
        """Ends a lease and gives it; None where there is none."""
        return self._leases.pop(allocation_id, None)

    def check(self) -> None:
        """What always holds: a slot has one lease at most, and a TaskSlot belongs to one lease."""
        indices = [lease.slot_index for lease in self._leases.values()]
        assert len(indices) == len(set(indices)), "a slot has two leases"
        assert all(0 <= index < len(self._profiles) for index in indices)
        addresses = [lease.slot for lease in self._leases.values()]
        assert len(addresses) == len(set(addresses)), "a TaskSlot belongs to two leases"
