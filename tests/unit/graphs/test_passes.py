"""Slot sharing, co-location, managed memory, result types and checkpoint settings."""

from __future__ import annotations

from typing import Any

import pytest

from flinkray.errors import InvalidProgramError
from flinkray.execution import Pipeline
from flinkray.transformations.operator_factories import ChainingStrategy
from flinkray.transformations.partitioning import (
    BroadcastPartitioner,
    Partitioner,
    RescalePartitioner,
    ShufflePartitioner,
)
from graphs.compiler.stream_graph_generator import generate_stream_graph
from graphs.job_graph import ResultPartitionType
from graphs.passes.result_types import result_type
from graphs.stream_graph import GlobalExchangeMode
from tests.support.graphs import Program, vertex_named

PIPELINED, BLOCKING = ResultPartitionType.PIPELINED_BOUNDED, ResultPartitionType.BLOCKING


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (GlobalExchangeMode.ALL_EDGES_PIPELINED, [PIPELINED, PIPELINED, PIPELINED]),
        (GlobalExchangeMode.POINTWISE_EDGES_PIPELINED, [PIPELINED, PIPELINED, BLOCKING]),
        (GlobalExchangeMode.FORWARD_EDGES_PIPELINED, [PIPELINED, BLOCKING, BLOCKING]),
        (GlobalExchangeMode.ALL_EDGES_BLOCKING, [BLOCKING, BLOCKING, BLOCKING]),
    ],
)
def test_the_graphs_mode_decides_where_an_exchange_says_nothing(
    mode: GlobalExchangeMode, expected: list[ResultPartitionType]
) -> None:
    program = Program()
    numbers = program.source()
    program.sink(numbers)
    for partitioner in (RescalePartitioner(), ShufflePartitioner()):
        program.sink(program.partition(numbers, partitioner))
    graph = generate_stream_graph(program.pipeline, global_exchange_mode=mode)
    assert [result_type(edge, graph) for edge in graph.edges] == expected


@pytest.mark.parametrize(("mode", "expected"), [("PIPELINED", PIPELINED), ("BATCH", BLOCKING)])
def test_an_exchange_that_says_its_mode_keeps_it(mode: str, expected: ResultPartitionType) -> None:
    for global_mode in GlobalExchangeMode:
        program = Program()
        program.sink(program.partition(program.source(), ShufflePartitioner(), mode))
        graph = generate_stream_graph(program.pipeline, global_exchange_mode=global_mode)
        assert result_type(graph.edges[0], graph) is expected


def test_a_buffer_timeout_for_a_result_that_is_read_when_complete_is_refused() -> None:
    program = Program()
    program.sink(program.partition(program.source(buffer_timeout_ms=5), ShufflePartitioner(), "BATCH"))
    with pytest.raises(InvalidProgramError, match=r"'Source: numbers': a buffer timeout \(5 ms\).*'Sink: out'"):
        program.job_graph()


def test_the_programs_buffer_timeout_does_not_refuse_blocking_results() -> None:
    program = Program({"execution.buffer-timeout.interval": 5})
    program.sink(program.partition(program.source(), ShufflePartitioner(), "BATCH"))
    assert program.job_graph().vertices[0].results[0].result_type is BLOCKING


@pytest.mark.parametrize(
    ("partitioner", "is_pointwise"),
    [(RescalePartitioner(), True), (ShufflePartitioner(), False), (BroadcastPartitioner(), False)],
    ids=str,
)
def test_edges_are_pointwise_exactly_where_the_partitioner_is(partitioner: Partitioner, is_pointwise: bool) -> None:
    program = Program()
    program.sink(program.partition(program.source(), partitioner))
    (edge,) = program.job_graph().vertices[1].inputs
    assert (edge.pattern.name == "POINTWISE") == is_pointwise
    assert edge.is_broadcast == partitioner.is_broadcast
    assert edge.ship_strategy == str(partitioner)
    assert (edge.upstream_mapper, edge.downstream_mapper) == (
        partitioner.upstream_mapper,
        partitioner.downstream_mapper,
    )


def test_a_vertex_is_in_the_slot_sharing_group_of_its_operators() -> None:
    program = Program()
    program.sink(program.map(program.source(), slot_sharing_group="heavy"))
    graph = program.job_graph()
    assert {each.name: each.slot_sharing_group for each in graph.vertices} == {
        "Source: numbers": "default",
        "map -> Sink: out": "heavy",
    }


def test_a_co_location_key_of_any_operator_is_its_vertexs() -> None:
    program = Program()
    program.sink(program.map(program.source(), co_location_key="loop"))
    assert program.job_graph().vertices[0].co_location_group == "loop"


def test_co_located_operators_must_share_slots() -> None:
    program = Program()
    first = program.map(program.source(), "first", co_location_key="k")
    program.sink(program.map(first, "second", co_location_key="k", slot_sharing_group="other"))
    message = r"'first' and 'second' are to be co-located \('k'\).*'default' and 'other'"
    with pytest.raises(InvalidProgramError, match=message):
        program.job_graph()


