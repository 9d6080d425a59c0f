from __future__ import annotations

from typing import Any

import pytest

from flinkray.config.configuration import Configuration
from flinkray.errors import InvalidProgramError
from flinkray.execution import Pipeline
from flinkray.transformations.operator_factories import ChainingStrategy
from flinkray.transformations.partitioning import (
    ForwardPartitioner,
    KeyGroupPartitioner,
    RebalancePartitioner,
    RescalePartitioner,
    ShufflePartitioner,
)
from flinkray.transformations.transformation import Transformation, UnionTransformation
from flinkray.types.keys import ColumnKey
from flinkray.types.records import OutputTag
from graphs.compiler.stream_graph_generator import generate_stream_graph
from graphs.job_graph import TaskKind
from graphs.stream_graph import ExchangeMode
from tests.support.graphs import Program, node_named


def test_each_physical_transformation_is_one_node_and_virtual_ones_are_none() -> None:
    program = Program()
    numbers = program.source()
    united = program.union(numbers, program.source("Source: more"))
    program.sink(program.map(program.partition(united, ShufflePartitioner())))
    graph = program.stream_graph()
    assert [node.name for node in graph.nodes.values()] == ["Source: numbers", "Source: more", "map", "Sink: out"]
    assert [graph.nodes[node].name for node in graph.source_ids] == ["Source: numbers", "Source: more"]
    assert [graph.nodes[node].name for node in graph.sink_ids] == ["Sink: out"]


def test_order_of_registration_does_not_matter_for_the_edges() -> None:
    program = Program()
    program.sink(program.map(program.source()))
    program.registered.reverse()
    graph = program.stream_graph()
    assert [edge.input_index for edge in graph.edges] == [0, 0]
    assert [node.name for node in graph.nodes.values()] == ["Source: numbers", "map", "Sink: out"]


def test_a_shared_input_is_translated_once() -> None:
    program = Program()
    numbers = program.source()
    program.sink(program.map(numbers, "left"))
    program.sink(program.map(numbers, "right"), "Sink: other")
    graph = program.stream_graph()
    assert len(node_named(graph, "Source: numbers").out_edges) == 2


def test_task_kind_follows_the_number_of_inputs() -> None:
    program = Program()
    numbers = program.source()
    both = program.co_map(numbers, program.map(numbers))
    program.sink(program.multiple("several", numbers, both))
    graph = program.stream_graph()
    kinds = {node.name: node.kind for node in graph.nodes.values()}
    assert kinds == {
        "Source: numbers": TaskKind.SOURCE,
        "map": TaskKind.ONE_INPUT,
        "co_map": TaskKind.TWO_INPUT,
        "several": TaskKind.MULTIPLE_INPUT,
        "Sink: out": TaskKind.ONE_INPUT,
    }


def test_edges_of_a_two_input_operator_carry_their_input() -> None:
    program = Program()
    first, second = program.source("Source: a"), program.source("Source: b")
    program.sink(program.co_map(program.union(first, second), program.map(first)))
    graph = program.stream_graph()
    sources = [(graph.nodes[edge.source].name, edge.input_index) for edge in node_named(graph, "co_map").in_edges]
    assert sources == [("Source: a", 0), ("Source: b", 0), ("map", 1)]


@pytest.mark.parametrize(
    ("parallelism", "expected"), [(1, RebalancePartitioner()), (2, ForwardPartitioner())], ids=["unequal", "equal"]
)
def test_default_partitioner_is_forward_exactly_at_equal_parallelism(parallelism: int, expected: object) -> None:
    program = Program({"parallelism.default": 2})
    program.sink(program.source(), parallelism=parallelism)
    (edge,) = program.stream_graph().edges
    assert edge.partitioner == expected
    assert edge.exchange_mode is ExchangeMode.UNDEFINED


def test_forward_between_unequal_parallelism_is_refused_and_both_operators_are_named() -> None:
    program = Program()
    program.sink(program.forward(program.source(parallelism=3)), parallelism=2)
    message = r"forward from 'Source: numbers' \(parallelism 3\) to 'Sink: out' \(parallelism 2\)"
    with pytest.raises(InvalidProgramError, match=message):
        program.stream_graph()


