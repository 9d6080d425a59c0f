"""Changelogs are followed through a program, and refused by operators that do not know kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flinkray.config.configuration import Configuration
from flinkray.connectors.collection.source import CollectionSource
from flinkray.connectors.discard.sink import DiscardSink
from flinkray.connectors.files.writing.sink import FileSink
from flinkray.connectors.formats.changes.debezium_json import DebeziumJsonFormat
from flinkray.connectors.formats.json import JsonFormat
from flinkray.connectors.kafka.sink import KafkaSink
from flinkray.connectors.kafka.source import KafkaSource
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.errors import InvalidProgramError, UnknownColumnError
from flinkray.execution import Pipeline
from flinkray.expressions.tree import col
from flinkray.streams.data_stream import DataStream
from flinkray.streams.environment import StreamExecutionEnvironment
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.transformations.operator_factories import SinkFactory
from flinkray.transformations.partitioning import ForwardPartitioner, KeyGroupPartitioner, RebalancePartitioner
from flinkray.types.changelogs import ChangelogMode
from flinkray.types.keys import ColumnKey
from flinkray.types.records import OutputTag
from flinkray.types.rows import Row, RowKind
from flinkray.windows.aggregates import Count
from flinkray.windows.assigners import TumblingEventTimeWindows
from graphs.compiler.stream_graph_generator import generate_stream_graph
from graphs.passes import Plan, run_passes
from tests.support.graphs import DiscardingSink, Program, node_named

CHANGES = [Row.of_kind(RowKind.INSERT, k="a", n=1), Row.of_kind(RowKind.DELETE, k="a", n=1)]


class UpsertSink(Sink):
    """For graphs only."""

    def __init__(self, *key_columns: str) -> None:
        self._key_columns = key_columns

    @property
    def accepts(self) -> ChangelogMode:
        return ChangelogMode.UPSERT

    @property
    def key_columns(self) -> tuple[str, ...]:
        return self._key_columns

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        raise AssertionError("graphs make no writers")


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment(Configuration({"parallelism.default": 2}))


@pytest.fixture
def changes(env: StreamExecutionEnvironment) -> DataStream:
    """A changelog, spread by its key."""
    return env.from_collection(CHANGES).key_by("k").map(lambda row: row)


def plan(env: StreamExecutionEnvironment) -> Plan:
    pipeline: Pipeline = env._pipeline("program", should_prepare=False)
    return run_passes(generate_stream_graph(pipeline))


def is_changelog(found: Plan) -> list[bool]:
    """Whether each sink is told that it gets a changelog."""
    factories = [found.graph.nodes[node].factory for node in found.graph.sink_ids]
    return [factory.is_changelog for factory in factories if isinstance(factory, SinkFactory)]


def test_a_changelog_goes_on_through_operators_that_keep_kinds(
    env: StreamExecutionEnvironment, changes: DataStream
) -> None:
    inserts = env.from_collection([Row(k="b", n=2)]).key_by("k").map(lambda row: row)
    changes.where(col("n") > 0).rename(n="m").print()
    changes.get_side_output(OutputTag("bad")).print()
    inserts.union(changes).print()
    changes.rebalance().print()  # on purpose
    inserts.print()
    changes.kinds_as_column("op").print()
    inserts.with_columns(op=col("k")).as_changelog("op").print()
    assert is_changelog(plan(env)) == [True, True, True, True, False, False, True]


def refused(env: StreamExecutionEnvironment) -> str:
    with pytest.raises(InvalidProgramError) as error:
        plan(env)
    return str(error.value)


def _iterated(stream: DataStream) -> DataStream:
    loop = stream.iterate()
    loop.close_with(loop.filter(lambda row: row.n < 0))
    return loop


@pytest.mark.parametrize(
    ("add", "name"),
    [
        (lambda stream: stream.key_by("k").sum("n"), "Keyed Aggregation"),
        (lambda stream: stream.key_by("k").reduce(lambda first, _second: first), "Keyed Reduce"),
        (lambda stream: stream.process(lambda value, _ctx: [value]), "Process"),
        (lambda stream: stream.key_by("k").process(lambda value, _ctx: [value]), "KeyedProcess"),
        (
            lambda stream: stream.key_by("k").window(TumblingEventTimeWindows.of("1 s")).aggregate(n=Count()),
            "Window",
        ),
        (_iterated, "Iteration Input"),
    ],
)
def test_an_operator_that_does_not_know_kinds_is_refused_by_name(
    env: StreamExecutionEnvironment, changes: DataStream, add: Callable[[DataStream], DataStream], name: str
) -> None:
    add(changes).print()
    message = refused(env)
    assert name in message
    assert "which begins at 'Source: Collection'" in message
    assert "kinds_as_column('op') before it" in message


def test_an_operator_is_refused_for_any_of_its_inputs() -> None:
    program = Program()
    source = program.source(source=CollectionSource(CHANGES), parallelism=1)
    other = program.source("Source: other")
    program.sink(program.co_map(other, source))
    with pytest.raises(InvalidProgramError, match="'co_map': its input is a changelog"):
        program.plan()


def test_calls_whose_results_are_not_ordered_are_refused(env: StreamExecutionEnvironment, changes: DataStream) -> None:
    changes.async_map(lambda row: row).print()
    assert is_changelog(plan(env)) == [True]
    changes.async_map(lambda row: row, ordered=False).print()
    assert "'Async Map': its input is a changelog" in (message := refused(env))
    assert "ordered=True" in message


def test_a_changelog_cannot_begin_twice(env: StreamExecutionEnvironment, changes: DataStream) -> None:
    changes.with_columns(op=col("k")).as_changelog("op").print()
    assert "'As Changelog': its input is a changelog, which begins at 'Source: Collection'" in refused(env)


@pytest.mark.parametrize("sink", [FileSink("/nowhere"), DiscardingSink()])
def test_a_sink_that_takes_inserts_only_is_refused(
    env: StreamExecutionEnvironment, changes: DataStream, sink: Sink
) -> None:
    changes.sink_to(sink).name("Sink: mine")
    message = refused(env)
    assert "'Sink: mine': its input is a changelog" in message
    assert f"{type(sink).__name__} takes inserts only. Use a sink that accepts changelogs" in message
    changes.kinds_as_column("op").sink_to(sink)


def test_functions_as_sinks_take_inserts_only(env: StreamExecutionEnvironment, changes: DataStream) -> None:
    changes.add_sink(print)
    assert "takes inserts only" in refused(env)


def messages(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([b"{}"])


def test_a_changelog_begins_and_ends_where_messages_say_what_rows_do(env: StreamExecutionEnvironment) -> None:
    bad = OutputTag("bad")
    decoded = messages(env).decode(DebeziumJsonFormat({"k": str}), bad_messages=bad)
    spread = decoded.key_by("k").map(lambda row: row)
    spread.print()
    spread.encode(JsonFormat()).print()
    decoded.encode(DebeziumJsonFormat()).sink_to(DiscardingSink()).set_parallelism(2)
    decoded.get_side_output(bad).sink_to(DiscardingSink())
    found = plan(env)
    assert is_changelog(found) == [True, True, False, False]
    parallelism = [node.parallelism for node in found.graph.nodes.values() if node.name in ("Decode", "Encode")]
    assert parallelism == [1, 2, 1]


def test_messages_of_a_changelog_cannot_be_read_as_another(env: StreamExecutionEnvironment) -> None:
    decoded = messages(env).decode(DebeziumJsonFormat({"value": str}))
    decoded.decode(DebeziumJsonFormat({"k": str})).print()
    assert "'Decode': its input is a changelog, which begins at 'Decode', and it makes one of inserts" in refused(env)


@pytest.mark.parametrize(
    ("sink", "takes"),
    [
        (KafkaSink("host:1", "t", JsonFormat(), key="k", upsert=True), True),
        (KafkaSink("host:1", "t", DebeziumJsonFormat()), True),
        (KafkaSink("host:1", "t", JsonFormat(), key="k"), False),
    ],
)
def test_a_sink_of_kafka_takes_a_changelog_where_messages_can_say_it(
    env: StreamExecutionEnvironment, sink: Sink, takes: bool
) -> None:
    values = JsonFormat({"k": str})
    source = KafkaSource("host:1", ["t"], values, key="k", upsert=True)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "table").sink_to(sink)
    if takes:
        assert is_changelog(plan(env)) == [True]
    else:
        assert "which begins at 'Source: table', and KafkaSink takes inserts only" in refused(env)


def test_sinks_that_take_all_are_told_that_it_is_a_changelog(
    env: StreamExecutionEnvironment, changes: DataStream
) -> None:
    changes.sink_to(DiscardSink())
    changes.sink_to(UpsertSink("k"))
    assert is_changelog(plan(env)) == [True, True]


def test_what_the_passes_find_does_not_change_the_program(env: StreamExecutionEnvironment, changes: DataStream) -> None:
    changes.print()
    graph = generate_stream_graph(env._pipeline("program", should_prepare=False))
    run_passes(graph)
    factories = [graph.nodes[node].factory for node in graph.sink_ids]
    assert [factory.is_changelog for factory in factories if isinstance(factory, SinkFactory)] == [False]


# -- order -------------------------------------------------------------------------------------------------------


def test_a_changelog_is_not_spread_where_the_program_does_not_say_how(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection(CHANGES)
    stream.map(lambda row: row).name("twice").print()
    message = refused(env)
    assert "'twice' has parallelism 2 and gets a changelog from 'Source: Collection', which has 1" in message
    assert "key_by" in message


def test_a_changelog_may_be_brought_together(env: StreamExecutionEnvironment, changes: DataStream) -> None:
    changes.print().set_parallelism(1)
    assert is_changelog(plan(env)) == [True]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_rows_reach_a_sink_by_its_key_columns_where_the_parallelism_changes(
    env: StreamExecutionEnvironment, parallelism: int
) -> None:
    env.from_collection(CHANGES).sink_to(UpsertSink("k")).set_parallelism(parallelism)
    env.from_collection([1]).sink_to(DiscardSink()).name("others").set_parallelism(2)
    found = plan(env).graph
    (edge,) = node_named(found, "Sink: Unnamed").in_edges
    if parallelism == 1:
        assert isinstance(edge.partitioner, ForwardPartitioner)
    else:
        assert edge.partitioner == KeyGroupPartitioner(ColumnKey(("k",)), 128)
    (edge,) = node_named(found, "Sink: others").in_edges
    assert isinstance(edge.partitioner, RebalancePartitioner)


def test_key_columns_are_checked_when_the_sink_is_added(changes: DataStream, env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match="UpsertSink accepts upserts, so it must have key_columns"):
        changes.sink_to(UpsertSink())
    with pytest.raises(UnknownColumnError, match="'key'"):
        env.from_collection(CHANGES).sink_to(UpsertSink("key"))


# -- what is known of the columns ---------------------------------------------------------------------------------


def test_columns_are_known_before_and_behind_a_changelog(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([Row(op="+I", k="a", n=1)])
    changelog = stream.as_changelog("op")
    assert changelog._known.columns == ("k", "n")
    named = changelog.kinds_as_column("what")
    assert named.record_type is not None
    assert str(named.record_type) == "row<k: string, n: int64, what: string>"
    assert stream.map(lambda row: row).kinds_as_column("what").record_type is None
    with pytest.raises(UnknownColumnError, match="'kind'"):
        stream.as_changelog("kind")
    with pytest.raises(InvalidProgramError, match="no column but 'op'"):
        env.from_collection([Row(op="+I")]).as_changelog()
    with pytest.raises(InvalidProgramError, match="two columns named 'k'"):
        changelog.kinds_as_column("k")
