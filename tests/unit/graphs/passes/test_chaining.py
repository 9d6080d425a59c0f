from __future__ import annotations

from typing import Any

import pytest

from flinkray.transformations.operator_factories import ChainingStrategy, MapFactory
from flinkray.transformations.partitioning import (
    BroadcastPartitioner,
    GlobalPartitioner,
    RebalancePartitioner,
    RescalePartitioner,
    ShufflePartitioner,
)
from flinkray.transformations.transformation import Transformation
from flinkray.types.keys import ColumnKey
from graphs.job_graph import SourceInput, TaskKind
from tests.support.graphs import Program, vertex_named, vertex_names


class WaitingFactory(MapFactory):
    """An operator that runs other mails while it waits."""

    yields_to_mailbox = True


def chained(**settings: Any) -> bool:
    """Whether a map joins the map before it."""
    program = Program({"parallelism.default": 2})
    before: Transformation = program.map(
        program.source(parallelism=1), "before", chaining_strategy=settings.pop("before", None)
    )
    mode, partitioner = settings.pop("mode", "UNDEFINED"), settings.pop("partitioner", None)
    if partitioner is not None:
        before = program.partition(before, partitioner, mode)
    elif mode != "UNDEFINED":
        before = program.forward(before, mode)
    program.sink(program.map(before, "after", **settings), chaining_strategy=ChainingStrategy.NEVER)
    return "before -> after" in vertex_names(program.job_graph())


def test_neighbours_at_equal_parallelism_are_chained() -> None:
    assert chained()


def test_unequal_parallelism_breaks_a_chain() -> None:
    assert not chained(parallelism=3)


def test_unequal_slot_sharing_groups_break_a_chain() -> None:
    assert not chained(slot_sharing_group="other")


@pytest.mark.parametrize(
    "partitioner",
    [ShufflePartitioner(), RebalancePartitioner(), RescalePartitioner(), BroadcastPartitioner(), GlobalPartitioner()],
    ids=str,
)
def test_only_forward_chains(partitioner: object) -> None:
    assert not chained(partitioner=partitioner)


@pytest.mark.parametrize(("mode", "expected"), [("PIPELINED", True), ("BATCH", False)])
def test_a_batch_exchange_breaks_a_forward_chain(mode: str, expected: bool) -> None:
    assert chained(mode=mode) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (ChainingStrategy.ALWAYS, ChainingStrategy.ALWAYS, True),
        (ChainingStrategy.HEAD, ChainingStrategy.ALWAYS, True),
        (ChainingStrategy.HEAD_WITH_SOURCES, ChainingStrategy.ALWAYS, True),
        (ChainingStrategy.NEVER, ChainingStrategy.ALWAYS, False),
        (ChainingStrategy.ALWAYS, ChainingStrategy.HEAD, False),
        (ChainingStrategy.ALWAYS, ChainingStrategy.NEVER, False),
        (ChainingStrategy.ALWAYS, ChainingStrategy.HEAD_WITH_SOURCES, False),
    ],
)
def test_chaining_strategies_of_both_ends_decide(
    before: ChainingStrategy, after: ChainingStrategy, expected: bool
) -> None:
    assert chained(before=before, chaining_strategy=after) == expected


def test_nothing_chains_when_chaining_is_off() -> None:
    program = Program({"pipeline.operator-chaining.enabled": False})
    program.sink(program.map(program.source()))
    assert vertex_names(program.job_graph()) == ["Source: numbers", "map", "Sink: out"]


def test_a_hash_exchange_never_chains_even_at_parallelism_one() -> None:
    program = Program()
    program.sink(program.map(program.key_by(program.source(), "id"), "count", keys=(ColumnKey(("id",)),)))
    assert vertex_names(program.job_graph()) == ["Source: numbers", "count -> Sink: out"]


def test_united_streams_go_through_the_network() -> None:
    program = Program()
    program.sink(program.union(program.source("Source: a"), program.source("Source: b")))
    assert vertex_names(program.job_graph()) == ["Source: a", "Source: b", "Sink: out"]


def test_a_stream_united_with_itself_goes_through_the_network() -> None:
    program = Program()
    numbers = program.source()
    program.sink(program.union(numbers, numbers))
    assert vertex_names(program.job_graph()) == ["Source: numbers", "Sink: out"]


def test_a_two_input_operator_heads_a_chain() -> None:
    program = Program()
    program.sink(program.co_map(program.source("Source: a"), program.source("Source: b")))
    assert vertex_names(program.job_graph()) == ["Source: a", "Source: b", "co_map -> Sink: out"]


def test_what_yields_to_the_mailbox_is_not_chained_behind_a_source_even_at_a_distance() -> None:
    program = Program()
    mapped = program.map(program.source())
    program.sink(program.operator("waits", WaitingFactory(str), mapped))
    assert vertex_names(program.job_graph()) == ["Source: numbers -> map", "waits -> Sink: out"]


def test_what_yields_to_the_mailbox_is_chained_behind_another_that_does() -> None:
    program = Program()
    stream = program.source()
    for index in range(40):
        stream = program.operator(f"waits {index}", WaitingFactory(str), stream)
    program.sink(stream)
    source, chain = program.job_graph().vertices
    assert source.name == "Source: numbers"
    assert len(chain.operators) == 41


