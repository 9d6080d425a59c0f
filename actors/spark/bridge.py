"""Spark's DataFrames as sources and sinks of jobs, and Spark sessions, behind the plug-in name "spark"."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from actors.blocks.driver import DriverSink, DriverSource
from actors.blocks.sink import BlockSink, committed, common_schema
from actors.blocks.source import BlockSource
from actors.blocks.store import BlockStore
from actors.spark import session, stream
from actors.spark.delivery import Delivery, WriteFunction, after_commit
from actors.spark.spill import SpillBlockStore
from actors.spark.transfer import numbered, read_blocks, write_blocks
from actors.spark.types import arrow_schema
from flinkray.connectors.sink import Sink
from flinkray.connectors.source import (
    Boundedness,
    Source,
)
from flinkray.connectors.spark.source import StreamStaging
from flinkray.errors import InvalidProgramError, UnknownColumnError
from flinkray.types.records import Kind, RecordType

SPILL_DIRECTORY = "spark.flinkray.spillDirectory"
"""The Spark setting for the directory of blocks of a session that is not on Ray; by default the system's temporary
directory."""


class SparkBridge:
    """DataFrames as sources, and sinks that become DataFrames. Only the driver uses it.

    A session on Ray moves its rows through Ray's object store, any other through files (`actors.spark.spill`).
    """

    def __init__(self, spark: SparkSession | None = None) -> None:
        self._spark = spark

    @staticmethod
    def init_spark(
        app_name: str,
        num_executors: int = 1,
        executor_cores: int = 1,
        executor_memory: str = "1g",
        on_ray: bool = True,
        configs: Mapping[str, str] | None = None,
    ) -> SparkSession:
        """Starts a session, as `flinkray.spark.init_spark` says."""
        return session.init_spark(app_name, num_executors, executor_cores, executor_memory, on_ray, configs)

    @staticmethod
    def stop_spark() -> None:
        """Ends the session and what hangs on it, as `flinkray.spark.stop_spark` says."""
        stream.stop_streams()
        release_results()
        session.stop_session()

    def source(self, dataframe: DataFrame, order_by: str | Sequence[str] | None = None) -> Source:
        """A source of the DataFrame's rows. Spark runs the DataFrame at each submission of the job.

        Args:
            order_by: columns that Spark sorts by first; splits are then handed out in that order, so that each subtask
                reads ascending rows.

        Raises:
            InvalidProgramError: a column has no Arrow type, or two have the same name.
            UnknownColumnError: `order_by` names a column that does not exist.
        """
        if not isinstance(dataframe, DataFrame):
            kind = type(dataframe)
            raise InvalidProgramError(f"from_spark takes a Spark DataFrame, not {kind.__name__} of {kind.__module__}")
        columns = () if order_by is None else tuple(order_by) if isinstance(order_by, (list, tuple)) else (order_by,)
        return SparkDataFrameSource(dataframe, columns)

    def stream_source(self, dataframe: DataFrame, staging: StreamStaging, ends_with_query: bool) -> Source:
        """A source of a streaming DataFrame's rows (`flinkray.connectors.spark.source.SparkStreamSource`)."""
        return stream.StreamingDataFrameSource(dataframe, staging, ends_with_query)

    @staticmethod
    def stage_stream(dataframe: DataFrame, staging: StreamStaging) -> StreamingQuery:
        """Starts the query that stages a streaming DataFrame, as `flinkray.spark.stage_stream` says."""
        return stream.stage_stream(dataframe, staging)

    def sink(self, output_type: RecordType | None = None) -> tuple[Sink, Callable[[Any], DataFrame]]:
        """A sink, and a function that returns its rows as a DataFrame once the job has finished.

        The DataFrame is lazy; its rows can be read until `stop_spark` or the end of this process. It has the rows of
        each subtask in the order in which they came. Without rows it has the columns of `output_type`, or none.
        """
        sink = _DataFrameSink(self._session)

        def finish(_result: Any = None) -> DataFrame:
            store = sink.store
            if store is None:
                raise InvalidProgramError("this sink was not part of the job that was run")
            blocks = [block for committable in committed(store) for block in committable.blocks]
            schema = common_schema(blocks, output_type)
            return read_blocks(self._session, store, [block.block_id for block in blocks], schema)

        return sink, finish

    def committing_sink(self, write: WriteFunction) -> Sink:
        """A sink that hands each checkpoint's rows to `write(dataframe, checkpoint_id)` in the driver, exactly once.

        Without checkpoints, and for rows after the last one, `write` is called once at the end of the input with None
        as id. The job ends when `write` has had all rows, and fails if it raises. The guarantee holds as long as the
        driver lives; `write` gets the id so that it can be made idempotent beyond that, as with foreachBatch.
        """
        return _CommittingSink(self._session, write)

    @property
    def _session(self) -> SparkSession:
        return self._spark or session.active_session()


