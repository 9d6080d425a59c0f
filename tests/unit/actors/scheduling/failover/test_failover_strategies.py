"""What a failure takes along, and what failures say about themselves."""

from __future__ import annotations

import pickle
import random

import pytest

from actors.protocol.failure_records import TaskFailure
from actors.scheduling.failover.failover_strategies import (
    RestartAll,
    RestartRegions,
    failover_strategy_of,
    unreadable_partition,
)
from actors.scheduling.failover.failure_history import HISTORY_SIZE, FailureHistory
from flinkray.config.configuration import Configuration
from flinkray.errors import (
    ConfigurationError,
    ErrorInfo,
    InvalidProgramError,
    NoResourceAvailableError,
    PartitionError,
    UserFunctionError,
)
from flinkray.transformations.partitioning import ForwardPartitioner, ShufflePartitioner
from flinkray.transformations.transformation import Transformation
from graphs.execution_graph import ExecutionGraph, ExecutionVertexId, ResultPartitionKey
from graphs.regions import RegionTopology
from tests.support.graphs import Program
from tests.support.scheduling import random_graph


def pipeline(*modes: str, parallelism: int = 2, pointwise: bool = False) -> ExecutionGraph:
    """source -> map 0 -> map 1 ..., one exchange per mode."""
    program = Program({"parallelism.default": parallelism, "pipeline.operator-chaining.enabled": False})
    stream: Transformation = program.source("source")
    for index, mode in enumerate(modes):
        partitioner = ForwardPartitioner() if pointwise else ShufflePartitioner()
        exchange = program.partition(stream, partitioner, mode)
        add = program.sink if index == len(modes) - 1 else program.map
        stream = add(exchange, f"map {index}")
    return program.execution_graph()


def vertex(graph: ExecutionGraph, name: str) -> ExecutionVertexId:
    return next(each.id for each in graph.vertices.values() if each.name == name)


def restarted(graph: ExecutionGraph, failed: str, *unavailable: ResultPartitionKey) -> list[str]:
    strategy = RestartRegions(RegionTopology(graph))
    found = strategy.vertices_to_restart([vertex(graph, failed)], lambda key: key not in unavailable)
    return [each.name for each in graph.vertices.values() if each.id in found]


def result_of(graph: ExecutionGraph, producer: str) -> ResultPartitionKey:
    return graph.vertices[vertex(graph, producer)].results[0].key


def test_a_connected_streaming_job_restarts_as_a_whole() -> None:
    graph = pipeline("PIPELINED", "PIPELINED")
    assert len(restarted(graph, "map 0 (2/2)")) == 6


def test_pipelines_side_by_side_restart_alone() -> None:
    graph = pipeline("PIPELINED", "PIPELINED", pointwise=True)
    assert restarted(graph, "map 0 (2/2)") == ["source (2/2)", "map 0 (2/2)", "map 1 (2/2)"]


def test_consumers_restart_with_the_failed_region_transitively_and_producers_do_not() -> None:
    graph = pipeline("BATCH", "BATCH", "BATCH", pointwise=True)
    assert restarted(graph, "map 0 (1/2)") == ["map 0 (1/2)", "map 1 (1/2)", "map 2 (1/2)"]


def test_a_producer_restarts_if_its_result_is_unavailable_and_with_it_all_its_consumers() -> None:
    graph = pipeline("BATCH")
    lost = result_of(graph, "source (2/2)")
    assert restarted(graph, "map 0 (1/2)") == ["map 0 (1/2)"]
    assert restarted(graph, "map 0 (1/2)", lost) == ["source (2/2)", "map 0 (1/2)", "map 0 (2/2)"]


def test_unavailable_results_are_followed_upwards() -> None:
    graph = pipeline("BATCH", "BATCH", parallelism=1)
    both = (result_of(graph, "source (1/1)"), result_of(graph, "map 0 (1/1)"))
    assert restarted(graph, "map 1 (1/1)", *both) == ["source (1/1)", "map 0 (1/1)", "map 1 (1/1)"]
    assert restarted(graph, "map 1 (1/1)", both[0]) == ["map 1 (1/1)"], "what it reads is there"


def test_full_restarts_everything_whatever_failed() -> None:
    graph = pipeline("BATCH", pointwise=True)
    strategy = RestartAll(RegionTopology(graph))
    assert strategy.vertices_to_restart([vertex(graph, "map 0 (1/2)")], lambda _key: True) == set(graph.vertices)