def test_co_located_operators_need_equal_parallelism() -> None:
    program = Program()
    first = program.map(program.source(), "first", co_location_key="k")
    program.sink(program.map(first, "second", co_location_key="k", parallelism=2))
    with pytest.raises(InvalidProgramError, match=r"'first' and 'second'.*parallelism differs: 1 and 2"):
        program.job_graph()


def test_one_task_cannot_be_in_two_co_location_groups() -> None:
    program = Program()
    first = program.map(program.source(), "first", co_location_key="a")
    program.sink(program.map(first, "second", co_location_key="b"))
    with pytest.raises(InvalidProgramError, match=r"'first' \('a'\), 'second' \('b'\); start a new chain"):
        program.job_graph()
    separate = Program()
    first = separate.map(separate.source(), "first", co_location_key="a")
    separate.sink(separate.map(first, "second", co_location_key="b", chaining_strategy=ChainingStrategy.HEAD))
    assert [each.co_location_group for each in separate.job_graph().vertices] == ["a", "b"]


def test_managed_memory_of_a_slot_is_divided_by_weight_and_shared_uses_are_had_whole() -> None:
    program = Program()
    first = program.map(program.source(), "first", managed_memory_weights={"operator": 1})
    second = program.map(
        program.partition(first, ShufflePartitioner()),
        "second",
        managed_memory_weights={"operator": 2},
        managed_memory_slot_use_cases=frozenset({"state backend"}),
    )
    program.sink(second)
    operators = {each.name: each for vertex in program.job_graph().vertices for each in vertex.operators}
    fractions = {name: operator.managed_memory_fractions for name, operator in operators.items()}
    assert fractions == {
        "Source: numbers": {"operator": 0.0, "state backend": 0.0},
        "first": {"operator": 0.3333333333333333, "state backend": 0.0},
        "second": {"operator": 0.6666666666666666, "state backend": 1.0},
        "Sink: out": {"operator": 0.0, "state backend": 0.0},
    }


def test_slots_do_not_share_managed_memory_across_groups() -> None:
    program = Program()
    first = program.map(program.source(), "first", managed_memory_weights={"operator": 1})
    second = program.map(first, "second", managed_memory_weights={"operator": 3}, slot_sharing_group="other")
    program.sink(second)
    operators = {each.name: each for vertex in program.job_graph().vertices for each in vertex.operators}
    assert operators["first"].managed_memory_fractions == {"operator": 1.0}
    assert operators["second"].managed_memory_fractions == {"operator": 1.0}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"managed_memory_weights": {"operator": 0}},
            "'map': the managed memory weight of 'operator' must be positive",
        ),
        ({"managed_memory_weights": {"python": 1}}, "'map': 'python' takes no weight; of weights there are: operator"),
        ({"managed_memory_slot_use_cases": frozenset({"x"})}, "'map': no slot-scope use case 'x'; there are: state"),
    ],
)
def test_managed_memory_that_cannot_be_is_refused_by_operator(settings: dict[str, Any], message: str) -> None:
    program = Program()
    program.sink(program.map(program.source(), **settings))
    with pytest.raises(InvalidProgramError, match=message):
        program.job_graph()


def test_checkpoints_start_at_vertices_without_inputs_and_are_confirmed_by_all() -> None:
    program = Program()
    merged = program.multiple("merge", program.source("Source: a"), program.source("Source: b"))
    shuffled = program.partition(program.source("Source: c"), ShufflePartitioner())
    program.sink(program.union(merged, shuffled))
    graph = program.job_graph()
    settings = graph.checkpoint_settings
    merge = vertex_named(graph, "merge [Source: a, Source: b]")
    assert set(settings.vertices_to_trigger) == {merge.id, vertex_named(graph, "Source: c").id}
    assert set(settings.vertices_to_acknowledge) == {vertex.id for vertex in graph.vertices}


def test_checkpoints_also_start_at_sources_that_are_chained_beside_other_inputs() -> None:
    program = Program()
    shuffled = program.partition(program.source("Source: b"), ShufflePartitioner())
    program.sink(program.multiple("merge", program.source("Source: a"), shuffled))
    graph = program.job_graph()
    merge = next(vertex for vertex in graph.vertices if vertex.has_chained_sources)
    assert merge.inputs
    assert set(graph.checkpoint_settings.vertices_to_trigger) == {merge.id, vertex_named(graph, "Source: b").id}


def test_passes_leave_the_program_as_it_was() -> None:
    program = Program()
    program.sink(program.map(program.source()))
    pipeline: Pipeline = program.pipeline
    before = [dict(vars(each)) for each in pipeline.transformations]
    program.job_graph()
    assert [dict(vars(each)) for each in pipeline.transformations] == before
