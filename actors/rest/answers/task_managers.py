"""TaskExecutors and their processes in Flink's shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from actors.protocol.client_requests import ProcessFigures, TaskExecutorDetails, ThreadStack, ThreadStacks
from actors.protocol.ports import Address
from actors.protocol.resources import SlotReport
from flinkray.rest import task_managers as shapes
from flinkray.rest.cluster import ThreadDump, ThreadInfo
from flinkray.rest.metrics import Metric

_NONE = -1


def id_of(task_executor: Address) -> str:
    """What a TaskExecutor is called in paths, where its address would be two steps. No address has a tilde."""
    return task_executor.replace("/", "~")


def address_of(task_manager_id: str) -> Address:
    """The TaskExecutor of an id of `id_of`."""
    return Address(task_manager_id.replace("~", "/"))


def task_manager(
    executor: TaskExecutorDetails, tasks: Mapping[int, int], processes: Sequence[ProcessFigures]
) -> shapes.TaskManager:
    """
    Args:
        tasks: index of a slot -> how many subtasks run in it.
        processes: its own and those of its slots; none: it does not answer.
    """
    return shapes.TaskManager(**_fields(executor, tasks, processes))


def details(
    executor: TaskExecutorDetails, tasks: Mapping[int, int], processes: Sequence[ProcessFigures]
) -> shapes.TaskManagerDetails:
    allocated = [slot for slot in executor.slots if slot.job_id is not None]
    return shapes.TaskManagerDetails(
        **_fields(executor, tasks, processes),
        metrics=_process(processes),
        allocated_slots=[
            shapes.AllocatedSlot(
                job_id=str(slot.job_id), resource=_resources([slot]), assigned_tasks=tasks.get(slot.slot_index, 0)
            )
            for slot in allocated
        ],
    )


def _fields(
    executor: TaskExecutorDetails, tasks: Mapping[int, int], processes: Sequence[ProcessFigures]
) -> dict[str, Any]:
    free = [slot for slot in executor.slots if slot.allocation_id is None]
    machine = processes[0] if processes else ProcessFigures("", 0)
    return {
        "id": id_of(executor.address),
        "path": executor.address,
        "data_port": _NONE,
        "jmx_port": _NONE,
        "time_since_last_heartbeat": executor.heard_ms,
        "slots_number": len(executor.slots),
        "free_slots": len(free),
        "assigned_tasks": sum(tasks.get(slot.slot_index, 0) for slot in executor.slots if slot.job_id is not None),
        "total_resource": _resources(executor.slots),
        "free_resource": _resources(free),
        "hardware": shapes.Hardware(
            cpu_cores=machine.machine_cpus,
            physical_memory=machine.machine_bytes,
            free_memory=machine.machine_free_bytes,
            managed_memory=0,
        ),
        "memory_configuration": shapes.MemoryConfiguration(),
    }


def _resources(slots: Iterable[SlotReport]) -> shapes.Resources:
    profiles = [slot.profile for slot in slots]
    return shapes.Resources(
        cpu_cores=float(sum(profile.cpus for profile in profiles)),
        task_heap_memory=sum(profile.memory_bytes for profile in profiles),
        task_off_heap_memory=0,
        managed_memory=0,
        network_memory=0,
        extended_resources={},
    )


def _process(processes: Sequence[ProcessFigures]) -> shapes.ProcessMetrics:
    resident = sum(process.resident_bytes for process in processes)
    generations = max((len(process.collections) for process in processes), default=0)
    runs = [sum(process.collections[index] for process in processes) for index in range(generations)]
    return shapes.ProcessMetrics(
        heap_used=resident,
        heap_committed=resident,
        heap_max=max((process.machine_bytes for process in processes), default=0),
        non_heap_used=0,
        non_heap_committed=0,
        non_heap_max=_NONE,
        direct_count=0,
        direct_used=0,
        direct_max=0,
        mapped_count=0,
        mapped_used=0,
        mapped_max=0,
        netty_shuffle_memory_segments_available=0,
        netty_shuffle_memory_segments_used=0,
        netty_shuffle_memory_segments_total=0,
        netty_shuffle_memory_available=0,
        netty_shuffle_memory_used=0,
        netty_shuffle_memory_total=0,
        garbage_collectors=[
            shapes.GarbageCollector(name=f"Generation_{index}", count=count, time=0) for index, count in enumerate(runs)
        ],
    )


def process_metrics(processes: Sequence[ProcessFigures]) -> list[Metric]:
    """The figures of processes in sum, under Flink's names where it has them."""
    shape = _process(processes)
    values: dict[str, float] = {
        "Status.JVM.Memory.Heap.Used": shape.heap_used,
        "Status.JVM.Memory.Heap.Committed": shape.heap_committed,
        "Status.JVM.Memory.Heap.Max": shape.heap_max,
        "Status.JVM.Threads.Count": sum(process.threads for process in processes),
        "Status.JVM.FileDescriptor.Open": sum(process.open_files for process in processes),
        "Status.JVM.CPU.Time": round(sum(process.cpu_seconds for process in processes) * 1e9),
        "Status.JVM.GarbageCollector.All.Count": sum(each.count for each in shape.garbage_collectors),
        "Status.Processes.Count": len(processes),
    }
    return [Metric(id=name, value=str(value)) for name, value in sorted(values.items())]


def threads(processes: Sequence[ThreadStacks]) -> ThreadDump:
    """The threads of all processes; where there are several, a name begins with its process."""
    has_several = len(processes) > 1
    return ThreadDump(
        thread_infos=[
            ThreadInfo(
                thread_name=f"{process.process_id}: {thread.name}" if has_several else thread.name,
                stringified_thread_info=_text(process, thread),
            )
            for process in processes
            for thread in process.threads
        ]
    )


def _text(process: ThreadStacks, thread: ThreadStack) -> str:
    kind = " daemon" if thread.is_daemon else ""
    where = f"process {process.process_id} on {process.host}"
    return f'"{thread.name}"{kind} Id={thread.identifier} ({where})\n{thread.stack}\n'
