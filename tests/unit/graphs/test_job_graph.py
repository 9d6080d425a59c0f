from __future__ import annotations

import functools
import threading
from typing import Any

import cloudpickle
import pytest
from msgspec import structs

from flinkray.errors import InvalidProgramError, NotSerializableError
from flinkray.functions.interfaces import MapFunction
from flinkray.transformations.operator_factories import MapFactory, SinkFactory, SourceFactory
from flinkray.transformations.partitioning import CustomPartitioner, KeyGroupPartitioner, ShufflePartitioner
from flinkray.transformations.transformation import ResourceSpec
from flinkray.types.keys import ColumnKey, FunctionKey
from flinkray.types.records import JobId, OutputTag
from graphs.compiler.job_graph_generator import generate_job_graph, job_graph_of
from graphs.job_graph import JobVertex, JobVertexId, NetworkInput, OperatorCode
from graphs.topology import sort_topologically
from graphs.user_code import pickle_user_code
from tests.support.graphs import DiscardingSink, NumberSource, Program, vertex_named, vertex_names


def shuffled_pair(**settings: Any) -> Program:
    program = Program({"parallelism.default": 2, "execution.buffer-timeout.interval": 9})
    program.sink(program.map(program.partition(program.source(), ShufflePartitioner()), **settings))
    return program


def test_a_vertex_is_its_head_with_the_combined_needs_of_its_operators() -> None:
    program = Program({"parallelism.default": 3})
    mapped = program.map(
        program.source(min_resources=ResourceSpec(1, 10), preferred_resources=ResourceSpec(2, 20)),
        min_resources=ResourceSpec(0.5, 5),
        max_parallelism=4,
    )
    program.sink(mapped)
    (vertex,) = program.job_graph().vertices
    assert str(vertex.id) == str(vertex.head.operator_id)
    assert (vertex.parallelism, vertex.max_parallelism) == (3, 128)
    assert vertex.min_resources == ResourceSpec(1.5, 15)
    assert vertex.preferred_resources == ResourceSpec(2, 20)


def test_one_data_set_per_outgoing_edge_joins_producer_and_consumer() -> None:
    graph = shuffled_pair().job_graph()
    source, mapped = graph.vertices
    (result,), (edge,) = source.results, mapped.inputs
    assert (edge.source, edge.source_vertex, edge.target) == (result.id, source.id, mapped.id)
    assert (edge.input_index, edge.gate_index) == (0, 0)
    assert graph.consumers() == {result.id: [edge]}
    assert source.head.network_outputs[0].buffer_timeout_ms == 9
    assert mapped.head.inputs == (NetworkInput((0,)),)


def test_gates_of_a_consumer_come_in_the_order_in_which_its_edges_were_made() -> None:
    program = Program()
    first, second = program.source("Source: a"), program.source("Source: b")
    left = program.map(first, "left", parallelism=2)
    program.sink(program.co_map(second, program.union(left, first)))
    graph = program.job_graph()
    consumer = vertex_named(graph, "co_map -> Sink: out")
    # Source a is walked first, and its chain is finished after that of left.
    sources = [graph.vertex(edge.source_vertex).name for edge in consumer.inputs]
    assert sources == ["left", "Source: a", "Source: b"]
    assert consumer.head.inputs == (NetworkInput((2,)), NetworkInput((0, 1)))
    assert [edge.input_index for edge in consumer.inputs] == [1, 1, 0]


def test_code_travels_as_bytes_with_the_keys_and_the_partitioners_of_an_operator() -> None:
    program = Program()
    key = ColumnKey(("id",))
    counted = program.map(program.key_by(program.source(), "id"), "count", len, keys=(key,))
    program.sink(program.partition(counted, CustomPartitioner(lambda k, n: k % n, key)), parallelism=2)
    source, count, _ = program.job_graph().vertices
    source_code: OperatorCode = cloudpickle.loads(source.head.code_bytes)
    assert source_code.partitioners == (KeyGroupPartitioner(key, 128),)
    count_code: OperatorCode = cloudpickle.loads(count.head.code_bytes)
    assert count_code.factory == MapFactory(len)
    assert count_code.keys == (key,)
    (partitioner,) = count_code.partitioners
    assert isinstance(partitioner, CustomPartitioner)
    assert partitioner.function(7, 4) == 3


