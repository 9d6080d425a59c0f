"""Program -> JobGraph: the StreamGraph's chains as vertices, the edges between chains as data sets.

Runs in the driver, before submission; this is where user code becomes bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from flinkray.connectors.collect.sink import CollectSink
from flinkray.connectors.functions.source import GeneratorFunctionSource
from flinkray.execution import Pipeline
from flinkray.transformations.operator_factories import (
    AsyncFactory,
    OperatorFactory,
    SinkFactory,
    SourceFactory,
    input_count,
)
from flinkray.transformations.partitioning import Partitioner, SubtaskStateMapper
from flinkray.transformations.transformation import ResourceSpec
from flinkray.types.records import JobId
from graphs.compiler.stream_graph_generator import generate_stream_graph
from graphs.job_graph import (
    ChainedEdge,
    CoordinatorConfig,
    DataSetId,
    DistributionPattern,
    IntermediateDataSet,
    JobEdge,
    JobGraph,
    JobVertex,
    NetworkEdge,
    NetworkInput,
    OperatorCode,
    OperatorConfig,
    SourceInput,
)
from graphs.passes import Plan, run_passes
from graphs.passes.plan import Chain
from graphs.stream_graph import StreamEdge, StreamGraph, StreamNode
from graphs.topology import sort_topologically
from graphs.user_code import pickle_user_code


def generate_job_graph(pipeline: Pipeline, job_id: JobId, *, with_code: bool = True) -> JobGraph:
    """Compiles a program for submission.

    Args:
        with_code: pickle all user code. Without, nothing of the user's is called, and the graph is good for display
            only. Either way sources and sinks are taken as they are: the program has prepared them.

    Raises:
        InvalidProgramError: the program cannot be run; the message names the operators concerned.
        NotSerializableError: a function or connector cannot be pickled.
    """
    return job_graph_of(generate_stream_graph(pipeline), job_id, with_code=with_code)


def job_graph_of(stream_graph: StreamGraph, job_id: JobId, *, with_code: bool = True) -> JobGraph:
    """The JobGraph of a StreamGraph; otherwise as `generate_job_graph`."""
    plan = run_passes(stream_graph)
    builder = _Builder(plan, with_code)
    # In the order of the program, so that a graph reads like the program that it comes from.
    in_program_order = sorted(plan.chains, key=lambda chain: chain.head)
    vertices = sort_topologically([builder.vertex(chain) for chain in in_program_order])
    return JobGraph(
        job_id=job_id,
        name=stream_graph.name,
        is_batch=stream_graph.is_batch,
        vertices=vertices,
        configuration=stream_graph.configuration.copy(),
        checkpoint_settings=plan.checkpoint_settings,
        cached_files=dict(stream_graph.cached_files),
    )


class _Builder:
    """Builds vertices from the decisions in a plan."""

    def __init__(self, plan: Plan, with_code: bool) -> None:
        self._plan = plan
        self._with_code = with_code
        self._nodes = plan.graph.nodes
        # Ids of transformations come from a counter of this process; equal programs are to give equal graphs.
        self._numbers = {node_id: number for number, node_id in enumerate(sorted(self._nodes), start=1)}
        self._chain_of_node = {node_id: chain for chain in plan.chains for node_id in chain.node_ids}
        # In the order of creation, which gives a consumer the order of its gates.
        self._gates: dict[int, list[StreamEdge]] = {chain.head: [] for chain in plan.chains}
        for edge in plan.physical_edges:
            self._gates[edge.target].append(edge)

    def vertex(self, chain: Chain) -> JobVertex:
        head = self._nodes[chain.head]
        sharing = self._plan.slot_sharing[chain.head]
        members = [self._nodes[node_id] for node_id in chain.node_ids]
        gates = self._gates[chain.head]
        overtake = head.factory.barriers_overtake and all(
            self._downstream_mapper(edge) is not SubtaskStateMapper.UNSUPPORTED for edge in gates
        )
        return JobVertex(
            id=self._plan.vertex_id(chain),
            name=self._chain_name(chain),
            kind=head.kind,
            parallelism=head.parallelism,
            max_parallelism=head.max_parallelism,
            operators=tuple(self._operator(chain, node) for node in members),
            inputs=tuple(self._job_edge(edge, gate, overtake) for gate, edge in enumerate(gates)),
            results=tuple(self._data_set(chain, index) for index in range(len(chain.out_edges))),
            slot_sharing_group=sharing.group,
            co_location_group=sharing.co_location_group,
            coordinators=tuple(self._coordinator(node) for node in members if _needs_coordinator(node.factory)),
            min_resources=_merged([node.min_resources for node in members]),
            preferred_resources=_merged([node.preferred_resources for node in members]),
            is_stoppable=all(_is_stoppable(node.factory) for node in members),
            has_own_max_parallelism=head.has_own_max_parallelism,
            has_own_parallelism=any(node.has_own_parallelism for node in members),
            fixed_because="; ".join(dict.fromkeys(filter(None, map(_fixed_because, members)))),
        )

    def _chain_name(self, chain: Chain) -> str:
        """ "head -> next"; a fork is "head -> (one, other)", and chained sources stand before in brackets."""
        names: dict[int, str] = {}
        # Successors stand behind their predecessors among the members, so that backwards their names are there already.
        for node_id in reversed(chain.members):
            name = self._nodes[node_id].name
            if node_id == chain.head and chain.sources:
                name += f" [{', '.join(self._nodes[source].name for source in chain.sources)}]"
            following = [names[edge.target] for edge in chain.inner_edges[node_id]]
            if following:
                name += f" -> {following[0]}" if len(following) == 1 else f" -> ({', '.join(following)})"
            names[node_id] = name
        return names[chain.head]

    def _operator(self, chain: Chain, node: StreamNode) -> OperatorConfig:
        ids = self._plan.operator_ids[node.id]
        own_edges = [(index, edge) for index, edge in enumerate(chain.out_edges) if edge.source == node.id]
        partitioners = tuple(edge.partitioner for _, edge in own_edges)
        exchanges = tuple(_owning(edge.partitioner) for edge in self._gates[node.id]) if node.id == chain.head else ()
        code = OperatorCode(node.factory, node.keys, partitioners, exchanges)
        return OperatorConfig(
            node_id=self._numbers[node.id],
            operator_id=ids.primary,
            name=node.name,
            uid=node.uid,
            chain_index=chain.depth[node.id],
            code_bytes=pickle_user_code(code, node.name) if self._with_code else b"",
            factory_name=type(node.factory).__name__,
            delivery_guarantee=None if node.sink is None else node.sink.delivery_guarantee.value,
            is_row_function=node.factory.is_row_function,
            inputs=self._inputs(chain, node) if node.id == chain.head else (),
            chained_outputs=tuple(
                ChainedEdge(self._numbers[edge.target], edge.input_index, edge.output_tag)
                for edge in chain.inner_edges[node.id]
            ),
            network_outputs=tuple(
                NetworkEdge(index, str(edge.partitioner), edge.output_tag, edge.buffer_timeout_ms)
                for index, edge in own_edges
            ),
            managed_memory_fractions=dict(self._plan.managed_memory[node.id]),
            alternative_ids=ids.alternatives,
            computes=node.computes,
        )

    def _inputs(self, chain: Chain, head: StreamNode) -> tuple[NetworkInput | SourceInput, ...]:
        chained = {edge.input_index: edge.source for source in chain.sources for edge in chain.inner_edges[source]}
        inputs: list[NetworkInput | SourceInput] = []
        for input_index in range(input_count(head.factory)):
            if input_index in chained:
                inputs.append(SourceInput(self._numbers[chained[input_index]]))
            else:
                edges = enumerate(self._gates[head.id])
                inputs.append(NetworkInput(tuple(gate for gate, edge in edges if edge.input_index == input_index)))
        return tuple(inputs)

    def _data_set(self, chain: Chain, index: int) -> IntermediateDataSet:
        result_type = self._plan.result_types[chain.out_edges[index].id]
        return IntermediateDataSet(self._data_set_id(chain, index), self._plan.vertex_id(chain), result_type, index)

    def _data_set_id(self, chain: Chain, index: int) -> DataSetId:
        return DataSetId(f"{self._plan.vertex_id(chain)}:{index}")

    def _job_edge(self, edge: StreamEdge, gate_index: int, barriers_overtake: bool) -> JobEdge:
        producer = self._chain_of_node[edge.source]
        partitioner = edge.partitioner
        return JobEdge(
            source=self._data_set_id(producer, producer.out_edges.index(edge)),
            source_vertex=self._plan.vertex_id(producer),
            target=self._plan.vertex_id(self._chain_of_node[edge.target]),
            pattern=DistributionPattern.POINTWISE if partitioner.is_pointwise else DistributionPattern.ALL_TO_ALL,
            ship_strategy=str(partitioner),
            is_broadcast=partitioner.is_broadcast,
            upstream_mapper=partitioner.upstream_mapper,
            downstream_mapper=self._downstream_mapper(edge),
            input_index=edge.input_index,
            gate_index=gate_index,
            barriers_overtake=barriers_overtake,
        )

    def _downstream_mapper(self, edge: StreamEdge) -> SubtaskStateMapper:
        """Whom rows in flight go to. Those on their way to asynchronous calls share the fate of the rows that wait in
        the operator, which are dealt out when the job is rescaled: calls that do not come back must not hold up the
        barrier behind such rows."""
        is_dealt_out = edge.partitioner.is_pointwise and isinstance(self._nodes[edge.target].factory, AsyncFactory)
        return SubtaskStateMapper.ROUND_ROBIN if is_dealt_out else edge.partitioner.downstream_mapper

    def _coordinator(self, node: StreamNode) -> CoordinatorConfig:
        return CoordinatorConfig(
            operator_id=self._plan.operator_ids[node.id].primary,
            operator_name=node.name,
            factory_bytes=pickle_user_code(node.factory, node.name) if self._with_code else b"",
        )


def _owning(partitioner: Partitioner) -> Partitioner | None:
    """The partitioner if it says which subtask each row belongs to."""
    owns = partitioner.downstream_mapper in (SubtaskStateMapper.RANGE, SubtaskStateMapper.FULL)
    return partitioner if owns else None


def _needs_coordinator(factory: OperatorFactory) -> bool:
    """Sources have an enumerator; sinks may say that they collect at the JobMaster."""
    if isinstance(factory, SinkFactory):
        return bool(getattr(factory.sink, "needs_coordinator", False))
    return isinstance(factory, SourceFactory)


def _fixed_because(node: StreamNode) -> str:
    """Why an operator keeps its parallelism when the job is rescaled; "": it may have another."""
    if node.max_parallelism == 1:
        return f"{node.name!r} runs in one subtask"
    if isinstance(node.factory, SourceFactory) and not node.factory.source.is_parallel:
        return f"{type(node.factory.source).__name__} runs in one subtask"
    if node.sink is not None and not node.sink.is_parallel:
        return f"{type(node.sink).__name__} runs in one subtask"
    if isinstance(node.sink, CollectSink):
        return f"{node.name!r} brings its rows to the driver"
    if isinstance(node.factory, SourceFactory) and isinstance(node.factory.source, GeneratorFunctionSource):
        return f"each subtask of {node.name!r} would call its function"
    if isinstance(node.factory, AsyncFactory) and node.is_changelog_input:
        return f"calls of {node.name!r} that are under way would overtake changes of their key"
    if node.parallelism == 1 and any(edge.is_respread for edge in node.in_edges):
        return f"{node.name!r} gets the rows of several subtasks in one, in their order"
    return ""


def _is_stoppable(factory: OperatorFactory) -> bool:
    return not isinstance(factory, SourceFactory) or factory.source.is_stoppable


def _merged(resources: Sequence[ResourceSpec]) -> ResourceSpec:
    total = ResourceSpec()
    for each in resources:
        total = total.merge(each)
    return total
