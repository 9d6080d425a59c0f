"""The StreamGraph: the program one to one as operators and the streams between them. Nothing is chained here.

Partitionings and side outputs of the program are virtual nodes: they exist while the graph is being built, and end as
properties of the edges that run through them.
"""

from __future__ import annotations

import copy
import enum
from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from flinkray.config.configuration import Configuration
from flinkray.connectors.feedback.source import FeedbackSource
from flinkray.connectors.sink import Sink
from flinkray.errors import InvalidProgramError
from flinkray.transformations.operator_factories import ChainingStrategy, OperatorFactory, SinkFactory, SourceFactory
from flinkray.transformations.partitioning import (
    ForwardPartitioner,
    KeyGroupPartitioner,
    Partitioner,
    RebalancePartitioner,
)
from flinkray.transformations.transformation import ResourceSpec
from flinkray.types.keys import ColumnKey, KeySelector
from flinkray.types.records import Millis, OutputTag
from graphs.job_graph import TaskKind


class ExchangeMode(enum.Enum):
    """How an exchange hands rows over, as far as the program says."""

    PIPELINED = "PIPELINED"
    """Rows are handed over while they are produced."""
    BATCH = "BATCH"
    """Rows are handed over once all of them are produced."""
    UNDEFINED = "UNDEFINED"
    """The graph's `GlobalExchangeMode` decides."""


class GlobalExchangeMode(enum.Enum):
    """What becomes of exchanges in UNDEFINED mode (Flink's GlobalStreamExchangeMode)."""

    ALL_EDGES_PIPELINED = "all edges pipelined"
    POINTWISE_EDGES_PIPELINED = "pointwise edges pipelined"
    FORWARD_EDGES_PIPELINED = "forward edges pipelined"
    ALL_EDGES_BLOCKING = "all edges blocking"


class StreamEdge(Struct, frozen=True, eq=False):
    """A stream from one operator to another. Compared by identity, since it may hold objects of the user's."""

    source: int
    target: int
    input_index: int
    """Which logical input of the target it feeds; two edges with the same one are a union."""
    partitioner: Partitioner
    exchange_mode: ExchangeMode
    output_tag: OutputTag | None
    buffer_timeout_ms: Millis
    occurrence: int
    """Tells apart several edges that are otherwise equal, such as those of a stream united with itself."""
    is_respread: bool = False
    """Whether rows are spread round robin only because the parallelism changes here: the program does not say how."""

    @property
    def id(self) -> str:
        return f"{self.source}_{self.target}_{self.input_index}_{self.partitioner}_{self.occurrence}"


class StreamNode(Struct, eq=False, kw_only=True):
    """One operator of the program."""

    id: int
    """A number from a counter of this process: it orders nodes, and must not leave the client."""
    name: str
    factory: OperatorFactory
    kind: TaskKind
    """The kind of task that runs the operator when it heads a chain."""
    parallelism: int
    max_parallelism: int
    slot_sharing_group: str
    co_location_key: str | None
    chaining_strategy: ChainingStrategy
    keys: tuple[KeySelector | None, ...]
    """The key selector of each logical input; None where it is not keyed."""
    uid: str | None
    uid_hash: str | None
    buffer_timeout_ms: Millis
    has_own_buffer_timeout: bool
    """Whether the program sets the buffer timeout for this operator."""
    description: str
    min_resources: ResourceSpec
    preferred_resources: ResourceSpec
    managed_memory_weights: Mapping[str, int]
    managed_memory_slot_use_cases: frozenset[str]
    computes: str = ""
    """As of the transformation."""
    has_own_max_parallelism: bool = True
    """Whether the program sets the max parallelism; else it is made of the parallelism."""
    has_own_parallelism: bool = True
    """Whether the program sets the parallelism of this operator; else it is the job's."""
    is_changelog_input: bool = False
    """Whether it gets a changelog; known once that is inferred."""
    in_edges: list[StreamEdge] = field(default_factory=list)
    out_edges: list[StreamEdge] = field(default_factory=list)

    @property
    def is_source(self) -> bool:
        return isinstance(self.factory, SourceFactory)

    @property
    def is_iteration_head(self) -> bool:
        return isinstance(self.factory, SourceFactory) and isinstance(self.factory.source, FeedbackSource)

    @property
    def sink(self) -> Sink | None:
        return self.factory.sink if isinstance(self.factory, SinkFactory) else None

    def add_in_edge(self, edge: StreamEdge) -> None:
        if edge.target != self.id:
            raise ValueError(f"edge {edge.id} does not lead to node {self.id} ({self.name!r})")
        self.in_edges.append(edge)

    def add_out_edge(self, edge: StreamEdge) -> None:
        if edge.source != self.id:
            raise ValueError(f"edge {edge.id} does not begin at node {self.id} ({self.name!r})")
        self.out_edges.append(edge)


class _VirtualSideOutput(Struct, frozen=True):
    origin: int
    tag: OutputTag


class _VirtualPartition(Struct, frozen=True):
    origin: int
    partitioner: Partitioner
    exchange_mode: ExchangeMode


