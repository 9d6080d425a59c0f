"""What batch mode settles when a program is compiled."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from flinkray import Configuration, InvalidProgramError, StreamExecutionEnvironment, WatermarkStrategy
from flinkray.config.options import CHECKPOINT_INTERVAL, RUNTIME_MODE
from flinkray.connectors.source import Boundedness
from flinkray.transformations.operator_factories import ChainingStrategy, SourceFactory
from graphs.compiler.stream_graph_generator import generate_stream_graph
from graphs.job_graph import ResultPartitionType
from graphs.stream_graph import GlobalExchangeMode, StreamGraph
from tests.support.graphs import NumberSource, Program


class EndlessSource(NumberSource):
    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.UNBOUNDED


def program(source: NumberSource | None = None, **options: Any) -> Program:
    built = Program({"parallelism.default": 2, "execution.runtime-mode": "batch", **options})
    built.sink(built.map(built.key_by(built.source(source=source or NumberSource()), "k"), "count"))
    return built


def stream_graph(built: Program) -> StreamGraph:
    return generate_stream_graph(built.pipeline)


def result_types(built: Program) -> list[ResultPartitionType]:
    return [result.result_type for vertex in built.job_graph().vertices for result in vertex.results]


def test_all_exchanges_of_a_batch_program_are_blocking() -> None:
    assert stream_graph(program()).global_exchange_mode is GlobalExchangeMode.ALL_EDGES_BLOCKING
    assert result_types(program()) == [ResultPartitionType.BLOCKING]
    assert program().job_graph().is_batch


def test_exchanges_of_a_batch_program_can_be_pipelined() -> None:
    options = {"execution.batch-shuffle-mode": "ALL_EXCHANGES_PIPELINED"}
    assert result_types(program(**options)) == [ResultPartitionType.PIPELINED_BOUNDED]


def test_a_streaming_program_is_as_ever() -> None:
    graph = stream_graph(program(**{"execution.runtime-mode": "streaming"}))
    assert (graph.is_batch, graph.global_exchange_mode) == (False, GlobalExchangeMode.ALL_EDGES_PIPELINED)


@pytest.mark.parametrize(("source", "is_batch"), [(NumberSource(), True), (EndlessSource(), False)])
def test_automatic_is_batch_exactly_if_all_sources_end(source: NumberSource, is_batch: bool) -> None:
    graph = stream_graph(program(source, **{"execution.runtime-mode": "automatic"}))
    assert graph.is_batch is is_batch
    assert graph.configuration.get(RUNTIME_MODE) == ("batch" if is_batch else "streaming")


def test_batch_with_a_source_that_does_not_end_names_it() -> None:
    with pytest.raises(InvalidProgramError, match=r"batch mode needs sources that end, and 'Source: numbers' does not"):
        stream_graph(program(EndlessSource()))


def test_checkpoints_are_off_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        graph = stream_graph(program(**{"execution.checkpointing.interval": 1_000}))
    assert graph.configuration.get(CHECKPOINT_INTERVAL) == 0
    assert "neither supported nor needed" in caplog.text
    assert not program(**{"execution.checkpointing.interval": 1_000}).job_graph().checkpoint_settings.is_periodic


def test_a_batch_program_does_not_start_from_a_savepoint() -> None:
    with pytest.raises(InvalidProgramError, match="has no checkpoints, and cannot start from one"):
        stream_graph(program(**{"execution.state-recovery.path": "/savepoints/1"}))


def test_rows_keep_their_event_time_and_nothing_makes_watermarks() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.runtime-mode": "batch"}))
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(5).with_timestamp_assigner("at").with_idleness(10)
    env.from_collection([{"at": 1}], watermark_strategy=strategy).print()
    (source,) = [
        node.factory for node in stream_graph_of(env).nodes.values() if isinstance(node.factory, SourceFactory)
    ]
    assert source.watermark_strategy == WatermarkStrategy.no_watermarks().with_timestamp_assigner("at")


def stream_graph_of(env: StreamExecutionEnvironment) -> StreamGraph:
    return generate_stream_graph(env._pipeline("test", should_prepare=False))


def test_an_operator_whose_input_is_sorted_heads_its_chain() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.runtime-mode": "batch"}))
    env.from_collection([(1, 2)]).key_by(lambda row: row[0]).sum(1).print()
    keyed = [node for node in stream_graph_of(env).nodes.values() if any(key is not None for key in node.keys)]
    assert [node.chaining_strategy for node in keyed] == [ChainingStrategy.HEAD]
