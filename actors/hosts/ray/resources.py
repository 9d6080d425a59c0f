"""What the connected Ray cluster has left, for plans that must fit beside the slots."""

from __future__ import annotations

import threading
import time
from typing import Any

import ray
from ray._private.state import available_resources_per_node  # for developers; nothing public tells it by node

from flinkray.errors import NoResourceAvailableError

# What an earlier session or job gave back appears in Ray's pool only after its processes have ended.
SETTLE_SECONDS = 15.0


def free_cpus_by_node() -> tuple[float, ...]:
    """CPUs that nobody has reserved, of each node that lives; as Ray knew it a moment ago."""
    by_node: dict[str, dict[str, float]] = available_resources_per_node()  # type: ignore[no-untyped-call]
    return tuple(sorted((float(free.get("CPU", 0.0)) for free in by_node.values()), reverse=True))


def require_free(cpus: float, memory_bytes: int, what: str) -> None:
    """Checks that Ray's pool has room; waits a little for what is about to be given back.

    Raises:
        NoResourceAvailableError: it has not; names `what` needs it, what is free, what there is in all, and what to do.
    """
    cluster: Any = ray  # these two have no type hints
    total = cluster.cluster_resources()
    can_ever_fit = cpus <= total.get("CPU", 0.0) and memory_bytes <= total.get("memory", 0.0)
    deadline = time.monotonic() + (SETTLE_SECONDS if can_ever_fit else 0.0)
    while True:
        free = cluster.available_resources()
        free_cpus, free_memory = float(free.get("CPU", 0.0)), float(free.get("memory", 0.0))
        if cpus <= free_cpus and memory_bytes <= free_memory:
            return
        if time.monotonic() >= deadline:
            break
        threading.Event().wait(0.2)
    raise NoResourceAvailableError(
        f"{what} need {cpus:g} CPUs and {memory_bytes / 2**20:.0f} MiB, but the Ray cluster has {free_cpus:g} of "
        f"{float(total.get('CPU', 0.0)):g} CPUs and {free_memory / 2**20:.0f} of "
        f"{float(total.get('memory', 0.0)) / 2**20:.0f} MiB free: ask for fewer or smaller executors, stop what holds "
        f"the rest, or start Ray with more (ray start --num-cpus)"
    )