def test_of_stacked_partitions_the_nearest_partitioner_and_the_farthest_exchange_mode_win() -> None:
    program = Program()
    far = program.partition(program.source(), ShufflePartitioner(), "BATCH")
    program.sink(program.partition(far, RescalePartitioner(), "PIPELINED"))
    (edge,) = program.stream_graph().edges
    assert edge.partitioner == RescalePartitioner()
    assert edge.exchange_mode is ExchangeMode.BATCH


def test_side_output_through_a_partition_gets_both_tag_and_partitioner() -> None:
    program = Program()
    split = program.map(program.source(), "split")
    program.sink(program.partition(program.side(split, "late"), ShufflePartitioner()))
    edge = node_named(program.stream_graph(), "split").out_edges[0]
    assert edge.output_tag == OutputTag("late")
    assert edge.partitioner == ShufflePartitioner()


def test_of_stacked_side_outputs_the_nearest_tag_wins() -> None:
    program = Program()
    program.sink(program.side(program.side(program.source(), "far"), "near"))
    (edge,) = program.stream_graph().edges
    assert edge.output_tag == OutputTag("near")


def test_a_partitioned_union_gives_every_united_stream_the_partitioner() -> None:
    program = Program()
    united = program.union(program.source("Source: a"), program.source("Source: b"))
    program.sink(program.partition(united, ShufflePartitioner()))
    assert [edge.partitioner for edge in program.stream_graph().edges] == [ShufflePartitioner()] * 2


def test_a_stream_united_with_itself_has_two_edges_with_ids_of_their_own() -> None:
    program = Program()
    numbers = program.source()
    program.sink(program.union(numbers, numbers))
    first, second = program.stream_graph().edges
    assert (first.source, first.target) == (second.source, second.target)
    assert first.id != second.id


def test_key_groups_of_an_exchange_are_those_of_its_consumer() -> None:
    program = Program()
    keyed = program.key_by(program.source(max_parallelism=7), "id")
    program.sink(program.map(keyed, "count", max_parallelism=60, keys=(ColumnKey(("id",)),)))
    partitioner = node_named(program.stream_graph(), "count").in_edges[0].partitioner
    assert partitioner == KeyGroupPartitioner(ColumnKey(("id",)), 60)


def test_max_parallelism_comes_from_the_operator_else_the_program_else_the_parallelism() -> None:
    program = Program({"pipeline.max-parallelism": 50})
    program.sink(program.source(max_parallelism=9))
    graph = program.stream_graph()
    assert node_named(graph, "Source: numbers").max_parallelism == 9
    assert node_named(graph, "Sink: out").max_parallelism == 50
    other = Program()
    other.sink(other.source(parallelism=100))
    assert node_named(other.stream_graph(), "Source: numbers").max_parallelism == 256


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"parallelism": 0}, "'Source: numbers': parallelism must be at least 1, is 0"),
        ({"parallelism": 3, "max_parallelism": 2}, "'Source: numbers': parallelism 3 is above the max parallelism, 2"),
        ({"max_parallelism": 40_000}, "'Source: numbers': max parallelism must be between 1 and 32768, is 40000"),
        ({"max_parallelism": 0}, "'Source: numbers': max parallelism must be between 1 and 32768, is 0"),
        ({"buffer_timeout_ms": -1}, "'Source: numbers': buffer timeout must be at least 0 ms, is -1"),
    ],
)
def test_a_number_out_of_range_is_refused_by_operator_and_value(settings: dict[str, Any], message: str) -> None:
    program = Program()
    program.sink(program.source(**settings))
    with pytest.raises(InvalidProgramError, match=message):
        program.stream_graph()


def test_unknown_exchange_mode_is_refused_with_those_that_exist() -> None:
    program = Program()
    program.sink(program.forward(program.source(), "SOMETIMES"))
    with pytest.raises(InvalidProgramError, match="'SOMETIMES'; there are PIPELINED, BATCH, UNDEFINED"):
        program.stream_graph()


def test_operator_with_an_input_missing_is_refused() -> None:
    program = Program()
    one = program.map(program.source())
    one.factory = program.co_map(one, one).factory
    with pytest.raises(InvalidProgramError, match="'map' takes 2 inputs, and has 1"):
        program.stream_graph()


