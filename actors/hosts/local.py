"""All endpoints in this process, each on a thread of its own (Flink's MiniCluster)."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from actors.hosts.runtime import EndpointRuntime
from actors.ports import (
    Address,
    BatchRef,
    DeliveryFailed,
    EndpointDied,
    EndpointGone,
    EndpointSpec,
    Host,
    MetricSink,
    ObjectStore,
)
from flinkray.batch import Batch

log = logging.getLogger(__name__)

# How long `shutdown` waits for threads; a user function that never returns keeps its (daemon) thread longer.
JOIN_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class LocalBatchRef:
    """A batch in this process: the reference is the batch."""

    batch: Batch

    @property
    def nbytes(self) -> int:
        return self.batch.nbytes


class LocalObjectStore:
    """Batches are shared as they are."""

    def put(self, batch: Batch) -> BatchRef:
        return LocalBatchRef(batch)


class LocalPayloads:
    """The batches of a message's references."""

    def __init__(self, refs: Sequence[BatchRef]) -> None:
        self._refs = refs

    def __len__(self) -> int:
        return len(self._refs)

    def __getitem__(self, index: int) -> Batch:
        ref = self._refs[index]
        assert isinstance(ref, LocalBatchRef)
        return ref.batch


class MemoryMetrics:
    """Keeps the last value of each gauge and the sum of each counter, by name and tags; any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[tuple[str, tuple[tuple[str, str], ...]], float] = defaultdict(float)

    def count(self, name: str, increase: float, tags: dict[str, str]) -> None:
        with self._lock:
            self._values[name, tuple(sorted(tags.items()))] += increase

    def gauge(self, name: str, value: float, tags: dict[str, str]) -> None:
        with self._lock:
            self._values[name, tuple(sorted(tags.items()))] = value

    def values(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """A copy of everything."""
        with self._lock:
            return dict(self._values)


class LocalHost(Host):
    """Endpoints on threads. Ending one stops its loops at their next step, as a process's end would."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runtimes: dict[Address, EndpointRuntime] = {}
        self._watchers: dict[Address, set[Address]] = defaultdict(set)
        self._children: dict[Address, set[Address]] = defaultdict(set)
        self._ending: list[EndpointRuntime] = []
        self._objects = LocalObjectStore()
        self._metrics = MemoryMetrics()

    # -- Host ----------------------------------------------------------------------------------------------------

    def spawn(self, spec: EndpointSpec) -> None:
        self._start(spec, watcher=None)

    def tell(self, address: Address, message: Any) -> None:
        runtime = self._runtimes.get(address)
        if runtime is None:
            raise EndpointGone(address)
        runtime.deliver(message)

    def ask(self, address: Address, request: Any, timeout_ms: float) -> Any:
        runtime = self._runtimes.get(address)
        if runtime is None:
            raise EndpointGone(address)
        return runtime.request(request, timeout_ms)

    def kill(self, address: Address) -> None:
        self._end(address, killer=None, cause="killed by the client")

    def shutdown(self) -> None:
        while True:
            for address in self.addresses():
                self._end(address, killer=None, cause="the host is shut down")
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
            return frozenset(self._runtimes)

    # -- Transport (what endpoints use) --------------------------------------------------------------------------

    @property
    def objects(self) -> ObjectStore:
        return self._objects

    @property
    def metrics(self) -> MetricSink:
        return self._metrics

    @property
    def memory_metrics(self) -> MemoryMetrics:
        """What the endpoints measured."""
        return self._metrics

    def send(self, sender: Address, address: Address, message: Any, payloads: Sequence[BatchRef]) -> None:
        # Under the lock, so that nothing of an endpoint comes after the notice of its death. One that was ended in the
        # middle of a message is still at it; a process would not be.
        with self._lock:
            back = self._runtimes.get(sender)
            if back is None:
                return
            runtime = self._runtimes.get(address)
            if runtime is not None:
                runtime.deliver(message, LocalPayloads(payloads) if payloads else ())
            elif not isinstance(message, DeliveryFailed):
                back.deliver(DeliveryFailed(address, message, "the endpoint does not exist"))

    def transport_spawn(self, spawner: Address, spec: EndpointSpec) -> None:
        self._start(spec, watcher=spawner)

    def watch(self, watcher: Address, address: Address) -> None:
        with self._lock:
            is_alive = address in self._runtimes
            if is_alive:
                self._watchers[address].add(watcher)
        if not is_alive:
            self._notify(watcher, EndpointDied(address, "the endpoint does not exist"))

    def transport_kill(self, killer: Address, address: Address) -> None:
        self._end(address, killer=killer, cause=f"killed by {killer}")

    def fatal(self, address: Address, error: BaseException) -> None:
        self._end(address, killer=None, cause=f"{type(error).__name__}: {error}")

    # -- inside --------------------------------------------------------------------------------------------------

    def _start(self, spec: EndpointSpec, watcher: Address | None) -> None:
        runtime = EndpointRuntime(spec, _LocalTransport(self))
        with self._lock:
            if watcher is not None and watcher not in self._runtimes:
                # The spawner has been ended in the middle of a message. A process would not have got here, and
                # nobody is left to end what it starts.
                log.debug("%s is not started: its spawner %s has ended", spec.address, watcher)
                return
            if spec.address in self._runtimes:
                raise ValueError(f"an endpoint {spec.address!r} exists already")
            self._runtimes[spec.address] = runtime
            if watcher is not None:
                self._watchers[spec.address].add(watcher)
                if spec.dies_with_spawner:
                    self._children[watcher].add(spec.address)
            runtime.start()  # under the lock, so that whoever ends it finds a thread to wait for

    def _end(self, address: Address, killer: Address | None, cause: str) -> None:
        with self._lock:
            runtime = self._runtimes.pop(address, None)
            watchers = self._watchers.pop(address, set()) - {killer}
            children = self._children.pop(address, set())
            if runtime is None:
                return
            self._ending = [ending for ending in self._ending if not ending.join(0)] + [runtime]
        runtime.end()
        for watcher in watchers:
            self._notify(watcher, EndpointDied(address, cause))
        for child in children:
            self._end(child, killer=address, cause=f"{address} ended")

    def _notify(self, watcher: Address, death: EndpointDied) -> None:
        runtime = self._runtimes.get(watcher)
        if runtime is not None:
            runtime.deliver(death)


class _LocalTransport:
    """The host as its endpoints see it."""

    def __init__(self, host: LocalHost) -> None:
        self._host = host
        self.send = host.send
        self.spawn = host.transport_spawn
        self.watch = host.watch
        self.kill = host.transport_kill
        self.fatal = host.fatal

    @property
    def objects(self) -> ObjectStore:
        return self._host.objects

    @property
    def metrics(self) -> MetricSink:
        return self._host.metrics
