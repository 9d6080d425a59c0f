"""A process of the simulation: one life of an endpoint, with its loops, its timers and its work in the background."""

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

# The most virtual time that work off an endpoint's thread waits before it is done.
LONGEST_WAIT_OF_WORK_MS = 30.0


class ProcessEnded(BaseException):
    """Unwinds the code of a process that was killed in the middle of it. No Exception, so that no handler catches
    it."""


class ProcessState(enum.Enum):
    """STARTING -> RUNNING -> ENDED. An endpoint that is started again is another process."""

    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"


class ProcessHost(Protocol):
    """What a process needs of its host (`actors.hosts.simulation.host.SimulationHost`)."""

    schedule: Schedule
    seed: int

    @property
    def objects(self) -> ObjectStore: ...

    @property
    def metrics(self) -> MetricSink: ...

    def start(self, process: SimulatedProcess) -> None: ...
    def step_loop(self, process: SimulatedProcess, loop: Loop) -> bool: ...
    def work_of(
        self, process: SimulatedProcess, work: Callable[[], Any]
    ) -> tuple[Any, BaseException | None, float]: ...
    def call(self, process: SimulatedProcess, callback: Callable[[], None]) -> None: ...
    def send(
        self, sender: SimulatedProcess, address: Address, message: Any, payloads: Sequence[BatchesRef]
    ) -> None: ...
    def send_self(self, process: SimulatedProcess, message: Any, delay_ms: float) -> None: ...
    def spawn_from(self, spawner: SimulatedProcess, spec: EndpointSpec) -> None: ...
    def watch(self, watcher: SimulatedProcess, address: Address) -> None: ...
    def kill_from(self, killer: SimulatedProcess, address: Address) -> None: ...
    def restart_from(self, asker: SimulatedProcess, address: Address) -> None: ...
    def fail(self, process: SimulatedProcess, error: BaseException) -> None: ...


class SimulatedProcess:
    """One life of an endpoint. Implements `actors.protocol.ports.EndpointContext` for it."""

    def __init__(
        self, host: ProcessHost, spec: EndpointSpec, node: Address, life: int = 0, arguments: bytes | None = None
    ) -> None:
        """
        Args:
            node: names the node that the process is on; all processes of a node can die together.
            life: how often an endpoint of this address was started before.
            arguments: the pickled arguments of the spec, from before its first life; None: this is the first life.
        """
        self.spec = spec
        self.node = node
        self.life = life
        self.state = ProcessState.STARTING
        self.endpoint: Endpoint | None = None
        self.is_paused = False
        self.parked: dict[Action, None] = {}
        """Actions that could happen here if the process were not paused."""
        self.watchers: dict[SimulatedProcess, None] = {}
        self.children: list[SimulatedProcess] = []
        self.loops: list[LoopSteps] = []
        self._host = host
        self._actions: dict[_OfProcess, None] = {}
        self._generators = 0
        # Pickled, so that no life sees what another one has done to its arguments.
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
        """Constructs and starts the endpoint."""
        self.state = ProcessState.RUNNING
        self.endpoint = self.spec.load()(self, *cloudpickle.loads(self._arguments))
        self.endpoint.on_start()

    def end(self) -> None:
        """Ends the process: none of its actions happens any more."""
        self.state = ProcessState.ENDED
        for action in self._actions:
            self._host.schedule.withdraw(action)
            action.forget()
        self._actions.clear()
        self.parked.clear()
        self.loops.clear()
        self.endpoint = None

    def next_life(self) -> SimulatedProcess:
        """The process that takes its place when the endpoint restarts."""
        return SimulatedProcess(self._host, self.spec, self.node, self.life + 1, self._arguments)

    def own(self, action: _OfProcess) -> None:
        """Makes an action end with this process."""
        self._actions[action] = None

    def disown(self, action: _OfProcess) -> None:
        self._actions.pop(action, None)

    def stir(self) -> None:
        """Offers every loop to the schedule, as something has happened here that may have given it work."""
        for steps in self.loops:
            if not steps.is_active:
                self._host.schedule.offer(steps)

    # -- EndpointContext -----------------------------------------------------------------------------------------

    @property
    def address(self) -> Address:
        return self.spec.address

    @property
    def clock(self) -> Clock:
        return self._host.schedule.clock

    @property
    def timers(self) -> Timers:
        return self

    @property
    def objects(self) -> ObjectStore:
        return self._host.objects

    @property
    def metrics(self) -> MetricSink:
        return self._host.metrics

    @property
    def shares_process(self) -> bool:
        return False

    def random(self, name: str) -> random.Random:
        self._generators += 1
        return random.Random(f"{self._host.seed} {self} {self._generators} {name}")

    def tell(self, address: Address, message: Any, payloads: Sequence[BatchesRef] = ()) -> None:
        if self.is_alive:
            self._host.send(self, address, message, payloads)

    def tell_self(self, message: Any) -> None:
        if self.is_alive:
            self._host.send_self(self, message, 0.0)

    def tell_self_later(self, delay_ms: float, message: Any) -> Cancellable:
        return self.call_later(delay_ms, lambda: self.tell_self(message))

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Cancellable:
        timer = SimulatedTimer(self, self._host, callback)
        if self.is_alive:
            self.own(timer)
            self._host.schedule.at(self._host.schedule.now + max(0.0, delay_ms), timer.offer)
        return timer

    def spawn(self, spec: EndpointSpec) -> None:
        if self.is_alive:
            self._host.spawn_from(self, spec)

    def watch(self, address: Address) -> None:
        if self.is_alive:
            self._host.watch(self, address)

    def kill(self, address: Address) -> None:
        if self.is_alive:
            self._host.kill_from(self, address)

    def restart(self, address: Address) -> None:
        if self.is_alive:
            self._host.restart_from(self, address)

    def run_blocking(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], Any]) -> None:
        if self.is_alive:
            job = BackgroundWork(self, self._host, work, done)
            self.own(job)
            wait_ms = LONGEST_WAIT_OF_WORK_MS * self._host.schedule.random.random() ** 3
            self._host.schedule.after(wait_ms, job.offer)

    def start_loop(self, name: str, loop: Loop, takes_turns: bool = False) -> None:
        if self.is_alive:
            steps = LoopSteps(self, self._host, name, loop)
            self.own(steps)
            self.loops.append(steps)
            self._host.schedule.offer(steps)

    def fatal(self, error: BaseException) -> None:
        if self.is_alive:
            self._host.fail(self, error)


