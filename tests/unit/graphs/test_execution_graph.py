from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from flinkray.connectors.source import Source
from flinkray.errors import InvalidProgramError
from flinkray.execution import JobStatus
from flinkray.transformations.partitioning import BroadcastPartitioner, RescalePartitioner, ShufflePartitioner
from flinkray.types.keys import ColumnKey
from graphs.edge_manager import EdgeManager, ExecutionVertexId, ResultPartitionKey, spread
from graphs.execution_graph import AttemptId, Execution, ExecutionGraph, ExecutionVertex
from graphs.job_graph import DataSetId, DistributionPattern, JobGraph, JobVertexId, ResultPartitionType
from graphs.states import ExecutionState, IllegalTransition
from tests.support.graphs import NumberSource, Program

POINTWISE, ALL_TO_ALL = DistributionPattern.POINTWISE, DistributionPattern.ALL_TO_ALL
ROAD_TO_RUNNING = (
    ExecutionState.SCHEDULED,
    ExecutionState.DEPLOYING,
    ExecutionState.INITIALIZING,
    ExecutionState.RUNNING,
)


def exchange(partitions: int, subtasks: int, pattern: DistributionPattern) -> EdgeManager:
    edges = EdgeManager()
    kind = ResultPartitionType.PIPELINED_BOUNDED
    edges.connect(DataSetId("d"), partitions, kind, JobVertexId("v"), subtasks, pattern)
    return edges


def partitions_read(partitions: int, subtasks: int, pattern: DistributionPattern) -> list[list[int]]:
    """Per subtask, the partitions that it reads."""
    edges = exchange(partitions, subtasks, pattern)
    consumers = [ExecutionVertexId(JobVertexId("v"), index) for index in range(subtasks)]
    return [[key.partition_index for group in edges.consumed_by(each) for key in group] for each in consumers]


@pytest.mark.parametrize(
    ("partitions", "subtasks", "expected"),
    [
        (3, 3, [[0], [1], [2]]),
        (5, 3, [[0], [1, 2], [3, 4]]),
        (4, 6, [[0], [0], [1], [2], [2], [3]]),
        (4, 2, [[0, 1], [2, 3]]),
        (2, 4, [[0], [0], [1], [1]]),
        (1, 3, [[0], [0], [0]]),
        (3, 1, [[0, 1, 2]]),
    ],
)
def test_pointwise_spreads_as_evenly_as_integers_allow(
    partitions: int, subtasks: int, expected: list[list[int]]
) -> None:
    assert partitions_read(partitions, subtasks, POINTWISE) == expected


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.sampled_from(DistributionPattern))
def test_every_subpartition_has_exactly_one_reader_and_every_subtask_reads_something(
    partitions: int, subtasks: int, pattern: DistributionPattern
) -> None:
    edges = exchange(partitions, subtasks, pattern)
    read: dict[int, list[int]] = {}
    for index in range(subtasks):
        vertex = ExecutionVertexId(JobVertexId("v"), index)
        (group,) = edges.consumed_by(vertex)
        for key in group:
            read.setdefault(key.partition_index, []).append(group.subpartition_of(vertex))
            (consumers,) = edges.consumers_of(key)
            assert consumers is group.consumers
            assert edges.groups_with(key) == [group]
    assert sorted(read) == list(range(partitions))
    for partition, subpartitions in read.items():
        (consumers,) = edges.consumers_of(ResultPartitionKey(DataSetId("d"), partition))
        assert sorted(subpartitions) == list(range(len(consumers)))


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 40))
def test_pointwise_blocks_differ_by_at_most_one_on_the_larger_side(partitions: int, subtasks: int) -> None:
    blocks = list(spread(partitions, subtasks, POINTWISE))
    sizes = {(end - first, last - start) for first, end, start, last in blocks}
    larger = {partitions_in for partitions_in, _ in sizes} if partitions >= subtasks else {size for _, size in sizes}
    assert max(larger) - min(larger) <= 1
    assert len(blocks) == min(partitions, subtasks)


def test_all_to_all_costs_one_shared_group_on_each_side() -> None:
    edges = exchange(300, 200, ALL_TO_ALL)
    assert len(edges.groups) == 1
    first = edges.consumed_by(ExecutionVertexId(JobVertexId("v"), 0))[0]
    last = edges.consumed_by(ExecutionVertexId(JobVertexId("v"), 199))[0]
    assert first is last
    keys = list(first)
    assert edges.consumers_of(keys[0])[0] is edges.consumers_of(keys[-1])[0]


def test_subpartition_of_a_stranger_is_refused() -> None:
    (group,) = exchange(1, 2, ALL_TO_ALL).groups
    with pytest.raises(KeyError, match="other_0"):
        group.subpartition_of(ExecutionVertexId(JobVertexId("other"), 0))
    with pytest.raises(KeyError, match="v_2"):
        group.subpartition_of(ExecutionVertexId(JobVertexId("v"), 2))


