"""Which operators share a task (a chain), and thus have no queue, thread or copy of rows between them.

After Flink's StreamingJobGraphGenerator (isChainable, isChainableInput, createChain), without its recursion.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from flinkray.transformations.operator_factories import ChainingStrategy
from flinkray.transformations.partitioning import ForwardPartitioner
from graphs.passes.plan import Chain, Plan
from graphs.stream_graph import ExchangeMode, StreamEdge, StreamGraph, StreamNode


def chain_operators(plan: Plan) -> Plan:
    """Decides `chains` of the plan."""
    graph = plan.graph
    chained_sources = {node_id: edge.target for node_id in graph.source_ids if (edge := _source_edge(graph, node_id))}
    # A chain with chained sources is entered at their target, since the sources have no task of their own.
    entries = sorted({chained_sources.get(node_id, node_id) for node_id in graph.source_ids})
    chains: dict[int, Chain] = {}
    finished: dict[int, Chain] = {}
    for entry in entries:
        stack = [(entry, _targets(graph, chains, entry, chained_sources))] if entry not in chains else []
        while stack:
            head, targets = stack[-1]
            target = next((each for each in targets if each not in chains), None)
            if target is None:
                finished[head] = chains[head]
                stack.pop()
            else:
                stack.append((target, _targets(graph, chains, target, chained_sources)))
    return replace(plan, chains=tuple(finished.values()))


def _targets(graph: StreamGraph, chains: dict[int, Chain], head: int, chained_sources: dict[int, int]) -> Iterator[int]:
    """Builds the chain of `head`; gives the heads of the chains behind it."""
    sources = tuple(source for source, target in sorted(chained_sources.items()) if target == head)
    chains[head] = _build_chain(graph, head, sources)
    return iter([edge.target for edge in chains[head].out_edges])


def _build_chain(graph: StreamGraph, head: int, sources: tuple[int, ...]) -> Chain:
    depth = dict.fromkeys(sources, 0) | {head: 1}
    inner_edges = {source: tuple(graph.nodes[source].out_edges) for source in sources}
    members: list[int] = []
    out_edges: list[StreamEdge] = []
    # Each entry is either a node still to enter, or the own outgoing edges of one whose successors are all done.
    stack: list[int | list[StreamEdge]] = [head]
    while stack:
        entry = stack.pop()
        if isinstance(entry, list):
            out_edges.extend(entry)
            continue
        members.append(entry)
        edges = graph.nodes[entry].out_edges
        inner = tuple(edge for edge in edges if is_chainable(edge, graph))
        inner_edges[entry] = inner
        stack.append([edge for edge in edges if edge not in inner])
        for edge in reversed(inner):
            depth[edge.target] = depth[entry] + 1
            stack.append(edge.target)
    return Chain(head, tuple(members), sources, depth, inner_edges, tuple(out_edges))


def is_chainable(edge: StreamEdge, graph: StreamGraph) -> bool:
    """Whether the edge's target joins the chain of its source."""
    return len(graph.nodes[edge.target].in_edges) == 1 and is_chainable_input(edge, graph)


def is_chainable_input(edge: StreamEdge, graph: StreamGraph) -> bool:
    """Whether the edge can run inside a task, whatever other inputs its target has."""
    waits = graph.nodes[edge.target].factory.yields_to_mailbox
    return _may_share_task(edge, graph) and not (waits and _is_behind_source(graph.nodes[edge.source], graph))


def _may_share_task(edge: StreamEdge, graph: StreamGraph) -> bool:
    source, target = graph.nodes[edge.source], graph.nodes[edge.target]
    return (
        graph.chaining_enabled
        and source.slot_sharing_group == target.slot_sharing_group
        and source.parallelism == target.parallelism
        and isinstance(edge.partitioner, ForwardPartitioner)
        and edge.exchange_mode is not ExchangeMode.BATCH
        and _strategies_allow(source, target)
        and not _is_union(edge, target)
    )


def _strategies_allow(source: StreamNode, target: StreamNode) -> bool:
    if source.chaining_strategy is ChainingStrategy.NEVER or source.factory.ends_chain:
        return False
    if target.chaining_strategy is ChainingStrategy.HEAD_WITH_SOURCES:
        return source.is_source
    return target.chaining_strategy is ChainingStrategy.ALWAYS


def _is_union(edge: StreamEdge, target: StreamNode) -> bool:
    """Streams are united at the input gates of a task, so an input with several edges needs the network."""
    return any(other is not edge and other.input_index == edge.input_index for other in target.in_edges)


def _is_behind_source(node: StreamNode, graph: StreamGraph) -> bool:
    """Whether the chain of `node` begins with a source, whose thread must not be made to run other mails."""
    path = [node]
    while len(path[-1].in_edges) == 1 and _may_share_task(path[-1].in_edges[0], graph):
        path.append(graph.nodes[path[-1].in_edges[0].source])
    behind = path[-1].is_source
    for each in reversed(path[:-1]):
        # An operator that yields to the mailbox is not chained behind a source itself: a chain of its own begins there.
        behind = behind and not each.factory.yields_to_mailbox
    return behind


def _source_edge(graph: StreamGraph, node_id: int) -> StreamEdge | None:
    """The edge over which a source feeds an operator that takes sources into its task; None: it is no such source."""
    edges = graph.nodes[node_id].out_edges
    if len(edges) != 1:
        return None
    takes_sources = graph.nodes[edges[0].target].chaining_strategy is ChainingStrategy.HEAD_WITH_SOURCES
    return edges[0] if takes_sources and is_chainable_input(edges[0], graph) else None
