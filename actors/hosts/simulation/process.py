"""A process of the simulation: an endpoint with its loops, its timers and its work in the background."""

from __future__ import annotations

import enum
import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import cloudpickle

from actors.hosts.simulation.schedule import Action, Schedule
from actors.protocol.ports import (
    Address,
    BatchesRef,
    Cancellable,
    Clock,
    Endpoint,
    EndpointSpec,
    Loop,
    MetricSink,
    ObjectStore,
    Timers,
)

# Virtual time that work off an endpoint's thread waits before it is done, at most.
LONGEST_WAIT_OF_WORK_MS = 30.0


class ProcessEnded(BaseException):
    """Unwinds the code of a process that was killed in the middle. No Exception, so that no handler takes it."""


class ProcessState(enum.Enum):
    """STARTING -> RUNNING -> ENDED; one that is started again is another process."""

    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"


class World(Protocol):
    """What a process needs of the simulation (`actors.hosts.simulation.host.SimulationHost`)."""

    schedule: Schedule
    seed: int

    @property
    def objects(self) -> ObjectStore: ...

    @property
    def metrics(self) -> MetricSink: ...

    def start(self, process: Process) -> None: ...
    def step_loop(self, process: Process, loop: Loop) -> bool: ...
    def work_of(self, process: Process, work: Callable[[], Any]) -> tuple[Any, BaseException | None, float]: ...
    def call(self, process: Process, callback: Callable[[], None]) -> None: ...
    def send(self, sender: Process, address: Address, message: Any, payloads: Sequence[BatchesRef]) -> None: ...
    def send_self(self, process: Process, message: Any, delay_ms: float) -> None: ...
    def spawn_from(self, spawner: Process, spec: EndpointSpec) -> None: ...
    def watch(self, watcher: Process, address: Address) -> None: ...
    def kill_from(self, killer: Process, address: Address) -> None: ...
    def fail(self, process: Process, error: BaseException) -> None: ...


class Process:
    """One life of an endpoint. Implements `actors.protocol.ports.EndpointContext` for it."""

    def __init__(
        self, world: World, spec: EndpointSpec, node: Address, life: int = 0, arguments: bytes | None = None
    ) -> None:
        """
        Args:
            node: what dies together.
            life: how often an endpoint of this address was started before.
            arguments: the pickle of the spec's, made when its first life was started.
        """
        self.spec = spec
        self.node = node
        self.life = life
        self.state = ProcessState.STARTING
        self.endpoint: Endpoint | None = None
        self.is_paused = False
        self.parked: dict[Action, None] = {}
        """What could happen here, were it not paused."""
        self.watchers: dict[Process, None] = {}
        self.children: list[Process] = []
        self.loops: list[LoopSteps] = []
        self._world = world
        self._actions: dict[_OfProcess, None] = {}
        self._generators = 0
        # Pickled, so that nothing that one life did to its arguments is seen by the next.
        self._arguments: bytes = cloudpickle.dumps(spec.arguments) if arguments is None else arguments

    def __str__(self) -> str:
        return self.spec.address if not self.life else f"{self.spec.address}#{self.life}"

    @property
    def is_alive(self) -> bool:
        return self.state is not ProcessState.ENDED

    @property
    def kind(self) -> str:
        """The name of its endpoint's class."""
        return self.spec.kind

    # -- for the host --------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Constructs the endpoint, which may act from now on."""
        self.state = ProcessState.RUNNING
        self.endpoint = self.spec.load()(self, *cloudpickle.loads(self._arguments))
        self.endpoint.on_start()

    def end(self) -> None:
        """Nothing of it happens any more."""
        self.state = ProcessState.ENDED
        for action in self._actions:
            self._world.schedule.withdraw(action)
            action.forget()
        self._actions.clear()
        self.parked.clear()
        self.loops.clear()
        self.endpoint = None

    def next_life(self) -> Process:
        """The process that takes its place."""
        return Process(self._world, self.spec, self.node, self.life + 1, self._arguments)

    def own(self, action: _OfProcess) -> None:
        """The action ends with this process."""
        self._actions[action] = None

    def disown(self, action: _OfProcess) -> None:
        self._actions.pop(action, None)

    def stir(self) -> None:
        """Something happened in here, so every loop may have work."""
        for steps in self.loops:
            if not steps.is_active:
                self._world.schedule.offer(steps)

    # -- EndpointContext -----------------------------------------------------------------------------------------

    @property
    def address(self) -> Address:
        return self.spec.address

    @property
    def clock(self) -> Clock:
        return self._world.schedule.clock

    @property
    def timers(self) -> Timers:
        return self

    @property
    def objects(self) -> ObjectStore:
        return self._world.objects

    @property
    def metrics(self) -> MetricSink:
        return self._world.metrics

    @property
    def shares_process(self) -> bool:
        return False

    def random(self, name: str) -> random.Random:
        self._generators += 1
        return random.Random(f"{self._world.seed} {self} {self._generators} {name}")

    def tell(self, address: Address, message: Any, payloads: Sequence[BatchesRef] = ()) -> None:
        if self.is_alive:
            self._world.send(self, address, message, payloads)

    def tell_self(self, message: Any) -> None:
        if self.is_alive:
            self._world.send_self(self, message, 0.0)

    def tell_self_later(self, delay_ms: float, message: Any) -> Cancellable:
        return self.call_later(delay_ms, lambda: self.tell_self(message))

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Cancellable:
        timer = Timer(self, self._world, callback)
        if self.is_alive:
            self.own(timer)
            self._world.schedule.at(self._world.schedule.now + max(0.0, delay_ms), timer.offer)
        return timer

    def spawn(self, spec: EndpointSpec) -> None:
        if self.is_alive:
            self._world.spawn_from(self, spec)

    def watch(self, address: Address) -> None:
        if self.is_alive:
            self._world.watch(self, address)

    def kill(self, address: Address) -> None:
        if self.is_alive:
            self._world.kill_from(self, address)

    def run_blocking(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], Any]) -> None:
        if self.is_alive:
            job = Work(self, self._world, work, done)
            self.own(job)
            wait_ms = LONGEST_WAIT_OF_WORK_MS * self._world.schedule.random.random() ** 3
            self._world.schedule.after(wait_ms, job.offer)

    def start_loop(self, name: str, loop: Loop, takes_turns: bool = False) -> None:
        if self.is_alive:
            steps = LoopSteps(self, self._world, name, loop)
            self.own(steps)
            self.loops.append(steps)
            self._world.schedule.offer(steps)

    def fatal(self, error: BaseException) -> None:
        if self.is_alive:
            self._world.fail(self, error)


