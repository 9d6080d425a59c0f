"""DataStream: what a program is made of. Each operation gives a new stream, and the old one can be used again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn, overload

from flinkray.connectors.functions.sink import SinkFunctionSink
from flinkray.connectors.print.sink import PrintSink
from flinkray.connectors.sink import Sink
from flinkray.errors import InvalidProgramError
from flinkray.expressions.tree import Column, Expression
from flinkray.functions.asynchronous import NO_RETRY_STRATEGY, AsyncFunction, AsyncRetryStrategy
from flinkray.functions.checks import check_function, check_returns, checked_tag
from flinkray.functions.closures import check_serializable
from flinkray.functions.interfaces import (
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedProcessFunction,
    MapFunction,
    ProcessContext,
    ProcessFunction,
    SinkFunction,
    as_callable,
)
from flinkray.functions.type_hints import record_type
from flinkray.state.descriptors import MapStateDescriptor
from flinkray.streams.checks.functions import async_factory, check_watermark_strategy, declared_type, missing_operation
from flinkray.streams.checks.known_types import UNKNOWN, KnownType, check_same_types
from flinkray.streams.checks.windows import check_assigner, count_assigner
from flinkray.streams.column_operations import ColumnOperations
from flinkray.streams.results import Program, StreamResults
from flinkray.streams.settings.data_stream_sink import DataStreamSink
from flinkray.streams.settings.operator_settings import OperatorSettings
from flinkray.time.durations import Duration, to_millis
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.transformations.operator_factories import (
    OBJECTS_IN_ARROW,
    AsChangelogFactory,
    AsyncFactory,
    DecodeFactory,
    DropFactory,
    EncodeFactory,
    FilterFactory,
    FlatMapFactory,
    KindsAsColumnFactory,
    MapBatchesFactory,
    MapFactory,
    OperatorFactory,
    ProcessFactory,
    ProjectFactory,
    RenameFactory,
    SinkFactory,
    TimestampsAndWatermarksFactory,
    WhereFactory,
)
from flinkray.transformations.partitioning import (
    BroadcastPartitioner,
    CustomPartitioner,
    ForwardPartitioner,
    GlobalPartitioner,
    Partitioner,
    RebalancePartitioner,
    RescalePartitioner,
    ShufflePartitioner,
)
from flinkray.transformations.transformation import (
    PartitionTransformation,
    PhysicalTransformation,
    SideOutputTransformation,
    Transformation,
    UnionTransformation,
)
from flinkray.types.changelogs import ChangelogMode
from flinkray.types.keys import ColumnKey, FunctionKey, KeySelector
from flinkray.types.records import Kind, OutputTag, RecordType
from flinkray.types.type_info import TypeInformation
from flinkray.windows.assigners import WindowAssigner

if TYPE_CHECKING:
    from flinkray.streams.all_windowed_stream import AllWindowedStream
    from flinkray.streams.connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
    from flinkray.streams.iterations import IterativeStream
    from flinkray.streams.joined_streams import CoGroupedStreams, JoinedStreams
    from flinkray.streams.keyed_stream import KeyedStream

KeyFunction = Callable[[Any], Any] | Function
BATCH_FORMATS = ("pyarrow", "pandas", "numpy")


class DataStream(OperatorSettings, ColumnOperations, StreamResults):
    """A stream of records of one type. Made by an environment's sources, and by operations on streams.

    `output_type=` of an operation is anything that `flinkray.functions.type_hints.record_type` takes: a pa.Schema,
    a dataclass, a list of types, an Arrow or Python type, or one of `Types`. Without it the function's return
    annotation counts, else the first batch of results decides.
    """

    def __init__(self, environment: Program, transformation: Transformation, known: KnownType = UNKNOWN) -> None:
        self._environment = environment
        self._transformation = transformation
        self._known = known

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._transformation.name!r}>"

    @property
    def record_type(self) -> RecordType | None:
        """The type of its records; None: the first batch decides, or the columns are known without their types."""
        return self._known.record_type

    # -- row functions

    def map(self, function: MapFunction | Callable[[Any], Any], output_type: Any = None) -> DataStream:
        """One value out for each value in: `function(value)`, in order.

        Raises:
            InvalidProgramError: the function cannot be called with one value.
            NotSerializableError: it cannot be shipped, for example as it holds a connection.
        """
        declared = declared_type(function, "map", output_type)
        return self._one_input("Map", MapFactory(function, declared), KnownType.of(declared))

    def flat_map(
        self, function: FlatMapFunction | Callable[[Any], Iterable[Any] | None], output_type: Any = None
    ) -> DataStream:
        """Any number of values out for each value in, in order: the function is a generator, or returns an iterable or
        None.

        Raises: as `map`.
        """
        declared = declared_type(function, "flat_map", output_type, of_items=True)
        return self._one_input("Flat Map", FlatMapFactory(function, declared), KnownType.of(declared))

    def filter(self, function: FilterFunction | Callable[[Any], bool]) -> DataStream:
        """The values for which `function(value)` is true, in order. `where` does the same with a column expression, and
        is faster."""
        check_function(function, "filter")
        return self._one_input("Filter", FilterFactory(function), self._known)

    def process(
        self, function: ProcessFunction | Callable[[Any, ProcessContext], Any], output_type: Any = None
    ) -> DataStream:
        """What `function(value, context)` yields for each value: results, and `tag, value` for side outputs.

        Args:
            function: a generator function, a ProcessFunction, or on a keyed stream a KeyedProcessFunction, which has
                state and timers of the key.
        Raises: as `map`.
        """
        if isinstance(function, KeyedProcessFunction) and self._key is None:
            raise InvalidProgramError(
                f"{type(function).__name__} is a KeyedProcessFunction: key the stream first, key_by(...).process(...)"
            )
        declared = declared_type(function, "process_element", output_type, of_items=True)
        return self._one_input(self._process_name, ProcessFactory(function, declared), KnownType.of(declared))

    def map_batches(
        self,
        function: Callable[[Any], Any] | type[Any],
        batch_format: str = "pyarrow",
        output_type: Any = None,
    ) -> DataStream:
        """Whole batches into a function: the fast way for numpy, pandas, pyarrow and torch code.

        Args:
            function: gets and gives a pa.RecordBatch ("pyarrow"), DataFrame ("pandas") or dict of name -> array
                ("numpy"), after Ray Data's convention; or a class of such callables, made once per subtask, also with
                arguments: `functools.partial(Model, "large")`. It may give any of these, or what else has the Arrow
                stream interface (Polars), and fewer or more rows than it got: then each has the batch's highest event
                time. Values that Arrow cannot hold come in a column `value` of objects, of a DataFrame or array; as
                "pyarrow" they do not come.
            output_type: the columns that the results have, to which they are cast.
        """
        if batch_format not in BATCH_FORMATS:
            raise InvalidProgramError(f"batch_format is one of {', '.join(BATCH_FORMATS)}, not {batch_format!r}")
        if not callable(function):
            raise InvalidProgramError(f"map_batches takes a callable or a class of callables, not {function!r}")
        check_returns(function, "map_batches")
        declared = None if output_type is None else record_type(output_type)
        if declared is not None and declared.kind is Kind.OBJECT:
            raise InvalidProgramError(
                "map_batches gives columns, not objects: use map(..., output_type=object) for these"
            )
        given = self.record_type
        if given is not None and given.kind is Kind.OBJECT and batch_format == "pyarrow":
            raise InvalidProgramError(f"Map Batches: {OBJECTS_IN_ARROW}")
        return self._one_input(
            "Map Batches", MapBatchesFactory(function, batch_format, declared), KnownType.of(declared)
        )

    def async_map(
        self,
        function: AsyncFunction | Callable[[Any], Any],
        capacity: int = 100,
        timeout: Duration = 60_000,
        ordered: bool = True,
        output_type: Any = None,
        retry_strategy: AsyncRetryStrategy = NO_RETRY_STRATEGY,
    ) -> DataStream:
        """Many calls at once, of a function that waits for another system. See also `AsyncDataStream`.

        Args:
            function: `async def`, run on an event loop of the subtask's own; or a plain function that blocks, run on
                at most 32 threads (and `capacity`) per subtask, which must expect to be called by several at once. It
                gives one value, or a list of any number of them; an AsyncFunction always gives a list.
            capacity: how many rows may be under way at most, in each subtask; then the input waits.
            timeout: how long a row may take, with all its attempts (an int counts milliseconds); then the job fails, or
                an AsyncFunction's `timeout` gives the results. 0: for ever. A coroutine is cancelled then; a call that
                blocks keeps its thread until it returns, and its result is ignored.
            ordered: results in the order of their rows; False: as they come, but never across a watermark.
            retry_strategy: when a call is made again.
        """
        name = "Async Map"
        factory = async_factory(name, function, timeout, retry_strategy, capacity, output_type, is_ordered=ordered)
        return self._one_input(name, factory, KnownType.of(factory.output_type))

    if not TYPE_CHECKING:  # type checkers know what there is

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(missing_operation(type(self).__name__, name))

    # -- several streams

    def union(self, *streams: DataStream) -> DataStream:
        """The records of this stream and the others, in no particular order. All must have the same columns; where
        their types differ in width or layout (int32 and int64), the union has the type that holds both.

        Raises:
            InvalidProgramError: two of them are known to have different types, or come from different environments.
        """
        united = (self, *streams)
        for stream in streams:
            self._require_same_environment(stream, "union")
        known = check_same_types([stream._known for stream in united])
        inputs = tuple(stream._transformation for stream in united)
        return DataStream(self._environment, UnionTransformation(name="Union", union_inputs=inputs), known)

    def sql(self, query: str, /, **streams: DataStream) -> DataStream:
        """The rows of a query of Flink SQL over this stream, which is called `self` in it:
        `stream.sql("SELECT origin, delay / 60 AS hours FROM self WHERE delay > 0")`.

        Args:
            streams: other streams by the names that the query has for them.
        Raises:
            SqlError: the query is wrong, or cannot be executed yet; shows where.
            InvalidProgramError: the types of a stream's columns are not known.
        """
        # With the front end of SQL, which few programs need.
        from flinkray.tables.lowering.queries import options_of, planned

        named = {"self": self, **streams}
        for stream in named.values():
            self._require_same_environment(stream, "sql")
        tables = {name: (stream._transformation, stream.record_type) for name, stream in named.items()}
        transformation, record_type = planned(query, tables, options_of(self._environment._configuration))
        return DataStream(self._environment, transformation, KnownType.of(record_type))

    def iterate(self, max_wait: Duration = 5_000) -> IterativeStream:
        """The beginning of a loop: these records, and those that the result's `close_with` sends back here.

        Args:
            max_wait: the loop ends when this stream has ended and nothing has come back for that long. A row must not
                take longer through the loop; every exchange in it may take `execution.buffer-timeout.interval`.
        """
        from flinkray.streams.iterations import IterativeStream  # which itself needs DataStream

        return IterativeStream(self, to_millis(max_wait, "max_wait"))

    @overload
    def connect(self, other: DataStream) -> ConnectedStreams: ...

    @overload
    def connect(self, other: BroadcastStream) -> BroadcastConnectedStream: ...

    def connect(self, other: DataStream | BroadcastStream) -> ConnectedStreams | BroadcastConnectedStream:
        """Two streams, of any types, for one operator that shares state between them. With a broadcast stream that has
        states, these are the same in every subtask: `stream.connect(rules.broadcast(descriptor))`."""
        from flinkray.streams.connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams

        if isinstance(other, BroadcastStream):
            self._require_same_environment(other._stream, "connect")
            return BroadcastConnectedStream(self, other)
        self._require_same_environment(other, "connect")
        return ConnectedStreams(self, other)

    def join(self, other: DataStream) -> JoinedStreams:
        """Pairs of records with the same key in the same window: `.where(k).equal_to(k).window(w).apply(function)`."""
        from flinkray.streams.joined_streams import JoinedStreams

        self._require_same_environment(other, "join")
        return JoinedStreams(self, other)

    def co_group(self, other: DataStream) -> CoGroupedStreams:
        """All records of both streams with the same key in the same window: as `join`, but also where one has none."""
        from flinkray.streams.joined_streams import CoGroupedStreams

        self._require_same_environment(other, "co_group")
        return CoGroupedStreams(self, other)

    def get_side_output(self, tag: OutputTag) -> DataStream:
        """The records that the operator before gives to a side output: what it yields as `tag, value`.

        Raises:
            InvalidProgramError: this stream is not that of an operator.
        """
        self._operator("get_side_output")
        checked_tag(tag, "get_side_output")
        declared = None if tag.output_type is None else record_type(tag.output_type)
        side = SideOutputTransformation(name=f"Side Output {tag.name}", input=self._transformation, tag=tag)
        return DataStream(self._environment, side, KnownType.of(declared))

    # -- time

    def assign_timestamps_and_watermarks(self, strategy: WatermarkStrategy) -> DataStream:
        """The same records with event times and watermarks by that strategy, in place of those that they had."""
        check_watermark_strategy(strategy, self._known)
        return self._one_input("Timestamps/Watermarks", TimestampsAndWatermarksFactory(strategy), self._known)

    # -- windows over all records

    def window_all(self, assigner: WindowAssigner) -> AllWindowedStream:
        """All records in windows, in one subtask. `key_by(...).window(...)` has windows per key, in all subtasks."""
        from flinkray.streams.all_windowed_stream import AllWindowedStream  # which itself needs DataStream

        return AllWindowedStream(self, check_assigner(assigner))

    def count_window_all(self, size: int, slide: int | None = None) -> AllWindowedStream:
        """All records in windows of `size` of them: one after another, or one beginning every `slide` records."""
        from flinkray.streams.all_windowed_stream import AllWindowedStream

        return AllWindowedStream(self, count_assigner(size, slide))

    # -- partitioning

    def key_by(self, *keys: str | KeyFunction | Expression | TypeInformation, key_type: Any = None) -> KeyedStream:
        """Partitions by key: all records of a key go to the same subtask, in order.

        Args:
            keys: one or more column names; or one function of the record that gives a hashable key: a number, text,
                bytes, a time, a UUID, or a tuple or dataclass of them (which comes back as a Row). Columns are hashed
                as columns, with no Python per row.
            key_type: the type of what the function gives, as `output_type=`.
        Raises:
            UnknownColumnError: a column that the stream is known not to have.
        """
        from flinkray.streams.keyed_stream import KeyedStream

        if len(keys) == 2 and key_type is None and isinstance(keys[-1], TypeInformation):
            keys, key_type = keys[:-1], keys[-1]  # PyFlink's second argument is the type
        return KeyedStream(self, self._key_selector("key_by", keys, key_type))

    def forward(self) -> DataStream:
        """Sends to the subtask of the same index of the next operator, which must have the same parallelism."""
        return self._partitioned(ForwardPartitioner())

    def rebalance(self) -> DataStream:
        """Sends batches to all subtasks of the next operator in turn."""
        return self._partitioned(RebalancePartitioner())

    def rescale(self) -> DataStream:
        """Sends batches in turn to those subtasks of the next operator that belong to each sender, which keeps data
        near."""
        return self._partitioned(RescalePartitioner())

    def shuffle(self) -> DataStream:
        """Sends each row to a random subtask of the next operator."""
        return self._partitioned(ShufflePartitioner())

    def global_(self) -> DataStream:
        """Sends everything to the first subtask of the next operator."""
        return self._partitioned(GlobalPartitioner())

    @overload
    def broadcast(self) -> DataStream: ...

    @overload
    def broadcast(self, descriptor: MapStateDescriptor, /, *descriptors: MapStateDescriptor) -> BroadcastStream: ...

    def broadcast(self, *descriptors: MapStateDescriptor) -> DataStream | BroadcastStream:
        """Sends every record to every subtask of the next operator.

        With descriptors it gives a BroadcastStream, to make broadcast state of: `stream.connect(rules.broadcast(d))`.
        """
        from flinkray.streams.connected_streams import BroadcastStream

        return BroadcastStream(self, descriptors) if descriptors else self._partitioned(BroadcastPartitioner())

    def partition_custom(self, partitioner: Callable[[Any, int], int], key_selector: str | KeyFunction) -> DataStream:
        """Sends each record to the subtask of the next operator whose index `partitioner(key, parallelism)` gives.

        Args:
            key_selector: a column name, or a function of the record.
        """
        if not callable(partitioner):
            raise InvalidProgramError(
                f"partition_custom takes a function (key, channels) -> channel, not {partitioner!r}"
            )
        check_returns(partitioner, "partition_custom")
        check_serializable(partitioner, "partition_custom")
        selector = self._key_selector("partition_custom", (key_selector,), None)
        return self._partitioned(CustomPartitioner(partitioner, selector))

    # -- sinks

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Writes the stream to a sink. Gives the sink's operator, for settings such as its name.

        Raises:
            InvalidProgramError: it is no Sink, or accepts upserts without key columns.
            UnknownColumnError: its key columns are none of the stream's.
        """
        if not isinstance(sink, Sink):
            raise InvalidProgramError(f"sink_to takes a Sink, not {sink!r}; add_sink takes functions")
        if sink.accepts is ChangelogMode.UPSERT and not sink.key_columns:
            raise InvalidProgramError(f"sink_to: {type(sink).__name__} accepts upserts, so it must have key_columns")
        self._known.require(sink.key_columns, "sink_to")
        added = self._sink(SinkFactory(sink), "Sink: Unnamed")
        return added if sink.is_parallel else added.set_parallelism(1)

    def add_sink(self, function: SinkFunction | Callable[[Any], Any]) -> DataStreamSink:
        """Calls `function(value)` for each value, in the tasks. After a failure values may come again.

        Raises:
            InvalidProgramError: it cannot be called.
            NotSerializableError: it cannot be shipped.
        """
        sink = SinkFunctionSink(function)
        check_returns(function, "invoke")
        check_serializable(function, "Sink: Unnamed")
        return self._sink(SinkFactory(sink), "Sink: Unnamed")

    def print(self, sink_identifier: str = "") -> DataStreamSink:
        """Writes each value to the standard output of the process that the task runs in.

        Args:
            sink_identifier: what lines begin with; "identifier:subtask> value" where there are several subtasks.
        """
        return self._sink(SinkFactory(PrintSink(sink_identifier)), "Sink: Print to Std. Out")

    # -- what subclasses and the rest of the API build on

    @property
    def _key(self) -> KeySelector | None:
        return None

    @property
    def _without_key(self) -> DataStream:
        return self

    @property
    def _process_name(self) -> str:
        return "Process"

    def _operator(self, setting: str) -> PhysicalTransformation:
        if isinstance(self._transformation, PhysicalTransformation):
            return self._transformation
        raise InvalidProgramError(
            f"{setting} is a setting of an operator, and {self._transformation.name!r} is none: it only says how "
            "records travel. Call it on the stream before, or on the one after"
        )

    def _one_input(self, name: str, factory: OperatorFactory, known: KnownType) -> DataStream:
        """The stream of a new operator on this stream."""
        keys = (self._key,) if self._key is not None and _may_use_key(factory) else ()
        return self._added(name, factory, (self._transformation,), keys, known)

    def _two_inputs(
        self,
        second: DataStream,
        name: str,
        factory: OperatorFactory,
        keys: tuple[KeySelector | None, ...],
        known: KnownType,
    ) -> DataStream:
        """The stream of a new operator on this stream and a second one."""
        return self._added(name, factory, (self._transformation, second._transformation), keys, known)

    def _added(
        self,
        name: str,
        factory: OperatorFactory,
        inputs: tuple[Transformation, ...],
        keys: tuple[KeySelector | None, ...],
        known: KnownType,
    ) -> DataStream:
        for function in factory.user_functions:
            check_serializable(function, name)
        transformation = PhysicalTransformation(name=name, factory=factory, input_transformations=inputs, keys=keys)
        self._environment._register(transformation)
        return DataStream(self._environment, transformation, known)

    def _sink(self, factory: SinkFactory, name: str) -> DataStreamSink:
        transformation = PhysicalTransformation(
            name=name, factory=factory, input_transformations=(self._transformation,)
        )
        self._environment._register(transformation)
        return DataStreamSink(transformation)

    def _partitioned(self, partitioner: Partitioner) -> DataStream:
        partition = PartitionTransformation(
            name=f"Partition {partitioner}", input=self._transformation, partitioner=partitioner
        )
        return DataStream(self._environment, partition, self._known)

    def _key_selector(self, where: str, keys: tuple[Any, ...], key_type: Any) -> KeySelector:
        """The selector that `keys` mean for this stream."""
        names = [key.name if isinstance(key, Column) else key for key in keys]
        if names and all(isinstance(name, str) for name in names):
            if len(set(names)) < len(names):
                raise InvalidProgramError(f"{where}: a key column is given twice: {', '.join(names)}")
            self._known.require(names, where)
            return ColumnKey(tuple(names))
        if len(keys) != 1:
            raise InvalidProgramError(f"{where} takes column names, or one function, not {keys!r}")
        (function,) = keys
        if isinstance(function, Expression):
            raise InvalidProgramError(
                f"{where}: {function!r} is a computed column; add it first, with_columns(k=...), and key by its name"
            )
        if not callable(function) and not isinstance(function, Function):
            raise InvalidProgramError(f"{where} takes column names, or one function, not {function!r}")
        declared = declared_type(function, "get_key", key_type)
        check_serializable(function, where)
        return FunctionKey(as_callable(function, "get_key"), declared)

    def _require_same_environment(self, other: object, where: str) -> None:
        if not isinstance(other, DataStream):
            raise InvalidProgramError(f"{where} takes streams, not {other!r}")
        if other._environment is not self._environment:
            raise InvalidProgramError(f"{where}: the streams belong to different environments")


def _may_use_key(factory: OperatorFactory) -> bool:
    """Whether the operator can have state per key: row functions (a keyed stream makes those with state keyed process
    functions) and column operations cannot."""
    row_functions = MapFactory | FlatMapFactory | FilterFactory
    columns = ProjectFactory | WhereFactory | DropFactory | RenameFactory | MapBatchesFactory
    messages = DecodeFactory | EncodeFactory
    changelogs = AsChangelogFactory | KindsAsColumnFactory
    others = TimestampsAndWatermarksFactory | AsyncFactory
    return not isinstance(factory, row_functions | columns | messages | changelogs | others)
