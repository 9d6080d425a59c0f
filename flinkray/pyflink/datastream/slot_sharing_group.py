"""`pyflink.datastream.slot_sharing_group`: names of groups, with what a slot of the group needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import total_ordering
from typing import Any

from flinkray.errors import InvalidProgramError
from flinkray.transformations.transformation import ResourceSpec

__all__ = ["MemorySize", "SlotSharingGroup"]


@total_ordering
@dataclass(frozen=True, eq=True)
class MemorySize:
    """A number of bytes."""

    bytes_size: int

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        return MemorySize(mebi_bytes << 20)

    def get_bytes(self) -> int:
        return self.bytes_size

    def get_kibi_bytes(self) -> int:
        return self.bytes_size >> 10

    def get_mebi_bytes(self) -> int:
        return self.bytes_size >> 20

    def get_gibi_bytes(self) -> int:
        return self.bytes_size >> 30

    def get_tebi_bytes(self) -> int:
        return self.bytes_size >> 40

    def __lt__(self, other: MemorySize) -> bool:
        return self.bytes_size < other.bytes_size


_NOTHING = MemorySize(0)


@dataclass(frozen=True)
class SlotSharingGroup:
    """Made with `SlotSharingGroup.builder(name)`."""

    name: str
    cpu_cores: float | None = None
    task_heap_memory: MemorySize | None = None
    task_off_heap_memory: MemorySize | None = None
    managed_memory: MemorySize | None = None
    external_resources: tuple[tuple[str, float], ...] = ()

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        return SlotSharingGroup.Builder(name)

    def get_name(self) -> str:
        return self.name

    def get_cpu_cores(self) -> float | None:
        return self.cpu_cores

    def get_task_heap_memory(self) -> MemorySize | None:
        return self.task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        return self.task_off_heap_memory

    def get_managed_memory(self) -> MemorySize | None:
        return self.managed_memory

    def get_external_resources(self) -> dict[str, float]:
        return dict(self.external_resources)

    def resources(self) -> ResourceSpec:
        """What a slot needs: all kinds of memory are one here.

        Raises:
            InvalidProgramError: it needs what slots do not have.
        """
        for name, value in self.external_resources:
            raise InvalidProgramError(
                f"slot sharing group {self.name!r}: a slot has CPUs and memory, and no {name!r} ({value}); start the "
                "cluster on nodes that have it"
            )
        sizes = (self.task_heap_memory, self.task_off_heap_memory, self.managed_memory)
        return ResourceSpec(self.cpu_cores or 0.0, sum(size.bytes_size for size in sizes if size is not None))

    @dataclass
    class Builder:
        name: str
        _settings: dict[str, Any] = field(default_factory=dict)
        _external: dict[str, float] = field(default_factory=dict)

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            return self._set("cpu_cores", cpu_cores)

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            return self._set("task_heap_memory", task_heap_memory)

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            return self._set("task_off_heap_memory", task_off_heap_memory)

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            return self._set("managed_memory", managed_memory)

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            """Kept in the group, which no operator can be in then."""
            self._external[name] = value
            return self

        def build(self) -> SlotSharingGroup:
            """
            Raises:
                InvalidProgramError: any are set, and not both CPUs and task heap memory to more than 0, as in Flink.
            """
            cpu_cores, memory = self._settings.get("cpu_cores"), self._settings.get("task_heap_memory")
            lacks = not cpu_cores or not memory or memory <= _NOTHING or cpu_cores <= 0
            if (self._settings or self._external) and lacks:
                raise InvalidProgramError(
                    f"slot sharing group {self.name!r}: where any resources are set, set_cpu_cores and "
                    f"set_task_heap_memory are, to more than 0; got {cpu_cores!r} and {memory!r}"
                )
            external = tuple(self._external.items())
            return SlotSharingGroup(self.name, **self._settings, external_resources=external)

        def _set(self, name: str, value: float | MemorySize) -> SlotSharingGroup.Builder:
            self._settings[name] = value
            return self
