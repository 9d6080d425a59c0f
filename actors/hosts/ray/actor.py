"""The Ray actor around an endpoint: how it starts, takes messages and restarts."""

from __future__ import annotations

import functools
import json
import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import ray
from ray.actor import ActorClass
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.hosts.ray.cluster import NAMESPACE
from actors.hosts.ray.lives import ActorEntry, read_own_entry
from actors.hosts.ray.ownership import end_with
from actors.hosts.ray.termination import on_sigterm
from actors.hosts.ray.transport import RayTransport, read_message
from actors.hosts.ray.watches import ActorHandle
from actors.hosts.runtime import EndpointRuntime, pause_before_restart
from actors.protocol.ports import Address, EndpointSpec

if TYPE_CHECKING:  # masters and workers, which only hand batches on, do without Arrow
    from flinkray.batches.batch import Batch

log = logging.getLogger(__name__)

# How long an endpoint that is started again waits at least. A life that ends before Ray has noted that its process was
# ready leaves no trace of when it began, by which the next one could tell that it must wait.
READY_S = 0.25

# How long a process that gets SIGTERM gives its endpoint to end, for example to have its tasks closed.
TERMINATION_S = 3.0


class EndpointActor:
    """Hands what arrives to the endpoint's own thread, so that no call takes long and the order of calls is kept.

    Its default concurrency group has one thread: with more, Ray does not keep the order of calls.

    Args:
        root: the driver's endpoint with which this one ends (`actors.hosts.ray.ownership`); None: it is detached.
    """

    def __init__(self, spec: EndpointSpec, root: Address | None) -> None:
        self._begin(spec, root, life=None, pause_s=0.0)

    def _begin(self, spec: EndpointSpec, root: Address | None, life: int | None, pause_s: float) -> None:
        self._name = spec.display_name or spec.address
        self._transport = RayTransport(
            spec.address, root, lambda message: self._runtime.deliver(message), create_actor, life
        )
        self._runtime = EndpointRuntime(spec, self._transport, pause_s)
        on_sigterm(self._terminate)
        self._runtime.start()
        if root is not None and root != spec.address and not spec.dies_with_spawner:
            end_with(root)

    def receive(self, message: Any, *payloads: Sequence[Batch]) -> None:
        self._runtime.deliver(read_message(message), payloads)

    def receive_from(self, sender: Address, life: int, message: Any, *payloads: Sequence[Batch]) -> None:
        """Takes a message of an endpoint that restarts; the notice of its former life's death is delivered before
        it."""
        if self._transport.hear(sender, life):
            self._runtime.deliver(read_message(message), payloads)

    def ask(self, request: Any, timeout_ms: float) -> Any:
        return self._runtime.request(request, timeout_ms)

    @ray.method(concurrency_group="watch")
    def watch(self) -> None:
        """Never returns: by the end of the call a watcher learns that this process died."""
        threading.Event().wait()

    def _terminate(self) -> None:
        """Ends the endpoint, in silence: what its tasks say of their end is not to be taken for what the job has come
        to."""
        self._transport.close()
        self._runtime.end()
        self._runtime.join(TERMINATION_S)

    def __repr__(self) -> str:
        return self._name


class RestartingEndpointActor(EndpointActor):
    """An actor that Ray starts again when its process dies; other actors recognise it by its method `life`."""

    def __init__(self, spec: EndpointSpec, root: Address | None) -> None:
        try:
            entry = read_own_entry()
            self._life = entry.life
            self._begin(spec, root, entry.life, _pause_s(entry))
        except BaseException:
            # Ray does not restart an actor whose constructor raises, but one whose process dies in it.
            log.critical("%s cannot start", spec.address, exc_info=True)
            logging.shutdown()
            os._exit(1)

    def life(self) -> int:
        """How often the endpoint was started again."""
        return self._life


def _pause_s(entry: ActorEntry) -> float:
    """How long an endpoint waits before its next life begins, which Ray's entry of its actor shows."""
    if not entry.life:
        return 0.0
    if not entry.alive_since_ms:
        return pause_before_restart(0.0)
    return max(READY_S, pause_before_restart(time.time() - entry.alive_since_ms / 1000))


@functools.cache
def actor_class(name: str, restarts: bool) -> ActorClass[Any]:
    """The actor class for endpoints of the class `name`, under that name in the dashboard."""
    base = RestartingEndpointActor if restarts else EndpointActor
    named = type(name, (base,), {"__module__": base.__module__})
    created: ActorClass[Any] = ray.remote(concurrency_groups={"watch": 1})(named)  # type: ignore[call-overload]
    return created


def create_actor(
    spec: EndpointSpec, root: Address | None, *, is_detached: bool, node_id: str | None = None
) -> ActorHandle:
    """Starts the actor of an endpoint; returns before it runs.

    A master, which takes no CPU, goes to the node of its spawner, and so of the driver, if it ends with the driver
    anyway. Ray would spread masters over the nodes, and start one of a lost node again only when it has given up the
    node.

    Args:
        root: the endpoint with which this one ends (`actors.hosts.ray.ownership`); None: the cluster does not end with
            its driver.
        is_detached: whether the actor outlives this process.
        node_id: the node to start it on; None: any.
    """
    options: dict[str, Any] = {
        "name": spec.address,
        "namespace": NAMESPACE,
        "num_cpus": spec.cpus,
        "max_restarts": -1 if spec.restarts else 0,
        "max_task_retries": 0,
        "max_concurrency": 1,
    }
    if spec.memory_bytes:
        options["memory"] = spec.memory_bytes
    if spec.resources:
        options["resources"] = spec.resources
    if spec.runtime_env:
        options["runtime_env"] = json.loads(spec.runtime_env)
    if is_detached:
        options["lifetime"] = "detached"
    if node_id is not None:
        options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(node_id, soft=False)
    elif root is not None and not spec.cpus:
        here = ray.get_runtime_context().get_node_id()
        options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(here, soft=False)
    return actor_class(spec.kind, spec.restarts).options(**options).remote(spec, root)
