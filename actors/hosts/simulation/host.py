"""The host that runs a whole cluster in one thread: a seed chooses each step, time is virtual, and faults are
injected."""

from __future__ import annotations

import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import cloudpickle

from actors.hosts.in_process import InProcessBatches, InProcessMetrics, InProcessObjectStore
from actors.hosts.simulation.confinement import confined
from actors.hosts.simulation.faults import NO_FAULTS, NODE, FaultPlan, Faults
from actors.hosts.simulation.mail import MessageChannel, MessagesUnderWay, pack
from actors.hosts.simulation.picture import draw
from actors.hosts.simulation.process import ProcessEnded, ProcessStart, ProcessState, SimulatedProcess
from actors.hosts.simulation.schedule import Action, Schedule
from actors.mailbox.waiting import others_act
from actors.protocol.ports import (
    Address,
    BatchesRef,
    Endpoint,
    EndpointDied,
    EndpointGone,
    EndpointSpec,
    Host,
    Loop,
    MetricSink,
    ObjectStore,
    Payloads,
)
from flinkray.batches.batch import Batch
from flinkray.errors import FlinkrayError

CLIENT = "client"
"""The sender of messages that come from outside of the cluster."""

# The most virtual time until a process that is started runs, and until its death is noticed.
LONGEST_START_MS = 300.0
LONGEST_RESTART_MS = 3_000.0
LONGEST_DEATH_NOTICE_MS = 300.0

# The most virtual time until a process that hangs is ended by an order that it cannot hear. As on Ray, all the others
# take it for dead as soon as the order is given, unless it is to be started again.
LONGEST_KILL_MS = 5_000.0

# Probes are costly, so that each process is probed only once in so many of its steps.
PROBE_EVERY = 24

# A run that has taken so many steps is taken to be endless, as by messages that lead to each other.
MAX_STEPS = 2_000_000


class SimulationError(AssertionError):
    """The runtime broke a rule. The text has the last steps, the faults, and a picture of who waits for what."""


class SimulatedObjectStore(InProcessObjectStore):
    """Knows which batches somebody still refers to, so that simulations notice leaks."""

    def __init__(self) -> None:
        self._held: weakref.WeakSet[InProcessBatches] = weakref.WeakSet()

    def put(self, batches: Sequence[Batch]) -> InProcessBatches:
        ref = super().put(batches)
        self._held.add(ref)
        return ref

    @property
    def held(self) -> int:
        """How many references somebody still has."""
        return len(self._held)


