"""Which subtasks share a slot."""

from __future__ import annotations

import pytest

from actors.protocol.resources import ResourceProfile
from actors.scheduling.slots.slot_sharing import MAX_LABEL_LENGTH, SharedSlot, _unique, share_slots
from flinkray.transformations.partitioning import RescalePartitioner
from flinkray.transformations.transformation import ResourceSpec
from graphs.execution_graph import ExecutionGraph
from tests.support.control import four_vertices
from tests.support.graphs import Program

CPU = ResourceProfile(1.0)


def shared(program: Program) -> list[list[str]]:
    """Names of the subtasks in each slot."""
    graph = program.execution_graph()
    return names(graph, share_slots(graph, CPU))


def names(graph: ExecutionGraph, slots: tuple[SharedSlot, ...]) -> list[list[str]]:
    return [[graph.vertices[vertex].name for vertex in slot.vertices] for slot in slots]


@pytest.mark.parametrize("parallelism", [1, 2, 5])
@pytest.mark.parametrize("second_group", [None, "other"])
def test_a_group_takes_as_many_slots_as_its_widest_vertex_has_subtasks(
    parallelism: int, second_group: str | None
) -> None:
    graph = ExecutionGraph.from_job_graph(four_vertices(parallelism, second_group))
    slots = share_slots(graph, CPU)
    assert len(slots) == parallelism * (1 if second_group is None else 2)
    assert sorted(vertex for slot in slots for vertex in slot.vertices) == sorted(graph.vertices)
    for slot in slots:
        assert len({vertex.vertex_id for vertex in slot.vertices}) == len(slot.vertices)
        assert len({vertex.subtask_index for vertex in slot.vertices}) == 1


def test_a_narrow_vertex_sits_in_the_first_slots_of_a_wide_group() -> None:
    program = Program({"parallelism.default": 3})
    source = program.source(parallelism=1)
    program.sink(program.key_by(source, "k"))
    assert shared(program) == [["Source: numbers (1/1)", "Sink: out (1/3)"], ["Sink: out (2/3)"], ["Sink: out (3/3)"]]


def test_a_subtask_goes_to_a_producer_that_it_reads_pointwise_from() -> None:
    program = Program({"parallelism.default": 4})
    source = program.source(parallelism=2)
    program.sink(program.partition(source, RescalePartitioner()))
    # Sinks 1 and 2 read from the first source, 3 and 4 from the second: one of each pair sits beside its producer.
    slots = shared(program)
    assert slots[0] == ["Source: numbers (1/2)", "Sink: out (1/4)"]
    assert slots[1] == ["Source: numbers (2/2)", "Sink: out (3/4)"]
    assert sorted(name for slot in slots[2:] for name in slot) == ["Sink: out (2/4)", "Sink: out (4/4)"]


def test_subtasks_of_one_index_in_a_co_location_group_share_a_slot() -> None:
    program = Program({"parallelism.default": 2})
    source = program.source(parallelism=1)
    head = program.map(program.partition(source, RescalePartitioner()), "head", co_location_key="loop")
    tail = program.map(program.key_by(head, "k"), "tail", co_location_key="loop")
    program.sink(program.key_by(tail, "k"))
    for slot in shared(program):
        heads = [name.removeprefix("head ") for name in slot if name.startswith("head")]
        tails = [name.removeprefix("tail ") for name in slot if name.startswith("tail")]
        assert heads == tails


def test_a_slot_has_what_its_subtasks_ask_for_beside_the_slots_own() -> None:
    program = Program()
    spec = ResourceSpec(cpus=0.5, memory_bytes=1 << 20)
    first = program.map(program.key_by(program.source(), "k"), "first", min_resources=spec)
    program.sink(program.key_by(first, "k"), min_resources=spec)
    (slot,) = share_slots(program.execution_graph(), CPU)
    assert slot.request.profile == ResourceProfile(2.0, 2 << 20)


def test_labels_name_job_and_subtasks_and_differ() -> None:
    program = Program({"parallelism.default": 2}, name="word-count")
    source = program.source()
    program.sink(program.key_by(program.map(source), "k"))
    program.sink(program.key_by(program.source(slot_sharing_group="g"), "k"), slot_sharing_group="g")
    program.sink(program.key_by(program.source(slot_sharing_group="h"), "k"), slot_sharing_group="h")
    labels = [slot.label for slot in share_slots(program.execution_graph(), CPU)]
    assert labels == [
        "word-count: Source: numbers → map (1/2), Sink: out (1/2)",
        "word-count: Source: numbers → map (2/2), Sink: out (2/2)",
        "word-count: Source: numbers (1/2), Sink: out (1/2)",
        "word-count: Source: numbers (2/2), Sink: out (2/2)",
        "word-count: Source: numbers (1/2), Sink: out (1/2) #2",
        "word-count: Source: numbers (2/2), Sink: out (2/2) #2",
    ]


def test_labels_are_cut_and_still_differ() -> None:
    program = Program({"parallelism.default": 2})
    stream = program.source()
    for number in range(30):
        stream = program.map(program.key_by(stream, "k"), f"operator {number}")
    program.sink(stream)
    labels = [slot.label for slot in share_slots(program.execution_graph(), CPU)]
    assert len(set(labels)) == 2
    assert all(len(label) <= MAX_LABEL_LENGTH for label in labels)


def test_equal_labels_are_numbered_each_with_one_attempt() -> None:
    attempts = 0

    class Label(str):
        def __format__(self, spec: str) -> str:
            nonlocal attempts
            attempts += 1
            return super().__format__(spec)

    labels = list(_unique([Label("a"), Label("b"), Label("a #2"), *map(Label, "a" * 50)]))
    assert labels[:5] == ["a", "b", "a #2", "a #3", "a #4"]
    assert len(set(labels)) == 53
    assert attempts <= 2 * 50
