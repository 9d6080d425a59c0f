"""A control plane in one thread: real endpoints, virtual time, and messages whose order only a seed decides."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from actors.client.cluster import ask_dispatcher, resource_manager_of, start_cluster, submit
from actors.protocol.client_requests import GetArchivedJob, GetClusterOverview, GetJobOverview
from actors.protocol.control_messages import HeartbeatAnswered, HeartbeatRequested, JobDetails
from actors.protocol.operator_events import RowsCollected
from actors.protocol.ports import (
    Address,
    Cancellable,
    DeliveryFailed,
    Endpoint,
    EndpointContext,
    EndpointDied,
    EndpointGone,
    EndpointSpec,
    Host,
    Loop,
    Payloads,
)
from actors.protocol.resources import ClusterOverview
from actors.protocol.serialized_value import SerializedValue
from actors.protocol.task_messages import (
    CancelTask,
    DeliverOperatorEvent,
    OperatorEventSent,
    SubmitTask,
    TaskDeployment,
    TaskStateChanged,
)
from actors.task_slot import TaskSlot
from flinkray.batches.batch import Batch
from flinkray.config.configuration import Configuration
from flinkray.connectors.collect.sink import CollectSink
from flinkray.connectors.source import SplitEnumerator, SplitEnumeratorContext
from flinkray.errors import ErrorInfo
from flinkray.execution import JobStatus
from flinkray.transformations.operator_factories import SinkFactory
from flinkray.types.records import JobId
from graphs.job_graph import JobGraph
from tests.support.graphs import NumberSource, Program

CLUSTER = "c"

JOB = JobId("job")
"""What `Program.job_graph` calls every job."""


class QuietEnumerator(SplitEnumerator):
    """Has nothing to read."""

    def start(self) -> None: ...
    def handle_split_request(self, subtask_index: int) -> None: ...
    def add_reader(self, subtask_index: int) -> None: ...
    def add_splits_back(self, splits: Sequence[Any], subtask_index: int) -> None: ...
    def snapshot_state(self, checkpoint_id: int) -> Any: ...


class QuietSource(NumberSource):
    """A source whose coordinator can be made."""

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        return QuietEnumerator()


def four_vertices(parallelism: int = 2, second_group: str | None = None, **options: object) -> JobGraph:
    """source -> first -> second -> sink, each a vertex of its own; the last two in another group where one is named."""
    program = Program({"parallelism.default": parallelism, **options}, name="four")
    group = {} if second_group is None else {"slot_sharing_group": second_group}
    source = program.source(source=QuietSource())
    first = program.map(program.key_by(source, "k"), "first")
    second = program.map(program.key_by(first, "k"), "second", **group)
    program.sink(program.key_by(second, "k"), **group)
    graph = program.job_graph()
    assert len(graph.vertices) == 4
    return graph


def collecting(parallelism: int = 1) -> JobGraph:
    """A job whose rows go to its driver."""
    program = Program({"parallelism.default": parallelism}, name="collecting")
    sink = SinkFactory(CollectSink("rows"))
    program.operator("Sink: collect", sink, program.key_by(program.source(source=QuietSource()), "k"))
    return program.job_graph()


@dataclass(frozen=True, slots=True)
class _Done:
    deployment: TaskDeployment


class FakeTaskSlot(Endpoint):
    """Reports states as `World.behaviour` says for each task: "finish", "fail", "run" (until cancelled) or "stick"."""

    context: WorldContext

    def __init__(self, context: WorldContext, task_executor: Address, configuration: Configuration) -> None:
        super().__init__(context)
        self._task_executor = task_executor
        self._running: dict[str, TaskDeployment] = {}

    def on_message(self, message: Any, payloads: Payloads) -> None:
        match message:
            case SubmitTask():
                self._submit(message.deployment)
            case CancelTask() if message.attempt_id in self._running:
                if self.context.world.behaviour(self._running[message.attempt_id]) != "stick":
                    self._report(self._running.pop(message.attempt_id), "CANCELED")
            case _Done() if message.deployment.attempt_id in self._running:
                del self._running[message.deployment.attempt_id]
                fails = self.context.world.behaviour(message.deployment) == "fail"
                error = ErrorInfo.of(ValueError(f"bad row in {message.deployment.task_name}")) if fails else None
                self._report(message.deployment, "FAILED" if fails else "FINISHED", error)
            case HeartbeatRequested():
                self.context.tell(message.sender, HeartbeatAnswered(message.session, self.context.address))
            case DeliverOperatorEvent():
                self.context.world.events.append((message.attempt_id, message.event))

    def _submit(self, deployment: TaskDeployment) -> None:
        self._running[deployment.attempt_id] = deployment
        self.context.world.deployed.append((self.context.address, deployment))
        for state in ("INITIALIZING", "RUNNING"):
            self._report(deployment, state)
        if self.context.world.behaviour(deployment) in ("finish", "fail"):
            self.context.tell_self_later(self.context.random("work").randint(1, 50), _Done(deployment))

    def _report(self, deployment: TaskDeployment, state: str, error: ErrorInfo | None = None) -> None:
        accumulators: dict[str, int | float] = {"ended": 1} if state == "FINISHED" else {}
        self.context.tell(
            self._task_executor,
            TaskStateChanged(deployment.job_id, deployment.attempt_id, state, error, accumulators),
        )


class CollectingSlot(FakeTaskSlot):
    """Its collecting sinks send three rows each before they finish: 0 to 2 from the first subtask, 100 to 102 ..."""

    def _submit(self, deployment: TaskDeployment) -> None:
        super()._submit(deployment)
        sinks = [operator for operator in deployment.operators if operator.name == "Sink: collect"]
        for operator in sinks:
            for sequence in range(3):
                rows = pa.RecordBatch.from_pydict({"value": [100 * deployment.subtask_index + sequence]})
                event = RowsCollected(deployment.subtask_index, sequence, Batch(rows))
                sent = OperatorEventSent(
                    deployment.job_id, deployment.attempt_id, operator.operator_id, SerializedValue(event)
                )
                self.context.tell(self._task_executor, sent)


@dataclass
class _Timer:
    callback: Callable[[], None] | None

    def cancel(self) -> None:
        self.callback = None


@dataclass
class _Process:
    spec: EndpointSpec
    context: WorldContext
    endpoint: Endpoint | None = None
    is_placed: bool = False
    life: int = 0
    watchers: set[Address] = field(default_factory=set)


class World(Host):
    """Endpoints, the messages between them, and time. Every step delivers one message, and then all is checked."""

    def __init__(self, seed: int, total_cpus: float = 64.0) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now = 1_000_000.0
        self.total_cpus = total_cpus
        self.behaviour: Callable[[TaskDeployment], str] = lambda _deployment: "finish"
        self.deployed: list[tuple[Address, TaskDeployment]] = []
        self.events: list[tuple[str, Any]] = []
        self.spawned: list[EndpointSpec] = []
        self.delivered: list[tuple[Address, Any]] = []
        self.slot_endpoint: type[FakeTaskSlot] = FakeTaskSlot
        self.silenced: set[Address] = set()
        """Endpoints that hang: nothing reaches them."""
        self.replaced: dict[type[Endpoint], type[Endpoint]] = {}
        """What is started in place of others."""
        self.loops: list[tuple[WorldContext, Loop]] = []
        """All that endpoints have started; each does what it has to do between two steps."""
        self._processes: dict[Address, _Process] = {}
        self._channels: dict[tuple[Address, Address], deque[Any]] = defaultdict(deque)
        self._timers: list[tuple[float, int, WorldContext, _Timer]] = []
        self._order = itertools.count()

    # -- Host ----------------------------------------------------------------------------------------------------

    def spawn(self, spec: EndpointSpec) -> None:
        assert spec.address not in {past.address for past in self.spawned}, f"{spec.address} is used twice"
        self.spawned.append(spec)
        self._processes[spec.address] = _Process(spec, WorldContext(self, spec.address))

    def tell(self, address: Address, message: Any) -> None:
        self.send(Address("client"), address, message)

    def ask(self, address: Address, request: Any, timeout_ms: float = 1000) -> Any:
        self.run_until(lambda: address not in self._processes or self._processes[address].endpoint is not None)
        process = self._processes.get(address)
        if process is None or process.endpoint is None:
            raise EndpointGone(address)
        return process.endpoint.on_request(request)

    def kill(self, address: Address) -> None:
        self.end(address, None, "killed")

    def shutdown(self) -> None:
        for address in list(self._processes):
            self.kill(address)

    # -- for endpoints -------------------------------------------------------------------------------------------

    def send(self, sender: Address, address: Address, message: Any) -> None:
        self._channels[sender, address].append(message)

    def watch(self, watcher: Address, address: Address) -> None:
        if address in self._processes:
            self._processes[address].watchers.add(watcher)
        else:
            self.send(address, watcher, EndpointDied(address, "it does not exist"))

    def crash(self, address: Address) -> None:
        """It dies as by `kill -9`, and is started again where its spec says so."""
        self.end(address, None, "kill -9", may_restart=True)

    def end(self, address: Address, killer: Address | None, cause: str, *, may_restart: bool = False) -> None:
        process = self._processes.pop(address, None)
        if process is None:
            return
        self.silenced.discard(address)  # its next life does not hang
        self._channels.pop((address, address), None)
        if may_restart and process.spec.restarts:
            context = WorldContext(self, address, process.life + 1)
            watchers = set(process.watchers)
            self._processes[address] = _Process(process.spec, context, life=process.life + 1, watchers=watchers)
        for (sender, _), queue in self._channels.items():
            if sender == address:  # what it has sent may not have left its process
                for _ in range(self.random.randint(0, len(queue))):
                    queue.pop()
        for watcher in sorted(process.watchers - {killer, address}):
            self.send(address, watcher, EndpointDied(address, cause))
        children = [a for a, p in self._processes.items() if p.spec.dies_with_spawner and a.startswith(f"{address}/")]
        for child in children:
            self.end(child, None, f"{address} is gone")

    def add_timer(self, owner: WorldContext, delay_ms: float, callback: Callable[[], None]) -> _Timer:
        timer = _Timer(callback)
        heapq.heappush(self._timers, (self.now + delay_ms, next(self._order), owner, timer))
        return timer

    def is_alive(self, context: WorldContext) -> bool:
        """Whether that life of the endpoint has not ended."""
        process = self._processes.get(context.address)
        return process is not None and process.context is context

    # -- running -------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """One thing that can happen now happens; time passes only when nothing can. False: nothing ever will."""
        choices: list[tuple[str, Any]] = [("place", a) for a, p in self._processes.items() if self._can_place(p)]
        choices += [
            ("deliver", channel)
            for channel, queue in self._channels.items()
            if queue and self._is_ready(channel[1]) and channel[1] not in self.silenced
        ]
        if not choices:
            return self._advance()
        kind, what = self.random.choice(choices)
        if kind == "place":
            self._place(self._processes[what])
        else:
            self._deliver(*what)
        self._step_loops()
        self.check()
        return True

    def _step_loops(self) -> None:
        self.loops = [(owner, loop) for owner, loop in self.loops if self.is_alive(owner) and not loop.is_done]
        for owner, loop in self.loops:
            while self.is_alive(owner) and not loop.is_done and loop.step():
                pass

    def run_until(self, condition: Callable[[], bool], max_ms: float = 400_000, max_steps: int = 50_000) -> None:
        end = self.now + max_ms
        for _ in range(max_steps):
            if condition():
                return
            assert self.now < end, f"seed {self.seed}: not so after {max_ms} ms of virtual time"
            assert self.step(), f"seed {self.seed}: nothing can happen any more"
        raise AssertionError(f"seed {self.seed}: not so after {max_steps} steps")

    def run_for(self, ms: float) -> None:
        end = self.now + ms
        self.run_until(lambda: self.now >= end, max_ms=ms)

    def check(self) -> None:
        for process in self._processes.values():
            check = getattr(process.endpoint, "check", None)
            if check is not None:
                check()

    def _advance(self) -> bool:
        if not self._timers:
            return False
        due, _, owner, timer = heapq.heappop(self._timers)
        self.now = max(self.now, due)
        if timer.callback is not None and self.is_alive(owner):
            timer.callback()
        return True

    def _can_place(self, process: _Process) -> bool:
        used = sum(other.spec.cpus for other in self._processes.values() if other.is_placed)
        return not process.is_placed and used + process.spec.cpus <= self.total_cpus

    def _place(self, process: _Process) -> None:
        process.is_placed = True
        replaced: dict[Any, Any] = {TaskSlot: self.slot_endpoint, **self.replaced}
        endpoint = process.spec.load()
        endpoint = replaced.get(endpoint, endpoint)
        process.endpoint = endpoint(process.context, *process.spec.arguments)
        assert process.endpoint is not None
        process.endpoint.on_start()

    def _is_ready(self, address: Address) -> bool:
        process = self._processes.get(address)
        return process is None or process.endpoint is not None

    def _deliver(self, sender: Address, address: Address) -> None:
        message = self._channels[sender, address].popleft()
        process = self._processes.get(address)
        if process is not None and process.endpoint is not None:
            self.delivered.append((address, message))
            process.endpoint.on_message(message, ())  # type: ignore[arg-type]
        elif sender in self._processes and not isinstance(message, DeliveryFailed | EndpointDied):
            self.send(address, sender, DeliveryFailed(address, message, "it does not exist"))

    # -- what tests do and ask -----------------------------------------------------------------------------------

    def addresses(self) -> set[Address]:
        return set(self._processes)

    def alive(self, kind: str) -> list[Address]:
        """Addresses of the live endpoints of a class."""
        return [a for a, process in self._processes.items() if process.spec.kind == kind]

    def endpoint(self, address: Address) -> Any:
        return self._processes[address].endpoint

    def take_undelivered(self, sender: Address, address: Address) -> list[Any]:
        """The messages between the two that are under way, which then are not any more."""
        return list(self._channels.pop((sender, address), ()))

    def start(self, is_per_job: bool = True, **options: object) -> None:
        start_cluster(self, CLUSTER, Configuration(options), is_per_job=is_per_job)

    def submit(self, graph: JobGraph) -> JobId:
        submit(self, CLUSTER, graph, pause=lambda: self.run_for(1))
        return graph.job_id

    def ask_dispatcher(self, request: Any) -> Any:
        """The answer of one that is ready."""
        return ask_dispatcher(self, CLUSTER, request, pause=lambda: self.run_for(1))

    def status(self, job_id: JobId = JOB) -> JobStatus:
        status: JobStatus = self.ask_dispatcher(GetJobOverview(job_id)).status
        return status

    def await_status(self, status: JobStatus, job_id: JobId = JOB) -> None:
        self.run_until(lambda: self.status(job_id) is status)

    def await_end(self, job_id: JobId = JOB) -> JobDetails:
        self.run_until(lambda: self.status(job_id).is_terminal)
        details: JobDetails = self.ask_dispatcher(GetArchivedJob(job_id))
        return details

    def overview(self) -> ClusterOverview:
        overview: ClusterOverview = self.ask(resource_manager_of(CLUSTER), GetClusterOverview())
        return overview


class WorldContext(EndpointContext):
    """What an endpoint sees of the world."""

    def __init__(self, world: World, address: Address, life: int = 0) -> None:
        self.world = world
        self._address = address
        self._life = life

    @property
    def address(self) -> Address:
        return self._address

    @property
    def clock(self) -> WorldContext:
        return self

    def now_ms(self) -> int:
        return int(self.world.now)

    def monotonic_ms(self) -> float:
        return self.world.now

    def random(self, name: str) -> random.Random:
        return random.Random(f"{self.world.seed} {self._address} {self._life} {name} {self.world.now}")

    def tell(self, address: Address, message: Any, payloads: Sequence[Any] = ()) -> None:
        self.world.send(self._address, address, message)

    def tell_self(self, message: Any) -> None:
        self.world.send(self._address, self._address, message)

    def tell_self_later(self, delay_ms: float, message: Any) -> Cancellable:
        return self.world.add_timer(self, delay_ms, lambda: self.tell_self(message))

    def run_blocking(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], Any]) -> None:
        def run() -> None:
            result, error = None, None
            try:
                result = work()
            except Exception as raised:
                error = raised
            self.tell_self(done(result, error))

        self.world.add_timer(self, self.world.random.choice([0, 0, 3, 40]), run)

    def start_loop(self, name: str, loop: Loop, takes_turns: bool = False) -> None:
        self.world.loops.append((self, loop))

    def spawn(self, spec: EndpointSpec) -> None:
        self.world.spawn(spec)
        self.world.watch(self._address, spec.address)

    def watch(self, address: Address) -> None:
        self.world.watch(self._address, address)

    def kill(self, address: Address) -> None:
        self.world.end(address, self._address, f"killed by {self._address}")

    def restart(self, address: Address) -> None:
        self.world.end(address, None, f"{self._address} takes it to hang", may_restart=True)

    def fatal(self, error: BaseException) -> None:
        self.world.end(self._address, None, str(error), may_restart=True)


def run_all_tasks(world: World, **start: Any) -> None:
    """Starts the cluster with a job of `four_vertices`, whose eight tasks then run until somebody ends them."""
    world.behaviour = lambda _deployment: "run"
    world.start(**start)
    world.submit(four_vertices())
    world.run_until(lambda: len(world.deployed) == 8)
