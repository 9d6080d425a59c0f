"""Where the compiler puts the local phase of a window, and that nothing else changes for it."""

from __future__ import annotations

from typing import Any

import pytest

from flinkray.transformations.operator_factories import ChainingStrategy, LocalWindowAggregateFactory, WindowFactory
from flinkray.transformations.partitioning import CustomPartitioner, KeyGroupPartitioner, RebalancePartitioner
from flinkray.transformations.transformation import Transformation
from flinkray.types.keys import ColumnKey, FunctionKey
from flinkray.types.records import Millis, OutputTag
from flinkray.windows.aggregates import (
    Aggregate,
    ArgMax,
    Avg,
    CollectList,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Min,
    Sum,
    TopN,
)
from flinkray.windows.assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flinkray.windows.evictors import CountEvictor
from flinkray.windows.triggers import CountTrigger, EventTimeTrigger
from graphs.compiler.stream_graph_generator import generate_stream_graph
from graphs.job_graph import JobGraph
from tests.support.graphs import Program, ids_by_name, node_named, vertex_names

TUMBLING = TumblingEventTimeWindows.of(10)
KEY = ColumnKey(("key",))
TOTAL: tuple[tuple[str, Aggregate], ...] = (("total", Sum("value")),)
WITHOUT = ["Source: numbers", "window -> Sink: out"]
WITH = ["Source: numbers -> Local window", "window -> Sink: out"]


def program(
    factory: WindowFactory | None = None,
    options: dict[str, object] | None = None,
    source: dict[str, Any] | None = None,
    **window: Any,
) -> Program:
    """A source, then a window by `key` with a sink."""
    built = Program({"parallelism.default": 2, **(options or {})})
    add_window(built, built.source(**(source or {})), factory, **window)
    return built


def add_window(
    built: Program,
    upstream: Transformation,
    factory: WindowFactory | None = None,
    name: str = "window",
    **settings: Any,
) -> None:
    keyed = built.key_by(upstream, "key")
    factory = factory or WindowFactory(TUMBLING, aggregates=TOTAL)
    built.sink(built.operator(name, factory, keyed, **{"keys": (KEY,), **settings}))


def window(assigner: Any = TUMBLING, **settings: Any) -> WindowFactory:
    return WindowFactory(assigner, **{"aggregates": TOTAL, **settings})


def names(built: Program) -> list[str]:
    return vertex_names(built.job_graph())


@pytest.mark.parametrize(
    "factory",
    [
        window(),
        window(SlidingEventTimeWindows.of(20, 5)),
        window(trigger=EventTimeTrigger.create(), allowed_lateness_ms=Millis(5)),
        window(
            aggregates=tuple((type(each).__name__, each) for each in (Count(), Sum("a"), Min("a"), Max("b"), Avg("c")))
        ),
    ],
)
def test_a_window_of_aggregates_that_can_be_combined_has_a_local_phase(factory: WindowFactory) -> None:
    built = program(factory)
    assert names(built) == WITH
    node = node_named(built.plan().graph, "Local window")
    assert node.factory == LocalWindowAggregateFactory(factory, KEY)
    (edge,) = node.out_edges
    assert edge.partitioner == KeyGroupPartitioner(KEY, node_named(built.plan().graph, "window").max_parallelism)


class Derived(TumblingEventTimeWindows):
    pass


@pytest.mark.parametrize(
    "factory",
    [
        *(window(aggregates=(("n", Count()), ("other", each))) for each in (First("a"), Last("a"), TopN("a"))),
        *(
            window(aggregates=(("other", each),))
            for each in (CountDistinct("a"), CollectList("a"), ArgMax("a", by="b"))
        ),
        window(TumblingProcessingTimeWindows.of(10)),
        window(EventTimeSessionWindows.with_gap(10)),
        window(SlidingEventTimeWindows.of(5, 8)),
        window(Derived(10)),
        window(trigger=CountTrigger.of(3)),
        window(evictor=CountEvictor.of(3)),
        window(late_tag=OutputTag("late")),
        window(aggregates=(), reduce=max),
        window(aggregates=(), process=print),
    ],
)
def test_other_windows_have_none(factory: WindowFactory) -> None:
    assert names(program(factory)) == WITHOUT


def test_a_key_that_a_function_makes_is_left_alone() -> None:
    built = Program({"parallelism.default": 2})
    key = FunctionKey(len)
    keyed = built.partition(built.source(), KeyGroupPartitioner(key))
    built.sink(built.operator("window", window(), keyed, keys=(key,)))
    assert names(built) == WITHOUT


