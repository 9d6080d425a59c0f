"""Windows of built-in aggregates in two phases: within each batch before an exchange, then over all behind it.

After Flink's TwoStageOptimizedWindowAggregateRule: what crosses the exchange is a row per key and slice instead of all
rows, and a key that most rows have no longer keeps one subtask busy alone.
"""

from __future__ import annotations

import hashlib

from msgspec.structs import replace

from flinkray.config.options import AGG_PHASE_STRATEGY
from flinkray.transformations.operator_factories import ChainingStrategy, LocalWindowAggregateFactory, WindowFactory
from flinkray.transformations.partitioning import (
    ForwardPartitioner,
    GlobalPartitioner,
    KeyGroupPartitioner,
    RebalancePartitioner,
    RescalePartitioner,
    ShufflePartitioner,
)
from flinkray.transformations.transformation import ResourceSpec
from flinkray.types.keys import ColumnKey
from flinkray.types.records import OperatorId
from flinkray.windows.aggregates import Avg, Count, Max, Min, Sum
from flinkray.windows.assigners import CumulativeEventTimeWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from graphs.job_graph import TaskKind
from graphs.passes.operator_ids import HASH_BYTES
from graphs.passes.plan import OperatorIds, Plan
from graphs.passes.result_types import result_type
from graphs.stream_graph import ExchangeMode, StreamEdge, StreamGraph, StreamNode

_COMBINABLE = (Count, Sum, Min, Max, Avg)
"""Aggregates whose accumulators are one number or two, in whatever order rows were added."""
_REGARDLESS_OF_ROWS = (RescalePartitioner, RebalancePartitioner, ShufflePartitioner, GlobalPartitioner)
"""Partitioners that send rows somewhere without a look at what is in them, which the local phase changes."""
_ASSIGNERS = (CumulativeEventTimeWindows, SlidingEventTimeWindows, TumblingEventTimeWindows)


def aggregate_locally(plan: Plan) -> Plan:
    """Puts the local phase, with an id of its own, before exchanges that lead to such windows. All other operators
    keep their ids: they were settled before, by a graph in which it was not."""
    strategy = plan.graph.configuration.get(AGG_PHASE_STRATEGY)
    if strategy == "ONE_PHASE" or plan.graph.is_batch:  # what is sorted for batch mode must have one layout
        return plan
    edges = [edge for edge in plan.graph.edges if _is_exchange(edge, plan.graph, strategy == "TWO_PHASE")]
    if not edges:
        return plan
    graph = plan.graph.copy()
    ids = dict(plan.operator_ids)
    for edge in edges:
        node = _local_node(edge, graph, max(graph.nodes) + 1)
        ids[node.id] = _ids(edge, plan)
        graph.add_node(node)
        entry = StreamEdge(
            source=edge.source,
            target=node.id,
            input_index=0,
            partitioner=ForwardPartitioner(),
            exchange_mode=ExchangeMode.UNDEFINED,
            output_tag=edge.output_tag,
            buffer_timeout_ms=edge.buffer_timeout_ms,
            occurrence=0,
        )
        exit_edge = replace(edge, source=node.id, output_tag=None, occurrence=0)
        node.add_in_edge(entry)
        node.add_out_edge(exit_edge)
        _put(graph.nodes[edge.source].out_edges, edge, entry)
        _put(graph.nodes[edge.target].in_edges, edge, exit_edge)
    return replace(plan, graph=graph, operator_ids=ids)


def _is_exchange(edge: StreamEdge, graph: StreamGraph, is_forced: bool) -> bool:
    """Whether the local phase can stand before the edge, in the task that feeds it, and is wanted there."""
    source, target = graph.nodes[edge.source], graph.nodes[edge.target]
    key = target.keys[edge.input_index]
    is_keyed = isinstance(key, ColumnKey) and edge.partitioner == KeyGroupPartitioner(key, target.max_parallelism)
    is_all = key is None and target.parallelism == 1 and isinstance(edge.partitioner, _REGARDLESS_OF_ROWS)
    # Where there is one subtask on either side, and both share a slot, rows cross by reference: nothing is saved.
    is_remote = (
        max(source.parallelism, target.parallelism) > 1 or source.slot_sharing_group != target.slot_sharing_group
    )
    return (
        (is_keyed or is_all)
        and (is_remote or is_forced)
        and _is_combinable(target.factory)
        and graph.chaining_enabled
        and source.chaining_strategy is not ChainingStrategy.NEVER
        and result_type(edge, graph).is_pipelined
    )


def _is_combinable(factory: object) -> bool:
    if not isinstance(factory, WindowFactory) or not factory.aggregates:
        return False
    assigner, trigger = factory.assigner, factory.trigger
    return (
        isinstance(assigner, _ASSIGNERS)
        and type(assigner) in _ASSIGNERS  # of a class derived from ours nothing is known
        and assigner.slide_ms <= assigner.size_ms  # between windows each row is late, or not, by its own time
        and (trigger is None or trigger == assigner.get_default_trigger())
        and factory.evictor is None
        and factory.late_tag is None
        and all(type(aggregate) in _COMBINABLE for _, aggregate in factory.aggregates)
    )


def _local_node(edge: StreamEdge, graph: StreamGraph, node_id: int) -> StreamNode:
    source, target = graph.nodes[edge.source], graph.nodes[edge.target]
    key = target.keys[edge.input_index]
    assert isinstance(target.factory, WindowFactory)
    assert key is None or isinstance(key, ColumnKey)
    name = f"Local {target.name}"
    return StreamNode(
        id=node_id,
        name=name,
        factory=LocalWindowAggregateFactory(target.factory, key),
        kind=TaskKind.ONE_INPUT,
        parallelism=source.parallelism,
        max_parallelism=source.max_parallelism,
        slot_sharing_group=source.slot_sharing_group,
        co_location_key=None,
        chaining_strategy=ChainingStrategy.ALWAYS,
        keys=(None,),
        uid=None,
        uid_hash=None,
        buffer_timeout_ms=source.buffer_timeout_ms,
        has_own_buffer_timeout=source.has_own_buffer_timeout,
        description=name,
        min_resources=ResourceSpec(),
        preferred_resources=ResourceSpec(),
        managed_memory_weights={},
        managed_memory_slot_use_cases=frozenset(),
        has_own_parallelism=source.has_own_parallelism,
        has_own_max_parallelism=source.has_own_max_parallelism,
    )


def _ids(edge: StreamEdge, plan: Plan) -> OperatorIds:
    ends = (plan.operator_ids[edge.source].primary, plan.operator_ids[edge.target].primary)
    tag = "" if edge.output_tag is None else edge.output_tag.name
    text = "\0".join(("local phase", *ends, tag, str(edge.occurrence)))
    return OperatorIds(OperatorId(hashlib.blake2b(text.encode(), digest_size=HASH_BYTES).hexdigest()))


def _put(edges: list[StreamEdge], old: StreamEdge, new: StreamEdge) -> None:
    """Puts an edge in the place of the old one, as the order of edges is that of results and gates."""
    edges[edges.index(old)] = new