# -- the graph -----------------------------------------------------------------------------------------------------


def program() -> Program:
    """Two source subtasks, shuffled to three maps, broadcast to a sink at parallelism one."""
    built = Program({"parallelism.default": 2})
    mapped = built.map(built.partition(built.source(), ShufflePartitioner()), parallelism=3, co_location_key="k")
    built.sink(built.partition(mapped, BroadcastPartitioner()), parallelism=1)
    return built


def graph_of(job_graph: JobGraph | None = None, **arguments: object) -> ExecutionGraph:
    return ExecutionGraph.from_job_graph(job_graph or program().job_graph(), **arguments)  # type: ignore[arg-type]


def subtask(graph: ExecutionGraph, name: str) -> ExecutionVertex:
    (found,) = [vertex for vertex in graph.vertices.values() if vertex.name == name]
    return found


def run(execution: Execution, *states: ExecutionState) -> None:
    for state in states:
        execution.transition(state, now_ms=len(execution.history))


def test_every_vertex_unfolds_into_named_subtasks_with_a_partition_per_result() -> None:
    graph = graph_of()
    names = [vertex.name for vertex in graph.vertices.values()]
    assert names[:2] == ["Source: numbers (1/2)", "Source: numbers (2/2)"]
    assert names[2:] == ["map (1/3)", "map (2/3)", "map (3/3)", "Sink: out (1/1)"]
    assert len(graph.partitions) == 5
    assert len(graph.executions) == 6
    source, mapped, sink = graph.job_vertices.values()
    assert [len(source.results), len(mapped.results), len(sink.results)] == [1, 1, 0]
    assert mapped.inputs == source.results
    assert [partition.producer.subtask_index for partition in source.results[0].partitions] == [0, 1]


def test_subpartitions_of_a_partition_are_as_many_as_its_consumers() -> None:
    graph = graph_of()
    source, mapped, _ = graph.job_vertices.values()
    assert [each.number_of_subpartitions for each in source.results[0].partitions] == [3, 3]
    assert [each.number_of_subpartitions for each in mapped.results[0].partitions] == [1, 1, 1]
    assert not source.results[0].is_broadcast
    assert mapped.results[0].is_broadcast


def test_a_result_that_nobody_reads_has_one_subpartition() -> None:
    job_graph = program().job_graph()
    source = job_graph.vertices[0]
    graph = graph_of(structs.replace(job_graph, vertices=(source,)))
    partition = subtask(graph, "Source: numbers (1/2)").results[0]
    assert partition.number_of_subpartitions == 1
    assert partition.consumed_groups == ()


def test_consumed_groups_come_by_gate_index() -> None:
    built = Program({"parallelism.default": 2})
    first, second = built.source("Source: a"), built.source("Source: b", parallelism=4)
    built.sink(built.co_map(built.partition(second, RescalePartitioner()), first))
    graph = built.execution_graph()
    consumer = subtask(graph, "co_map -> Sink: out (2/2)")
    read = [
        (graph.results[group.data_set_id].producer.name, [key.partition_index for key in group])
        for group in consumer.consumed
    ]
    assert read == [("Source: a", [1]), ("Source: b", [2, 3])]
    assert [edge.input_index for edge in consumer.job_vertex.job_vertex.inputs] == [1, 0]


def test_ids_name_vertex_subtask_and_attempt_and_partitions_the_attempt_that_makes_them() -> None:
    graph = graph_of()
    vertex = subtask(graph, "map (2/3)")
    assert vertex.current.attempt_id == f"{vertex.job_vertex.id}_1_0"
    (partition_id,) = vertex.current.partition_ids
    assert partition_id == f"{vertex.job_vertex.results[0].id}#{vertex.current.attempt_id}"
    assert vertex.results[0].current_id == partition_id
    assert graph.executions[vertex.current.attempt_id] is vertex.current
    assert graph.partitions[vertex.results[0].key] is vertex.results[0]


def test_an_execution_keeps_when_it_entered_each_state_and_tells_the_listeners() -> None:
    graph = graph_of(now_ms=100)
    heard: list[tuple[str, str, str, int]] = []
    graph.add_execution_listener(
        lambda execution, former, now_ms: heard.append((str(execution), former.name, execution.state.name, now_ms))
    )
    execution = subtask(graph, "map (1/3)").current
    execution.transition(ExecutionState.SCHEDULED, 110)
    execution.transition(ExecutionState.FAILED, 120)
    assert execution.timestamps == {
        ExecutionState.CREATED: 100,
        ExecutionState.SCHEDULED: 110,
        ExecutionState.FAILED: 120,
    }
    assert heard == [
        ("map (1/3) attempt 0", "CREATED", "SCHEDULED", 110),
        ("map (1/3) attempt 0", "SCHEDULED", "FAILED", 120),
    ]