class SparkDataFrameSource(DriverSource):
    """A DataFrame in the driver; the BlockSource that `prepare` returns is shipped in its place."""

    def __init__(self, dataframe: DataFrame, order_by: Sequence[str]) -> None:
        if dataframe.isStreaming:
            raise InvalidProgramError("from_spark takes a DataFrame that ends; from_spark_stream takes a streaming one")
        for column in order_by:
            if not isinstance(column, str):
                raise InvalidProgramError(
                    f"from_spark(order_by=...) takes names of columns, which sort ascending, not {column!r}; add a "
                    "column that sorts as you want, and name that"
                )
            if column not in dataframe.columns:
                raise UnknownColumnError(column, dataframe.columns, "from_spark(order_by=...)")
        self._dataframe = dataframe
        self._order_by = tuple(order_by)
        self._schema = arrow_schema(dataframe.schema)

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def output_type(self) -> RecordType:
        return RecordType(Kind.ROW, self._schema)

    def prepare(self) -> Source:
        """Runs the DataFrame, and puts its rows into a store that outlives Spark's executors."""
        store = _create_store(self._dataframe.sparkSession, outlives_driver=True)
        rows = numbered(self._dataframe)
        positions = [self._dataframe.columns.index(column) for column in self._order_by]
        ordered = rows.sort(*(rows.columns[position] for position in positions)) if positions else rows
        try:
            blocks = write_blocks(ordered, self._schema, store)
        except BaseException:
            _release(lambda owned: owned.store is store)
            raise
        return BlockSource(store, blocks, self.output_type, is_ordered=bool(self._order_by))


class _DataFrameSink(DriverSink):
    """Collects the rows that become a DataFrame."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.store: BlockStore | None = None
        """The store of the latest submission."""

    def prepare(self) -> Sink:
        self.store = _create_store(self._spark, outlives_driver=False)
        return BlockSink(self.store)


class _CommittingSink(DriverSink):
    """Hands the rows of each checkpoint to the user's `write` in the driver."""

    def __init__(self, spark: SparkSession, write: WriteFunction) -> None:
        self._spark = spark
        self._write = write

    def prepare(self) -> Sink:
        store = _create_store(self._spark, outlives_driver=False)
        delivery = Delivery(self._spark, store, self._write)
        _owned[store.store_id].before_close.append(delivery.stop)
        delivery.start()
        return BlockSink(store, after_commit)


class _OwnedStore(Struct, frozen=True):
    """A store that this process has made."""

    store: BlockStore
    outlives_driver: bool
    before_close: list[Callable[[], None]]


_owned: dict[str, _OwnedStore] = {}
_lock = threading.Lock()


def release_results() -> None:
    """Frees the rows of DataFrames that sinks have returned, as nothing can read them when the session ends."""
    _release(lambda owned: not owned.outlives_driver)


def _release_at_exit() -> None:
    # A source's store on Ray may serve a job that goes on without this driver, and ends with the job; a directory has
    # nobody else to remove it.
    _release(lambda owned: not owned.outlives_driver or isinstance(owned.store, SpillBlockStore))


def _create_store(spark: SparkSession, outlives_driver: bool) -> BlockStore:
    _release(lambda owned: owned.store.is_unused)
    store: BlockStore
    if session.is_on_ray(spark):
        from actors.hosts.ray.datasets.block_store import RayBlockStore

        store = RayBlockStore.create(outlives_driver)
    else:
        store = SpillBlockStore.create(spark.conf.get(SPILL_DIRECTORY, None))
    with _lock:
        _owned[store.store_id] = _OwnedStore(store, outlives_driver, [])
    # Registered after the handlers of Ray and RayDP, so that it runs before them.
    atexit.unregister(_release_at_exit)
    atexit.register(_release_at_exit)
    return store


def _release(which: Callable[[_OwnedStore], bool]) -> None:
    with _lock:
        chosen = [owned for owned in _owned.values() if which(owned)]
        for owned in chosen:
            del _owned[owned.store.store_id]
    for owned in chosen:
        for action in owned.before_close:
            action()
        owned.store.close()
