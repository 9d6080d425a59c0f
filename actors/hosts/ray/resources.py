"""The free resources of the connected Ray cluster, for what must fit beside the slots of jobs."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import ray
from ray._private.ray_constants import DEBUG_AUTOSCALING_STATUS
from ray._private.state import available_resources_per_node  # not public, but nothing else tells it by node
from ray.experimental.internal_kv import _internal_kv_get  # what `ray status` reads

from actors.hosts.ray.cluster import is_own_cluster
from actors.protocol.client_requests import ClusterGrowth, ClusterResources
from actors.protocol.resources import SlotRequest
from flinkray.errors import NoResourceAvailableError

# How long to wait for resources of an earlier session or job, which are free only after its processes have ended.
SETTLE_SECONDS = 15.0

# How long Ray's monitor may take to say whether it adds nodes; it looks every five seconds.
GROWTH_SECONDS = 60


def free_cpus_by_node() -> tuple[float, ...]:
    """The CPUs that nobody has reserved on each node, most first; as Ray knew it a moment ago."""
    by_node: dict[str, dict[str, float]] = available_resources_per_node()  # type: ignore[no-untyped-call]
    return tuple(sorted((float(free.get("CPU", 0.0)) for free in by_node.values()), reverse=True))


def cluster_resources(expected: tuple[SlotRequest, ...] = (), free_cpus: tuple[float, ...] = ()) -> ClusterResources:
    """What the connected cluster has, for the ResourceManager of a flinkray cluster in it."""
    total: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return ClusterResources(
        float(total.get("CPU", 0.0)),
        is_autoscaled=may_grow() is not False,
        expected=expected,
        free_cpus=free_cpus,
        total_memory_bytes=int(total.get("memory", 0.0)),
    )


def may_grow() -> bool | None:
    """Whether an autoscaler may add nodes to the connected cluster; None: nobody knows, as in the first seconds."""
    if is_own_cluster():
        return False
    try:
        types = json.loads(_internal_kv_get(DEBUG_AUTOSCALING_STATUS))["autoscaler_report"]["node_type_mapping"]
    except (TypeError, ValueError, KeyError):
        return None
    # A node that was started by hand has a type of its own, made of its id.
    return any(node_type != f"node_{node_id}" for node_id, node_type in types.items()) if types else None


def tell_growth(tell: Callable[[ClusterGrowth], None]) -> None:
    """Has `tell` called as soon as it is known whether the cluster may grow, by another thread; not where it was known
    already, nor where it is not known for long."""
    if may_grow() is not None:
        return

    def ask() -> None:
        for _ in range(GROWTH_SECONDS):
            threading.Event().wait(1.0)
            with contextlib.suppress(Exception):  # this process may have left the cluster
                if (grows := may_grow()) is not None:
                    tell(ClusterGrowth(grows))
                    return

    threading.Thread(target=ask, name="flinkray cluster growth", daemon=True).start()


def require_free(cpus: float, memory_bytes: int, what: str) -> None:
    """Checks that Ray has room for something, and waits a little for resources that are about to be freed.

    Args:
        what: what needs the resources, for the error.

    Raises:
        NoResourceAvailableError: Ray has no room; names what needs it, what is free, what there is in all, and what to
            do.
    """
    cluster: Any = ray  # the two functions have no type hints
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
