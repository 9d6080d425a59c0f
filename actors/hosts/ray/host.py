"""The host on Ray, as the client sees it that starts a cluster: it starts endpoints as actors, and asks them."""

from __future__ import annotations

import threading
import time
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayActorError, RayTaskError, RuntimeEnvSetupError

from actors.hosts.ray.actor import create_actor
from actors.hosts.ray.cluster import NAMESPACE, ensure_ray
from actors.hosts.ray.lives import read_entry
from actors.hosts.ray.ownership import names_of_cluster
from actors.hosts.ray.watches import ActorHandle
from actors.protocol.ports import Address, EndpointGone, EndpointSpec, Host

# How long `shutdown` waits for Ray to have ended the processes.
SHUTDOWN_TIMEOUT_S = 20.0

# The pause between two looks at an endpoint that has been asked something while it is started again.
LOOK_INTERVAL_S = 0.05


class RayHost(Host):
    """Starts and asks endpoints of one cluster; all its addresses begin with `<cluster_id>/`.

    A detached cluster outlives this process; any other ends with it (`actors.hosts.ray.ownership`).

    Args:
        cpus: the CPUs that the job's slots will take; a local Ray that is started for it declares so many more.
    """

    def __init__(self, cluster_id: str, is_detached: bool = False, cpus: float = 0.0) -> None:
        ensure_ray(cpus)
        self._cluster_id = cluster_id
        self._is_detached = is_detached
        self._handles: dict[Address, ActorHandle] = {}

    def spawn(self, spec: EndpointSpec) -> None:
        root = None if self._is_detached else spec.address
        self._handles[spec.address] = create_actor(spec, root, is_detached=self._is_detached)

    def tell(self, address: Address, message: Any) -> None:
        self._handle(address).receive.remote(message)

    def ask(self, address: Address, request: Any, timeout_ms: float) -> Any:
        """Does what `Host.ask` says, and asks again if the endpoint is started again or unreachable for a moment."""
        deadline = time.monotonic() + timeout_ms / 1000
        while (left_s := deadline - time.monotonic()) > 0:
            try:
                return ray.get(self._handle(address).ask.remote(request, left_s * 1000), timeout=left_s)
            except GetTimeoutError:
                break
            except ActorUnavailableError:
                self._wait_for_return(address, deadline)
            except (RayActorError, RuntimeEnvSetupError) as error:
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
        # Nobody else ends a detached cluster, and another one would take a moment longer. The loop kills all endpoints
        # that are left, as one that was killed may have started another just before.
        pause = threading.Event()
        deadline = time.monotonic() + SHUTDOWN_TIMEOUT_S
        while (living := self.addresses()) and time.monotonic() < deadline:
            for address in living:
                self.kill(address)
            pause.wait(0.05)
        self._handles.clear()

    def _wait_for_return(self, address: Address, deadline: float) -> None:
        """Waits until an endpoint is alive again, or dead for good. Asking it before fails after two seconds only."""
        pause = threading.Event()
        pause.wait(LOOK_INTERVAL_S)
        while time.monotonic() < deadline:
            entry = read_entry(self._handle(address))
            if entry.is_alive or entry.is_dead:
                return
            pause.wait(LOOK_INTERVAL_S)

    def _handle(self, address: Address) -> ActorHandle:
        handle = self._handles.get(address)
        if handle is None:
            try:
                handle = ray.get_actor(address, namespace=NAMESPACE)
            except ValueError as error:
                raise EndpointGone(address) from error
            self._handles[address] = handle
        return handle


def _is_ending(error: RayTaskError, address: Address) -> bool:
    """Whether the endpoint has ended and its process is about to end; the next question tells if it comes back."""
    return isinstance(error.cause, EndpointGone) and error.cause.args == (address,)
