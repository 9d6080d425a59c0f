"""Programs built from transformations, for tests of the compiler that need what the API does not offer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinkray.config.configuration import Configuration
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.connectors.source import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.execution import Pipeline
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.transformations.operator_factories import (
    CoMapFactory,
    MapFactory,
    MultipleInputFactory,
    OperatorFactory,
    SinkFactory,
    SourceFactory,
)
from flinkray.transformations.partitioning import ForwardPartitioner, KeyGroupPartitioner, Partitioner
from flinkray.transformations.transformation import (
    PartitionTransformation,
    PhysicalTransformation,
    SideOutputTransformation,
    Transformation,
    UnionTransformation,
)
from flinkray.types.keys import ColumnKey
from flinkray.types.records import JobId, OutputTag
from graphs.compiler.job_graph_generator import generate_job_graph
from graphs.compiler.stream_graph_generator import generate_stream_graph
from graphs.execution_graph import ExecutionGraph
from graphs.job_graph import JobGraph, JobVertex
from graphs.passes import Plan, run_passes
from graphs.stream_graph import StreamGraph, StreamNode


class NumberSource(Source):
    """A source for graphs only: none of its parts can be made."""

    def __init__(self, start: int = 0) -> None:
        self.start = start

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        raise AssertionError("graphs make no enumerators")

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        raise AssertionError("graphs make no readers")


class DiscardingSink(Sink):
    """A sink for graphs only."""

    def __init__(self, needs_coordinator: bool = False) -> None:
        self.needs_coordinator = needs_coordinator

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        raise AssertionError("graphs make no writers")


class Program:
    """Collects transformations; every call gives one, which later calls take as input. Settings are keywords."""

    def __init__(self, options: dict[str, object] | None = None, name: str = "program") -> None:
        self.configuration = Configuration(options)
        self.name = name
        self.registered: list[Transformation] = []

    def operator(
        self, name: str, factory: OperatorFactory, *inputs: Transformation, **settings: Any
    ) -> PhysicalTransformation:
        transformation = PhysicalTransformation(name=name, factory=factory, input_transformations=inputs, **settings)
        self.registered.append(transformation)
        return transformation

    def source(self, name: str = "Source: numbers", source: Source | None = None, **settings: Any) -> Transformation:
        factory = SourceFactory(source or NumberSource(), WatermarkStrategy.no_watermarks())
        return self.operator(name, factory, **settings)

    def map(
        self, upstream: Transformation, name: str = "map", function: Callable[[Any], Any] = str, **settings: Any
    ) -> PhysicalTransformation:
        return self.operator(name, MapFactory(function), upstream, **settings)

    def co_map(self, first: Transformation, second: Transformation, name: str = "co_map", **settings: Any) -> Any:
        return self.operator(name, CoMapFactory(None), first, second, **settings)  # type: ignore[arg-type]

    def multiple(self, name: str, *inputs: Transformation, **settings: Any) -> PhysicalTransformation:
        return self.operator(name, MultipleInputFactory(print, len(inputs)), *inputs, **settings)

    def sink(self, upstream: Transformation, name: str = "Sink: out", **settings: Any) -> PhysicalTransformation:
        return self.operator(name, SinkFactory(DiscardingSink()), upstream, **settings)

    def union(self, *inputs: Transformation) -> Transformation:
        return UnionTransformation(name="union", union_inputs=inputs)

    def partition(self, upstream: Transformation, partitioner: Partitioner, mode: str = "UNDEFINED") -> Transformation:
        return PartitionTransformation(name="partition", input=upstream, partitioner=partitioner, exchange_mode=mode)

    def forward(self, upstream: Transformation, mode: str = "UNDEFINED") -> Transformation:
        return self.partition(upstream, ForwardPartitioner(), mode)

    def key_by(self, upstream: Transformation, *columns: str) -> Transformation:
        return self.partition(upstream, KeyGroupPartitioner(ColumnKey(columns)))

    def side(self, upstream: Transformation, tag: str) -> Transformation:
        return SideOutputTransformation(name="side output", input=upstream, tag=OutputTag(tag))

    @property
    def pipeline(self) -> Pipeline:
        return Pipeline(self.name, tuple(self.registered), self.configuration)

    def stream_graph(self) -> StreamGraph:
        return generate_stream_graph(self.pipeline)

    def plan(self) -> Plan:
        return run_passes(self.stream_graph())

    def job_graph(self) -> JobGraph:
        return generate_job_graph(self.pipeline, JobId("job"))

    def execution_graph(self) -> ExecutionGraph:
        return ExecutionGraph.from_job_graph(self.job_graph())


def node_named(graph: StreamGraph, name: str) -> StreamNode:
    (found,) = [node for node in graph.nodes.values() if node.name == name]
    return found


def vertex_named(graph: JobGraph, name: str) -> JobVertex:
    (found,) = [vertex for vertex in graph.vertices if vertex.name == name]
    return found


def vertex_names(graph: JobGraph) -> list[str]:
    return [vertex.name for vertex in graph.vertices]


def ids_by_name(graph: JobGraph) -> dict[str, str]:
    return {operator.name: operator.operator_id for vertex in graph.vertices for operator in vertex.operators}