def test_a_job_graph_survives_a_cloudpickle_round_trip() -> None:
    program = Program({"parallelism.default": 2})
    split = program.map(program.source(), "split", function=lambda value: value)
    program.sink(program.side(split, "late"), "Sink: late")
    program.sink(program.map(program.key_by(split, "id"), keys=(ColumnKey(("id",)),), parallelism=3))
    graph = program.job_graph()
    assert cloudpickle.loads(cloudpickle.dumps(graph)) == graph


def test_numbers_of_operators_do_not_depend_on_what_the_process_compiled_before() -> None:
    def without_code(graph: Any) -> Any:
        return [
            structs.replace(
                vertex,
                coordinators=(),
                operators=tuple(structs.replace(each, code_bytes=b"") for each in vertex.operators),
            )
            for vertex in graph.vertices
        ]

    assert without_code(shuffled_pair().job_graph()) == without_code(shuffled_pair().job_graph())


def test_a_coordinator_gets_the_source_that_its_readers_get() -> None:
    program = Program()
    program.sink(program.source(source=NumberSource(start=7)))
    (vertex,) = program.job_graph().vertices
    coordinated: SourceFactory = cloudpickle.loads(vertex.coordinators[0].factory_bytes)
    run: OperatorCode = cloudpickle.loads(vertex.head.code_bytes)
    assert isinstance(run.factory, SourceFactory)
    sources = (coordinated.source, run.factory.source)
    assert [each.start for each in sources if isinstance(each, NumberSource)] == [7, 7]


def test_for_display_nothing_is_pickled() -> None:
    program = Program()
    lock = threading.Lock()
    program.sink(program.map(program.source(), function=lambda value: (lock, value)))
    (vertex,) = generate_job_graph(program.pipeline, JobId("x"), with_code=False).vertices
    assert {each.code_bytes for each in vertex.operators} == {b""}


def test_sources_have_coordinators_and_sinks_that_collect() -> None:
    program = Program()
    numbers = program.source()
    program.sink(numbers, "Sink: plain")
    program.operator("Sink: collect", SinkFactory(DiscardingSink(needs_coordinator=True)), numbers)
    (vertex,) = program.job_graph().vertices
    assert [each.operator_name for each in vertex.coordinators] == ["Source: numbers", "Sink: collect"]
    ids = {each.name: each.operator_id for each in vertex.operators}
    assert [each.operator_id for each in vertex.coordinators] == [ids["Source: numbers"], ids["Sink: collect"]]


def test_edges_inside_a_chain_keep_input_and_tag() -> None:
    program = Program()
    program.sink(program.side(program.map(program.source()), "late"))
    (vertex,) = program.job_graph().vertices
    source, mapped, sink = vertex.operators
    assert [each.target_node for each in source.chained_outputs] == [mapped.node_id]
    assert mapped.chained_outputs[0].output_tag == OutputTag("late")
    assert sink.is_chain_end
    assert not mapped.is_chain_end


def test_the_settings_of_the_program_travel_along() -> None:
    program = Program({"parallelism.default": 2}, name="orders")
    program.sink(program.source())
    graph = program.job_graph()
    assert (graph.name, graph.is_batch, graph.configuration) == ("orders", False, program.configuration)
    assert graph.configuration is not program.configuration


def test_a_batch_program_stays_one() -> None:
    program = Program()
    program.sink(program.source())
    graph = program.stream_graph()
    graph.is_batch = True
    assert job_graph_of(graph, JobId("x")).is_batch


def test_vertices_come_producers_first_also_where_the_program_has_a_late_source() -> None:
    program = Program()
    early = program.map(program.partition(program.source("Source: a"), ShufflePartitioner()), "early")
    late = program.source("Source: b")
    program.sink(program.union(late, early))
    assert vertex_names(program.job_graph()) == ["Source: a", "Source: b", "early", "Sink: out"]