class SimulationHost(Host):
    """Endpoints, their loops and the messages between them, one step after another.

    A step is one thing that can happen: a message arrives, a loop steps, a timer fires, a process starts, or work off
    an endpoint's thread is done. After each step the process that has acted is checked: with the `check` of its
    endpoint and of its loops, and now and then with the `probes`.

    Args:
        probes: called with an endpoint that has acted; each raises AssertionError if the endpoint breaks a rule.
        step_ms: the most virtual time that a step takes, on average half of it; None: the seed chooses.
        total_cpus: the CPUs that processes may take together (`EndpointSpec.cpus`); others wait to be started.
        is_strict: an exception of an endpoint or loop is a bug and raises SimulationError in `step`; otherwise it ends
            the process, as on other hosts.
    """

    def __init__(
        self,
        seed: int,
        faults: Faults = NO_FAULTS,
        *,
        probes: Sequence[Callable[[Endpoint], None]] = (),
        step_ms: float | None = None,
        total_cpus: float = float("inf"),
        is_strict: bool = True,
    ) -> None:
        self.seed = seed
        self.plan = FaultPlan(seed, faults)
        self.schedule = Schedule(seed, step_ms)
        self.fatal_errors: list[str] = []
        """The errors with which processes have ended."""
        self._probes = tuple(probes)
        self._total_cpus = total_cpus
        self._is_strict = is_strict
        self._objects = SimulatedObjectStore()
        self._metrics = InProcessMetrics()
        self._processes: dict[Address, SimulatedProcess] = {}
        self._doomed: dict[Address, SimulatedProcess] = {}
        """Processes that were taken for dead, and are about to end. They may wake before that."""
        self._waiting_to_start: list[SimulatedProcess] = []
        self._mail = MessagesUnderWay(self.schedule, self.plan, self._processes.get, self._deliver)
        self._acting: list[SimulatedProcess] = []
        """The processes whose code runs now, the innermost last: several while a task waits in the middle of a mail."""
        self._acted: dict[Address, int] = defaultdict(int)
        self._slowness_ms = 0.0
        self._broken: BaseException | None = None

    # -- Host ----------------------------------------------------------------------------------------------------

    def spawn(self, spec: EndpointSpec) -> None:
        self._add(SimulatedProcess(self, spec, spec.address))

    def tell(self, address: Address, message: Any) -> None:
        if address not in self._processes:
            raise EndpointGone(address)
        self._mail.send(CLIENT, address, message)

    def ask(self, address: Address, request: Any, timeout_ms: float) -> Any:
        """Does what `Host.ask` says, in virtual time; other things happen while the client waits."""
        deadline = self.schedule.now + timeout_ms
        while True:
            process = self._processes.get(address)
            if process is None:
                raise EndpointGone(address)
            if process.state is ProcessState.RUNNING and not process.is_paused:
                break
            if self.schedule.now >= deadline or not self.step():
                raise TimeoutError(f"{address} has not answered within {timeout_ms:.0f} ms")
        self.schedule.record(f"the client asks {process} {type(request).__name__}")
        endpoint = process.endpoint
        assert endpoint is not None
        copy = cloudpickle.loads(pack(request))
        with self._acting_as(process):
            answer = endpoint.on_request(copy)
        process.stir()
        self._check(process)
        return answer

    def kill(self, address: Address) -> None:
        process = self._processes.get(address)
        if process is not None:
            self._end(process, "killed by the client", may_restart=False)

    def shutdown(self) -> None:
        for process in list(self._processes.values()):
            self._end(process, "the host is shut down", may_restart=False)
        for process in list(self._doomed.values()):
            self._stop(process)
        self._mail.lose_all()

    def addresses(self) -> frozenset[Address]:
        """The endpoints that are alive or being started."""
        return frozenset(self._processes)

    # -- running -------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Makes one thing happen, or lets time pass if nothing can happen now. False: nothing will ever happen.

        Raises:
            SimulationError: the runtime broke a rule.
        """
        if self._broken is not None:
            raise self._broken
        try:
            return self._step()
        except BaseException as error:
            self._broken = error  # code on the stack in between must not go on as if nothing had happened
            raise

    def run_until(self, condition: Callable[[], bool], max_ms: float = 600_000.0) -> None:
        """Steps until the condition holds.

        Raises:
            SimulationError: it does not within `max_ms` of virtual time, or nothing can happen any more.
        """
        end = self.schedule.now + max_ms
        while not condition():
            if self.schedule.now >= end:
                raise SimulationError(self._explain(f"it has not come to pass in {max_ms:.0f} ms of virtual time"))
            if not self.step():
                raise SimulationError(self._explain("nothing can happen any more"))

    def run_for(self, ms: float) -> None:
        """Steps until that much virtual time has passed."""
        end = self.schedule.now + ms
        self.schedule.at(end, lambda: None)
        self.run_until(lambda: self.schedule.now >= end, ms + 1)

    def picture(self) -> str:
        """Who waits for what, as text for people to read."""
        return draw(self._processes.values(), self._mail.channels, self.schedule)

    def alive(self, kind: str) -> list[SimulatedProcess]:
        """The processes that run an endpoint of that class."""
        return [
            process
            for process in self._processes.values()
            if process.kind == kind and process.state is ProcessState.RUNNING
        ]

    def endpoint(self, address: Address) -> Any:
        """The endpoint that runs at an address."""
        return self._processes[address].endpoint

    def restarts(self, address: Address) -> bool:
        """Whether the endpoint at an address would be started again."""
        return self._processes[address].spec.restarts

    # -- faults by hand ------------------------------------------------------------------------------------------

    def crash(self, address: Address, cause: str = "killed by a fault") -> None:
        """Kills a process as `kill -9` does: some of what it has sent is lost, and it restarts if its spec says so."""
        self._end(self._processes[address], cause)

    def crash_node(self, node: Address) -> None:
        """Kills every process on the node of a TaskExecutor at the same moment."""
        for process in [each for each in self._processes.values() if each.node == node]:
            if process.is_alive:
                self._end(process, f"the node of {node} is gone")

    def pause(self, address: Address, ms: float) -> None:
        """Stops a process for that much virtual time; then it goes on as if nothing had happened."""
        process = self._processes[address]
        process.is_paused = True

        self.schedule.at(self.schedule.now + ms, lambda: self._wake(process))

    def end_pauses(self) -> None:
        """Lets every process go on that is paused."""
        for process in list(self._processes.values()):
            self._wake(process)

    def _wake(self, process: SimulatedProcess) -> None:
        process.is_paused = False
        parked, process.parked = process.parked, {}
        for action in parked:
            if isinstance(action, MessageChannel):
                action.look()
            elif process.is_alive:
                self.schedule.offer(action)

    # -- what processes use --------------------------------------------------------------------------------------

    @property
    def objects(self) -> ObjectStore:
        return self._objects

    @property
    def held_batches(self) -> int:
        """How many references to batches of the object store somebody still has."""
        return self._objects.held

    @property
    def metrics(self) -> MetricSink:
        return self._metrics

    @property
    def memory_metrics(self) -> InProcessMetrics:
        """The metrics of all endpoints."""
        return self._metrics

    @property
    def delivered(self) -> Counter[str]:
        """How many messages have arrived, by the name of their class."""
        return self._mail.delivered

    @property
    def acting(self) -> SimulatedProcess | None:
        """The process whose code runs now."""
        return self._acting[-1] if self._acting else None

    def die_in_the_middle(self, cause: str) -> None:
        """Kills the process whose code runs now, and unwinds its code.

        Raises:
            ProcessEnded: always, if code of a process runs.
        """
        process = self.acting
        if process is not None:
            if process.is_alive:
                self._end(process, cause)
            raise ProcessEnded(str(process))

    def take_longer(self, ms: float) -> None:
        """Lengthens the work that runs now off an endpoint's thread by so much virtual time."""
        self._slowness_ms += ms

    def start(self, process: SimulatedProcess) -> None:
        with self._acting_as(process):
            self._guard(process, process.begin)
        self._mail.look(process.address)
        process.stir()

    def call(self, process: SimulatedProcess, callback: Callable[[], None]) -> None:
        with self._acting_as(process):
            self._guard(process, callback)
        process.stir()

    def step_loop(self, process: SimulatedProcess, loop: Loop) -> bool:
        has_worked: list[bool] = []
        token = others_act.set(partial(self._let_others_act, process))
        try:
            with self._acting_as(process):
                self._guard(process, lambda: has_worked.append(loop.step()))
        finally:
            others_act.reset(token)
        check = getattr(loop, "check", None)
        if check is not None and process.is_alive:
            check()
        return any(has_worked)

    def work_of(self, process: SimulatedProcess, work: Callable[[], Any]) -> tuple[Any, BaseException | None, float]:
        result: Any = None
        raised: BaseException | None = None
        self._slowness_ms = 0.0
        with self._acting_as(process):
            try:
                result = work()
            except (SimulationError, ProcessEnded) as error:
                if isinstance(error, SimulationError):
                    raise
            except BaseException as error:
                raised = error
        return result, raised, self._slowness_ms

    def send(self, sender: SimulatedProcess, address: Address, message: Any, payloads: Sequence[BatchesRef]) -> None:
        self._mail.send(sender, address, message, payloads)

    def send_self(self, process: SimulatedProcess, message: Any, delay_ms: float) -> None:
        self._mail.send_self(process, message, delay_ms)

    def spawn_from(self, spawner: SimulatedProcess, spec: EndpointSpec) -> None:
        if spec.node_of not in (None, spawner.address):
            raise ValueError(f"{spec.address} can only be placed beside its spawner {spawner}, not {spec.node_of}")
        process = SimulatedProcess(self, spec, spawner.node if spec.node_of is not None else spec.address)
        process.watchers[spawner] = None
        self._add(process)
        if spec.dies_with_spawner:
            spawner.children.append(process)

    def watch(self, watcher: SimulatedProcess, address: Address) -> None:
        process = self._processes.get(address)
        if process is not None:
            process.watchers[watcher] = None
        else:
            self._notify(address, watcher, "the endpoint does not exist")

    def kill_from(self, killer: SimulatedProcess, address: Address) -> None:
        process = self._processes.get(address)
        if process is not None:
            process.watchers.pop(killer, None)
            if process.is_paused:
                self._doom(process, f"killed by {killer}")
            else:
                self._end(process, f"killed by {killer}", may_restart=False)

    def restart_from(self, asker: SimulatedProcess, address: Address) -> None:
        process = self._processes.get(address)
        if process is not None and process.state is ProcessState.RUNNING:
            delay_ms = LONGEST_KILL_MS * self.schedule.random.random() if process.is_paused else 0.0
            self.schedule.after(delay_ms, lambda: self._end(process, f"{asker} takes it to hang"))

    def _deliver(self, process: SimulatedProcess, message: Any, payloads: Payloads) -> None:
        endpoint = process.endpoint
        assert endpoint is not None, "a process that runs has an endpoint"
        self.call(process, partial(endpoint.on_message, message, payloads))

    def fail(self, process: SimulatedProcess, error: BaseException) -> None:
        self.fatal_errors.append(f"{process}: {type(error).__name__}: {error}")
        if self._is_strict and not isinstance(error, FlinkrayError):
            raise SimulationError(self._explain(f"{process} cannot go on")) from error
        self._end(process, f"{type(error).__name__}: {error}")

    # -- inside: steps -------------------------------------------------------------------------------------------

    def _step(self) -> bool:
        action = self._choose()
        if action is None:
            return self.schedule.advance()
        if self.schedule.steps >= MAX_STEPS:
            raise SimulationError(self._explain(f"no end after {MAX_STEPS} steps"))
        self.schedule.record(action.describe())
        process = self._process_at(action.owner)
        action.run()
        if process is not None and process.is_alive:
            self._check(process)
        self._do_faults()
        self.schedule.pass_a_step()
        return True

    def _choose(self) -> Action | None:
        """Chooses what happens next; actions of a paused process are parked there."""
        while (action := self.schedule.choose()) is not None:
            process = self._process_at(action.owner)
            if process is None or not process.is_paused:
                return action
            process.parked[action] = None
        return None

    def _process_at(self, owner: str) -> SimulatedProcess | None:
        return self._processes.get(Address(owner)) or self._doomed.get(Address(owner))

    def _let_others_act(self, process: SimulatedProcess) -> None:
        """Makes something else happen while a task of the process waits in the middle of a mail."""
        if not process.is_alive:
            raise ProcessEnded(str(process))
        if not self.step():
            raise SimulationError(self._explain(f"a task of {process} waits for a mail, and nothing can happen"))
        if not process.is_alive:
            raise ProcessEnded(str(process))

    def _acting_as(self, process: SimulatedProcess) -> confined:
        return confined(self._acting, process)

    def _guard(self, process: SimulatedProcess, code: Callable[[], Any]) -> None:
        """Runs code of a process. An exception is a bug, or ends the process where the host is not strict."""
        try:
            code()
        except (SimulationError, ProcessEnded) as error:
            if isinstance(error, SimulationError):
                raise
        except BaseException as error:
            if not process.is_alive:
                return
            if self._is_strict:
                raise SimulationError(self._explain(f"{process} raised {type(error).__name__}: {error}")) from error
            self.fail(process, error)

    def _check(self, process: SimulatedProcess) -> None:
        endpoint = process.endpoint
        if endpoint is None:
            return
        self._acted[process.address] += 1
        try:
            check = getattr(endpoint, "check", None)
            if check is not None:
                check()
            if self._acted[process.address] % PROBE_EVERY == 0:
                for probe in self._probes:
                    probe(endpoint)
        except AssertionError as error:
            if isinstance(error, SimulationError):
                raise
            raise SimulationError(self._explain(f"{process} is not as it must be: {error}")) from error

    def _explain(self, what: str) -> str:
        faults = "".join(f"\n  {fault}" for fault in self.plan.happened) or "\n  none"
        recent = "".join(f"\n  {step}" for step in self.schedule.recent())
        return f"seed {self.seed}: {what}\nlast steps:{recent}\nfaults:{faults}\n{self.picture()}"

    # -- inside: lives and deaths --------------------------------------------------------------------------------

    def _add(self, process: SimulatedProcess) -> None:
        if process.address in self._processes:
            raise ValueError(f"an endpoint {process.address!r} exists already")
        self._processes[process.address] = process
        self._waiting_to_start.append(process)
        self._start_what_fits()

    def _start_what_fits(self) -> None:
        placed = [each for each in self._processes.values() if each not in self._waiting_to_start]
        free = self._total_cpus - sum(process.spec.cpus for process in placed)
        for process in list(self._waiting_to_start):
            if process.spec.cpus <= free:
                free -= process.spec.cpus
                self._waiting_to_start.remove(process)
                action = ProcessStart(process, self)
                process.own(action)
                longest = LONGEST_RESTART_MS if process.life else LONGEST_START_MS
                self.schedule.after(longest * self.schedule.random.random(), action.offer)

    def _end(self, process: SimulatedProcess, cause: str, *, may_restart: bool = True) -> None:
        if not process.is_alive:
            return
        self.schedule.record(f"{process} ends: {cause}")
        if process.address in self._doomed:
            self._stop(process)
            return
        process.end()
        del self._processes[process.address]
        if process in self._waiting_to_start:
            self._waiting_to_start.remove(process)
        self._mail.lose_some(process)
        watchers = [watcher for watcher in process.watchers if watcher.is_alive]
        if may_restart and process.spec.restarts:
            successor = process.next_life()
            successor.watchers = dict.fromkeys(watchers)
            self._add(successor)
        self._mail.look(process.address)
        for watcher in watchers:
            self._notify(process, watcher, cause)
        for child in process.children:
            self._end_soon(child, f"{process} ended")
        self._start_what_fits()

    def _doom(self, process: SimulatedProcess, cause: str) -> None:
        """Has all others take a process that hangs for dead, which may wake and act once more before it ends."""
        self.schedule.record(f"{process} is about to end: {cause}")
        self._doomed[process.address] = self._processes.pop(process.address)
        for watcher in [watcher for watcher in process.watchers if watcher.is_alive]:
            self._notify(process, watcher, cause)
        chance = self.schedule.random
        end_ms = LONGEST_KILL_MS * chance.random()
        if chance.random() < 0.5:
            self.schedule.at(self.schedule.now + end_ms * chance.random(), lambda: self._wake(process))
        self.schedule.at(self.schedule.now + end_ms, lambda: self._end(process, cause))
        self._start_what_fits()

    def _stop(self, process: SimulatedProcess) -> None:
        """Ends a process that everybody has taken for dead before."""
        process.end()
        del self._doomed[process.address]
        self._mail.lose_some(process)
        self._mail.look(process.address)
        for child in process.children:
            self._end_soon(child, f"{process} ended")

    def _end_soon(self, child: SimulatedProcess, cause: str) -> None:
        """Ends a process that cannot live without its spawner, a moment after that."""
        self.schedule.at(
            self.schedule.now + LONGEST_DEATH_NOTICE_MS * self.schedule.random.random() ** 2,
            lambda: self._end(child, cause),
        )

    def _notify(self, dead: SimulatedProcess | Address, watcher: SimulatedProcess, cause: str) -> None:
        sender: SimulatedProcess | str = dead if isinstance(dead, SimulatedProcess) else f"nobody at {dead}"
        address = dead.address if isinstance(dead, SimulatedProcess) else dead
        delay_ms = LONGEST_DEATH_NOTICE_MS * self.schedule.random.random() ** 2
        self._mail.notify(sender, watcher, EndpointDied(address, cause), delay_ms)

    # -- inside: faults ------------------------------------------------------------------------------------------

    def _do_faults(self) -> None:
        fault = self.plan.of_step(self.schedule.steps)
        if fault is None:
            return
        what, kind = fault
        candidates = [str(process.address) for process in self.alive("TaskExecutor" if kind == NODE else kind)]
        if not candidates:
            return
        address = Address(self.plan.choose(candidates))
        self.plan.note(f"step {self.schedule.steps}: {what} {kind} {address}")
        self.schedule.record(f"fault: {what} {kind} {address}")
        if what == "pause":
            self.pause(address, self.plan.pause_ms())
        elif kind == NODE:
            self.crash_node(self._processes[address].node)
        else:
            self.crash(address)
