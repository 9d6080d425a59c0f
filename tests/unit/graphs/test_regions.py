from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkray.transformations.partitioning import ForwardPartitioner, RescalePartitioner, ShufflePartitioner
from flinkray.transformations.transformation import Transformation
from graphs.execution_graph import ConsumedPartitionGroup, ExecutionGraph, ExecutionVertexId, ResultPartitionKey
from graphs.regions import PartitionReleaseStrategy, PipelinedRegion, RegionTopology, pipelined_regions
from tests.support.graphs import Program


def names(graph: ExecutionGraph, region: PipelinedRegion) -> list[str]:
    return [graph.vertices[vertex].name for vertex in region.vertices]


def staged(mode: str = "BATCH", parallelism: int = 2) -> ExecutionGraph:
    """source -(mode)-> map -pipelined shuffle-> sink."""
    program = Program({"parallelism.default": parallelism})
    mapped = program.map(program.partition(program.source(), ShufflePartitioner(), mode))
    program.sink(program.partition(mapped, ShufflePartitioner()))
    return program.execution_graph()


def test_a_streaming_job_that_is_connected_is_one_region() -> None:
    graph = staged("PIPELINED")
    (region,) = pipelined_regions(graph)
    assert region.vertices == tuple(graph.vertices)
    assert region.consumed == ()


def test_pipelined_pointwise_exchanges_leave_one_region_per_subtask() -> None:
    program = Program({"parallelism.default": 2, "pipeline.operator-chaining.enabled": False})
    program.sink(program.source())
    graph = program.execution_graph()
    assert [names(graph, each) for each in pipelined_regions(graph)] == [
        ["Source: numbers (1/2)", "Sink: out (1/2)"],
        ["Source: numbers (2/2)", "Sink: out (2/2)"],
    ]


def test_parts_of_a_job_that_share_nothing_are_regions_of_their_own() -> None:
    program = Program()
    program.sink(program.source("Source: a"))
    program.sink(program.source("Source: b"), "Sink: other")
    graph = program.execution_graph()
    assert len(pipelined_regions(graph)) == 2


def test_a_blocking_exchange_parts_regions_and_the_reader_waits_for_all_producers() -> None:
    graph = staged()
    topology = RegionTopology(graph)
    assert [names(graph, each) for each in topology.regions] == [
        ["Source: numbers (1/2)"],
        ["Source: numbers (2/2)"],
        ["map (1/2)", "map (2/2)", "Sink: out (1/2)", "Sink: out (2/2)"],
    ]
    first, second, reader = topology.regions
    assert topology.source_regions() == (first, second)
    assert topology.producers_of(reader) == (first, second)
    assert topology.consumers_of(first) == (reader,)
    assert topology.producers_of(first) == topology.consumers_of(reader) == ()
    assert [len(group) for group in reader.consumed] == [2]


def test_a_blocking_exchange_inside_a_cycle_of_regions_does_not_part_them() -> None:
    # Each source subtask is pipelined into the join of its index, and read by all joins once it is complete: the
    # regions of the two indexes would each wait for the other's end.
    program = Program({"parallelism.default": 2})
    numbers = program.source()
    pipelined = program.partition(numbers, RescalePartitioner(), "PIPELINED")
    blocking = program.partition(numbers, ShufflePartitioner(), "BATCH")
    program.sink(program.co_map(pipelined, blocking))
    graph = program.execution_graph()
    (region,) = pipelined_regions(graph)
    assert len(region.vertices) == 4
    assert region.consumed == ()


def test_a_blocking_exchange_within_a_region_does_not_keep_it_waiting() -> None:
    program = Program()
    numbers = program.source()
    pipelined = program.partition(numbers, RescalePartitioner(), "PIPELINED")
    program.sink(program.co_map(pipelined, program.partition(numbers, ForwardPartitioner(), "BATCH")))
    (region,) = pipelined_regions(program.execution_graph())
    assert region.consumed == ()


def test_a_cycle_over_several_regions_merges_all_of_them_and_no_others() -> None:
    # Before: a region per subtask in front of the cycle. Behind: one region that reads from it.
    program = Program({"parallelism.default": 3})
    before = program.partition(program.source(), ForwardPartitioner(), "BATCH")
    spread = program.map(before, "spread")
    pipelined = program.partition(spread, RescalePartitioner(), "PIPELINED")
    blocking = program.partition(spread, ShufflePartitioner(), "BATCH")
    joined = program.co_map(pipelined, blocking, "join")
    program.sink(program.partition(joined, ShufflePartitioner(), "BATCH"), parallelism=1)
    graph = program.execution_graph()
    regions = pipelined_regions(graph)
    assert [len(region.vertices) for region in regions] == [1, 1, 1, 6, 1]
    assert names(graph, regions[-1]) == ["Sink: out (1/1)"]


