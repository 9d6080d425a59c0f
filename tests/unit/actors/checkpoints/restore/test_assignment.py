"""What each subtask starts from: against models that give out every row and item by hand."""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pytest
from msgspec.structs import replace

from actors.checkpoints.coordination.completed import CompletedCheckpoint, OperatorState
from actors.checkpoints.restore.assignment import Assignment, assign
from actors.checkpoints.storage.state_writers import InlineStateWriter
from actors.protocol.checkpoint_handles import InlineState, PartKind, StatePart
from flinkray.errors import CheckpointError
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.transformations.partitioning import (
    BroadcastPartitioner,
    CustomPartitioner,
    ForwardPartitioner,
    GlobalPartitioner,
    KeyGroupPartitioner,
    Partitioner,
    RebalancePartitioner,
    RescalePartitioner,
    ShufflePartitioner,
    SubtaskStateMapper,
)
from flinkray.types.keys import ColumnKey
from flinkray.types.records import OperatorId
from flinkray.windows.aggregates import Count
from flinkray.windows.assigners import TumblingEventTimeWindows
from graphs.execution_graph import ExecutionGraph, ExecutionJobVertex, ExecutionVertexId
from graphs.key_groups import subtask_for_key_group
from tests.support.checkpoints import (
    completed,
    in_flight,
    inline,
    keyed_values,
    operator_state,
    owned_by,
    random_rows,
    restored_state,
    snapshot_of,
    write_parts,
)
from tests.support.graphs import Program

GROUPS = 16
"""Max parallelism."""
KEY = ColumnKey(("key",))


def keyed_graph(parallelism: int, max_parallelism: int = GROUPS) -> ExecutionGraph:
    return exchange(KeyGroupPartitioner(KEY), 2, parallelism, max_parallelism=max_parallelism)


def exchange(
    partitioner: Partitioner,
    producers: int,
    consumers: int,
    *,
    is_keyed: bool = True,
    max_parallelism: int | None = GROUPS,
) -> ExecutionGraph:
    """numbers -> map -> sink, where the last two are one task."""
    program = Program({"pipeline.max-parallelism": max_parallelism} if max_parallelism else {})
    numbers = program.source("numbers", uid="numbers", parallelism=producers)
    keys = (KEY,) if is_keyed and isinstance(partitioner, KeyGroupPartitioner) else ()
    mapped = program.map(
        program.partition(numbers, partitioner), uid="map", parallelism=consumers, keys=keys, slot_sharing_group="other"
    )
    program.sink(mapped, uid="sink", parallelism=consumers)
    return program.execution_graph()


def vertex_of(graph: ExecutionGraph, name: str) -> ExecutionJobVertex:
    return next(
        vertex
        for vertex in graph.job_vertices.values()
        if any(operator.name == name for operator in vertex.job_vertex.operators)
    )


def id_of(graph: ExecutionGraph, name: str) -> OperatorId:
    operators = vertex_of(graph, name).job_vertex.operators
    return next(operator.operator_id for operator in operators if operator.name == name)


def states_of(graph: ExecutionGraph, parts: Mapping[str, Mapping[int, Sequence[StatePart]]]) -> list[OperatorState]:
    """By operator name and subtask; of all operators of the graph."""
    return [
        operator_state(
            parts.get(operator.name, {}),
            vertex.parallelism,
            operator.operator_id,
            operator.name,
            operator.uid,
            vertex.max_parallelism,
        )
        for vertex in graph.job_vertices.values()
        for operator in vertex.job_vertex.operators
    ]


def given(assignment: Assignment, graph: ExecutionGraph, name: str) -> list[list[Any]]:
    """By subtask of the operator: the parts that it gets."""
    vertex, operator_id = vertex_of(graph, name), id_of(graph, name)
    tasks = [assignment.tasks[ExecutionVertexId(vertex.id, index)] for index in range(vertex.parallelism)]
    return [list(task.operators.get(operator_id, ())) for task in tasks]


# -- keyed state and lists ---------------------------------------------------------------------------------------