def test_an_illegal_move_of_an_execution_names_the_attempt_and_changes_nothing() -> None:
    execution = subtask(graph_of(), "map (1/3)").current
    with pytest.raises(IllegalTransition, match=r"map \(1/3\) attempt 0 cannot go from CREATED to RUNNING"):
        execution.transition(ExecutionState.RUNNING, 1)
    assert execution.state is ExecutionState.CREATED


def test_a_new_attempt_takes_the_place_of_the_ended_one() -> None:
    graph = graph_of()
    vertex = subtask(graph, "map (1/3)")
    ended = vertex.current
    ended.transition(ExecutionState.FAILED, 5)
    following = vertex.new_attempt(now_ms=6)
    assert following is vertex.current
    assert (following.attempt_number, following.state) == (1, ExecutionState.CREATED)
    assert following.timestamps == {ExecutionState.CREATED: 6}
    assert list(vertex.prior) == [ended]
    assert graph.executions[following.attempt_id] is following
    assert ended.attempt_id not in graph.executions


def test_an_attempt_that_has_not_ended_cannot_be_replaced() -> None:
    vertex = subtask(graph_of(), "map (1/3)")
    run(vertex.current, *ROAD_TO_RUNNING)
    with pytest.raises(IllegalTransition, match="cannot go from RUNNING to a new attempt"):
        vertex.new_attempt()


def test_only_the_last_attempts_are_remembered_and_numbers_go_on() -> None:
    vertex = subtask(graph_of(max_prior_attempts=2), "map (1/3)")
    for _ in range(5):
        vertex.current.transition(ExecutionState.FAILED, 1)
        vertex.new_attempt()
    assert [each.attempt_number for each in vertex.prior] == [3, 4]
    assert vertex.current.attempt_number == 5


def test_a_rebuilt_graph_goes_on_with_the_attempt_numbers_of_the_former() -> None:
    job_graph = program().job_graph()
    former = graph_of(job_graph)
    vertex = subtask(former, "map (1/3)")
    vertex.current.transition(ExecutionState.FAILED, 1)
    vertex.new_attempt()
    rebuilt = graph_of(job_graph, attempt_numbers=former.next_attempt_numbers())
    assert subtask(rebuilt, "map (1/3)").current.attempt_number == 2
    assert subtask(rebuilt, "map (2/3)").current.attempt_number == 1
    assert not set(rebuilt.executions) & set(former.executions)


def test_parallelism_can_come_from_a_store_instead_of_the_job_graph() -> None:
    job_graph = program().job_graph()
    graph = graph_of(job_graph, parallelism={job_graph.vertices[1].id: 5})
    assert [vertex.parallelism for vertex in graph.job_vertices.values()] == [2, 5, 1]
    assert subtask(graph, "Source: numbers (1/2)").results[0].number_of_subpartitions == 5


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([ExecutionState.CREATED, ExecutionState.SCHEDULED, ExecutionState.DEPLOYING], ExecutionState.CREATED),
        ([ExecutionState.RUNNING, ExecutionState.INITIALIZING, ExecutionState.FINISHED], ExecutionState.INITIALIZING),
        ([ExecutionState.RUNNING, ExecutionState.FINISHED, ExecutionState.CREATED], ExecutionState.RUNNING),
        ([ExecutionState.FINISHED, ExecutionState.FINISHED, ExecutionState.CREATED], ExecutionState.RUNNING),
        ([ExecutionState.FINISHED] * 3, ExecutionState.FINISHED),
        ([ExecutionState.CANCELING, ExecutionState.CANCELED, ExecutionState.RUNNING], ExecutionState.CANCELING),
        ([ExecutionState.CANCELED, ExecutionState.FINISHED, ExecutionState.RUNNING], ExecutionState.CANCELED),
        ([ExecutionState.FAILED, ExecutionState.CANCELING, ExecutionState.RUNNING], ExecutionState.FAILED),
    ],
)
def test_state_of_a_vertex_shows_first_what_went_wrong_then_what_still_runs(
    states: list[ExecutionState], expected: ExecutionState
) -> None:
    _, mapped, _ = graph_of().job_vertices.values()
    for vertex, state in zip(mapped.subtasks, states, strict=True):
        vertex.current.history.append(state)
    assert mapped.state is expected


def test_all_finished_only_when_every_subtask_is() -> None:
    graph = graph_of()
    executions = list(graph.executions.values())
    for execution in executions[:-1]:
        run(execution, *ROAD_TO_RUNNING, ExecutionState.FINISHED)
    assert not graph.all_finished
    run(executions[-1], *ROAD_TO_RUNNING, ExecutionState.FINISHED)
    assert graph.all_finished