class StreamGraph:
    """Operators by node id, in the order in which they were added."""

    def __init__(
        self,
        name: str,
        configuration: Configuration,
        *,
        chaining_enabled: bool = True,
        is_batch: bool = False,
        global_exchange_mode: GlobalExchangeMode = GlobalExchangeMode.ALL_EDGES_PIPELINED,
        cached_files: Mapping[str, bytes] | None = None,
    ) -> None:
        self.name = name
        self.configuration = configuration
        self.chaining_enabled = chaining_enabled
        self.is_batch = is_batch
        self.global_exchange_mode = global_exchange_mode
        self.cached_files = dict(cached_files or {})
        self.nodes: dict[int, StreamNode] = {}
        self._side_outputs: dict[int, _VirtualSideOutput] = {}
        self._partitions: dict[int, _VirtualPartition] = {}
        self._last_virtual_id = 0

    def copy(self) -> StreamGraph:
        """A graph that can be changed without changing this one; their edges, and what nodes hold, are shared."""
        copied = copy.copy(self)
        copied.nodes = {
            node_id: replace(node, in_edges=list(node.in_edges), out_edges=list(node.out_edges))
            for node_id, node in self.nodes.items()
        }
        return copied

    @property
    def source_ids(self) -> list[int]:
        """Ids of these nodes, ascending."""
        return sorted(node.id for node in self.nodes.values() if node.is_source)

    @property
    def sink_ids(self) -> list[int]:
        """Ids of these nodes, ascending."""
        return sorted(node.id for node in self.nodes.values() if node.sink is not None)

    @property
    def edges(self) -> list[StreamEdge]:
        return [edge for node in self.nodes.values() for edge in node.out_edges]

    def new_virtual_id(self) -> int:
        """An id below zero, where no transformation has its own."""
        self._last_virtual_id -= 1
        return self._last_virtual_id

    def add_node(self, node: StreamNode) -> None:
        self._refuse_known(node.id)
        self.nodes[node.id] = node

    def add_virtual_side_output(self, virtual_id: int, origin: int, tag: OutputTag) -> None:
        """Whatever reads `virtual_id` reads what `origin` emits with `tag`."""
        self._refuse_known(virtual_id)
        self._side_outputs[virtual_id] = _VirtualSideOutput(origin, tag)

    def add_virtual_partition(
        self, virtual_id: int, origin: int, partitioner: Partitioner, exchange_mode: ExchangeMode
    ) -> None:
        """Whatever reads `virtual_id` reads `origin`, spread by `partitioner`."""
        self._refuse_known(virtual_id)
        self._partitions[virtual_id] = _VirtualPartition(origin, partitioner, exchange_mode)

    def _refuse_known(self, node_id: int) -> None:
        if node_id in self.nodes or node_id in self._side_outputs or node_id in self._partitions:
            raise ValueError(f"the graph has a node {node_id} already")

    def slot_sharing_group_of(self, node_id: int) -> str:
        """The group of a node, or of the node behind a virtual one."""
        while node_id not in self.nodes:
            virtual = self._side_outputs.get(node_id) or self._partitions[node_id]
            node_id = virtual.origin
        return self.nodes[node_id].slot_sharing_group

    def add_edge(self, upstream: int, downstream: int, input_index: int) -> None:
        """Joins two nodes; `upstream` may be virtual.

        Of the virtual nodes on the way, the partitioner and the tag nearest to the consumer win. With the exchange
        mode it is the other way round: that of every partition node replaces the former one, so the farthest wins.
        That is odd, and it is what Flink does.

        Raises:
            InvalidProgramError: the edge is to keep the subtask index between operators of unequal parallelism.
        """
        partitioner: Partitioner | None = None
        tag: OutputTag | None = None
        exchange_mode = ExchangeMode.UNDEFINED
        while upstream not in self.nodes:
            if upstream in self._side_outputs:
                side_output = self._side_outputs[upstream]
                tag = tag or side_output.tag
                upstream = side_output.origin
            else:
                partition = self._partitions[upstream]
                partitioner = partitioner or partition.partitioner
                exchange_mode = partition.exchange_mode
                upstream = partition.origin
        source, target = self.nodes[upstream], self.nodes[downstream]
        settled = _settle(partitioner, source, target)
        edge = StreamEdge(
            source=source.id,
            target=target.id,
            input_index=input_index,
            partitioner=settled,
            exchange_mode=exchange_mode,
            output_tag=tag,
            buffer_timeout_ms=source.buffer_timeout_ms,
            occurrence=sum(1 for other in source.out_edges if other.target == target.id),
            is_respread=partitioner is None and isinstance(settled, RebalancePartitioner),
        )
        source.add_out_edge(edge)
        target.add_in_edge(edge)


def _settle(partitioner: Partitioner | None, source: StreamNode, target: StreamNode) -> Partitioner:
    same_parallelism = source.parallelism == target.parallelism
    if partitioner is None:
        if same_parallelism:
            return ForwardPartitioner()
        if target.sink is not None and target.sink.key_columns:  # one row replaces another: they must not change places
            return KeyGroupPartitioner(ColumnKey(target.sink.key_columns), target.max_parallelism)
        return RebalancePartitioner()
    if isinstance(partitioner, ForwardPartitioner) and not same_parallelism:
        raise InvalidProgramError(
            f"forward from {source.name!r} (parallelism {source.parallelism}) to {target.name!r} (parallelism "
            f"{target.parallelism}): forward keeps the subtask index, so both need the same parallelism; set it, or "
            f"use rebalance, rescale, shuffle, broadcast or global_"
        )
    if isinstance(partitioner, KeyGroupPartitioner):
        # The number of key groups is the consumer's: its state is organised by them.
        return replace(partitioner, max_parallelism=target.max_parallelism)
    return partitioner
