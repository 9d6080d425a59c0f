"""How an endpoint in a Ray actor reaches other endpoints: named actors, one-way calls, references as arguments.

Messages from slot to slot are pickled here, and Ray passes the bytes on as they are: its own pickling, which looks for
values that only cloudpickle can write and keeps buffers apart, takes longer for a small message than all the rest of
sending it.
"""

from __future__ import annotations

import logging
import os
import pickle
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, get_args

import ray
from msgspec import Struct
from ray.exceptions import RayError

from actors.hosts.ray.cluster import NAMESPACE
from actors.hosts.ray.deaths import first_line
from actors.hosts.ray.lives import read_entry
from actors.hosts.ray.metrics import RayMetrics
from actors.hosts.ray.watches import ActorHandle, Watches
from actors.protocol.data_messages import DataMessage, SendTaskEvent
from actors.protocol.ports import (
    Address,
    BatchesRef,
    DeliveryFailed,
    EndpointDied,
    EndpointSpec,
    MetricSink,
    ObjectStore,
)

if TYPE_CHECKING:  # masters and workers, which only hand batches on, do without Arrow
    from flinkray.batches.batch import Batch

log = logging.getLogger(__name__)

# How often sent messages are checked, so that a lost payload is reported that late at most.
SWEEP_INTERVAL_S = 0.05


# Classes of messages that plain pickle can write. The event in a task event may be of a class that only its sender can
# import.
_PLAIN = frozenset(get_args(DataMessage)) - {SendTaskEvent}


def write_message(message: Any) -> Any:
    """What Ray is given to send for a message."""
    return pickle.dumps(message, protocol=5) if type(message) in _PLAIN else message


def read_message(written: Any) -> Any:
    """The message that `write_message` was given."""
    return pickle.loads(written) if type(written) is bytes else written


class RayBatchesRef(Struct, frozen=True):
    """Batches in Ray's object store."""

    ref: ray.ObjectRef[Any]


class RayObjectStore:
    """Ray's object store."""

    def put(self, batches: Sequence[Batch]) -> BatchesRef:
        return RayBatchesRef(ray.put(batches))


class CreateActor(Protocol):
    """Starts the actor of an endpoint (`actors.hosts.ray.actor.create_actor`)."""

    def __call__(
        self, spec: EndpointSpec, root: Address | None, *, is_detached: bool, node_id: str | None = None
    ) -> ActorHandle: ...


class RayTransport:
    """The Transport of an endpoint in a Ray actor. Any thread of the actor may call it.

    Args:
        root: the endpoint with which this one and all that it starts end (`actors.hosts.ray.ownership`); None: they are
            detached.
        deliver: takes notices for the endpoint.
        create_actor: starts the actor of an endpoint that this one spawns.
        life: how often the endpoint was started again; None: it never is.
    """

    def __init__(
        self,
        address: Address,
        root: Address | None,
        deliver: Callable[[Any], None],
        create_actor: CreateActor,
        life: int | None = None,
    ) -> None:
        self._address = address
        self._root = root
        self._deliver = deliver
        self._create_actor = create_actor
        self._life = life
        self._is_closed = False
        self._lock = threading.Lock()
        self._handles: dict[Address, ActorHandle] = {}
        self._watches = Watches(self._on_died)
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

    def close(self) -> None:
        """Nothing is sent any more."""
        self._is_closed = True

    def send(self, sender: Address, address: Address, message: Any, payloads: Sequence[BatchesRef]) -> None:
        if self._is_closed:
            return
        handle = self._handle(address)
        if handle is None:
            if not isinstance(message, DeliveryFailed):
                self._deliver(DeliveryFailed(address, message, "the endpoint does not exist"))
            return
        refs = [payload.ref for payload in payloads if isinstance(payload, RayBatchesRef)]
        written = write_message(message)
        # Ray keeps the order of calls to an actor only if its caller makes them one after another.
        with self._lock:
            if self._life is None:
                call = handle.receive.remote(written, *refs)
            else:
                call = handle.receive_from.remote(self._address, self._life, written, *refs)
            self._sent.append((call, address, message))
        self._wake.set()

    def spawn(self, spawner: Address, spec: EndpointSpec) -> None:
        if spec.node_of not in (None, spawner):
            raise ValueError(f"{spec.address} can only be placed beside its spawner {spawner}, not {spec.node_of}")
        node_id = ray.get_runtime_context().get_node_id() if spec.node_of is not None else None
        handle = self._create_actor(spec, self._root, is_detached=not spec.dies_with_spawner, node_id=node_id)
        with self._lock:
            self._handles[spec.address] = handle
        self._watches.add(spec.address, handle, life=0)

    def watch(self, watcher: Address, address: Address) -> None:
        handle = self._handle(address)
        if handle is None:
            self._deliver(EndpointDied(address, "the endpoint does not exist"))
            return
        self._watches.add(address, handle)

    def hear(self, sender: Address, life: int) -> bool:
        """Whether a message from that life of an endpoint is still to be delivered (`Watches.hear`)."""
        return self._watches.hear(sender, life)

    def kill(self, killer: Address, address: Address) -> None:
        self._watches.remove(address)
        handle = self._handle(address)
        if handle is not None:
            ray.kill(handle, no_restart=True)
        with self._lock:
            self._handles.pop(address, None)

    def restart(self, address: Address) -> None:
        handle = self._handle(address)
        if handle is not None and read_entry(handle).is_alive:  # else it is being started again
            ray.kill(handle, no_restart=False)

    def fatal(self, address: Address, error: BaseException) -> None:
        logging.shutdown()
        os._exit(1)  # watchers hear of it from Ray, whatever state this process is in

    def _handle(self, address: Address) -> ActorHandle | None:
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

    def _on_died(self, address: Address, cause: str, is_final: bool) -> None:
        if is_final:
            with self._lock:
                self._handles.pop(address, None)
        self._deliver(EndpointDied(address, cause))

    def _sweep(self) -> None:
        """Checks sent messages, and reports those that failed because the receiver died or a payload was lost."""
        pause = threading.Event()
        try:
            while True:
                self._wake.wait()
                self._wake.clear()
                while self._sent:
                    self._sweep_once()
                    pause.wait(SWEEP_INTERVAL_S)
        except Exception as error:
            # Otherwise nobody would hear of a lost message, and its sender would wait for the answer.
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
                self._deliver(DeliveryFailed(address, message, first_line(error)))