@pytest.mark.parametrize(
    ("strategy", "parallelism", "expected"),
    [
        (None, (1, 1), WITHOUT),
        (None, (1, 2), WITH),
        (None, (2, 1), WITH),
        ("auto", (2, 2), WITH),
        ("TWO_PHASE", (1, 1), WITH),
        ("TWO_PHASE", (2, 2), WITH),
        ("ONE_PHASE", (2, 2), WITHOUT),
    ],
)
def test_the_strategy_decides(strategy: str | None, parallelism: tuple[int, int], expected: list[str]) -> None:
    options: dict[str, object] = {} if strategy is None else {"table.optimizer.agg-phase-strategy": strategy}
    built = program(None, {"parallelism.default": parallelism[1], **options}, {"parallelism": parallelism[0]})
    assert names(built) == expected


def test_single_subtasks_in_different_slots_count_as_remote() -> None:
    built = program(None, {"parallelism.default": 1}, slot_sharing_group="other")
    assert names(built) == [WITH[0], "window -> Sink: out"]


@pytest.mark.parametrize(
    ("options", "source"),
    [
        ({"pipeline.operator-chaining.enabled": False}, {}),
        ({}, {"chaining_strategy": ChainingStrategy.NEVER}),
        ({"execution.runtime-mode": "batch"}, {}),
    ],
)
def test_there_is_none_where_it_could_not_share_the_task_before_the_exchange(
    options: dict[str, object], source: dict[str, Any]
) -> None:
    assert not any("Local" in name for name in names(program(None, options, source)))


def test_a_stream_that_is_keyed_already_is_not_aggregated_twice() -> None:
    built = Program({"parallelism.default": 2})
    built.sink(built.operator("window", window(), built.source(), keys=(KEY,)))
    assert names(built) == ["Source: numbers -> window -> Sink: out"]


def test_a_window_of_all_rows_has_a_local_phase_too() -> None:
    built = Program({"parallelism.default": 2})
    spread = built.partition(built.source(), RebalancePartitioner())
    built.sink(built.operator("window", window(), spread, parallelism=1, keys=(None,)))
    assert names(built) == ["Source: numbers -> Local window", "window", "Sink: out"]


def test_a_partitioner_that_looks_at_the_rows_gets_them_as_they_are() -> None:
    for partitioner in (CustomPartitioner(lambda key, channels: key % channels, KEY), KeyGroupPartitioner(KEY)):
        built = Program({"parallelism.default": 2})
        sent = built.partition(built.source(), partitioner)
        built.sink(built.operator("window", window(), sent, parallelism=1, keys=(None,)))
        assert names(built) == ["Source: numbers", "window", "Sink: out"]


def test_every_stream_of_a_union_has_its_own() -> None:
    built = Program({"parallelism.default": 2})
    first, second = built.source("Source: a"), built.source("Source: b")
    add_window(built, built.union(first, second, second))
    assert names(built) == [
        "Source: a -> Local window",
        "Source: b -> (Local window, Local window)",
        "window -> Sink: out",
    ]
    assert len(all_ids(built.job_graph())) == 7
    built.execution_graph()


def test_a_side_output_is_aggregated_where_it_is_made() -> None:
    built = Program({"parallelism.default": 2})
    add_window(built, built.side(built.map(built.source()), "odd"))
    (chained,) = node_named(built.plan().graph, "Local window").in_edges
    (crossing,) = node_named(built.plan().graph, "Local window").out_edges
    assert chained.output_tag == OutputTag("odd")
    assert crossing.output_tag is None


def test_no_other_operator_changes_its_id_and_the_stream_graph_stays_as_it_was() -> None:
    def build(strategy: str) -> Program:
        built = Program({"parallelism.default": 2, "table.optimizer.agg-phase-strategy": strategy})
        numbers = built.map(built.source(), uid="mapped")
        built.sink(numbers, "Sink: before")
        add_window(built, numbers, name="first")
        add_window(built, numbers, name="second", uid="second")
        built.sink(built.map(numbers, "last"), "Sink: after")
        return built

    one, two = (ids_by_name(build(strategy).job_graph()) for strategy in ("ONE_PHASE", "TWO_PHASE"))
    assert set(two) - set(one) == {"Local first", "Local second"}
    assert one == {name: two[name] for name in one}
    assert ids_by_name(build("TWO_PHASE").job_graph()) == two, "equal programs get equal ids"
    program = build("TWO_PHASE")
    graph = generate_stream_graph(program.pipeline)
    before = (list(graph.nodes), graph.edges)
    program.plan()
    assert (list(graph.nodes), graph.edges) == before


def all_ids(graph: JobGraph) -> set[str]:
    return {operator.operator_id for vertex in graph.vertices for operator in vertex.operators}
