"""A task on its own, driven step by step: the test plays network, clock and coordinator."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import pyarrow as pa

from actors.network.consumer.input_channel import BufferAndAvailability, InputChannel, InputChannelStatistics
from actors.network.consumer.input_gate import SingleInputGate
from actors.network.producer.pipelined_partition import PipelinedResultPartition
from actors.network.producer.result_partition import ResultPartition, SubpartitionView
from actors.operators.contract.operator import Operator
from actors.operators.sinks.operator import SinkOperator
from actors.operators.sources.operator import SourceOperator
from actors.operators.tables.windows.watermarks import SourceOfTableOperator
from actors.protocol.checkpoint_handles import TaskRestore
from actors.protocol.data_messages import ChannelId
from actors.protocol.elements import (
    ACTIVE,
    IDLE,
    CheckpointBarrier,
    Element,
    EndOfData,
    EndOfPartition,
    Event,
    Watermark,
)
from actors.protocol.ports import Address, Loop
from actors.protocol.task_messages import (
    ChannelDescriptor,
    GateDescriptor,
    PartitionDescriptor,
    TaskDeployment,
    TaskMetrics,
)
from actors.tasks.chain.task_services import TaskServices
from actors.tasks.stream_task import StreamTask
from actors.user_code.job_files import JobFiles
from flinkray.batches.batch import Batch
from flinkray.config.configuration import Configuration
from flinkray.config.options import BATCH_ROWS
from flinkray.transformations.operator_factories import OperatorFactory, SinkFactory, SourceFactory
from flinkray.transformations.partitioning import BroadcastPartitioner, Partitioner
from flinkray.types.records import JobId, Kind, Millis, OperatorId, OutputTag, Timestamp
from graphs.execution_graph import AttemptId, PartitionId
from graphs.job_graph import (
    ChainedEdge,
    JobVertexId,
    NetworkEdge,
    NetworkInput,
    OperatorCode,
    OperatorConfig,
    ResultPartitionType,
    SourceInput,
    TaskKind,
)
from graphs.states import ExecutionState
from tests.support.task_checkpoints import Storage

END = (EndOfData(), EndOfPartition())
STEPS = 10_000


def numbers(*values: int, timestamps: Sequence[int] | None = None) -> Batch:
    """A batch of whole numbers."""
    data = pa.RecordBatch.from_pydict({"value": pa.array(values, pa.int64())})
    return Batch(data, Kind.SCALAR, None if timestamps is None else pa.array(timestamps, pa.int64()))


def plain(elements: Sequence[Element]) -> list[Any]:
    """Elements in a form that is easy to compare: batches as lists, watermarks as ("mark", t), events by name."""
    return [_plain(element) for element in elements]


def _plain(element: Element) -> Any:
    match element:
        case Batch():
            return element.data.column(0).to_pylist()
        case Watermark(timestamp):
            return ("mark", timestamp)
        case CheckpointBarrier(checkpoint_id):
            return ("barrier", checkpoint_id)
        case _ if element == IDLE:
            return "idle"
        case _ if element == ACTIVE:
            return "active"
        case _:
            return type(element).__name__


class ManualTime:
    """Clock and timers that move when the test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self._timers: list[_ManualTimer] = []

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> float:
        return float(self.now)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> _ManualTimer:
        timer = _ManualTimer(self.now + delay_ms, callback)
        self._timers.append(timer)
        return timer

    def advance(self, by_ms: int, after_each: Callable[[], object] = lambda: None) -> None:
        """Fires what becomes due, in order, each at its own time."""
        end = self.now + by_ms
        while due := [timer for timer in self._timers if not timer.is_done and timer.due_ms <= end]:
            timer = min(due, key=lambda each: each.due_ms)
            self.now = max(self.now, int(timer.due_ms))
            timer.is_done = True
            timer.callback()
            after_each()
        self.now = end

    @property
    def pending(self) -> int:
        """Timers that would still fire."""
        return sum(not timer.is_done for timer in self._timers)


@dataclass
class _ManualTimer:
    due_ms: float
    callback: Callable[[], None]
    is_done: bool = False

    def cancel(self) -> None:
        self.is_done = True