def test_two_vertices_with_one_id_are_refused_and_both_are_named() -> None:
    job_graph = program().job_graph()
    source, mapped, sink = job_graph.vertices
    twin = structs.replace(sink, id=source.id, inputs=())
    with pytest.raises(InvalidProgramError, match=r"the id [0-9a-f]+: 'Source: numbers' and 'Sink: out'"):
        graph_of(structs.replace(job_graph, vertices=(source, mapped, twin)))


def test_two_data_sets_with_one_id_are_refused_and_both_producers_are_named() -> None:
    job_graph = program().job_graph()
    source, mapped, sink = job_graph.vertices
    twin = structs.replace(mapped, results=(structs.replace(mapped.results[0], id=source.results[0].id),))
    with pytest.raises(InvalidProgramError, match="one of 'Source: numbers' and result 0 of 'map'"):
        graph_of(structs.replace(job_graph, vertices=(source, twin, sink)))


def test_a_pipelined_result_has_one_consumer_and_a_blocking_one_any_number() -> None:
    job_graph = program().job_graph()
    source, mapped, sink = job_graph.vertices
    second = structs.replace(mapped.inputs[0], target=sink.id, gate_index=1)
    sink = structs.replace(sink, inputs=(*sink.inputs, second))
    with pytest.raises(InvalidProgramError, match="of 'Source: numbers' has a second consumer, 'Sink: out'"):
        graph_of(structs.replace(job_graph, vertices=(source, mapped, sink)))
    blocking = structs.replace(source.results[0], result_type=ResultPartitionType.BLOCKING)
    source = structs.replace(source, results=(blocking,))
    graph = graph_of(structs.replace(job_graph, vertices=(source, mapped, sink)))
    assert len(subtask(graph, "Source: numbers (1/2)").results[0].consumer_groups) == 2


def test_vertices_can_be_attached_to_a_graph_that_has_some() -> None:
    graph = graph_of()
    other = Program()
    other.sink(other.source("Source: more", uid="more"))
    graph.attach(other.job_graph().vertices)
    assert [vertex.name for vertex in graph.job_vertices.values()][-1] == "Source: more -> Sink: out"
    assert len(graph.executions) == 7


def test_a_vertex_without_operators_is_refused() -> None:
    job_graph = program().job_graph()
    empty = structs.replace(job_graph.vertices[0], operators=())
    with pytest.raises(InvalidProgramError, match="'Source: numbers' has nothing to run"):
        graph_of(structs.replace(job_graph, vertices=(empty,)))


def test_co_location_ties_subtasks_of_equal_index() -> None:
    graph = graph_of()
    assert subtask(graph, "map (2/3)").co_location_constraint == ("k", 1)
    assert subtask(graph, "Sink: out (1/1)").co_location_constraint is None


class EndlessSource(NumberSource):
    is_stoppable = False


@pytest.mark.parametrize(("second", "expected"), [(NumberSource(), True), (EndlessSource(), False)])
def test_a_job_is_stoppable_as_long_as_all_its_sources_are(second: Source, expected: bool) -> None:
    built = Program()
    built.sink(built.union(built.source(), built.source("Source: b", second)))
    assert built.execution_graph().is_stoppable == expected


def test_status_of_the_job_is_kept_with_the_graph() -> None:
    graph = graph_of(now_ms=3)
    graph.transition_job(JobStatus.CREATED, 4)
    assert graph.status.current is JobStatus.CREATED
    assert graph.status.timestamps == {JobStatus.INITIALIZING: 3, JobStatus.CREATED: 4}


def test_plan_of_a_job_is_plain_json_with_vertices_and_exchanges() -> None:
    built = Program(name="orders")
    built.sink(built.map(built.key_by(built.source(), "id"), keys=(ColumnKey(("id",)),), parallelism=2))
    graph = built.execution_graph()
    plan = json.loads(json.dumps(graph.plan_dict()))
    source, mapped, sink = plan["nodes"]
    assert (plan["name"], plan["jid"]) == ("orders", "job")
    assert (source["description"], source["inputs"]) == ("Source: numbers", [])
    assert mapped["inputs"] == [
        {"num": 0, "id": source["id"], "ship_strategy": "HASH", "exchange": "pipelined_bounded"}
    ]
    assert (mapped["parallelism"], mapped["operators"], sink["description"]) == (2, ["map"], "Sink: out")


def test_a_wide_shuffle_is_built_without_a_link_per_pair() -> None:
    built = Program({"parallelism.default": 1500})
    built.sink(built.partition(built.source(), ShufflePartitioner()))
    graph = built.execution_graph()
    assert len(graph.edges.groups) == 1
    assert AttemptId(f"{next(iter(graph.job_vertices))}_1499_0") in graph.executions
