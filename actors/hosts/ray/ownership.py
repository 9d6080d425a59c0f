"""Which actors of a cluster end when its driver does, and how.

Ray ends an actor when the process that started it ends, unless the actor is detached. But a worker must survive the
restart of the master that started it, and still must not outlive the driver. So the endpoints that a driver starts (the
*roots*) are owned by it and may restart; all endpoints that are started by these, directly or not, are detached and end
themselves when their root is gone for good. Only an endpoint that dies with its spawner is owned by the spawner.
"""

from __future__ import annotations

import contextlib
import logging
import threading

import ray
from ray.util import list_named_actors

from actors.hosts.ray.cluster import NAMESPACE
from actors.hosts.ray.lives import read_entry
from actors.hosts.ray.watches import Watches
from actors.protocol.ports import Address

log = logging.getLogger(__name__)


def end_with(root: Address) -> None:
    """Ends the actor that calls this as soon as the root is gone for good."""
    try:
        handle = ray.get_actor(root, namespace=NAMESPACE)
    except ValueError:
        _end_soon(root)
        return
    Watches(lambda _, __, is_final: _end_soon(root) if is_final else None).add(root, handle)


def names_of_cluster(cluster_id: str) -> frozenset[Address]:
    """The endpoints of a cluster that are alive, wait for room, or are being started again."""
    return frozenset(
        Address(actor["name"])
        for actor in list_named_actors(all_namespaces=True)
        if actor["namespace"] == NAMESPACE and actor["name"].startswith(f"{cluster_id}/")
    )


def _end_soon(root: Address) -> None:
    # Ray's own threads, which may call this, must not wait for Ray.
    threading.Thread(target=_end, args=(root,), name=f"end with {root}", daemon=True).start()


def _end(root: Address) -> None:
    log.info("%s is gone, and this actor ends with it", root)
    try:
        _end_what_waits(root.partition("/")[0])
    finally:
        ray.kill(ray.get_runtime_context().current_actor, no_restart=True)


def _end_what_waits(cluster_id: str) -> None:
    """Ends actors that wait for room: they have no process that could end itself, and would start when nobody is
    left."""
    for name in names_of_cluster(cluster_id):
        with contextlib.suppress(ValueError):  # it is gone
            handle = ray.get_actor(name, namespace=NAMESPACE)
            if read_entry(handle).is_waiting:
                ray.kill(handle, no_restart=True)