class ScriptedChannel(InputChannel):
    """Gives what the test puts in. An aligned barrier blocks it, as its producer would be."""

    def __init__(self, index: int, descriptor: ChannelDescriptor, queue: Callable[[int], None]) -> None:
        super().__init__(ChannelId(f"channel-{index}"), index, descriptor, queue)
        self._elements: deque[tuple[Element, int]] = deque()
        self._urgent: deque[CheckpointBarrier] = deque()
        self._behind: deque[Element] = deque()
        """What a real producer would not send before the channel is resumed."""
        self._is_producer_blocked = False
        self._position = 0
        self.is_requested = False
        self.recycled = 0
        self.resumed = 0

    def put(self, *elements: Element) -> None:
        self._behind.extend(elements)
        self._send()

    def _send(self) -> None:
        while self._behind and not self._is_producer_blocked:
            self._arrive(self._behind.popleft())
        self._queue_in_gate(self.index)

    def _arrive(self, element: Element) -> None:
        self._position += 1
        if isinstance(element, CheckpointBarrier):
            self._is_producer_blocked = element.blocks_channel
            is_urgent = element.overtakes or self._capture.is_waiting_for(element.checkpoint_id)
            if is_urgent:
                self._urgent.append(element)
            else:
                self._elements.append((element, self._position))
        else:
            self._elements.append((element, self._position))
        self._capture.on_arrived(element, self._position)

    def request(self) -> None:
        self.is_requested = True

    @property
    def has_priority(self) -> bool:
        return bool(self._urgent)

    def _take(self) -> BufferAndAvailability | None:
        if self._urgent:
            return self._take_priority()
        return self._taken(self._elements.popleft()[0]) if self._elements else None

    def _take_priority(self) -> BufferAndAvailability | None:
        return self._taken(self._urgent.popleft()) if self._urgent else None

    def _taken(self, element: Element) -> BufferAndAvailability:
        return BufferAndAvailability(element, 0, bool(self._urgent or self._elements))

    def _on_read(self, element: Element) -> None:
        if isinstance(element, CheckpointBarrier):
            self._capture.on_barrier_read(element.checkpoint_id)

    def begin_capture(self, checkpoint_id: int) -> None:
        self._capture.begin(checkpoint_id, ((each, at) for each, at in self._elements if isinstance(each, Batch)))
        for position, (element, _) in enumerate(self._elements):
            if isinstance(element, CheckpointBarrier) and element.checkpoint_id == checkpoint_id:
                del self._elements[position]
                self._urgent.append(element)
                self._queue_in_gate(self.index)
                return

    def recycle(self) -> None:
        self.recycled += 1

    def resume(self) -> None:
        if self._unblock():
            self.resumed += 1
            self._is_producer_blocked = False
            self._send()

    @property
    def is_blocked(self) -> bool:
        """Its barrier was read, and waits for the others."""
        return self._is_blocked

    @property
    def has_unread(self) -> bool:
        return bool(self._elements or self._urgent or self._behind)

    def release(self) -> None:
        self.is_released = True

    def send_task_event(self, event: Any) -> None: ...

    def statistics(self) -> InputChannelStatistics:
        return InputChannelStatistics(self.channel_id, "test", True, len(self._elements), 0, 0, None)


class FakeNetwork:
    """Real partitions and gates, whose other ends the test holds."""

    def __init__(self, max_buffers: int) -> None:
        self._max_buffers = max_buffers
        self.partitions: list[ResultPartition] = []
        self.views: list[list[SubpartitionView]] = []
        self.gates: list[SingleInputGate] = []

    def create_partition(self, descriptor: PartitionDescriptor, configuration: Configuration) -> ResultPartition:
        partition = PipelinedResultPartition(
            descriptor,
            max_buffers=self._max_buffers,
            max_bytes=1 << 30,
            target_rows=1,
            target_bytes=1,
            on_released=lambda _partition: None,
        )
        partition.buffer_rows = BATCH_ROWS.default  # each batch is a buffer, and none has to be small
        self.partitions.append(partition)
        self.views.append([partition.create_view(i, lambda: None) for i in range(descriptor.subpartitions)])
        return partition

    def create_gate(
        self, descriptor: GateDescriptor, attempt_id: AttemptId, configuration: Configuration
    ) -> SingleInputGate:
        gate = SingleInputGate(descriptor, ScriptedChannel)
        self.gates.append(gate)
        return gate

    def release_gate(self, gate: SingleInputGate) -> None:
        gate.release()


class ScriptFactory(OperatorFactory, frozen=True):
    """Makes an operator of the test's; `name` finds it in the harness."""

    make: Callable[[], Operator] = Operator  # type: ignore[type-abstract]
    is_row: bool = False


@dataclass
class Node:
    """One operator of a deployment, in few words."""

    name: str
    make: Callable[[], Operator] | OperatorFactory
    to: Sequence[int | tuple[int, int] | tuple[int, int, OutputTag]] = ()
    """Nodes (by position) that it is chained to, with input index and tag where they matter."""
    out: Sequence[int | tuple[int, OutputTag]] = ()
    """Results that it writes, with a tag where there is one."""
    inputs: Sequence[int | tuple[int, ...] | str] = ()
    """Of the head: gates per logical input, or "source <position>"."""
    is_row: bool = False