class _OfProcess(Action):
    """An action that can happen as long as its process lives."""

    def __init__(self, process: SimulatedProcess, host: ProcessHost) -> None:
        self.owner = process.address
        self._process = process
        self._host = host

    def offer(self) -> None:
        if self._process.is_alive:
            self._host.schedule.offer(self)

    def forget(self) -> None:
        """Frees what the action holds, as its process has ended but the schedule may hold the action until it is
        due."""


class ProcessStart(_OfProcess):
    """The start of a process."""

    def run(self) -> None:
        self._process.disown(self)
        self._host.start(self._process)

    def describe(self) -> str:
        return f"{self._process} starts"


class LoopSteps(_OfProcess):
    """Steps of a loop, until it has no work, and again once something has happened in its process."""

    def __init__(self, process: SimulatedProcess, host: ProcessHost, name: str, loop: Loop) -> None:
        super().__init__(process, host)
        self.name = name
        self.loop = loop
        self.is_active = False
        """Whether the loop is in the middle of a step."""

    def forget(self) -> None:
        if abandon := getattr(self.loop, "abandon", None):
            abandon()

    def run(self) -> None:
        process, loop = self._process, self.loop
        self.is_active = True
        try:
            has_worked = self._host.step_loop(process, loop)
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


class SimulatedTimer(_OfProcess):
    """A timer (an `actors.protocol.ports.Cancellable`)."""

    def __init__(self, process: SimulatedProcess, host: ProcessHost, callback: Callable[[], None]) -> None:
        super().__init__(process, host)
        self._callback: Callable[[], None] | None = callback

    def offer(self) -> None:
        if self._callback is not None:
            super().offer()

    def cancel(self) -> None:
        self._callback = None
        self._host.schedule.withdraw(self)
        self._process.disown(self)

    def forget(self) -> None:
        self._callback = None

    def run(self) -> None:
        callback, self._callback = self._callback, None
        self._process.disown(self)
        if callback is not None:
            self._host.call(self._process, callback)

    def describe(self) -> str:
        return f"{self._process} has a timer"


class BackgroundWork(_OfProcess):
    """Work that an endpoint does off its own thread (`run_blocking`)."""

    def __init__(
        self,
        process: SimulatedProcess,
        host: ProcessHost,
        work: Callable[[], Any],
        done: Callable[[Any, BaseException | None], Any],
    ) -> None:
        super().__init__(process, host)
        self._todo: tuple[Callable[[], Any], Callable[[Any, BaseException | None], Any]] | None = (work, done)

    def forget(self) -> None:
        self._todo = None

    def run(self) -> None:
        process = self._process
        process.disown(self)
        assert self._todo is not None, "work of a process that has ended is not done"
        work, done = self._todo
        result, error, took_ms = self._host.work_of(process, work)
        if process.is_alive:
            self._host.send_self(process, done(result, error), took_ms)
            process.stir()

    def describe(self) -> str:
        return f"{self._process} does work"