def read_all(checkpoint: CompletedCheckpoint, graph: ExecutionGraph) -> list[dict[str, list[Any]]]:
    """What the operator `map` reads, by subtask."""
    assignment = assign(checkpoint, graph)
    vertex, operator_id = vertex_of(graph, "map"), id_of(graph, "map")
    read = []
    for index in range(vertex.parallelism):
        subtask = ExecutionVertexId(vertex.id, index)
        state = restored_state(graph, subtask, assignment.tasks[subtask], operator_id)
        lists = {name: state.items(name) for name in ("split", "union", "broadcast")}
        read.append({"keyed": keyed_values(state), **lists})
    return read


@pytest.mark.parametrize("seed", range(60))
def test_every_row_and_item_is_read_exactly_once_through_any_parallelisms(seed: int) -> None:
    """A job that is restored again and again, each time from what its subtasks have then."""
    rng = random.Random(seed)
    parallelisms = [1, 4, 2, 3] if seed == 0 else [rng.randrange(1, GROUPS + 1) for _ in range(4)]
    group_of = {value: group for rows in random_rows(rng, 1, GROUPS, rng.randrange(80)) for group, value in rows}
    splits = list(range(rng.randrange(30)))
    keyed: list[list[int]] = [[] for _ in range(parallelisms[0])]
    for value, group in group_of.items():
        keyed[subtask_for_key_group(group, parallelisms[0], GROUPS)].append(value)
    split: list[list[int]] = [[] for _ in range(parallelisms[0])]
    for item in splits:
        rng.choice(split).append(item)
    former = parallelisms[0]
    for now in [*parallelisms[1:], parallelisms[-1]]:
        parts = {}
        for index in range(former):
            rows = [(group_of[value], value) for value in keyed[index]]
            snapshot = snapshot_of(owned_by(index, former, GROUPS), rows, split[index], [index], [f"from {index}"])
            parts[index] = write_parts(snapshot, InlineStateWriter())
        checkpoint = completed(states_of(keyed_graph(former), {"map": parts}))
        read = read_all(checkpoint, keyed_graph(now))
        for index, own in enumerate(read):
            wanted = {value for value, group in group_of.items() if group in owned_by(index, now, GROUPS)}
            assert (set(own["keyed"]), len(own["keyed"])) == (wanted, len(wanted))
            assert own["union"] == list(range(former))
            assert own["broadcast"] == [f"from {index % former}"]
        dealt = [own["split"] for own in read]
        if now == former:
            assert dealt == split
        else:
            assert list(chain(*dealt)) == list(chain(*split)), "in order"
            assert max(map(len, dealt)) - min(map(len, dealt)) <= 1
        keyed, split, former = [own["keyed"] for own in read], dealt, now


def list_part(name: str, items: int) -> StatePart:
    return StatePart(name, PartKind.SPLIT, inline(b""), items)


def test_short_lists_do_not_all_go_to_the_same_subtask() -> None:
    parts = {"map": {0: [list_part("a", 1), list_part("b", 2), list_part("c", 1)]}}
    graph = keyed_graph(4)
    dealt = given(assign(completed(states_of(keyed_graph(1), parts)), graph), graph, "map")
    assert [[(each.part.name, each.first, each.end) for each in own] for own in dealt] == [
        [("a", 0, 1)],
        [("b", 0, 1)],
        [("b", 1, 2)],
        [("c", 0, 1)],
    ]


def test_a_broadcast_list_of_a_subtask_that_has_none_comes_from_another() -> None:
    parts = {"map": {1: [StatePart("rules", PartKind.BROADCAST, inline(b"1"), 1)]}}
    graph = keyed_graph(3)
    copies = given(assign(completed(states_of(keyed_graph(2), parts)), graph), graph, "map")
    assert [[each.part.data for each in own] for own in copies] == [[inline(b"1")]] * 3


