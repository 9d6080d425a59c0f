"""Runs the operators of a pipeline in the thread of a test, one subtask of each: the runtime of test harnesses."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import replace

from actors.network.producer.partitioners import ChannelSelector, create_selector
from actors.operators.contract.operator import Operator, Output
from actors.operators.registry import create_operator
from actors.operators.time.watermark_valve import StatusWatermarkValve
from actors.protocol.checkpoint_handles import OperatorSubtaskState, PartKind, StatePart
from actors.protocol.elements import CheckpointOptions, Watermark, WatermarkStatus
from actors.state.keyed.options import StateOptions
from actors.state.snapshots.snapshot import read_keyed_table
from actors.tasks.chain.outputs import BroadcastingOutput, ChainingOutput, close_all, naming_operator
from actors.testing.context import HarnessContext, RecordingOutput
from actors.testing.snapshots import MemoryRestoredState, RecordingStateWriter, inline_data
from actors.user_code.functions import OpenedPartitioner
from flinkray.batches.batch import Batch
from flinkray.config import options
from flinkray.errors import CheckpointError, InvalidProgramError
from flinkray.execution import Pipeline
from flinkray.persistence import dumps, loads
from flinkray.testing import elements
from flinkray.testing.clock import ManualClock
from flinkray.testing.driver import HarnessInput
from flinkray.transformations.operator_factories import SourceFactory
from flinkray.types.records import MAX_TIMESTAMP, Millis, OperatorId, OutputTag, Timestamp
from graphs.compiler.stream_graph_generator import generate_stream_graph
from graphs.job_graph import OperatorCode
from graphs.key_groups import HIGHEST_MAX_PARALLELISM
from graphs.passes import run_passes
from graphs.stream_graph import StreamEdge, StreamNode

_TIMERS = "timers/"
"""How the names of parts with timers begin."""


class PipelineDriver:
    """Implements `flinkray.testing.driver.HarnessDriver`.

    Rows go from operator to operator as they would through the network: keyed edges compute the keys of functions, and
    a valve combines the watermarks of all edges into one input. The only sink collects what the test looks at.

    Args:
        snapshot: the snapshot of another driver, from which this one starts.
    """

    def __init__(self, pipeline: Pipeline, clock: ManualClock, snapshot: bytes | None = None) -> None:
        self._configuration = pipeline.configuration
        self._job_name = pipeline.name
        plan = run_passes(generate_stream_graph(pipeline))
        self._ids = {node_id: ids.primary for node_id, ids in plan.operator_ids.items()}
        nodes = plan.graph.nodes
        self._host = HarnessContext(clock=clock, job_name=pipeline.name)
        """The context whose mails and timers all operators share."""
        self._result = RecordingOutput()
        self._sides = _SideOutputs()
        self._checkpoint_id = 0
        self._operators: dict[int, Operator] = {
            node.id: create_operator([OperatorCode(node.factory, node.keys, ())], [node.name])
            for node in nodes.values()
            if not node.is_source and node.sink is None
        }
        result = _ResultOperator(self._result)
        self._nodes = {
            node.id: _GraphNode(node, self._operators.get(node.id, result), self._sides) for node in nodes.values()
        }
        self._inputs = {_input_index(node): self._nodes[node.id] for node in nodes.values() if node.is_source}
        for node in self._nodes.values():
            node.connect(self._nodes)
        self._order = self._from_head_to_tail()
        for node_id in self._order:
            self._operators[node_id].setup(self._context_of(nodes[node_id]), self._nodes[node_id].output)
        self._unclosed = [self._operators[node_id] for node_id in self._order]
        self._partitioners = [
            OpenedPartitioner(self._operators[edge.target].context, edge.partitioner)
            for node_id in self._order
            for edge in nodes[node_id].in_edges
        ]
        self._open(snapshot)

    # -- what goes in --------------------------------------------------------------------------------------------

    def push(self, input_index: int, batch: Batch) -> None:
        self._inputs[input_index].output.emit(batch)
        self._host.run_mails()

    def watermark(self, input_index: int, timestamp: Timestamp) -> None:
        self._inputs[input_index].output.emit_watermark(timestamp)
        self._host.run_mails()

    def status(self, input_index: int, is_idle: bool) -> None:
        self._inputs[input_index].output.emit_status(is_idle)
        self._host.run_mails()

    def end(self, input_index: int) -> None:
        source = self._inputs[input_index]
        source.output.emit_status(False)
        self.watermark(input_index, MAX_TIMESTAMP)
        source.end_outputs()
        if all(each.has_ended for each in self._inputs.values()):
            self._host.timers.clear()  # a timer that fired now would emit after the end
        self._host.run_mails()

    def advance(self, milliseconds: Millis) -> None:
        self._host.advance(milliseconds)

    # -- what comes out ------------------------------------------------------------------------------------------

    @property
    def output(self) -> list[Batch | elements.Watermark | elements.Marker]:
        return [_public(element) for element in self._result.elements]

    def side_output(self, tag: OutputTag) -> list[Batch]:
        return [batch for with_tag, batch in self._sides.elements if with_tag == tag]

    def clear_output(self) -> None:
        self._result.clear()
        self._sides.clear()

    # -- state ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        return dumps({operator_id: state for operator_id, state in self._snapshots().items() if state.parts})

    def count_entries(self) -> int:
        return sum(_entries(part) for part in self._keyed_parts() if not part.name.startswith(_TIMERS))

    def count_timers(self, domain: str) -> int:
        return sum(part.items for part in self._keyed_parts() if part.name == _TIMERS + domain)

    def _keyed_parts(self) -> Iterator[StatePart]:
        for state in self._snapshots().values():
            yield from (part for part in state.parts if part.kind is PartKind.KEYED)

    def _snapshots(self) -> dict[OperatorId, OperatorSubtaskState]:
        self._host.run_mails()
        self._checkpoint_id += 1
        for node_id in self._order:
            with naming_operator(self._operators[node_id]):
                self._operators[node_id].prepare_barrier(self._checkpoint_id)
        writer = RecordingStateWriter()
        states: dict[OperatorId, OperatorSubtaskState] = {}
        for node_id in reversed(self._order):
            operator = self._operators[node_id]
            with naming_operator(operator):
                snapshot = operator.snapshot_state(self._checkpoint_id, CheckpointOptions(is_savepoint=True))
            parts = () if snapshot is None else tuple(part.write(writer) for part in snapshot.parts)
            states[self._ids[node_id]] = OperatorSubtaskState(parts)
        return states

    # -- life cycle ----------------------------------------------------------------------------------------------

    def _open(self, snapshot: bytes | None) -> None:
        states = {} if snapshot is None else _read(snapshot)
        unknown = states.keys() - {self._ids[node_id] for node_id in self._order}
        if unknown:
            raise CheckpointError(
                f"the snapshot has state of {len(unknown)} operator(s) that this harness has not: it was taken of "
                "another function or transformation; operators with a uid are found wherever they stand"
            )
        try:
            for partitioner in self._partitioners:
                partitioner.open()
            for node_id in reversed(self._order):
                operator = self._operators[node_id]
                state = None if snapshot is None else states.get(self._ids[node_id], OperatorSubtaskState())
                owned = operator.context.key_group_range
                with naming_operator(operator):
                    operator.initialize_state(None if state is None else MemoryRestoredState([state], owned, 0, 1))
                    operator.open()
        except BaseException:
            with contextlib.suppress(Exception):  # operators that did not open well often do not close well
                self.close()
            raise

    def close(self) -> None:
        first = close_all(self._unclosed, self._partitioners)
        self._host.timers.clear()
        if first is not None:
            raise first

    # -- inside --------------------------------------------------------------------------------------------------

    def _context_of(self, node: StreamNode) -> HarnessContext:
        configuration, host = self._configuration, self._host
        parameters = configuration.get(options.GLOBAL_JOB_PARAMETERS)
        return HarnessContext(
            operator_name=node.name,
            operator_id=self._ids[node.id],
            uid=node.uid,
            keys=node.keys or (None,),
            max_parallelism=node.max_parallelism,
            batch_rows=configuration.get(options.BATCH_ROWS),
            batch_bytes=configuration.get(options.BATCH_BYTES),
            auto_watermark_interval_ms=configuration.get(options.AUTO_WATERMARK_INTERVAL),
            state_options=StateOptions.of(configuration),
            job_parameters=dict(parameters),
            job_name=self._job_name,
            clock=host.clock,
            mails=host.mails,
            timers=host.timers,
            loops=host.loops,
            accumulators=host.accumulators,
        )

    def _from_head_to_tail(self) -> list[int]:
        """The nodes of operators, each behind all that feed it."""
        order: list[int] = []
        missing = {node_id: len(node.node.in_edges) for node_id, node in self._nodes.items()}
        ready = [node_id for node_id, edges in missing.items() if not edges]
        while ready:
            node_id = ready.pop(0)
            if node_id in self._operators:
                order.append(node_id)
            for edge in self._nodes[node_id].node.out_edges:
                missing[edge.target] -= 1
                if not missing[edge.target]:
                    ready.append(edge.target)
        return order


class _SideOutputs(RecordingOutput):
    """Collects what is emitted with a tag, and nothing else."""

    def emit(self, batch: Batch) -> None: ...

    def emit_watermark(self, timestamp: Timestamp) -> None: ...

    def emit_status(self, is_idle: bool) -> None: ...


class _GraphNode:
    """A node of the graph: its inputs over edges from other nodes, and the output of its operator.

    Args:
        operator: the node's operator, which is not used in a source.
        sides: collects what the operator emits with a tag, in addition to nodes that read it.
    """

    def __init__(self, node: StreamNode, operator: Operator, sides: RecordingOutput) -> None:
        self.node = node
        self.output: Output = sides
        self.has_ended = False
        self._operator = operator
        self._sides = sides
        self._edges: list[_Edge] = []
        self._open_channels: dict[int, int] = {}
        self._valves: dict[int, StatusWatermarkValve] = {}

    def connect(self, nodes: dict[int, _GraphNode]) -> None:
        """Sets the output, to the edges into the nodes that read from this one."""
        self._edges = [nodes[edge.target].edge_from(edge, self.node.name) for edge in self.node.out_edges]
        self.output = BroadcastingOutput([self._sides, *self._edges])

    def edge_from(self, edge: StreamEdge, producer: str) -> _Edge:
        """The output over an edge into this node."""
        channel = self._open_channels.get(edge.input_index, 0)
        self._open_channels[edge.input_index] = channel + 1
        selector = create_selector(edge.partitioner, 1, random.Random(0), producer)
        return _Edge(self, self._operator, edge, channel, selector)

    def valve(self, input_index: int) -> StatusWatermarkValve:
        """The valve of all edges into an input, which are connected before anything comes over one of them."""
        if input_index not in self._valves:
            self._valves[input_index] = StatusWatermarkValve(self._open_channels[input_index])
        return self._valves[input_index]

    def end_outputs(self) -> None:
        """Ends all outgoing edges, as the operator will emit nothing more."""
        if not self.has_ended:
            self.has_ended = True
            for edge in self._edges:
                edge.end()

    def end_channel(self, input_index: int) -> None:
        """Nothing more comes over one edge into an input."""
        self.valve(input_index)  # made now, as its size is the number of channels before any has ended
        self._open_channels[input_index] -= 1
        if self._open_channels[input_index]:
            return
        with naming_operator(self._operator):
            self._operator.end_input(input_index)
            if not any(self._open_channels.values()):
                self._operator.finish()
        if not any(self._open_channels.values()):
            self.end_outputs()


class _Edge(ChainingOutput):
    """An edge into an operator, over which rows go as through the network."""

    def __init__(
        self, receiver: _GraphNode, operator: Operator, edge: StreamEdge, channel: int, selector: ChannelSelector
    ) -> None:
        super().__init__(operator, edge.input_index, edge.output_tag)
        self._receiver = receiver
        self._index = edge.input_index
        self._channel = channel
        self._selector = selector

    def deliver(self, batch: Batch) -> None:
        for _, part in self._selector.split(batch):
            super().deliver(part)

    def emit_watermark(self, timestamp: Timestamp) -> None:
        self._pass_on(self._receiver.valve(self._index).on_watermark(timestamp, self._channel))

    def emit_status(self, is_idle: bool) -> None:
        self._pass_on(self._receiver.valve(self._index).on_status(is_idle, self._channel))

    def _pass_on(self, outcome: list[Watermark | WatermarkStatus]) -> None:
        for element in outcome:
            if isinstance(element, Watermark):
                super().emit_watermark(element.timestamp)
            else:
                super().emit_status(element.is_idle)

    def end(self) -> None:
        self._receiver.end_channel(self._index)


class _ResultOperator(Operator):
    """The sink: collects everything that comes."""

    def __init__(self, result: RecordingOutput) -> None:
        self.setup(HarnessContext(operator_name="result"), result)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self.output.emit(batch)


def _input_index(node: StreamNode) -> int:
    assert isinstance(node.factory, SourceFactory)
    source = node.factory.source
    if not isinstance(source, HarnessInput):
        raise InvalidProgramError(
            f"a harness drives its own inputs only, and the transformation reads from {node.name!r}; run a program "
            "with sources through run_locally"
        )
    return source.input_index


def _read(snapshot: bytes) -> dict[OperatorId, OperatorSubtaskState]:
    try:
        states: dict[OperatorId, OperatorSubtaskState] = loads(snapshot)
    except Exception as error:
        raise CheckpointError(f"the snapshot of the harness cannot be read: {error}") from error
    return states


def _entries(part: StatePart) -> int:
    """How many keys have something in a part of keyed state, in which a list or map may have several rows of a key."""
    keys: set[bytes] = set()
    others = 0
    for table in read_keyed_table(inline_data(part), range(HIGHEST_MAX_PARALLELISM)):
        if {"group", "key", "value"} <= set(table.column_names):
            keys.update(table.column("key").to_pylist())
        else:
            others += table.num_rows
    return len(keys) + others


def _public(element: object) -> Batch | elements.Watermark | elements.Marker:
    match element:
        case Watermark(timestamp):
            return elements.Watermark(timestamp)
        case WatermarkStatus(is_idle):
            return elements.Idle if is_idle else elements.Active
    assert isinstance(element, Batch)
    return replace(element, keys=None)