def test_what_yields_to_the_mailbox_is_chained_behind_other_operators() -> None:
    program = Program()
    mapped = program.map(program.partition(program.source(), ShufflePartitioner()))
    program.sink(program.operator("waits", WaitingFactory(str), mapped))
    assert vertex_names(program.job_graph()) == ["Source: numbers", "map -> waits -> Sink: out"]


def test_side_outputs_run_inside_a_chain() -> None:
    program = Program()
    split = program.map(program.source(), "split")
    program.sink(split, "Sink: main")
    program.sink(program.side(split, "late"), "Sink: late")
    assert vertex_names(program.job_graph()) == ["Source: numbers -> split -> (Sink: main, Sink: late)"]


def test_a_diamond_builds_its_join_once() -> None:
    program = Program()
    numbers = program.source()
    program.sink(program.union(program.map(numbers, "left"), program.map(numbers, "right")))
    assert vertex_names(program.job_graph()) == ["Source: numbers -> (left, right)", "Sink: out"]


def test_chain_indexes_count_from_one_at_the_head_and_from_one_again_in_the_next_chain() -> None:
    program = Program()
    first = program.map(program.map(program.source(), "a"), "b")
    program.sink(program.map(program.partition(first, ShufflePartitioner()), "c"))
    indexes = [[each.chain_index for each in vertex.operators] for vertex in program.job_graph().vertices]
    assert indexes == [[1, 2, 3], [1, 2]]


def test_outgoing_edges_are_those_of_chained_successors_first_then_an_operators_own() -> None:
    program = Program()
    numbers = program.source()
    program.sink(program.partition(numbers, ShufflePartitioner()), "Sink: own")
    inner = program.map(numbers, "inner")
    program.sink(program.partition(inner, ShufflePartitioner()), "Sink: inner 1")
    program.sink(program.partition(inner, RebalancePartitioner()), "Sink: inner 2")
    graph = program.job_graph()
    (vertex,) = [each for each in graph.vertices if each.results]
    consumers = graph.consumers()
    readers = [graph.vertex(consumers[result.id][0].target).name for result in vertex.results]
    assert readers == ["Sink: inner 1", "Sink: inner 2", "Sink: own"]
    inner_config, source_config = vertex.operators[1], vertex.operators[0]
    assert [each.result_index for each in inner_config.network_outputs] == [0, 1]
    assert [each.result_index for each in source_config.network_outputs] == [2]


def test_a_source_joins_the_task_of_an_operator_that_takes_sources() -> None:
    program = Program()
    first, second = program.source("Source: a"), program.source("Source: b", parallelism=2)
    program.sink(program.multiple("merge", first, second))
    graph = program.job_graph()
    assert vertex_names(graph) == ["Source: b", "merge [Source: a] -> Sink: out"]
    merge = vertex_named(graph, "merge [Source: a] -> Sink: out")
    assert [(each.name, each.chain_index) for each in merge.operators] == [
        ("Source: a", 0),
        ("merge", 1),
        ("Sink: out", 2),
    ]
    assert merge.kind is TaskKind.MULTIPLE_INPUT
    assert merge.head.name == "merge"
    assert merge.head.inputs[0] == SourceInput(merge.operators[0].node_id)
    assert merge.operators[0].chained_outputs[0].input_index == 0
    assert [each.operator_name for each in merge.coordinators] == ["Source: a"]


def test_all_inputs_of_an_operator_may_be_chained_sources() -> None:
    program = Program()
    program.sink(program.multiple("merge", program.source("Source: a"), program.source("Source: b")))
    (vertex,) = program.job_graph().vertices
    assert vertex.name == "merge [Source: a, Source: b] -> Sink: out"
    assert vertex.inputs == ()
    assert [each.operator_name for each in vertex.coordinators] == ["Source: a", "Source: b"]


@pytest.mark.parametrize("is_merged_first", [False, True])
def test_a_source_with_a_second_reader_is_not_taken_into_a_chain(is_merged_first: bool) -> None:
    program = Program()
    numbers = program.source()
    if not is_merged_first:
        program.sink(numbers)
    program.sink(program.multiple("merge", numbers, program.source("Source: b")), "Sink: merged")
    if is_merged_first:
        program.sink(numbers)
    names = vertex_names(program.job_graph())
    assert names == ["Source: numbers -> Sink: out", "merge [Source: b] -> Sink: merged"]


def test_chain_index_is_the_distance_from_the_head_on_every_branch() -> None:
    program = Program()
    numbers = program.source()
    program.sink(program.map(numbers, "long"), "Sink: long")
    program.sink(numbers, "Sink: short")
    (vertex,) = program.job_graph().vertices
    assert [(each.name, each.chain_index) for each in vertex.operators] == [
        ("Source: numbers", 1),
        ("long", 2),
        ("Sink: short", 2),
        ("Sink: long", 3),
    ]


def test_a_source_united_with_another_is_not_taken_into_a_chain() -> None:
    program = Program()
    united = program.union(program.source("Source: a"), program.source("Source: b"))
    program.sink(program.multiple("merge", united))
    assert vertex_names(program.job_graph()) == ["Source: a", "Source: b", "merge -> Sink: out"]