def test_operator_with_fewer_keys_than_inputs_is_refused() -> None:
    program = Program()
    numbers = program.source()
    program.sink(program.co_map(numbers, numbers, keys=(None,)))
    with pytest.raises(InvalidProgramError, match="'co_map' has 2 inputs and 1 keys"):
        program.stream_graph()


def test_slot_sharing_group_is_the_own_one_else_the_one_that_all_inputs_agree_on_else_the_default() -> None:
    program = Program()
    heavy = program.source("Source: a", slot_sharing_group="heavy")
    inherits = program.map(program.partition(heavy, ShufflePartitioner()), "inherits")
    light = program.source("Source: b", slot_sharing_group="light")
    program.map(program.union(inherits, light), "disagrees")
    program.sink(program.map(program.side(light, "x"), "own", slot_sharing_group="third"))
    graph = program.stream_graph()
    groups = {node.name: node.slot_sharing_group for node in graph.nodes.values()}
    assert groups == {
        "Source: a": "heavy",
        "inherits": "heavy",
        "Source: b": "light",
        "disagrees": "default",
        "own": "third",
        "Sink: out": "third",
    }


def test_buffer_timeout_is_the_operators_own_else_the_programs() -> None:
    program = Program({"execution.buffer-timeout.interval": 7})
    program.sink(program.map(program.source(), buffer_timeout_ms=0))
    assert [edge.buffer_timeout_ms for edge in program.stream_graph().edges] == [7, 0]


def test_chaining_strategy_is_the_factorys_unless_the_program_sets_it() -> None:
    program = Program()
    program.sink(program.map(program.source(), chaining_strategy=ChainingStrategy.NEVER))
    strategies = [node.chaining_strategy for node in program.stream_graph().nodes.values()]
    assert strategies == [ChainingStrategy.HEAD, ChainingStrategy.NEVER, ChainingStrategy.ALWAYS]


def test_a_cycle_is_refused_by_the_names_on_it_in_the_order_of_the_program() -> None:
    program = Program()
    first = program.map(program.source(), "first")
    second = program.map(first, "second")
    first.input_transformations = (program.union(*first.input_transformations, second),)
    with pytest.raises(InvalidProgramError, match=r"cycle: .*'first' -> 'second'"):
        program.stream_graph()


@pytest.mark.parametrize("has_operator", [False, True], ids=["empty", "without sink"])
def test_a_program_without_sink_has_nothing_to_execute(has_operator: bool) -> None:
    program = Program(name="orders")
    if has_operator:
        program.map(program.source())
    with pytest.raises(InvalidProgramError, match=r"nothing to execute: .*'orders'"):
        program.stream_graph()


def test_a_transformation_of_an_unknown_kind_is_refused_by_name() -> None:
    odd = Transformation(name="odd")
    with pytest.raises(InvalidProgramError, match="'odd': no translation for Transformation"):
        generate_stream_graph(Pipeline("p", (odd,), Configuration()))


def test_a_long_program_is_no_matter_of_recursion() -> None:
    program = Program()
    stream = program.source()
    for index in range(3_000):
        stream = program.map(stream, f"map {index}")
    program.sink(UnionTransformation(name="union", union_inputs=(stream,)))
    (vertex,) = program.job_graph().vertices
    assert len(vertex.operators) == 3_002
    assert vertex.operators[-1].chain_index == 3_002


def test_nodes_and_virtual_nodes_cannot_be_added_twice() -> None:
    program = Program()
    program.sink(program.source())
    graph = program.stream_graph()
    node = node_named(graph, "Source: numbers")
    with pytest.raises(ValueError, match="has a node"):
        graph.add_node(node)
    graph.add_virtual_partition(-1, node.id, ShufflePartitioner(), ExchangeMode.UNDEFINED)
    with pytest.raises(ValueError, match="has a node -1"):
        graph.add_virtual_side_output(-1, node.id, OutputTag("x"))


def test_an_edge_can_only_be_registered_with_its_own_ends() -> None:
    program = Program()
    program.sink(program.source())
    graph = program.stream_graph()
    source, sink = node_named(graph, "Source: numbers"), node_named(graph, "Sink: out")
    with pytest.raises(ValueError, match="does not begin at"):
        sink.add_out_edge(source.out_edges[0])
    with pytest.raises(ValueError, match="does not lead to"):
        source.add_in_edge(source.out_edges[0])
