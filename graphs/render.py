"""Each graph as a stable text, for people and for comparison, and as a Mermaid drawing.

Operators and vertices are numbered in the order of the program. Nothing that differs between processes is shown, so
equal programs give equal texts; the ids of operators are shown, because state is found by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from flinkray.types.keys import KeySelector
from flinkray.types.records import OutputTag
from graphs.edge_manager import ConsumedPartitionGroup
from graphs.execution_graph import ExecutionGraph, ExecutionVertex
from graphs.job_graph import JobEdge, JobGraph, JobVertex, NetworkInput, OperatorConfig
from graphs.regions import pipelined_regions
from graphs.stream_graph import ExchangeMode, StreamEdge, StreamGraph, StreamNode

# -- StreamGraph -------------------------------------------------------------------------------------------------


def stream_graph_text(graph: StreamGraph) -> str:
    """One paragraph per operator: its settings, and the streams that it reads."""
    numbers = _node_numbers(graph)
    lines = [f"StreamGraph {graph.name!r}"]
    for node_id, number in numbers.items():
        node = graph.nodes[node_id]
        lines.append(f"{number} {node.name}")
        if node.description != node.name:
            lines.append(f"    {node.description}")
        lines.append(f"    {_node_settings(node)}")
        lines.extend(
            f"    input {edge.input_index}: {numbers[edge.source]} {_edge_label(edge)}" for edge in node.in_edges
        )
    return _joined(lines)


def stream_graph_mermaid(graph: StreamGraph) -> str:
    """A flow chart with an arrow per stream."""
    numbers = _node_numbers(graph)
    lines = ["flowchart LR"]
    for node_id, number in numbers.items():
        node = graph.nodes[node_id]
        lines.append(f"    n{number}[{_quoted([node.name, f'parallelism {node.parallelism}'])}]")
    for node_id in numbers:
        lines.extend(
            f"    n{numbers[edge.source]} -->|{_quoted([_edge_label(edge)])}| n{numbers[edge.target]}"
            for edge in graph.nodes[node_id].out_edges
        )
    return _joined(lines)


def _node_numbers(graph: StreamGraph) -> dict[int, int]:
    return {node_id: number for number, node_id in enumerate(sorted(graph.nodes), start=1)}


def _node_settings(node: StreamNode) -> str:
    settings = [
        node.kind.value,
        f"parallelism {node.parallelism}",
        f"max parallelism {node.max_parallelism}",
        f"chaining {node.chaining_strategy.value}",
        f"slot sharing group {node.slot_sharing_group}",
    ]
    if node.co_location_key is not None:
        settings.append(f"co-located as {node.co_location_key}")
    if node.uid is not None:
        settings.append(f"uid {node.uid}")
    if node.uid_hash is not None:
        settings.append(f"uid hash {node.uid_hash}")
    if node.sink is not None:
        settings.append(f"delivers {node.sink.delivery_guarantee.value}")
    if node.has_own_buffer_timeout:
        settings.append(f"buffer timeout {node.buffer_timeout_ms} ms")
    if any(key is not None for key in node.keys):
        settings.append("keyed by " + " and ".join(_key_label(key) for key in node.keys))
    return ", ".join(settings)


def _key_label(key: KeySelector | None) -> str:
    return "nothing" if key is None else str(key)


def _edge_label(edge: StreamEdge) -> str:
    label = str(edge.partitioner)
    if edge.exchange_mode is not ExchangeMode.UNDEFINED:
        label += f", {edge.exchange_mode.value}"
    return label + _tag_label(edge.output_tag)


def _tag_label(tag: OutputTag | None) -> str:
    return "" if tag is None else f", side output {tag.name!r}"


# -- JobGraph ----------------------------------------------------------------------------------------------------


def job_graph_text(graph: JobGraph) -> str:
    """One paragraph per vertex: its operators in the order of the chain, its gates and its results."""
    numbers = {vertex.id: number for number, vertex in enumerate(graph.vertices, start=1)}
    consumers = graph.consumers()
    lines = [f"JobGraph {graph.name!r}"]
    for vertex in graph.vertices:
        lines.append(f"{numbers[vertex.id]} {vertex.name}")
        lines.append(f"    {_vertex_settings(vertex)}")
        names = {operator.node_id: operator.name for operator in vertex.operators}
        lines.extend(f"    {line}" for operator in vertex.operators for line in _operator_lines(names, operator))
        lines.extend(
            f"    {_gate_label(edge)}: {numbers[edge.source_vertex]} {_exchange(edge)}" for edge in vertex.inputs
        )
        for data_set in vertex.results:
            readers = ", ".join(str(numbers[edge.target]) for edge in consumers[data_set.id])
            lines.append(f"    result {data_set.index}: {data_set.result_type.name}, read by {readers}")
    return _joined(lines)


def job_graph_mermaid(graph: JobGraph) -> str:
    """A flow chart with a box per vertex, and an arrow per exchange."""
    numbers = {vertex.id: number for number, vertex in enumerate(graph.vertices, start=1)}
    lines = ["flowchart LR"]
    lines.extend(
        f"    v{numbers[vertex.id]}[{_quoted([vertex.name, f'parallelism {vertex.parallelism}'])}]"
        for vertex in graph.vertices
    )
    consumers = graph.consumers()
    for vertex in graph.vertices:
        outputs = {output.result_index: output for operator in vertex.operators for output in operator.network_outputs}
        for data_set in vertex.results:
            for edge in consumers[data_set.id]:
                blocking = "" if data_set.result_type.is_pipelined else f", {data_set.result_type.name}"
                tag = _tag_label(outputs[data_set.index].output_tag) if data_set.index in outputs else ""
                label = _quoted([edge.ship_strategy + tag + blocking])
                lines.append(f"    v{numbers[vertex.id]} -->|{label}| v{numbers[edge.target]}")
    return _joined(lines)


def _vertex_settings(vertex: JobVertex) -> str:
    settings = [
        f"{vertex.kind.value} task",
        f"parallelism {vertex.parallelism}",
        f"max parallelism {vertex.max_parallelism}",
        f"slot sharing group {vertex.slot_sharing_group}",
    ]
    if vertex.co_location_group is not None:
        settings.append(f"co-located as {vertex.co_location_group}")
    if vertex.coordinators:
        names = ", ".join(coordinator.operator_name for coordinator in vertex.coordinators)
        settings.append(f"coordinators of {names}")
    return ", ".join(settings)


def _operator_lines(names: Mapping[int, str], operator: OperatorConfig) -> Iterable[str]:
    """What an operator of a vertex reads, and where its rows go.

    Args:
        names: node -> name, of the operators of the vertex.
    """
    delivers = "" if operator.delivery_guarantee is None else f", delivers {operator.delivery_guarantee}"
    yield f"operator {operator.chain_index}: {operator.name}, id {operator.operator_id}{delivers}"
    for index, each in enumerate(operator.inputs):
        if isinstance(each, NetworkInput):
            yield f"    input {index}: gates {', '.join(str(gate) for gate in each.gates)}"
        else:
            yield f"    input {index}: chained source {names[each.source_node]}"
    for chained in operator.chained_outputs:
        target = f"operator {names[chained.target_node]}, input {chained.input_index}"
        yield f"    to {target}{_tag_label(chained.output_tag)}"
    for network in operator.network_outputs:
        exchange = f"{network.ship_strategy}, buffer timeout {network.buffer_timeout_ms} ms"
        yield f"    to result {network.result_index}, {exchange}{_tag_label(network.output_tag)}"


def _gate_label(edge: JobEdge) -> str:
    return f"gate {edge.gate_index} of input {edge.input_index}"


def _exchange(edge: JobEdge) -> str:
    result_index = edge.source.rpartition(":")[2]
    return f"result {result_index}, {edge.ship_strategy}, {edge.pattern.name}"


# -- ExecutionGraph ----------------------------------------------------------------------------------------------


def execution_graph_text(graph: ExecutionGraph) -> str:
    """One paragraph per subtask: what it reads, and into how many subpartitions it writes. Then the regions."""
    numbers = {vertex_id: number for number, vertex_id in enumerate(graph.job_vertices, start=1)}
    lines = [f"ExecutionGraph {graph.name!r}"]
    for vertex in graph.job_vertices.values():
        for subtask in vertex.subtasks:
            lines.append(f"{numbers[vertex.id]} {subtask.name}: {subtask.current.state.name}")
            lines.extend(_consumed_line(graph, subtask, gate, group) for gate, group in enumerate(subtask.consumed))
            for partition in subtask.results:
                result, subpartitions = partition.result, partition.number_of_subpartitions
                count = "1 subpartition" if subpartitions == 1 else f"{subpartitions} subpartitions"
                lines.append(f"    result {result.data_set.index}: {count}, {result.result_type.name}")
    for number, region in enumerate(pipelined_regions(graph), start=1):
        lines.append(f"region {number}: {', '.join(graph.vertices[member].name for member in region.vertices)}")
    return _joined(lines)


def execution_graph_mermaid(graph: ExecutionGraph) -> str:
    """A flow chart with a box per subtask, framed by vertex; an arrow per partition that a subtask reads."""
    numbers = {vertex_id: number for number, vertex_id in enumerate(graph.job_vertices, start=1)}
    lines = ["flowchart LR"]
    for vertex in graph.job_vertices.values():
        number = numbers[vertex.id]
        lines.append(f"    subgraph v{number}[{_quoted([vertex.name])}]")
        lines.extend(
            f"        s{number}_{each.subtask_index}[{_quoted([_short_name(each)])}]" for each in vertex.subtasks
        )
        lines.append("    end")
    for vertex in graph.job_vertices.values():
        for subtask in vertex.subtasks:
            target = f"s{numbers[vertex.id]}_{subtask.subtask_index}"
            for group in subtask.consumed:
                source = numbers[graph.results[group.data_set_id].producer.id]
                lines.extend(f"    s{source}_{partition.partition_index} --> {target}" for partition in group)
    return _joined(lines)


def _consumed_line(graph: ExecutionGraph, subtask: ExecutionVertex, gate: int, group: ConsumedPartitionGroup) -> str:
    result = graph.results[group.data_set_id]
    first, last = group.first + 1, group.first + group.size
    producers = f"subtask {first}" if first == last else f"subtasks {first} to {last}"
    return (
        f"    gate {gate}: subpartition {group.subpartition_of(subtask.id)} of {producers} "
        f"of {result.producer.name}, result {result.data_set.index}"
    )


def _short_name(subtask: ExecutionVertex) -> str:
    return f"{subtask.subtask_index + 1}/{subtask.job_vertex.parallelism}"


def _quoted(lines: Sequence[str]) -> str:
    escaped = [line.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;") for line in lines]
    return '"' + "<br/>".join(escaped) + '"'


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"
