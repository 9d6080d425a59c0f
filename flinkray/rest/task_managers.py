"""TaskExecutors, under Flink's former name for them. Sizes are in bytes, -1 where there is no such thing here."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Resources(Struct, frozen=True, kw_only=True, rename="camel"):
    """What slots have."""

    cpu_cores: float
    task_heap_memory: int
    """The memory that was set for the slots; 0: none was."""
    task_off_heap_memory: int
    managed_memory: int
    network_memory: int
    extended_resources: dict[str, Any]


class Hardware(Struct, frozen=True, kw_only=True, rename="camel"):
    """The machine of a TaskExecutor."""

    cpu_cores: int
    physical_memory: int
    free_memory: int
    managed_memory: int


class MemoryConfiguration(Struct, frozen=True, kw_only=True, rename="camel"):
    """How Flink divides the memory of a TaskManager: a Python process does not."""

    framework_heap: int = -1
    task_heap: int = -1
    framework_off_heap: int = -1
    task_off_heap: int = -1
    network_memory: int = -1
    managed_memory: int = -1
    jvm_metaspace: int = -1
    jvm_overhead: int = -1
    total_flink_memory: int = -1
    total_process_memory: int = -1


class TaskManager(Struct, frozen=True, kw_only=True, rename="camel"):
    """A TaskExecutor."""

    id: str
    path: str
    """Its address."""
    data_port: int
    jmx_port: int
    time_since_last_heartbeat: int
    """When it was heard last, in epoch milliseconds, as in Flink."""
    slots_number: int
    free_slots: int
    assigned_tasks: int
    total_resource: Resources
    free_resource: Resources
    hardware: Hardware
    memory_configuration: MemoryConfiguration


class TaskManagers(Struct, frozen=True, kw_only=True):
    """All TaskExecutors that are registered."""

    taskmanagers: list[TaskManager]


class AllocatedSlot(Struct, frozen=True, kw_only=True, rename="camel"):
    """A slot that a job has."""

    job_id: str
    resource: Resources
    assigned_tasks: int


class GarbageCollector(Struct, frozen=True, kw_only=True):
    """A generation of Python's garbage collector: how often it ran, and for how long (milliseconds; not measured)."""

    name: str
    count: int
    time: int


class ProcessMetrics(Struct, frozen=True, kw_only=True, rename="camel"):
    """The memory of the process, under the names of a Java one: its resident memory counts as heap."""

    heap_used: int
    heap_committed: int
    heap_max: int
    non_heap_used: int
    non_heap_committed: int
    non_heap_max: int
    direct_count: int
    direct_used: int
    direct_max: int
    mapped_count: int
    mapped_used: int
    mapped_max: int
    netty_shuffle_memory_segments_available: int
    netty_shuffle_memory_segments_used: int
    netty_shuffle_memory_segments_total: int
    netty_shuffle_memory_available: int
    netty_shuffle_memory_used: int
    netty_shuffle_memory_total: int
    garbage_collectors: list[GarbageCollector]


class TaskManagerDetails(TaskManager, frozen=True, kw_only=True, rename="camel"):
    """A TaskExecutor, with its slots and its process."""

    metrics: ProcessMetrics
    allocated_slots: list[AllocatedSlot]
