"""The Ray actor around an endpoint."""

from __future__ import annotations

import functools
import threading
from typing import Any

import ray
from ray.actor import ActorClass

from actors.hosts.ray.transport import RayTransport
from actors.hosts.runtime import EndpointRuntime
from actors.ports import EndpointSpec
from flinkray.batch import Batch


class EndpointActor:
    """Hands over what arrives to the endpoint's own thread, so that no call takes long and their order is kept.

    Its default concurrency group has one thread: with more, Ray does not keep the order of calls.
    """

    def __init__(self, spec: EndpointSpec, is_detached: bool) -> None:
        self._name = spec.display_name or spec.address
        transport = RayTransport(spec.address, is_detached, lambda message: self._runtime.deliver(message))
        self._runtime = EndpointRuntime(spec, transport)
        self._runtime.start()

    def receive(self, message: Any, *payloads: Batch) -> None:
        self._runtime.deliver(message, payloads)

    def ask(self, request: Any, timeout_ms: float) -> Any:
        return self._runtime.request(request, timeout_ms)

    @ray.method(concurrency_group="watch")
    def watch(self) -> None:
        """Never returns: the call's end is how a watcher learns that this process died."""
        threading.Event().wait()

    def __repr__(self) -> str:
        return self._name


@functools.cache
def actor_class(name: str) -> ActorClass[Any]:
    """The actor class for endpoints of the class `name`, under that name in the dashboard."""
    named = type(name, (EndpointActor,), {"__module__": EndpointActor.__module__})
    created: ActorClass[Any] = ray.remote(concurrency_groups={"watch": 1})(named)  # type: ignore[call-overload]
    return created
