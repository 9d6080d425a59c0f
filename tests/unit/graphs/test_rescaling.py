"""Which vertices of a running job may have which parallelism."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flinkray import (
    AsyncDataStream,
    AsyncFunction,
    CollectSink,
    Count,
    DiscardSink,
    SocketSource,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flinkray.errors import RescaleError
from graphs.execution_graph import ExecutionGraph
from graphs.rescaling import parallelisms_for
from tests.support.simulation import compiled

Env = StreamExecutionEnvironment
Program = Callable[[Env], None]


def graph_of(program: Program, parallelism: int = 2, **options: object) -> ExecutionGraph:
    env = Env.get_execution_environment({"execution.target": "local", "parallelism.default": parallelism, **options})
    program(env)
    return ExecutionGraph.from_job_graph(compiled(env))


def changes(program: Program, wanted: int | dict[str, int], parallelism: int = 2) -> dict[str, int]:
    """The names of the vertices that change, up to the first arrow."""
    graph = graph_of(program, parallelism)
    found = parallelisms_for(graph, wanted)
    return {graph.job_vertices[vertex].name.split(" -> ")[0]: number for vertex, number in found.items()}


def refusal(program: Program, wanted: int | dict[str, int], parallelism: int = 2) -> str:
    with pytest.raises(RescaleError) as caught:
        parallelisms_for(graph_of(program, parallelism), wanted)
    return str(caught.value)


def windows(env: Env) -> None:
    stream = env.from_sequence(0, 9).map(lambda row: row).name("read").disable_chaining()
    stream.key_by("value").reduce(lambda a, _: a).name("reduce").sink_to(DiscardSink())


def mixed(env: Env) -> None:
    stream = env.from_sequence(0, 9).map(lambda row: row).name("own").set_parallelism(3)
    stream.rebalance().map(lambda row: row).name("bounded").set_max_parallelism(5).sink_to(DiscardSink())


def test_a_job_gives_its_parallelism_to_all_vertices_that_change() -> None:
    assert changes(windows, 4) == {"Source: Sequence": 4, "read": 4, "reduce": 4}
    assert changes(windows, 2) == {}


def test_a_vertex_keeps_the_parallelism_that_the_program_sets_unless_it_is_named() -> None:
    assert changes(mixed, 4) == {"Source: Sequence": 4, "bounded": 4}
    assert changes(mixed, {"own": 4}) == {"own": 4}


def test_a_vertex_gets_as_many_subtasks_as_its_own_max_parallelism_allows() -> None:
    assert changes(mixed, 40) == {"Source: Sequence": 40, "bounded": 5}
    assert "'bounded -> Sink: Unnamed' may be 1 to 5" in refusal(mixed, {"bounded -> Sink: Unnamed": 6})


def test_nothing_gets_more_subtasks_than_the_job_has_key_groups() -> None:
    assert "may be 1 to 128, which is its max parallelism, and not 129" in refusal(windows, 129)


def test_vertices_that_exchange_rows_subtask_by_subtask_change_together() -> None:
    assert changes(windows, {"read": 3}) == {"Source: Sequence": 3, "read": 3}
    names = {vertex.name: 2 for vertex in graph_of(windows).job_vertices.values()}
    assert changes(windows, {**names, "read": 3}) == {"Source: Sequence": 3, "read": 3}
    assert "subtask by subtask" in refusal(windows, {"read": 3, "Source: Sequence": 4})


def test_vertices_are_named_by_their_id_too() -> None:
    graph = graph_of(windows)
    vertex = next(vertex for vertex in graph.job_vertices.values() if vertex.name.startswith("reduce"))
    assert parallelisms_for(graph, {vertex.id: 1}) == {vertex.id: 1}


def test_a_name_that_is_not_there_or_is_there_twice_is_refused() -> None:
    def twice(env: Env) -> None:
        for _ in range(2):
            env.from_sequence(0, 9).sink_to(DiscardSink())

    assert "has no vertex 'reed'; it has 'Source: Sequence', 'read'" in refusal(windows, {"reed": 1})
    name = "Source: Sequence -> Sink: Unnamed"
    assert f"2 vertices called {name!r}; name one by its id: " in refusal(twice, {name: 1})


def test_what_runs_in_one_subtask_stays_there_with_what_it_is_bound_to() -> None:
    def one_source(env: Env) -> None:
        lines = env.from_source(SocketSource("localhost", 1), WatermarkStrategy.no_watermarks(), "lines")
        lines.map(lambda row: row).name("near").disable_chaining().rebalance().map(lambda row: row).name(
            "far"
        ).set_parallelism(2).rebalance().sink_to(DiscardSink())

    assert changes(one_source, 4, parallelism=1) == {"Sink: Unnamed": 4}
    assert "'Source: lines' keeps its parallelism: SocketSource runs in one subtask" in refusal(
        one_source, {"near": 2}, parallelism=1
    )


def test_windows_over_all_rows_keep_their_one_subtask() -> None:
    def all_rows(env: Env) -> None:
        stream = env.from_sequence(0, 9).assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("value")
        )
        stream.window_all(TumblingEventTimeWindows.of(5)).aggregate(n=Count()).sink_to(DiscardSink())

    graph = graph_of(all_rows)
    alone = next(vertex for vertex in graph.job_vertices.values() if vertex.parallelism == 1)
    assert alone.id not in parallelisms_for(graph, 4)
    assert "runs in one subtask" in refusal(all_rows, {alone.name: 2})


def test_a_sink_that_brings_rows_to_the_driver_keeps_its_parallelism() -> None:
    def collected(env: Env) -> None:
        env.from_sequence(0, 9).rebalance().sink_to(CollectSink("rows"))

    assert changes(collected, 3) == {"Source: Sequence": 3}
    assert "brings its rows to the driver" in refusal(collected, {"Sink: Unnamed": 3})


def test_rows_that_are_gathered_in_one_subtask_stay_in_their_order() -> None:
    def gathered(env: Env) -> None:
        env.from_sequence(0, 9).sink_to(DiscardSink()).set_parallelism(1)

    assert "gets the rows of several subtasks in one, in their order" in refusal(gathered, {"Sink: Unnamed": 2})


def test_a_job_of_which_nothing_can_change_says_why() -> None:
    def own(env: Env) -> None:
        env.from_sequence(0, 9).set_parallelism(2).sink_to(DiscardSink()).set_parallelism(2)

    assert "name the vertices to change" in refusal(own, 3)


def test_a_graph_that_is_unfolded_anew_uses_no_attempt_id_twice() -> None:
    graph = graph_of(windows)
    used = set(graph.executions)
    for parallelism in (4, 1, 3):
        graph.rescale(parallelisms_for(graph, parallelism), now_ms=0)
        assert len(graph.vertices) == 3 * parallelism
        assert not used & graph.executions.keys()
        used |= graph.executions.keys()
        assert set(graph.rescaled_to.values()) == {parallelism}
    reduce = next(vertex for vertex in graph.job_vertices.values() if vertex.name.startswith("reduce"))
    assert [len(group) for subtask in reduce.subtasks for group in subtask.consumed] == [3, 3, 3]


def test_what_a_graph_would_be_leaves_it_as_it_is() -> None:
    graph = graph_of(windows)
    before = dict(graph.executions)
    rescaled = graph.rescaled(parallelisms_for(graph, 3))
    assert (len(rescaled.vertices), graph.executions) == (9, before)


def test_a_parallelism_that_the_program_sets_counts_also_where_it_is_the_jobs() -> None:
    def sink_of_one(env: Env) -> None:
        stream = env.from_sequence(0, 9).rebalance().map(lambda row: row).name("far")
        stream.rebalance().sink_to(DiscardSink()).set_parallelism(1)

    assert changes(sink_of_one, 3, parallelism=1) == {"Source: Sequence": 3, "far": 3}


def test_a_generator_is_not_called_by_several_subtasks() -> None:
    def generated(env: Env) -> None:
        env.add_source(lambda: iter(range(3))).rebalance().sink_to(DiscardSink())

    assert changes(generated, 3, parallelism=1) == {"Sink: Unnamed": 3}
    name = next(vertex.name for vertex in graph_of(generated).job_vertices.values() if vertex.parallelism == 1)
    assert "would call its function" in refusal(generated, {name: 2})


def test_calls_do_not_overtake_changes_of_their_key() -> None:
    def calls(env: Env) -> None:
        env.tables.execute_sql("CREATE TABLE t (k INT) WITH ('connector' = 'datagen', 'number-of-rows' = '9')")
        changed = env.tables.to_changelog_stream(env.tables.sql_query("SELECT k, COUNT(*) AS n FROM t GROUP BY k"))
        called = AsyncDataStream.ordered_wait(changed, Call(), 1_000).name("call").disable_chaining()
        called.kinds_as_column("op").sink_to(DiscardSink())

    assert "would overtake changes of their key" in refusal(calls, {"call": 3})


class Call(AsyncFunction):
    async def async_invoke(self, value: object) -> list[object]:
        return [value]


def test_a_number_that_no_vertex_may_have_is_refused() -> None:
    graph = graph_of(windows, **{"pipeline.max-parallelism": 4})
    with pytest.raises(RescaleError, match="may have 5 subtasks: at most 4"):
        parallelisms_for(graph, 5)