def configs(nodes: Sequence[Node], partitioner: Partitioner) -> tuple[OperatorConfig, ...]:
    made: list[OperatorConfig] = []
    for position, node in enumerate(nodes):
        factory = node.make if isinstance(node.make, OperatorFactory) else ScriptFactory(node.make, node.is_row)
        outs = [out if isinstance(out, tuple) else (out, None) for out in node.out]
        code = OperatorCode(factory, tuple(None for _ in node.inputs) or (None,), tuple(partitioner for _ in outs))
        made.append(
            OperatorConfig(
                node_id=position,
                operator_id=OperatorId(f"id of {node.name}"),
                name=node.name,
                uid=None,
                chain_index=position,
                code_bytes=cloudpickle.dumps(code),
                factory_name=type(factory).__name__,
                is_row_function=node.is_row,
                inputs=tuple(_input(each) for each in node.inputs),
                chained_outputs=tuple(_edge(edge) for edge in node.to),
                network_outputs=tuple(NetworkEdge(index, "TEST", tag, Millis(0)) for index, tag in outs),
            )
        )
    return tuple(made)


def _input_of_gate(nodes: Sequence[Node], gate: int) -> int:
    heads = [node for node in nodes if node.inputs]
    inputs = enumerate(heads[0].inputs) if heads else ()
    return next((index for index, each in inputs if each == gate or (isinstance(each, tuple) and gate in each)), 0)


def _input(spec: int | tuple[int, ...] | str) -> NetworkInput | SourceInput:
    if isinstance(spec, str):
        return SourceInput(int(spec.removeprefix("source ")))
    return NetworkInput((spec,) if isinstance(spec, int) else spec)


def _edge(spec: int | tuple[Any, ...]) -> ChainedEdge:
    return ChainedEdge(*spec) if isinstance(spec, tuple) else ChainedEdge(spec, 0)


@dataclass
class Report:
    state: ExecutionState
    error: BaseException | None
    metrics: TaskMetrics