def test_every_subtask_is_in_exactly_one_region() -> None:
    graph = staged(parallelism=4)
    topology = RegionTopology(graph)
    found = [vertex for region in topology.regions for vertex in region.vertices]
    assert sorted(found) == sorted(graph.vertices)
    assert all(vertex in topology.region_of(vertex) for vertex in graph.vertices)


def test_results_are_released_once_every_region_that_reads_them_has_finished() -> None:
    graph = staged()
    topology = RegionTopology(graph)
    strategy = PartitionReleaseStrategy(topology)
    producers: list[ExecutionVertexId] = [each for region in topology.source_regions() for each in region.vertices]
    reader = topology.regions[-1]
    assert [strategy.vertex_finished(each) for each in producers] == [(), ()]
    released = [strategy.vertex_finished(each) for each in reader.vertices]
    assert released[:-1] == [()] * 3
    assert [key.partition_index for key in released[-1]] == [0, 1]


def test_results_that_a_second_region_reads_are_kept_for_it() -> None:
    program = Program()
    numbers = program.partition(program.source(parallelism=1), ShufflePartitioner(), "BATCH")
    program.sink(program.map(numbers, "one", parallelism=2), "Sink: one", parallelism=2)
    graph = program.execution_graph()
    topology = RegionTopology(graph)
    strategy = PartitionReleaseStrategy(topology)
    source, first, second = (each.vertices[0] for each in topology.regions)
    strategy.vertex_finished(source)
    assert strategy.vertex_finished(first) == ()
    strategy.vertex_unfinished(first)
    assert strategy.vertex_finished(second) == ()
    assert len(strategy.vertex_finished(first)) == 1


def test_results_of_a_wide_shuffle_are_released_without_a_look_at_each_for_each_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = Program({"parallelism.default": 100})
    program.sink(program.partition(program.source(), ShufflePartitioner(), "BATCH"))
    graph = program.execution_graph()
    topology = RegionTopology(graph)
    looks = 0
    keys_of = ConsumedPartitionGroup.__iter__

    def counted(group: ConsumedPartitionGroup) -> Iterator[ResultPartitionKey]:
        nonlocal looks
        looks += group.size
        return keys_of(group)

    monkeypatch.setattr(ConsumedPartitionGroup, "__iter__", counted)
    strategy = PartitionReleaseStrategy(topology)
    released = [strategy.vertex_finished(vertex) for vertex in graph.vertices]
    assert [len(each) for each in released] == [0] * 199 + [100]
    assert looks <= 5 * 100


def test_regions_of_a_wide_shuffle_are_found_without_a_link_per_pair() -> None:
    (region,) = pipelined_regions(staged("PIPELINED", parallelism=2_000))
    assert len(region.vertices) == 6_000


def regions_of_the_model(graph: ExecutionGraph) -> set[frozenset[ExecutionVertexId]]:
    """By the definition: a pipelined link ties both ways, a blocking one ties where there is a way back."""
    reach = {vertex: {vertex} for vertex in graph.vertices}
    for group in graph.edges.groups:
        producer = graph.results[group.data_set_id].producer.id
        for partition in group:
            source = ExecutionVertexId(producer, partition.partition_index)
            for consumer in group.consumers:
                reach[source].add(consumer)
                if group.result_type.is_pipelined:
                    reach[consumer].add(source)
    for middle in reach:
        for start in reach:
            if middle in reach[start]:
                reach[start] |= reach[middle]
    return {frozenset(other for other in reach[each] if each in reach[other]) for each in reach}


@settings(deadline=None)
@given(st.data())
def test_regions_are_those_of_the_definition_and_producers_come_first(data: st.DataObject) -> None:
    program = Program(
        {"parallelism.default": data.draw(st.integers(1, 3)), "pipeline.operator-chaining.enabled": False}
    )
    streams: list[Transformation] = [program.source()]
    for index in range(data.draw(st.integers(1, 5))):
        inputs = [
            program.partition(
                data.draw(st.sampled_from(streams)),
                data.draw(st.sampled_from([RescalePartitioner(), ShufflePartitioner()])),
                data.draw(st.sampled_from(["PIPELINED", "BATCH"])),
            )
            for _ in range(data.draw(st.integers(1, 2)))
        ]
        streams.append(program.map(program.union(*inputs), f"map {index}"))
    program.sink(streams[-1])
    graph = program.execution_graph()
    topology = RegionTopology(graph)
    assert {frozenset(region.vertices) for region in topology.regions} == regions_of_the_model(graph)
    for region in topology.regions:
        assert all(producer.index < region.index for producer in topology.producers_of(region))
        assert all(region in topology.producers_of(consumer) for consumer in topology.consumers_of(region))
