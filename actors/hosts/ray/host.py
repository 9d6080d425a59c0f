"""Endpoints as Ray actors, seen by the client that starts them."""

from __future__ import annotations

import threading
import time
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayActorError, RayTaskError

from actors.hosts.ray.cluster import NAMESPACE, ensure_ray
from actors.hosts.ray.lives import read_entry
from actors.hosts.ray.ownership import names_of_cluster
from actors.hosts.ray.transport import create_actor
from actors.hosts.ray.watches import Handle
from actors.protocol.ports import Address, EndpointGone, EndpointSpec, Host

# How long `shutdown` waits for Ray to have ended the processes.
SHUTDOWN_TIMEOUT_S = 20.0

# Between two looks at an endpoint that is started again and has been asked something.
LOOK_INTERVAL_S = 0.05


class RayHost(Host):
    """Starts and asks endpoints of one cluster; all its addresses begin with `<cluster_id>/`.

    A detached cluster outlives this process. Any other ends with it, see `actors.hosts.ray.ownership`.

    Args:
        cpus: what the job's slots will take; a local Ray that is started for it declares that many more.
    """

    def __init__(self, cluster_id: str, is_detached: bool = False, cpus: float = 0.0) -> None:
        ensure_ray(cpus)
        self._cluster_id = cluster_id
        self._is_detached = is_detached
        self._handles: dict[Address, Handle] = {}

    def spawn(self, spec: EndpointSpec) -> None:
        root = None if self._is_detached else spec.address
        self._handles[spec.address] = create_actor(spec, root, is_detached=self._is_detached)

    def tell(self, address: Address, message: Any) -> None:
        self._handle(address).receive.remote(message)

    def ask(self, address: Address, request: Any, timeout_ms: float) -> Any:
        """See Host. An endpoint that is started again, or cannot be reached for a moment, is asked once more."""
        deadline = time.monotonic() + timeout_ms / 1000
        while (left_s := deadline - time.monotonic()) > 0:
            try:
                return ray.get(self._handle(address).ask.remote(request, left_s * 1000), timeout=left_s)
            except GetTimeoutError:
                break
            except ActorUnavailableError:
                self._wait_for_return(address, deadline)
            except RayActorError as error:
                raise EndpointGone(address) from error
            except RayTaskError as error:
                if not _is_ending(error, address):
                    raise error.cause from None
                self._wait_for_return(address, deadline)
        raise TimeoutError(f"{address} did not answer within {timeout_ms:.0f} ms")

    def kill(self, address: Address) -> None:
        try:
            ray.kill(self._handle(address), no_restart=True)
        except EndpointGone:
            return

    def addresses(self) -> frozenset[Address]:
        """The endpoints of this cluster that live now."""
        return names_of_cluster(self._cluster_id)

    def shutdown(self) -> None:
        # Nobody else ends a detached cluster, and any other would take a moment longer. All that are left are killed
        # each time, as one that was killed may have started another just before.
        pause = threading.Event()
        deadline = time.monotonic() + SHUTDOWN_TIMEOUT_S
        while (living := self.addresses()) and time.monotonic() < deadline:
            for address in living:
                self.kill(address)
            pause.wait(0.05)
        self._handles.clear()

    def _wait_for_return(self, address: Address, deadline: float) -> None:
        """Until it is there again, or gone for good. What is asked meanwhile fails, and takes two seconds to."""
        pause = threading.Event()
        pause.wait(LOOK_INTERVAL_S)
        while time.monotonic() < deadline:
            entry = read_entry(self._handle(address))
            if entry.is_alive or entry.is_dead:
                return
            pause.wait(LOOK_INTERVAL_S)

    def _handle(self, address: Address) -> Handle:
        handle = self._handles.get(address)
        if handle is None:
            try:
                handle = ray.get_actor(address, namespace=NAMESPACE)
            except ValueError as error:
                raise EndpointGone(address) from error
            self._handles[address] = handle
        return handle


def _is_ending(error: RayTaskError, address: Address) -> bool:
    """The endpoint has ended and its process is about to; whether it comes back, the next question tells."""
    return isinstance(error.cause, EndpointGone) and error.cause.args == (address,)