def test_files_of_a_backend_go_to_those_who_own_some_of_their_key_groups() -> None:
    parts = {
        index: [StatePart("db", PartKind.NATIVE, inline(b"%d" % index), 0, (4 * index, 4 * index + 4))]
        for index in range(4)
    }
    checkpoint = completed(states_of(keyed_graph(4), {"map": parts}))
    for parallelism, expected in ((4, [[0], [1], [2], [3]]), (2, [[0, 1], [2, 3]]), (3, [[0, 1], [1, 2], [2, 3]])):
        graph = keyed_graph(parallelism)
        files = given(assign(checkpoint, graph), graph, "map")
        assert [[each.part.key_groups[0] // 4 for each in own] for own in files] == expected


def test_every_subtask_knows_its_checkpoint_and_whether_it_was_rescaled() -> None:
    graph = keyed_graph(3)
    states = states_of(keyed_graph(2), {"map": {0: [list_part("a", 1)]}})
    assignment = assign(completed(states, 7, "file:///chk-7"), graph)
    assert set(assignment.tasks) == set(graph.vertices)
    for vertex_id, task in assignment.tasks.items():
        assert (task.checkpoint_id, task.directory, task.is_finished) == (7, "file:///chk-7", False)
        is_mapped = vertex_id.vertex_id == vertex_of(graph, "map").id
        assert task.rescaled == ({id_of(graph, "map"), id_of(graph, "Sink: out")} if is_mapped else frozenset())
        restored = restored_state(
            graph, vertex_id, task, graph.vertices[vertex_id].job_vertex.job_vertex.head.operator_id
        )
        assert restored.is_rescaled is is_mapped


# -- rows in flight ----------------------------------------------------------------------------------------------

Row = tuple[int, int]
"""Key group, number."""


def rows_in_flight(
    graph: ExecutionGraph, rng: random.Random, partitioner: Partitioner
) -> Iterator[tuple[str, int, str, list[Row]]]:
    """(operator, subtask, name of the part, rows) as tasks save them, oldest first for each consumer."""
    producers, consumers = vertex_of(graph, "numbers"), vertex_of(graph, "map")
    numbers = iter(range(10_000))

    def rows(consumer: int) -> list[Row]:
        groups = owned_by(consumer, consumers.parallelism, GROUPS)
        keyed = isinstance(partitioner, KeyGroupPartitioner)
        return [(rng.choice(groups) if keyed else -1, next(numbers)) for _ in range(rng.randrange(4))]

    for subtask in consumers.subtasks:
        yield "map", subtask.subtask_index, "gate 0", rows(subtask.subtask_index)
    for producer in producers.subtasks:
        (group,) = producer.results[0].consumer_groups
        for subpartition, consumer in enumerate(group):
            yield "numbers", producer.subtask_index, f"result 0/{subpartition}", rows(consumer.subtask_index)


def consumer_of(graph: ExecutionGraph, operator: str, subtask: int, name: str) -> int:
    if operator == "map":
        return subtask
    (group,) = vertex_of(graph, "numbers").subtasks[subtask].results[0].consumer_groups
    return list(group)[int(name.split("/")[1])].subtask_index


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize(
    ("partitioner", "is_keyed"),
    [
        (KeyGroupPartitioner(KEY), True),
        (KeyGroupPartitioner(KEY), False),
        (CustomPartitioner(lambda key, channels: key % channels, KEY), False),
        (RebalancePartitioner(), False),
        (ShufflePartitioner(), False),
        (GlobalPartitioner(), False),
        (RescalePartitioner(), False),
        (ForwardPartitioner(), False),
        (BroadcastPartitioner(), False),
    ],
)
def test_rows_in_flight_come_to_whom_they_were_meant_for_in_order(
    partitioner: Partitioner, is_keyed: bool, seed: int
) -> None:
    rng = random.Random(seed)
    former, now = ((rng.randrange(1, 6), rng.randrange(1, 6)) for _ in range(2))
    if isinstance(partitioner, ForwardPartitioner):
        former, now = (former[0],) * 2, (now[0],) * 2
    if seed % 4 == 0:
        now = former
    old, new = (exchange(partitioner, *sizes, is_keyed=is_keyed) for sizes in (former, now))
    meant_for: dict[int, list[Row]] = defaultdict(list)
    parts: dict[str, dict[int, list[StatePart]]] = defaultdict(lambda: defaultdict(list))
    for operator, subtask, name, rows in rows_in_flight(old, rng, partitioner):
        parts[operator][subtask].append(in_flight(name, *rows))
        meant_for[consumer_of(old, operator, subtask, name)] += rows
    checkpoint = completed(states_of(old, parts))
    is_rescaled = now[1] != former[1]
    if is_rescaled and partitioner.downstream_mapper is SubtaskStateMapper.UNSUPPORTED:
        with pytest.raises(CheckpointError, match=f"'map.*on a {partitioner} exchange.*that it had, {former[1]}"):
            assign(checkpoint, new)
        return
    assignment = assign(checkpoint, new)

    assert not any(given(assignment, new, "numbers")), "producers send nothing again"
    got: list[list[Row]] = []
    for index, own in enumerate(given(assignment, new, "map")):
        assert {each.part.name for each in own} <= {"gate 0"}
        got.append(
            [
                row
                for each in own
                for row in content(each.part)
                if not each.is_shared or owns(partitioner, index, now[1], row)
            ]
        )
    all_rows = [row for rows in meant_for.values() for row in rows]
    assert sorted(chain(*got)) == sorted(all_rows), "each exactly once"
    if not is_rescaled:
        assert got == [meant_for[index] for index in range(now[1])]
    if isinstance(partitioner, KeyGroupPartitioner):
        for index, rows in enumerate(got):
            assert {group for group, _ in rows} <= set(owned_by(index, now[1], GROUPS))
            for group in range(GROUPS):
                same_key = [row for row in rows if row[0] == group]
                owner = subtask_for_key_group(group, former[1], GROUPS)
                assert same_key in ([], [row for row in meant_for[owner] if row[0] == group])


def owns(partitioner: Partitioner, index: int, parallelism: int, row: Row) -> bool:
    """What a task asks of the rows of a part that several get."""
    group, number = row
    if isinstance(partitioner, KeyGroupPartitioner):
        return group in owned_by(index, parallelism, GROUPS)
    assert isinstance(partitioner, CustomPartitioner)
    return partitioner.function(number, parallelism) == index


@pytest.mark.parametrize("former", [2, 3])
def test_rows_in_flight_of_another_max_parallelism_come_to_all_who_may_own_them(former: int) -> None:
    old = exchange(KeyGroupPartitioner(KEY), 1, former, is_keyed=False)
    new = keyed_graph(2, max_parallelism=GROUPS // 2)
    parts = {"map": {0: [in_flight("gate 0", (0, 0))]}}
    assignment = assign(completed(states_of(old, parts)), new)
    assert [[each.is_shared for each in own] for own in given(assignment, new, "map")] == [[True], [True]]


@pytest.mark.parametrize(("consumers", "groups"), [(3, 128), (86, 128), (128, 128), (129, 256)])
def test_rows_in_flight_alone_keep_their_key_groups_where_these_are_enough(consumers: int, groups: int) -> None:
    """From the 86th subtask on, a program that sets no max parallelism has 256 by default."""
    old, new = (
        exchange(KeyGroupPartitioner(KEY), 1, each, is_keyed=False, max_parallelism=None) for each in (2, consumers)
    )
    assignment = assign(completed(states_of(old, {"map": {0: [in_flight("gate 0", (0, 0))]}})), new)
    assert vertex_of(new, "map").max_parallelism == groups
    owners = {subtask_for_key_group(group, consumers, 128) for group in owned_by(0, 2, 128)}
    receivers = {index for index, own in enumerate(given(assignment, new, "map")) if own}
    assert receivers == (owners if groups == 128 else set(range(consumers)))


def content(part: StatePart) -> Any:
    assert isinstance(part.data, InlineState)
    return ast.literal_eval(part.data.data.decode())


@pytest.mark.parametrize(("operator", "name"), [("map", "gate 1"), ("numbers", "result 1/0"), ("Sink: out", "gate 0")])
def test_rows_in_flight_on_an_exchange_that_is_gone_are_refused(operator: str, name: str) -> None:
    graph = keyed_graph(1)
    parts = {operator: {0: [in_flight(name, (0, 0))]}}
    with pytest.raises(CheckpointError, match=r"checkpoint 1 has rows in flight from or to .*starts from a savepoint"):
        assign(completed(states_of(graph, parts)), graph)


def two_readers(*names: str) -> ExecutionGraph:
    """numbers, by key, into these operators, of which the compiler counts the results in this order."""
    program = Program({"pipeline.max-parallelism": GROUPS, "parallelism.default": 2})
    numbers = program.source("numbers", uid="numbers")
    for name in names:
        program.sink(program.map(program.key_by(numbers, "key"), name, uid=name))
    return program.execution_graph()


def test_rows_in_flight_go_to_the_operator_that_they_were_meant_for_whatever_its_place_among_the_readers() -> None:
    old, new = two_readers("one", "two"), two_readers("new", "two", "one")
    results = tuple((id_of(old, name), 0) for name in ("one", "two"))
    parts = {0: [in_flight("result 0/0", "to one"), in_flight("result 1/1", "to two")]}
    states = {state.operator_id: state for state in states_of(old, {"numbers": parts})}
    numbers = id_of(old, "numbers")
    checkpoint = completed({**states, numbers: replace(states[numbers], results=results)}.values())
    assignment = assign(checkpoint, new)
    found = {
        name: [[content(each.part) for each in own] for own in given(assignment, new, name)]
        for name in ("one", "two", "new")
    }
    assert found == {"one": [[("to one",)], []], "two": [[], [("to two",)]], "new": [[], []]}
    with pytest.raises(CheckpointError, match=r"rows in flight from or to 'numbers' on an exchange that this program"):
        assign(checkpoint, two_readers("two"))


def united(*first: str) -> ExecutionGraph:
    """These sources, united, and `other` into one operator."""
    program = Program({"pipeline.max-parallelism": GROUPS})
    one, other = (
        program.union(*(program.source(name, uid=name) for name in first)),
        program.source("other", uid="other"),
    )
    keyed = (program.key_by(each, "key") for each in (one, other))
    program.sink(program.co_map(*keyed, "map", uid="map", keys=(KEY, KEY)))
    return program.execution_graph()


def test_rows_in_flight_stay_rows_of_their_input_where_streams_are_united_before_it() -> None:
    old, new = united("a"), united("a", "b")
    parts = {0: [in_flight("gate 0", "of a"), in_flight("gate 1", "of other")]}
    states = [replace(state, gates=(0, 1)) for state in states_of(old, {"map": parts})]
    ((first, second),) = given(assign(completed(states), new), new, "map")
    inputs = {edge.gate_index: edge.input_index for edge in vertex_of(new, "map").job_vertex.inputs}
    assert inputs == {0: 0, 1: 0, 2: 1}
    assert [(content(each.part), each.part.name) for each in (first, second)] == [
        (("of a",), "gate 0"),
        (("of other",), "gate 2"),
    ]


def with_itself(*partitioners: Partitioner) -> ExecutionGraph:
    """Rows of two subtasks, by exchanges of these kinds, into one input of two others."""
    program = Program({"parallelism.default": 2, "pipeline.operator-chaining.enabled": False})
    numbers = program.source("numbers", uid="numbers")
    united = program.union(*(program.partition(numbers, each) for each in partitioners))
    program.sink(program.map(united, "map", uid="map"))
    return program.execution_graph()


@pytest.mark.parametrize("first", [ForwardPartitioner(), RescalePartitioner(), RebalancePartitioner()], ids=str)
def test_rows_in_flight_of_a_stream_that_is_united_with_itself_stay_in_their_exchange(first: Partitioner) -> None:
    graph = with_itself(first, RebalancePartitioner())
    results = ((id_of(graph, "map"), 0),) * 2
    parts = {
        subtask: [in_flight(f"result 1/{to}", f"from {subtask} to {to}") for to in range(2)] for subtask in range(2)
    }
    states = {state.operator_id: state for state in states_of(graph, {"numbers": parts})}
    numbers = id_of(graph, "numbers")
    checkpoint = completed({**states, numbers: replace(states[numbers], results=results)}.values())
    found = [
        [(content(each.part), each.part.name) for each in own] for own in given(assign(checkpoint, graph), graph, "map")
    ]
    assert found == [[((f"from {subtask} to {to}",), "gate 1") for subtask in range(2)] for to in range(2)]


def test_rows_in_flight_to_a_subtask_that_the_exchange_does_not_reach_are_refused() -> None:
    rebalanced, forward = with_itself(RebalancePartitioner()), with_itself(ForwardPartitioner())
    parts = {1: [in_flight("result 0/1", "to the second")]}
    with pytest.raises(CheckpointError, match=r"rows in flight from or to 'numbers' on an exchange that this program"):
        assign(completed(states_of(rebalanced, {"numbers": parts})), forward)


# -- matching ----------------------------------------------------------------------------------------------------


def test_coordinators_get_their_state_by_the_id_of_now() -> None:
    graph = keyed_graph(1)
    states = [operator_state({}, 2, id_of(graph, "numbers"), coordinator=b"splits")]
    assert assign(completed(states), graph).coordinators == {id_of(graph, "numbers"): b"splits"}


def test_state_is_found_under_the_id_that_an_operator_had_before_it_got_a_uid_hash() -> None:
    def program(**settings: Any) -> ExecutionGraph:
        made = Program()
        made.sink(made.map(made.source(uid="numbers"), uid="map", **settings))
        return made.execution_graph()

    old, new = program(), program(uid_hash="f" * 32)
    assert id_of(new, "map") == "f" * 32 != id_of(old, "map")
    states = states_of(old, {"map": {0: [list_part("a", 1)]}})
    assert [len(own) for own in given(assign(completed(states), new), new, "map")] == [1]
    both = [*states, operator_state({0: [list_part("a", 1), list_part("b", 1)]}, 1, "f" * 32)]
    taken = given(assign(completed(both), new, allow_non_restored_state=True), new, "map")
    assert [len(own) for own in taken] == [2], "the id of now wins"


def test_state_that_no_operator_takes_is_refused_unless_allowed() -> None:
    graph = keyed_graph(1)
    stateless = operator_state({0: []}, 1, "1" * 32, "gone without state")
    known = states_of(graph, {})
    assign(completed([*known, stateless]), graph)
    for uid, identity in (("dedupe-v2", "uid 'dedupe-v2'"), (None, f"id {'2' * 32}")):
        gone = operator_state({0: [list_part("a", 1)]}, 1, "2" * 32, "dedupe", uid)
        checkpoint = completed([*known, stateless, gone], is_savepoint=True, directory="/sp")
        with pytest.raises(CheckpointError) as raised:
            assign(checkpoint, graph)
        assert f"savepoint /sp has state of operator 'dedupe' ({identity}) that is not in" in str(raised.value)
        assert "execution.state-recovery.ignore-unclaimed-state" in str(raised.value)
        assert not any(given(assign(checkpoint, graph, allow_non_restored_state=True), graph, "map")[0])
    coordinated = operator_state({}, 1, "3" * 32, "source", coordinator=b"")
    with pytest.raises(CheckpointError, match=r"'dedupe' .* and of 1 more operators,"):
        assign(completed([*known, gone, coordinated]), graph)


@pytest.mark.parametrize(
    ("then", "now", "is_taken"),
    [("sum of a", "sum of a", True), ("sum of a", "sum of b", False), ("", "sum of b", True), ("sum of a", "", True)],
)
def test_state_of_an_operator_that_computed_something_else_is_not_that_of_the_one_in_its_place(
    then: str, now: str, is_taken: bool
) -> None:
    program = Program()
    program.sink(program.map(program.source(), computes=now))
    graph = program.execution_graph()
    states = states_of(graph, {"map": {0: [list_part("a", 1)]}})
    checkpoint = completed([replace(each, computes=then if each.name == "map" else "") for each in states])
    if not is_taken:
        with pytest.raises(
            CheckpointError, match=r"has state of operator 'map' \(id \w+\), which computed sum of a, that"
        ):
            assign(checkpoint, graph)
    assert any(given(assign(checkpoint, graph, allow_non_restored_state=True), graph, "map")[0]) is is_taken


def test_a_savepoint_of_another_job_is_refused_even_if_state_may_be_left_behind() -> None:
    other = completed([operator_state({0: [list_part("a", 1)]}, 1, "2" * 32)])
    with pytest.raises(CheckpointError, match=r"is of job 'a job' .* none of its operators is in this program"):
        assign(other, keyed_graph(1), allow_non_restored_state=True)


def test_an_empty_checkpoint_is_one_to_start_from() -> None:
    graph = keyed_graph(2)
    assert all(not task.operators for task in assign(completed(), graph).tasks.values())


def test_another_max_parallelism_is_refused_where_there_is_keyed_state() -> None:
    graph = keyed_graph(1, max_parallelism=32)
    assign(completed(states_of(keyed_graph(1), {"map": {0: [list_part("a", 1)]}})), graph)
    keyed = StatePart("count", PartKind.KEYED, inline(b""), 0, (0, GROUPS))
    with pytest.raises(
        CheckpointError, match=r"'map' .* max parallelism 16, the program has 32, .*set_max_parallelism\(16\)"
    ):
        assign(completed(states_of(keyed_graph(1), {"map": {0: [keyed]}})), graph)


def test_more_subtasks_than_key_groups_are_refused() -> None:
    made = Program({"pipeline.max-parallelism": GROUPS})
    made.sink(made.source("numbers", uid="numbers"))
    job_graph = made.job_graph()
    graph = ExecutionGraph.from_job_graph(job_graph, parallelism={job_graph.vertices[0].id: GROUPS + 1})
    with pytest.raises(CheckpointError, match="its parallelism, 17, is above its max parallelism, 16"):
        assign(completed(states_of(made.execution_graph(), {})), graph)


# -- what had finished -------------------------------------------------------------------------------------------


def finished(graph: ExecutionGraph, names: Mapping[str, Sequence[int]]) -> CompletedCheckpoint:
    return completed(
        operator_state({}, state.parallelism, state.operator_id, state.name, finished=names.get(state.name, ()))
        for state in states_of(graph, {})
    )


def test_a_vertex_has_finished_when_all_subtasks_of_all_its_operators_had() -> None:
    old, new = keyed_graph(2), keyed_graph(3)
    for names, expected in (
        ({}, [False, False]),
        ({"numbers": [0]}, [False, False]),
        ({"numbers": [0, 1]}, [True, False]),
        ({"numbers": [0, 1], "map": [1], "Sink: out": [1]}, [True, False]),
        ({"numbers": [0, 1], "map": [0, 1], "Sink: out": [0, 1]}, [True, True]),
    ):
        tasks = assign(finished(old, names), new).tasks
        by_vertex = [{tasks[each.id].is_finished for each in vertex.subtasks} for vertex in new.job_vertices.values()]
        assert by_vertex == [{each} for each in expected]


def test_a_task_of_which_only_some_operators_had_finished_is_refused() -> None:
    graph = keyed_graph(1)
    with pytest.raises(CheckpointError, match="'map' had finished there, but 'Sink: out', which shares a task with it"):
        assign(finished(graph, {"numbers": [0, 1], "map": [0]}), graph)


def test_a_local_phase_is_with_what_has_finished_whether_it_was_there_or_not() -> None:
    """The compiler puts it beside a source, or leaves it out, as parallelism and options say."""

    def graph(strategy: str) -> ExecutionGraph:
        program = Program({"parallelism.default": 2, "table.optimizer.agg-phase-strategy": strategy})
        window = WindowFactory(TumblingEventTimeWindows.of(10), aggregates=(("rows", Count()),))
        keyed = program.key_by(program.source("numbers", uid="numbers"), "key")
        key = ColumnKey(("key",))
        program.sink(program.operator("window", window, keyed, uid="window", keys=(key,)), uid="sink")
        return program.execution_graph()

    one, two = graph("ONE_PHASE"), graph("TWO_PHASE")
    local = next(each.name for each in vertex_of(two, "numbers").job_vertex.operators if each.name != "numbers")
    for old, new in ((one, two), (two, one), (two, two)):
        tasks = assign(finished(old, {"numbers": [0, 1], local: [0, 1]}), new).tasks
        assert all(tasks[each.id].is_finished for each in vertex_of(new, "numbers").subtasks)
        assert not any(tasks[each.id].is_finished for each in vertex_of(new, "window").subtasks)


def test_a_task_that_had_finished_behind_one_that_had_not_is_refused() -> None:
    graph = keyed_graph(1)
    with pytest.raises(CheckpointError, match=r"had finished in checkpoint 1, and would drop what .* from 'numbers'"):
        assign(finished(graph, {"map": [0], "Sink: out": [0]}), graph)
