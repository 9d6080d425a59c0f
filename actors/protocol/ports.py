"""What the runtime needs of the world, as narrow protocols. `actors.hosts` has the implementations.

An *endpoint* is a component that only acts on messages, in one thread (Dispatcher, ResourceManager, JobMaster,
TaskExecutor, TaskSlot; Flink's RpcEndpoint). A *loop* is a thread of the runtime's own, written so that its caller can
step it (a task, a slot's network). Whatever they need of time, chance, other processes or memory comes through the
context they are given, so the same classes run on Ray, on threads in one process, and in one thread under a seeded
scheduler.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NewType, Protocol

from msgspec import Struct, field

from actors.logs.context import LogContext
from actors.logs.setting_up import LogSettings

if TYPE_CHECKING:  # masters and workers, which only hand batches on, do without Arrow
    from flinkray.batches.batch import Batch

Address = NewType("Address", str)
"""Names an endpoint within its cluster; never reused, except by one that restarts."""
SessionId = NewType("SessionId", str)
"""Fences a component: new with every leadership, so that messages of a former one can be told and ignored."""


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock time in epoch milliseconds."""

    def monotonic_ms(self) -> float:
        """Time that never goes back, for measuring; its origin means nothing."""


class Cancellable(Protocol):
    def cancel(self) -> None:
        """Prevents the call; without effect when it was made or cancelled before."""


class Timers(Protocol):
    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Cancellable:
        """Runs `callback` once after `delay_ms`, on a thread of the host's: it must only hand over and return."""


class Loop(Protocol):
    """A thread of the runtime, as steps."""

    def step(self) -> bool:
        """Does the smallest piece of work there is; False when there is none right now. Raises nothing."""

    def wait(self, timeout_ms: float | None) -> None:
        """Blocks until `step` may have work, or the timeout; only threaded hosts call it, between idle steps."""

    @property
    def is_done(self) -> bool:
        """The loop has ended; `step` is not called again."""


class BatchesRef(Protocol):
    """Batches in the host's object store, as one object. Dropping the last reference frees it."""


class ObjectStore(Protocol):
    """Shares batches between the endpoints of a cluster by reference. Any thread may call it."""

    def put(self, batches: Sequence[Batch]) -> BatchesRef: ...


class Payloads(Protocol):
    """Reads what came with a message (see `EndpointContext.tell`)."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Sequence[Batch]: ...


ENVIRONMENT_FAILED = "its runtime environment could not be set up"
"""How the cause of an endpoint's death begins that will die of it again."""


class EndpointSpec(Struct, frozen=True):
    """An endpoint to start."""

    address: Address
    endpoint: type[Endpoint] | str
    """Class of the endpoint; or "module:Class", where whoever starts it has no use for the module."""
    arguments: tuple[Any, ...] = ()
    """Arguments of the endpoint's constructor, after the context; picklable."""
    display_name: str = ""
    """How the endpoint reads in the Ray dashboard, for example `JobMaster(word-count)`."""
    cpus: float = 0.0
    memory_bytes: int = 0
    resources: dict[str, float] = field(default_factory=dict)
    """Custom resources of Ray's."""
    node_of: Address | None = None
    """Start it on the node of that endpoint, which must be the spawner itself (a slot beside its TaskExecutor)."""
    dies_with_spawner: bool = False
    """The endpoint ends when the spawner does, even in a cluster that outlives its client."""
    restarts: bool = False
    """If it dies other than by `kill`, the host starts it again: same spec, same address, nothing of its memory. Those
    that watch it get EndpointDied for the one that died, and go on watching."""
    runtime_env: str = ""
    """What its process is to have, as the option python.runtime-env says it; without effect where hosts start none."""

    @property
    def kind(self) -> str:
        """The name of the endpoint's class."""
        return self.endpoint.rpartition(":")[2] if isinstance(self.endpoint, str) else self.endpoint.__name__

    def load(self) -> type[Endpoint]:
        """The endpoint's class; imports its module."""
        if not isinstance(self.endpoint, str):
            return self.endpoint
        module, _, name = self.endpoint.partition(":")
        loaded: type[Endpoint] = getattr(import_module(module), name)
        return loaded


class EndpointDied(Struct, frozen=True):
    """host -> watcher: the endpoint's process is gone."""

    address: Address
    cause: str


class DeliveryFailed(Struct, frozen=True):
    """host -> sender: a message could not be delivered (its receiver is gone, or a payload of it was lost)."""

    address: Address
    message: Any
    cause: str


