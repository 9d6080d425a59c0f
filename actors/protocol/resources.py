"""Slots and the cluster's resources, as masters and TaskExecutors speak of them in their messages."""

from __future__ import annotations

from typing import NewType

from msgspec import Struct

from actors.protocol.ports import Address
from flinkray.types.records import JobId

OfferId = NewType("OfferId", int)
"""Counts the offers of one TaskExecutor to one JobMaster; only the newest may be answered."""


class ResourceProfile(Struct, frozen=True):
    """What a slot has, or what is asked of one."""

    cpus: float = 0.0
    memory_bytes: int = 0

    def covers(self, other: ResourceProfile) -> bool:
        """Whether a slot of this profile can do what `other` asks for."""
        return self.cpus >= other.cpus and self.memory_bytes >= other.memory_bytes

    def __str__(self) -> str:
        memory = f" and {self.memory_bytes / 2**20:.0f} MiB" if self.memory_bytes else ""
        return f"{self.cpus:g} CPU{'' if self.cpus == 1 else 's'}{memory}"


class SlotRequest(Struct, frozen=True):
    """One slot that a job needs: for one execution slot sharing group."""

    profile: ResourceProfile
    label: str
    """Unique within the job, and how the slot reads: `word-count: Source → map (1/2), window (1/2)`."""


class SlotWait(Struct, frozen=True):
    """What a job waits for that has not got all of the slots that it has asked for."""

    since_ms: int
    needed: int
    missing: tuple[tuple[ResourceProfile, int], ...]
    """How many slots of which profile."""

    @property
    def lacks(self) -> int:
        return sum(count for _, count in self.missing)

    @property
    def resources(self) -> str:
        """The missing slots in words."""
        return " and ".join(f"{count} slot(s) of {profile}" for profile, count in self.missing)

    def __str__(self) -> str:
        return f"{self.resources}; it needs {self.needed} slot(s) and has {self.needed - self.lacks}"


class SlotReport(Struct, frozen=True):
    """A slot of a TaskExecutor as it is now."""

    slot_index: int
    profile: ResourceProfile
    allocation_id: AllocationId | None = None
    job_id: JobId | None = None
    label: str = ""


class ClusterOverview(Struct, frozen=True):
    """What the ResourceManager has to give."""

    task_executors: int = 0
    pending_task_executors: int = 0
    """Started, and not yet registered: the cluster may have no room for them."""
    slots: int = 0
    free_slots: int = 0
    cpus: float = 0.0
    """CPUs of the registered TaskExecutors."""
    slots_per_task_executor: int = 1
    slot_profile: ResourceProfile = ResourceProfile()
    total_cpus: float | None = None
    """CPUs of the whole cluster, whoever uses them; None: unknown."""
    total_memory_bytes: int | None = None
    """The same of memory."""

    def __str__(self) -> str:
        text = (
            f"{self.task_executors} TaskExecutor(s) with {self.slots} slot(s), {self.free_slots} of them free, "
            f"and {self.cpus:g} CPU(s)"
        )
        if self.pending_task_executors:
            text += f"; {self.pending_task_executors} more TaskExecutor(s) wait to be started"
        if self.total_cpus is not None:
            text += f"; {self.total_cpus:g} CPU(s) in the whole cluster"
        if self.total_memory_bytes is not None:
            text += f", and {self.total_memory_bytes / 2**20:.0f} MiB of memory"
        return text


class SlotOffer(Struct, frozen=True):
    """A slot that is reserved for the job."""

    allocation_id: AllocationId
    slot_index: int
    slot: Address
    """The TaskSlot endpoint, which data goes to directly."""
    profile: ResourceProfile
    label: str


AllocationId = NewType("AllocationId", str)
"""One lease of one slot to one job."""