def test_the_strategy_is_that_of_the_configuration() -> None:
    assert failover_strategy_of(Configuration()) is RestartRegions
    assert failover_strategy_of(Configuration({"jobmanager.execution.failover-strategy": "full"})) is RestartAll


def model(graph: ExecutionGraph, failed: ExecutionVertexId, lost: set[ResultPartitionKey]) -> set[ExecutionVertexId]:
    """By the definition, over subtasks: grows until no rule adds anything."""
    links = []  # (producer, consumer, key, is pipelined)
    for group in graph.edges.groups:
        for key in group:
            producer = graph.partitions[key].producer.id
            links += [(producer, consumer, key, group.result_type.is_pipelined) for consumer in group.consumers]
    together = {each: set(RegionTopology(graph).region_of(each).vertices) for each in graph.vertices}
    found = set(together[failed])
    while True:
        grown = set(found)
        for producer, consumer, key, is_pipelined in links:
            if producer in grown:
                grown |= together[consumer]
            if consumer in grown and (is_pipelined or key in lost):
                grown |= together[producer]
        if grown == found:
            return found
        found = grown


@pytest.mark.parametrize("seed", range(100))
def test_what_restarts_is_what_the_definition_says(seed: int) -> None:
    chance = random.Random(seed)
    graph = ExecutionGraph.from_job_graph(random_graph(chance))
    lost = {key for key in graph.partitions if chance.random() < 0.2}
    failed = chance.choice(list(graph.vertices))
    strategy = RestartRegions(RegionTopology(graph))
    assert strategy.vertices_to_restart([failed], lambda key: key not in lost) == model(graph, failed, lost)


# -- errors ------------------------------------------------------------------------------------------------------


def partition_error(partition_id: str) -> PartitionError:
    error = PartitionError("it is gone")
    error.partition_id = partition_id
    return error


def test_a_partition_error_leads_to_the_result_that_it_is_about() -> None:
    graph = pipeline("BATCH")
    partition = graph.vertices[vertex(graph, "source (2/2)")].results[0]
    error = pickle.loads(pickle.dumps(ErrorInfo.of(partition_error(partition.current_id))))
    assert unreadable_partition(error, graph) == partition.key
    assert unreadable_partition(ErrorInfo.of(ValueError("bad row")), graph) is None


def test_a_partition_error_about_a_past_attempt_leads_nowhere() -> None:
    graph = pipeline("BATCH")
    error = ErrorInfo.of(partition_error("some-data-set#some-vertex_0_7"))
    assert unreadable_partition(error, graph) is None


def test_only_what_declares_itself_so_cannot_be_recovered() -> None:
    for error in (InvalidProgramError("x"), ConfigurationError("x"), NoResourceAvailableError("x")):
        assert not ErrorInfo.of(error).is_recoverable
    for other in (ValueError("x"), UserFunctionError("map", "1/2", "7", "bad row"), PartitionError("x")):
        assert ErrorInfo.of(other).is_recoverable


def test_an_error_is_not_recoverable_if_what_it_was_raised_from_is_not() -> None:
    error = RuntimeError("while opening")
    error.__cause__ = ConfigurationError("no such option")
    assert not ErrorInfo.of(error).is_recoverable


# -- the history -------------------------------------------------------------------------------------------------


def failure(text: str, error: BaseException | None = None) -> TaskFailure:
    return TaskFailure(0, ErrorInfo.of(error or ValueError(text)), text)


def test_the_history_keeps_the_last_failures_and_the_first_concurrent_ones() -> None:
    history = FailureHistory()
    for number in range(HISTORY_SIZE + 5):
        history.add(failure(f"task {number}"), "restarts")
    for number in range(HISTORY_SIZE + 5):
        history.add_concurrent(failure(f"other {number}"))
    assert [record.root.task_name for record in history.records][:2] == ["task 5", "task 6"]
    concurrent = [each.task_name for each in history.records[-1].concurrent]
    assert concurrent == [f"other {number}" for number in range(HISTORY_SIZE)]


def test_the_reason_takes_the_place_of_the_complaint_that_came_before_it() -> None:
    history = FailureHistory()
    history.add(failure("consumer", PartitionError("its producer is gone")), "restarts")
    assert history.add_concurrent(failure("producer"))
    assert not history.add_concurrent(failure("another"))
    (record,) = history.records
    assert record.root.task_name == "producer"
    assert [each.task_name for each in record.concurrent] == ["consumer", "another"]