class EndpointContext(Protocol):
    """What an endpoint may do. Any of its threads may call it; nothing here blocks for long."""

    @property
    def address(self) -> Address: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def timers(self) -> Timers: ...

    @property
    def objects(self) -> ObjectStore: ...

    @property
    def metrics(self) -> MetricSink: ...

    @property
    def shares_process(self) -> bool:
        """Whether other endpoints are in this process, on threads of their own: going on with what one of them has to
        do takes less there than waking its thread."""

    def random(self, name: str) -> random.Random:
        """A generator of this endpoint's own for the purpose `name`."""

    def tell(self, address: Address, message: Any, payloads: Sequence[BatchesRef] = ()) -> None:
        """Sends one way. Messages between two endpoints arrive in order, or are reported with DeliveryFailed.

        The host resolves `payloads` before the message is delivered, so the receiver never waits for them.
        """

    def tell_self(self, message: Any) -> None:
        """Queues a message for this endpoint's own thread: how its other threads come back to it."""

    def tell_self_later(self, delay_ms: float, message: Any) -> Cancellable: ...

    def spawn(self, spec: EndpointSpec) -> None:
        """Starts an endpoint and watches it: its death arrives here as EndpointDied. Returns at once."""

    def watch(self, address: Address) -> None:
        """Watches an endpoint: its death arrives here as EndpointDied."""

    def kill(self, address: Address) -> None:
        """Ends an endpoint at once; nothing happens if it is gone. No EndpointDied is sent for it to the killer."""

    def restart(self, address: Address) -> None:
        """Ends an endpoint that hangs, as the death of its process would: it is started again where its spec says so,
        and all who watch it hear of it."""

    def run_blocking(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], Any]) -> None:
        """Runs `work` off the endpoint's thread; then tells itself `done(result, error)`, a message."""

    def start_loop(self, name: str, loop: Loop, takes_turns: bool = False) -> None:
        """Gives the loop a thread (or steps it, in simulation) until it is done.

        Where all endpoints are in one process, no more of the loops that take turns act at a time than there are cores.
        None waits for long for one that waits itself.
        """

    def fatal(self, error: BaseException) -> None:
        """Something that this endpoint cannot go on after: its process ends, and its watchers hear of it."""


class MetricSink(Protocol):
    """Where measurements go (`ray.util.metrics` on Ray, memory elsewhere). Names in snake_case with a unit suffix."""

    def count(self, name: str, increase: float, tags: dict[str, str]) -> None: ...

    def gauge(self, name: str, value: float, tags: dict[str, str]) -> None: ...


class Endpoint(ABC):
    """Acts on messages, in one thread. The constructor gets (context, *spec.arguments) and must not block.

    Args:
        log_settings: how its process logs, where it has one of its own.
        log_context: whose lines are those that its threads log.
    """

    def __init__(
        self,
        context: EndpointContext,
        log_settings: LogSettings = LogSettings(),  # noqa: B008, as it is frozen
        log_context: LogContext = LogContext(),  # noqa: B008
    ) -> None:
        self.context = context
        self.log_settings = log_settings
        self.log_context = log_context

    def on_start(self) -> None:
        """Called once before the first message."""

    def on_arrival(self, message: Any, payloads: Payloads) -> bool:
        """Whether it takes the message where it arrives: then `on_message` does not get it, and no thread has to wake.

        Called, if the host can, on any thread, from `on_start` on: it must only hand over. What one sender sends keeps
        its order among what is taken, and among the rest.
        """
        return False

    def after_arrival(self) -> None:
        """Called after it took something, by the thread that brought it, which holds no lock of the host's any more.
        Only where endpoints share a process."""

    @abstractmethod
    def on_message(self, message: Any, payloads: Payloads) -> None:
        """One message. An exception here is a bug: the endpoint reports it as fatal."""

    def on_request(self, request: Any) -> Any:
        """Answers a client at once, without side effects on other threads. Errors are raised to the client."""
        raise TypeError(f"{type(self).__name__} does not answer {type(request).__name__}")

    def on_stop(self) -> None:
        """Called before the end where the host can: ask the loops to end. A killed process does not get here."""


class Host(ABC):
    """A place where endpoints live, seen by the client that starts a cluster there."""

    @abstractmethod
    def spawn(self, spec: EndpointSpec) -> None: ...

    @abstractmethod
    def tell(self, address: Address, message: Any) -> None: ...

    @abstractmethod
    def ask(self, address: Address, request: Any, timeout_ms: float) -> Any:
        """The endpoint's answer (`Endpoint.on_request`).

        Raises:
            TimeoutError: no answer in time.
            EndpointGone: the endpoint does not exist (any more).
        """

    @abstractmethod
    def kill(self, address: Address) -> None: ...

    @abstractmethod
    def shutdown(self) -> None:
        """Ends every endpoint that this host's client started; none of their threads or processes is left."""


class EndpointGone(Exception):
    """The endpoint that was asked does not exist, or its process died."""