class TaskHarness:
    """One task with everything around it. `channels` gives the number of channels per gate."""

    def __init__(
        self,
        nodes: Sequence[Node],
        *,
        channels: Sequence[int] = (),
        consumers: Sequence[int] = (),
        partitioner: Partitioner | None = None,
        configuration: Configuration | None = None,
        max_buffers: int = 1_000,
        has_checkpoints: bool = False,
        restore: TaskRestore | None = None,
    ) -> None:
        self.time = ManualTime()
        self.storage = Storage()
        self.packed: dict[str, bytes] = {}
        """What the job brings along."""
        self.network = FakeNetwork(max_buffers)
        self.reports: list[Report] = []
        self.sent: list[tuple[str, Any]] = []
        self.loops: list[Loop] = []
        self.operators: dict[str, Operator] = {}
        heads = {int(each[7:]) for node in nodes for each in node.inputs if isinstance(each, str)}
        self.deployment = TaskDeployment(
            job_id=JobId("job"),
            job_name="test job",
            attempt_id=AttemptId("vertex_0_0"),
            vertex_id=JobVertexId("vertex"),
            vertex_name=" -> ".join(node.name for node in nodes),
            kind=TaskKind.ONE_INPUT,
            subtask_index=0,
            parallelism=2,
            max_parallelism=128,
            attempt_number=0,
            allocation_id="allocation",  # type: ignore[arg-type]
            operators=configs(nodes, partitioner or BroadcastPartitioner()),
            head_node=next(position for position in range(len(nodes)) if position not in heads),
            partitions=tuple(
                PartitionDescriptor(PartitionId(f"p{index}"), ResultPartitionType.PIPELINED_BOUNDED, count, False)
                for index, count in enumerate(consumers)
            ),
            gates=tuple(
                GateDescriptor(
                    index,
                    _input_of_gate(nodes, index),
                    tuple(ChannelDescriptor(PartitionId(f"g{index}"), c, Address("other")) for c in range(count)),
                )
                for index, count in enumerate(channels)
            ),
            configuration=configuration or Configuration(),
            restore=restore,
            has_checkpoints=has_checkpoints,
        )
        services = TaskServices(
            network=self.network,
            create_operator=self._create_operator,
            clock=self.time,
            timers=self.time,
            random=lambda name: random.Random(name),
            send_event=lambda operator_id, event: self.sent.append((operator_id, event)),
            run_blocking=self.storage.run_blocking,
            start_loop=lambda _name, loop: self.loops.append(loop),
            answer_checkpoint=self.storage.answers.append,
            create_writer=self.storage.create_writer,
            create_reader=self.storage.create_reader,
            files=JobFiles(self.packed),
        )
        self.task = StreamTask(self.deployment, services, self._report)

    # -- driving -------------------------------------------------------------------------------------------------

    def run_until_idle(self) -> TaskHarness:
        """Steps until there is nothing to do."""
        for _ in range(STEPS):
            if self.task.is_done or not self.task.step():
                return self
        raise AssertionError(f"still busy after {STEPS} steps")

    def start(self) -> TaskHarness:
        """Up to RUNNING, before any input."""
        while self.states[-1:] != ["RUNNING"]:
            assert not self.task.is_done, self.error
            self.task.step()
        return self

    def put(self, *elements: Element, gate: int = 0, channel: int = 0) -> None:
        """What a producer sent."""
        scripted = self.network.gates[gate].channels[channel]
        assert isinstance(scripted, ScriptedChannel)
        scripted.put(*elements)

    def trigger(self, sent: CheckpointBarrier) -> TaskHarness:
        """The coordinator triggers the task itself."""
        self.task.trigger_checkpoint(sent.checkpoint_id, sent.timestamp_ms, sent.options)
        return self.run_until_idle()

    def complete(self, checkpoint_id: int) -> TaskHarness:
        self.task.notify_checkpoint_complete(checkpoint_id)
        return self.run_until_idle()

    def abort(self, checkpoint_id: int) -> TaskHarness:
        self.task.notify_checkpoint_aborted(checkpoint_id)
        return self.run_until_idle()

    def advance(self, by_ms: int) -> None:
        """Lets time pass; the task runs whatever falls due on the way."""
        self.time.advance(by_ms, self.run_until_idle)
        self.run_until_idle()

    # -- looking -------------------------------------------------------------------------------------------------

    @property
    def states(self) -> list[str]:
        return [report.state.value for report in self.reports]

    @property
    def error(self) -> BaseException | None:
        return self.reports[-1].error if self.reports else None

    def out(self, result: int = 0, subpartition: int = 0) -> list[Element]:
        """What the task has sent since the last look."""
        elements: list[Element] = []
        while (polled := self.network.views[result][subpartition].poll()) is not None:
            elements.append(polled.buffer.element)
            if polled.buffer.blocks_upstream:
                self.network.views[result][subpartition].resume()
        return elements

    def channel(self, gate: int = 0, channel: int = 0) -> ScriptedChannel:
        scripted = self.network.gates[gate].channels[channel]
        assert isinstance(scripted, ScriptedChannel)
        return scripted

    # -- for the task --------------------------------------------------------------------------------------------

    def _report(self, state: ExecutionState, error: BaseException | None, metrics: TaskMetrics) -> None:
        self.reports.append(Report(state, error, metrics))

    def _create_operator(self, codes: Sequence[OperatorCode], names: Sequence[str]) -> Operator:
        factory = codes[0].factory
        if isinstance(factory, SourceFactory):
            operator: Operator = (SourceOperator if factory.watermark is None else SourceOfTableOperator)(codes[0])
        elif isinstance(factory, SinkFactory):
            operator = SinkOperator(codes[0])
        elif len(codes) > 1:
            operator = FusedProbe(list(names))
        else:
            assert isinstance(factory, ScriptFactory)
            operator = factory.make()
        self.operators["+".join(names)] = operator
        return operator


LOG: list[str] = []
"""What probes did, in order, over all operators of the task under test; tests clear it."""


@dataclass
class Probe(Operator):
    """Passes everything on, and writes down what happens to it."""

    name: str = "probe"
    inputs: int = 1
    factor: int = 1
    fail_in: str = ""
    seen: list[Any] = field(default_factory=list)

    @property
    def number_of_inputs(self) -> int:
        return self.inputs

    def _note(self, what: str) -> None:
        LOG.append(f"{self.name} {what}")
        if self.fail_in == what:
            raise ValueError(f"{self.name} fails in {what}")

    def initialize_state(self, restored: Any) -> None:
        self._note("initialize_state")

    def open(self) -> None:
        self._note("open")

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self._note("process_batch")
        values = batch.data.column(0).to_pylist()
        self.seen.append((input_index, values))
        self.output.emit(numbers(*(value * self.factor for value in values)))

    def on_watermark(self, timestamp: Timestamp) -> None:
        self.seen.append(("mark", timestamp))
        super().on_watermark(timestamp)

    def end_input(self, input_index: int) -> None:
        self._note(f"end_input {input_index}")

    def finish(self) -> None:
        self._note("finish")

    def close(self) -> None:
        self._note("close")


class FusedProbe(Probe):
    """Stands for fused row functions."""

    def __init__(self, names: list[str]) -> None:
        super().__init__("+".join(names))


def events_of(elements: Sequence[Element], kind: type[Event] | Any) -> list[Element]:
    return [element for element in elements if isinstance(element, kind)]
