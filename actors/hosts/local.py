"""The host with all endpoints in this process, each on a thread of its own (Flink's MiniCluster)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

import cloudpickle
from msgspec import Struct, field
from msgspec.structs import replace

from actors.hosts.in_process import InProcessMetrics, InProcessObjectStore, InProcessPayloads
from actors.hosts.runtime import EndpointRuntime, pause_before_restart
from actors.hosts.turns import Turns, usable_cores
from actors.protocol.ports import (
    Address,
    BatchesRef,
    DeliveryFailed,
    EndpointDied,
    EndpointGone,
    EndpointSpec,
    Host,
    MetricSink,
    ObjectStore,
)
from actors.tasks.memory import keep_freed_memory
from flinkray.errors import message_of

log = logging.getLogger(__name__)

# How long `shutdown` waits for threads; a user function that never returns keeps its (daemon) thread for longer.
JOIN_TIMEOUT_S = 10.0


class _LivingEndpoint(Struct):
    """The endpoint at an address. When it restarts, another life takes its place."""

    runtime: EndpointRuntime
    arguments: bytes | None
    """The pickled arguments of the first life, for the next one; None: the endpoint does not restart."""
    started_s: float
    watchers: set[EndpointRuntime]
    """The endpoints that hear of the end of this life."""
    children: set[Address] = field(default_factory=set)
    """Endpoints that it has spawned and that end with it."""
    watched: set[Address] = field(default_factory=set)
    """Endpoints of whose end this life hears."""


class LocalHost(Host):
    """Endpoints on threads. Ending one stops its loops at their next step, as the end of a process would."""

    def __init__(self) -> None:
        keep_freed_memory()  # before threads of the host get heaps of their own
        self._lock = threading.Lock()
        self._endpoints: dict[Address, _LivingEndpoint] = {}
        self._ending: list[EndpointRuntime] = []
        self._objects = InProcessObjectStore()
        self._metrics = InProcessMetrics()
        self._turns = Turns(usable_cores())

    # -- Host ----------------------------------------------------------------------------------------------------

    def spawn(self, spec: EndpointSpec) -> None:
        self.start(spec, spawner=None)

    def tell(self, address: Address, message: Any) -> None:
        self._runtime(address).deliver(message)

    def ask(self, address: Address, request: Any, timeout_ms: float) -> Any:
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            runtime = self._runtime(address)
            try:
                return runtime.request(request, max(0.0, deadline - time.monotonic()) * 1000)
            except EndpointGone:
                with self._lock:
                    endpoint = self._endpoints.get(address)
                if endpoint is None or endpoint.runtime is runtime:
                    raise
                # The endpoint ended before it got to the request, and has been started again.

    def kill(self, address: Address) -> None:
        self._end(address, cause="killed by the client")

    def shutdown(self) -> None:
        while True:
            for address in self.addresses():
                self._end(address, cause="the host is shut down")
            with self._lock:
                ending, self._ending = self._ending, []
            if not ending:
                return
            for runtime in ending:
                if not runtime.join(JOIN_TIMEOUT_S):
                    log.warning("a thread of %s did not end within %.0f s", runtime.address, JOIN_TIMEOUT_S)

    def addresses(self) -> frozenset[Address]:
        """The endpoints that live now."""
        with self._lock:
            return frozenset(self._endpoints)

    # -- what endpoints use --------------------------------------------------------------------------------------

    @property
    def objects(self) -> ObjectStore:
        return self._objects

    @property
    def metrics(self) -> MetricSink:
        return self._metrics

    @property
    def memory_metrics(self) -> InProcessMetrics:
        """The metrics of all endpoints."""
        return self._metrics

    def send(self, sender: EndpointRuntime, address: Address, message: Any, payloads: Sequence[BatchesRef]) -> None:
        # Under the lock, so that no message of an endpoint comes after the notice of its death. An endpoint that was
        # ended in the middle of a message still runs its code to the end, as a process would not.
        with self._lock:
            if not self._is_alive(sender):
                return
            receiver = self._endpoints.get(address)
            if receiver is None:
                if not isinstance(message, DeliveryFailed):
                    sender.deliver(DeliveryFailed(address, message, "the endpoint does not exist"))
                return
            is_taken = receiver.runtime.bring(message, InProcessPayloads(payloads) if payloads else ())
        if is_taken:
            receiver.runtime.after_arrival()

    def start(self, spec: EndpointSpec, spawner: EndpointRuntime | None) -> None:
        """Starts an endpoint, unless its spawner has been ended in the middle of a message.

        A process would not have come this far then, and nobody is left to end what it starts.
        """
        # Pickled before the first life, so that no life sees what another one has done to its arguments.
        arguments = cloudpickle.dumps(spec.arguments) if spec.restarts else None
        with self._lock:
            if spawner is not None and not self._is_alive(spawner):
                log.debug("%s is not started: its spawner %s has ended", spec.address, spawner.address)
                return
            if spec.address in self._endpoints:
                raise ValueError(f"an endpoint {spec.address!r} exists already")
            self._begin(spec, arguments, set() if spawner is None else {spawner}, pause_s=0.0)
            if spawner is not None and spec.dies_with_spawner:
                self._endpoints[spawner.address].children.add(spec.address)

    def watch(self, watcher: EndpointRuntime, address: Address) -> None:
        with self._lock:
            endpoint = self._endpoints.get(address)
            if endpoint is None:
                watcher.deliver(EndpointDied(address, "the endpoint does not exist"))
            elif self._is_alive(watcher):
                endpoint.watchers.add(watcher)
                self._endpoints[watcher.address].watched.add(address)

    def kill_from(self, killer: EndpointRuntime, address: Address) -> None:
        with self._lock:
            is_alive = self._is_alive(killer)
        if is_alive:
            self._end(address, killer=killer, cause=f"killed by {killer.address}")

    def restart_from(self, asker: EndpointRuntime, address: Address) -> None:
        with self._lock:
            is_alive = self._is_alive(asker)
        if is_alive:
            self._end(address, cause=f"ended by {asker.address}, as it hangs", may_restart=True)

    def fatal(self, runtime: EndpointRuntime, error: BaseException) -> None:
        self._end(runtime.address, only=runtime, cause=f"{type(error).__name__}: {message_of(error)}", may_restart=True)

    # -- inside --------------------------------------------------------------------------------------------------

    def _runtime(self, address: Address) -> EndpointRuntime:
        with self._lock:
            endpoint = self._endpoints.get(address)
        if endpoint is None:
            raise EndpointGone(address)
        return endpoint.runtime

    def _is_alive(self, runtime: EndpointRuntime) -> bool:
        """Whether this is the present life of its endpoint. Called with the lock held."""
        endpoint = self._endpoints.get(runtime.address)
        return endpoint is not None and endpoint.runtime is runtime

    def _begin(
        self, spec: EndpointSpec, arguments: bytes | None, watchers: set[EndpointRuntime], pause_s: float
    ) -> None:
        transport = _LocalTransport(self)
        runtime = transport.runtime = EndpointRuntime(spec, transport, pause_s, self._turns)
        self._endpoints[spec.address] = _LivingEndpoint(runtime, arguments, time.monotonic(), watchers)
        runtime.start()  # under the lock, so that whoever ends it finds a thread to wait for

    def _end(
        self,
        address: Address,
        *,
        cause: str,
        killer: EndpointRuntime | None = None,
        only: EndpointRuntime | None = None,
        may_restart: bool = False,
    ) -> None:
        """Ends the endpoint at an address.

        Args:
            killer: hears nothing of the end.
            only: the life that is to end; nothing happens if another one has taken its place.
            may_restart: the next life begins if the endpoint restarts.
        """
        with self._lock:
            endpoint = self._endpoints.get(address)
            if endpoint is None or only not in (None, endpoint.runtime):
                return
            if killer is not None:
                endpoint.watchers.discard(killer)
            self._end_life(endpoint, cause)
            if may_restart and endpoint.arguments is not None:
                spec = replace(endpoint.runtime.spec, arguments=cloudpickle.loads(endpoint.arguments))
                pause_s = pause_before_restart(time.monotonic() - endpoint.started_s)
                self._begin(spec, endpoint.arguments, endpoint.watchers, pause_s)

    def _end_life(self, endpoint: _LivingEndpoint, cause: str) -> None:
        """Ends an endpoint and the children that end with it, and tells their watchers. Called with the lock held."""
        runtime = endpoint.runtime
        del self._endpoints[runtime.address]
        self._ending = [ending for ending in self._ending if not ending.join(0)] + [runtime]
        runtime.end()
        endpoint.watchers = {watcher for watcher in endpoint.watchers if self._is_alive(watcher)}
        for watcher in endpoint.watchers:
            watcher.deliver(EndpointDied(runtime.address, cause))
        for address in endpoint.watched & self._endpoints.keys():
            self._endpoints[address].watchers.discard(runtime)
        for address in endpoint.children:
            child = self._endpoints.get(address)
            if child is not None:
                self._end_life(child, f"{runtime.address} ended")


class _LocalTransport:
    """The host as one life of an endpoint sees it (its Transport)."""

    runtime: EndpointRuntime

    def __init__(self, host: LocalHost) -> None:
        self._host = host

    @property
    def objects(self) -> ObjectStore:
        return self._host.objects

    @property
    def metrics(self) -> MetricSink:
        return self._host.metrics

    def send(self, sender: Address, address: Address, message: Any, payloads: Sequence[BatchesRef]) -> None:
        self._host.send(self.runtime, address, message, payloads)

    def spawn(self, spawner: Address, spec: EndpointSpec) -> None:
        self._host.start(spec, self.runtime)

    def watch(self, watcher: Address, address: Address) -> None:
        self._host.watch(self.runtime, address)

    def kill(self, killer: Address, address: Address) -> None:
        self._host.kill_from(self.runtime, address)

    def restart(self, address: Address) -> None:
        self._host.restart_from(self.runtime, address)

    def fatal(self, address: Address, error: BaseException) -> None:
        self._host.fatal(self.runtime, error)
