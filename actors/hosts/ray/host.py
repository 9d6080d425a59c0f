"""Endpoints as Ray actors, seen by the client that starts them."""

from __future__ import annotations

import threading
import time
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError
from ray.util import list_named_actors

from actors.hosts.ray.cluster import NAMESPACE, ensure_ray
from actors.hosts.ray.transport import Handle, create_actor
from actors.ports import Address, EndpointGone, EndpointSpec, Host

# How long `shutdown` waits for Ray to have ended the processes.
SHUTDOWN_TIMEOUT_S = 20.0


class RayHost(Host):
    """Starts and asks endpoints of one cluster; all its addresses begin with `<cluster_id>/`.

    A detached cluster outlives this process. Any other ends with it, as its actors belong to those that started them.

    Args:
        cpus: what the job's slots will take; a local Ray that is started for it declares that many more.
    """

    def __init__(self, cluster_id: str, is_detached: bool = False, cpus: float = 0.0) -> None:
        ensure_ray(cpus)
        self._cluster_id = cluster_id
        self._is_detached = is_detached
        self._handles: dict[Address, Handle] = {}

    def spawn(self, spec: EndpointSpec) -> None:
        self._handles[spec.address] = create_actor(spec, self._is_detached, node_id=None)

    def tell(self, address: Address, message: Any) -> None:
        self._handle(address).receive.remote(message)

    def ask(self, address: Address, request: Any, timeout_ms: float) -> Any:
        answer = self._handle(address).ask.remote(request, timeout_ms)
        try:
            return ray.get(answer, timeout=timeout_ms / 1000)
        except GetTimeoutError as error:
            raise TimeoutError(f"{address} did not answer within {timeout_ms:.0f} ms") from error
        except RayActorError as error:
            raise EndpointGone(address) from error
        except RayTaskError as error:
            raise error.cause from None

    def kill(self, address: Address) -> None:
        try:
            ray.kill(self._handle(address), no_restart=True)
        except EndpointGone:
            return

    def addresses(self) -> frozenset[Address]:
        """The endpoints of this cluster that live now."""
        prefix = f"{self._cluster_id}/"
        named = list_named_actors(all_namespaces=True)
        return frozenset(
            Address(actor["name"])
            for actor in named
            if actor["namespace"] == NAMESPACE and actor["name"].startswith(prefix)
        )

    def shutdown(self) -> None:
        # Children belong to their parents, but in a detached cluster nobody else ends them. All that are left are
        # killed each time, as one that was killed may have started another just before.
        pause = threading.Event()
        deadline = time.monotonic() + SHUTDOWN_TIMEOUT_S
        while (living := self.addresses()) and time.monotonic() < deadline:
            for address in living:
                self.kill(address)
            pause.wait(0.05)
        self._handles.clear()

    def _handle(self, address: Address) -> Handle:
        handle = self._handles.get(address)
        if handle is None:
            try:
                handle = ray.get_actor(address, namespace=NAMESPACE)
            except ValueError as error:
                raise EndpointGone(address) from error
            self._handles[address] = handle
        return handle