def test_vertices_in_a_cycle_are_refused_by_name() -> None:
    first, second = shuffled_pair().job_graph().vertices
    back = structs.replace(second.inputs[0], source_vertex=second.id, target=first.id)
    with pytest.raises(InvalidProgramError, match="cycle: 'Source: numbers', 'map -> Sink: out'"):
        sort_topologically([structs.replace(first, inputs=(back,)), second])


def test_a_vertex_that_reads_from_outside_the_job_is_refused() -> None:
    _, second = shuffled_pair().job_graph().vertices
    with pytest.raises(InvalidProgramError, match=r"'map -> Sink: out' reads from [0-9a-f]+, which is not part"):
        sort_topologically([second])


def test_every_vertex_is_found_by_its_id() -> None:
    graph = shuffled_pair().job_graph()
    assert [graph.vertex(each.id) for each in graph.vertices] == list(graph.vertices)
    with pytest.raises(StopIteration):
        graph.vertex(JobVertexId("unknown"))


# -- what cannot be pickled ----------------------------------------------------------------------------------------


class Connection:
    def __init__(self) -> None:
        self.lock = threading.Lock()


class Writer(MapFunction):
    def __init__(self) -> None:
        self.connection = Connection()

    def map(self, value: Any) -> Any:
        return value


def refusal(function: Any) -> str:
    program = Program()
    program.sink(program.map(program.source(), "save", function))
    with pytest.raises(NotSerializableError) as caught:
        program.job_graph()
    assert isinstance(caught.value.__cause__, TypeError)
    return str(caught.value)


def test_a_captured_variable_that_cannot_be_pickled_is_named_with_its_operator() -> None:
    connection = Connection()
    message = refusal(lambda value: (connection, value))
    assert message.startswith(
        "operator 'save' cannot be sent to a worker: attribute 'lock' of Connection (a _thread.lock)"
    )
    assert "open()" in message


def test_a_captured_variable_is_named_with_the_function_that_captures_it() -> None:
    lock = threading.Lock()

    def locked(value: Any) -> Any:
        return lock, value

    assert "variable 'lock' captured by" in refusal(locked)
    assert "variable 'lock' captured by" in refusal(functools.partial(locked))


def test_a_global_that_a_function_uses_is_named() -> None:
    # By value, as the functions of the main program are.
    namespace: dict[str, Any] = {"LOCK": threading.Lock(), "__name__": "__main__"}
    exec("def guarded(value):\n    return LOCK, value", namespace)
    assert "global 'LOCK' used by 'guarded'" in refusal(namespace["guarded"])


def test_an_attribute_of_a_function_object_is_named() -> None:
    assert "attribute 'lock' of Connection" in refusal(Writer())
    assert "attribute 'lock' of Connection" in refusal(Writer().map)


def test_what_captures_itself_ends_the_search() -> None:
    holder: list[Any] = [threading.Lock()]
    holder.insert(0, holder)
    message = refusal(lambda value: (holder, value))
    assert "'save'" in message


def test_a_key_function_counts_as_user_code_of_the_operator_that_sends() -> None:
    lock = threading.Lock()
    program = Program()
    keyed = program.partition(program.source(), KeyGroupPartitioner(FunctionKey(lambda value: (lock, value))))
    program.sink(keyed)
    with pytest.raises(NotSerializableError, match=r"operator 'Source: numbers'.*variable 'lock' captured by"):
        program.job_graph()


def test_an_object_that_raises_its_own_error_is_refused_all_the_same() -> None:
    class Stubborn:
        def __reduce__(self) -> Any:
            raise RuntimeError("I stay")

    with pytest.raises(NotSerializableError, match=r"Stubborn\) cannot be pickled \(RuntimeError: I stay\)"):
        pickle_user_code(Stubborn(), "save")


def test_head_of_a_vertex_is_no_chained_source() -> None:
    program = Program()
    program.sink(program.multiple("merge", program.source("Source: a"), program.source("Source: b")))
    (vertex,) = program.job_graph().vertices
    assert isinstance(vertex, JobVertex)
    assert vertex.head.name == "merge"
