"""What the passes decide about a StreamGraph, one after another, before the JobGraph is built from it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from flinkray.types.records import OperatorId
from graphs.job_graph import CheckpointSettings, JobVertexId, ResultPartitionType
from graphs.stream_graph import StreamEdge, StreamGraph, StreamNode


class Chain(Struct, frozen=True):
    """Operators that share a task. Nodes are given by id."""

    head: int
    members: tuple[int, ...]
    """The head, then what is chained to it, depth first."""
    sources: tuple[int, ...]
    """Sources that feed the head from within its task."""
    depth: Mapping[int, int]
    """Node -> chain index: 0 for chained sources, 1 for the head, one more with each step from it."""
    inner_edges: Mapping[int, tuple[StreamEdge, ...]]
    """Node -> its edges to other operators of the chain."""
    out_edges: tuple[StreamEdge, ...]
    """Edges that leave the chain: those of chained successors first, then a node's own. One result each."""

    @property
    def node_ids(self) -> tuple[int, ...]:
        """Chained sources, then the members by chain index."""
        return (*self.sources, *sorted(self.members, key=lambda node: self.depth[node]))


class OperatorIds(Struct, frozen=True):
    """The identity of an operator over submissions, and others that it may have had."""

    primary: OperatorId
    alternatives: tuple[OperatorId, ...] = ()


class SlotSharing(Struct, frozen=True):
    """Which tasks share slots with those of a chain, and which must."""

    group: str
    co_location_group: str | None


class Plan(Struct, frozen=True):
    """A StreamGraph and the decisions taken so far. Every pass gives a plan with one more of them."""

    graph: StreamGraph
    operator_ids: Mapping[int, OperatorIds] = field(default_factory=dict)
    """Node -> its ids."""
    chains: tuple[Chain, ...] = ()
    """The chains, consumers before producers: the order in which their edges become inputs."""
    result_types: Mapping[str, ResultPartitionType] = field(default_factory=dict)
    """Id of an edge that leaves a chain -> how its result may be read."""
    slot_sharing: Mapping[int, SlotSharing] = field(default_factory=dict)
    """Head of a chain -> where its tasks may run."""
    managed_memory: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    """Node -> use case -> share of what the slot has for it."""
    checkpoint_settings: CheckpointSettings = CheckpointSettings()

    def head_of(self, chain: Chain) -> StreamNode:
        return self.graph.nodes[chain.head]

    def vertex_id(self, chain: Chain) -> JobVertexId:
        """A job vertex has the id of its chain's head."""
        return JobVertexId(self.operator_ids[chain.head].primary)

    @property
    def physical_edges(self) -> tuple[StreamEdge, ...]:
        """The edges between chains, in the order that gives consumers the order of their gates."""
        return tuple(edge for chain in self.chains for edge in chain.out_edges)
