"""What the connected Ray cluster has left, for plans that must fit beside the slots."""

from __future__ import annotations

from typing import Any

import ray

from flinkray.errors import NoResourceAvailableError


def require_free(cpus: float, memory_bytes: int, what: str) -> None:
    """Checks that Ray's pool has room now.

    Raises:
        NoResourceAvailableError: it has not; names `what` needs it, what is free, what there is in all, and what to do.
    """
    cluster: Any = ray  # these two have no type hints
    free, total = cluster.available_resources(), cluster.cluster_resources()
    free_cpus, free_memory = float(free.get("CPU", 0.0)), float(free.get("memory", 0.0))
    if cpus <= free_cpus and memory_bytes <= free_memory:
        return
    raise NoResourceAvailableError(
        f"{what} need {cpus:g} CPUs and {memory_bytes / 2**20:.0f} MiB, but the Ray cluster has {free_cpus:g} of "
        f"{float(total.get('CPU', 0.0)):g} CPUs and {free_memory / 2**20:.0f} of "
        f"{float(total.get('memory', 0.0)) / 2**20:.0f} MiB free: ask for fewer or smaller executors, stop what holds "
        f"the rest, or start Ray with more (ray start --num-cpus)"
    )