class _OfProcess(Action):
    """Something that can happen as long as its process lives."""

    def __init__(self, process: Process, world: World) -> None:
        self.owner = process.address
        self._process = process
        self._world = world

    def offer(self) -> None:
        if self._process.is_alive:
            self._world.schedule.offer(self)

    def forget(self) -> None:
        """The process has ended: lets go of what it had, though the schedule may hold this until it is due."""


class Start(_OfProcess):
    """The process begins."""

    def run(self) -> None:
        self._process.disown(self)
        self._world.start(self._process)

    def describe(self) -> str:
        return f"{self._process} starts"


class LoopSteps(_OfProcess):
    """A loop is stepped, until it has no work; then again when something has happened in its process."""

    def __init__(self, process: Process, world: World, name: str, loop: Loop) -> None:
        super().__init__(process, world)
        self.name = name
        self.loop = loop
        self.is_active = False
        """It is in the middle of a step."""

    def run(self) -> None:
        process, loop = self._process, self.loop
        self.is_active = True
        try:
            has_worked = self._world.step_loop(process, loop)
        finally:
            self.is_active = False
        if not process.is_alive:
            return
        if loop.is_done:
            process.loops.remove(self)
            process.disown(self)
        if has_worked or loop.is_done:
            process.stir()

    def describe(self) -> str:
        return f"{self._process} steps {self.name}"


class Timer(_OfProcess):
    """A timer that is due; implements `actors.protocol.ports.Cancellable`."""

    def __init__(self, process: Process, world: World, callback: Callable[[], None]) -> None:
        super().__init__(process, world)
        self._callback: Callable[[], None] | None = callback

    def offer(self) -> None:
        if self._callback is not None:
            super().offer()

    def cancel(self) -> None:
        self._callback = None
        self._world.schedule.withdraw(self)
        self._process.disown(self)

    def forget(self) -> None:
        self._callback = None

    def run(self) -> None:
        callback, self._callback = self._callback, None
        self._process.disown(self)
        if callback is not None:
            self._world.call(self._process, callback)

    def describe(self) -> str:
        return f"{self._process} has a timer"


class Work(_OfProcess):
    """What an endpoint does off its own thread."""

    def __init__(
        self,
        process: Process,
        world: World,
        work: Callable[[], Any],
        done: Callable[[Any, BaseException | None], Any],
    ) -> None:
        super().__init__(process, world)
        self._todo: tuple[Callable[[], Any], Callable[[Any, BaseException | None], Any]] | None = (work, done)

    def forget(self) -> None:
        self._todo = None

    def run(self) -> None:
        process = self._process
        process.disown(self)
        assert self._todo is not None, "work of a process that has ended is not done"
        work, done = self._todo
        result, error, took_ms = self._world.work_of(process, work)
        if process.is_alive:
            self._world.send_self(process, done(result, error), took_ms)
            process.stir()

    def describe(self) -> str:
        return f"{self._process} does work"
