"""How an endpoint in a Ray actor reaches the others: named actors, one-way calls, references as arguments."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.hosts.ray.cluster import NAMESPACE
from actors.hosts.ray.metrics import RayMetrics
from actors.ports import Address, BatchRef, DeliveryFailed, EndpointDied, EndpointSpec, MetricSink, ObjectStore
from flinkray.batch import Batch

log = logging.getLogger(__name__)

Handle = Any
"""A Ray actor handle. Ray's own type cannot express the methods of a class that is made at run time."""

# How often sent messages are looked after: a lost payload is reported that late at most.
SWEEP_INTERVAL_S = 0.05


@dataclass(frozen=True, slots=True)
class RayBatchRef:
    """A batch in Ray's object store."""

    ref: ray.ObjectRef[Any]
    nbytes: int


class RayObjectStore:
    """Ray's object store."""

    def put(self, batch: Batch) -> BatchRef:
        return RayBatchRef(ray.put(batch), batch.nbytes)


def create_actor(spec: EndpointSpec, is_detached: bool, node_id: str | None) -> Handle:
    """Starts the actor of an endpoint; returns before it runs."""
    from actors.hosts.ray.actor import actor_class  # the actor's module needs this one for its transport

    options: dict[str, Any] = {
        "name": spec.address,
        "namespace": NAMESPACE,
        "num_cpus": spec.cpus,
        "max_restarts": 0,
        "max_concurrency": 1,
    }
    if spec.memory_bytes:
        options["memory"] = spec.memory_bytes
    if spec.resources:
        options["resources"] = spec.resources
    if is_detached and not spec.dies_with_spawner:
        options["lifetime"] = "detached"
    if node_id is not None:
        options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(node_id, soft=False)
    return actor_class(spec.endpoint.__name__).options(**options).remote(spec, is_detached)


class RayTransport:
    """One per endpoint actor. Any thread of the actor may call it."""

    def __init__(self, address: Address, is_detached: bool, deliver: Callable[[Any], None]) -> None:
        self._address = address
        self._is_detached = is_detached
        self._deliver = deliver
        self._lock = threading.Lock()
        self._handles: dict[Address, Handle] = {}
        self._watched: dict[Address, ray.ObjectRef[Any]] = {}
        self._sent: deque[tuple[ray.ObjectRef[Any], Address, Any]] = deque()
        self._wake = threading.Event()
        self._objects = RayObjectStore()
        self._metrics = RayMetrics()
        threading.Thread(target=self._sweep, name=f"{address} sweep", daemon=True).start()

    @property
    def objects(self) -> ObjectStore:
        return self._objects

    @property
    def metrics(self) -> MetricSink:
        return self._metrics

    def send(self, sender: Address, address: Address, message: Any, payloads: Sequence[BatchRef]) -> None:
        handle = self._handle(address)
        if handle is None:
            if not isinstance(message, DeliveryFailed):
                self._deliver(DeliveryFailed(address, message, "the endpoint does not exist"))
            return
        refs = [payload.ref for payload in payloads if isinstance(payload, RayBatchRef)]
        # Ray keeps the order of one caller's calls to one actor only if they are made one after another.
        with self._lock:
            self._sent.append((handle.receive.remote(message, *refs), address, message))
        self._wake.set()

    def spawn(self, spawner: Address, spec: EndpointSpec) -> None:
        if spec.node_of not in (None, spawner):
            raise ValueError(f"{spec.address} can only be placed beside its spawner {spawner}, not {spec.node_of}")
        node_id = ray.get_runtime_context().get_node_id() if spec.node_of is not None else None
        handle = create_actor(spec, self._is_detached, node_id)
        with self._lock:
            self._handles[spec.address] = handle
        self.watch(spawner, spec.address)

    def watch(self, watcher: Address, address: Address) -> None:
        handle = self._handle(address)
        if handle is None:
            self._deliver(EndpointDied(address, "the endpoint does not exist"))
            return
        with self._lock:
            if address in self._watched:
                return
            pending = self._watched[address] = handle.watch.remote()
        # The call never returns: it ends with an error when the actor's process does.
        pending.future().add_done_callback(lambda done: self._on_watch_ended(address, done.exception()))

    def kill(self, killer: Address, address: Address) -> None:
        with self._lock:
            self._watched.pop(address, None)
        handle = self._handle(address)
        if handle is not None:
            ray.kill(handle, no_restart=True)
        with self._lock:
            self._handles.pop(address, None)

    def fatal(self, address: Address, error: BaseException) -> None:
        logging.shutdown()
        os._exit(1)  # the watchers learn of it by Ray's death notice, whatever state this process is in

    def _handle(self, address: Address) -> Handle | None:
        with self._lock:
            handle = self._handles.get(address)
        if handle is None:
            try:
                handle = ray.get_actor(address, namespace=NAMESPACE)
            except ValueError:
                return None
            with self._lock:
                self._handles[address] = handle
        return handle

    def _on_watch_ended(self, address: Address, error: BaseException | None) -> None:
        is_alive_perhaps = isinstance(error, ActorUnavailableError)
        with self._lock:
            was_watched = self._watched.pop(address, None) is not None
            if not is_alive_perhaps:
                self._handles.pop(address, None)
        if not was_watched:
            return
        if is_alive_perhaps:
            # Only the connection broke. To call dead what goes on working would have its work done twice.
            self.watch(self._address, address)
        else:
            self._deliver(EndpointDied(address, _first_line(error)))

    def _sweep(self) -> None:
        """Looks after sent messages: one that failed (its receiver died, a payload was lost) is reported."""
        pause = threading.Event()
        try:
            while True:
                self._wake.wait()
                self._wake.clear()
                while self._sent:
                    self._sweep_once()
                    pause.wait(SWEEP_INTERVAL_S)
        except Exception as error:  # from here on nobody would hear of a lost message, and wait for what it was about
            log.critical("%s cannot look after its messages any more", self._address, exc_info=error)
            self.fatal(self._address, error)

    def _sweep_once(self) -> None:
        with self._lock:
            sent, self._sent = self._sent, deque()
        ready, _ = ray.wait([ref for ref, _, _ in sent], num_returns=len(sent), timeout=0, fetch_local=False)
        done = set(ready)
        waiting = deque(entry for entry in sent if entry[0] not in done)
        with self._lock:
            waiting.extend(self._sent)
            self._sent = waiting
        try:
            ray.get(ready)
        except Exception:
            for ref, address, message in sent:
                if ref in done:
                    self._report_failure(ref, address, message)

    def _report_failure(self, ref: ray.ObjectRef[Any], address: Address, message: Any) -> None:
        try:
            ray.get(ref)
        except (RayError, Exception) as error:
            if not isinstance(message, DeliveryFailed):
                self._deliver(DeliveryFailed(address, message, _first_line(error)))


def _first_line(error: BaseException | None) -> str:
    if isinstance(error, RayTaskError):
        error = error.cause  # what its process raised; its own text begins with where that was
    text = str(error).strip() if error is not None else ""
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else "the endpoint ended"
