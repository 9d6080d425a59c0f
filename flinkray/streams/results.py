"""The operations that bring a stream's records to the driver. Each of them runs the program."""

from __future__ import annotations

import itertools
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.batches.frames import as_frame
from flinkray.batches.row_codec import decode
from flinkray.batches.unification import concat_unified
from flinkray.collected_rows import CollectedRows
from flinkray.config.configuration import Configuration
from flinkray.connectors.collect.sink import CollectSink
from flinkray.connectors.sink import Sink
from flinkray.connectors.source import Boundedness
from flinkray.errors import InvalidProgramError
from flinkray.execution import JobClient, JobExecutionResult
from flinkray.extras import import_package
from flinkray.plugins import BRIDGES, load_plugin
from flinkray.streams.checks.known_types import KnownType
from flinkray.streams.settings.data_stream_sink import DataStreamSink
from flinkray.transformations.operator_factories import SinkFactory, SourceFactory
from flinkray.transformations.transformation import (
    PhysicalTransformation,
    Transformation,
    own_parallelism,
    upstream_of,
)
from flinkray.types.records import SCALAR_COLUMN, Kind

if TYPE_CHECKING:
    import pandas as pd


class Program(Protocol):
    """What streams need of a StreamExecutionEnvironment, which itself makes streams."""

    _configuration: Configuration

    def _register(self, transformation: Transformation) -> None:
        """Makes an operator part of the program."""

    def _only(self, transformations: Sequence[Transformation]) -> AbstractContextManager[None]:
        """For a while these are the program: what is added then is not part of what was recorded before."""

    def _submit(self, job_name: str | None) -> JobClient:
        """Submits what has been recorded so far."""

    def _execute_and_wait(self, job_name: str | None) -> JobExecutionResult:
        """Submits what has been recorded so far, and waits for the job's end."""


class StreamResults(ABC):
    """The methods of a stream that run its program and give its records."""

    _environment: Program
    _transformation: Transformation
    _known: KnownType

    @abstractmethod
    def _sink(self, factory: SinkFactory, name: str) -> DataStreamSink:
        """Adds a sink to the stream."""

    def execute_and_collect(self, job_name: str | None = None, limit: int | None = None) -> Any:
        """Runs the program and gives this stream's records while it runs.

        Returns:
            An iterator that is also a context manager (`CollectedRows`); with `limit` the first so many records as a
            list, after which the job is cancelled (as PyFlink does). The `Row`s of a changelog say what they do:
            `row.get_row_kind()`.
        """
        if limit is not None and (not isinstance(limit, int) or limit < 0):
            raise InvalidProgramError(f"execute_and_collect(limit=...) takes a number of records, not {limit!r}")
        rows = CollectedRows(*self._start_collecting(job_name))
        if limit is None:
            return rows
        with rows:
            return list(itertools.islice(rows, limit))

    def to_arrow(self, job_name: str | None = None) -> pa.Table:
        """Runs the program and gives this (bounded) stream's records as a table, in order of arrival.

        Scalars are a column `value`, tuples `f0`, `f1`, ...; records that Arrow cannot hold a column of pickled bytes.

        Raises:
            InvalidProgramError: a source of the stream never ends.
            JobExecutionError: the job failed.
        """
        self._require_end("to_arrow()")
        return self._table([batch.data for batch in self._collect(job_name)])

    def to_pandas(self, job_name: str | None = None) -> pd.DataFrame:
        """Runs the program and gives this (bounded) stream's records as a DataFrame, in order of arrival.

        A column of whole numbers with nulls is of pandas' `Int64` and the like, as floats would not hold all of them.
        """
        self._require_end("to_pandas()")
        pandas = import_package("pandas", "to_pandas()")  # slow to import, and most programs do without
        batches = self._collect(job_name)
        if any(batch.kind is Kind.OBJECT for batch in batches):
            values = [value for batch in batches for value in decode(batch)]
            objects: pd.DataFrame = pandas.DataFrame({SCALAR_COLUMN: pandas.Series(values, dtype=object)})
            return objects
        return as_frame(self._table([batch.data for batch in batches]))

    def to_spark(self, spark: Any, job_name: str | None = None) -> Any:
        """Runs the program and gives this (bounded) stream's records as a DataFrame of that SparkSession.

        The rows stay where they are, in blocks that outlive the job.
        """
        self._require_end("to_spark()")
        sink, finish = load_plugin(BRIDGES, "spark")(spark).sink(self._known.record_type)
        return self._run_into(sink, finish, "Sink: Spark", job_name)

    def to_ray_dataset(self, job_name: str | None = None) -> Any:
        """Runs the program and gives this (bounded) stream's records as a ray.data.Dataset.

        Its blocks are in Ray's object store, those of each subtask in the order in which its records came.

        Raises:
            MissingDependencyError: Ray Data cannot be imported; says what to install.
        """
        self._require_end("to_ray_dataset()")
        sink, finish = load_plugin(BRIDGES, "ray-dataset")().sink(self._known.record_type)
        return self._run_into(sink, finish, "Sink: Ray Dataset", job_name)

    def _require_end(self, method: str) -> None:
        """Raises InvalidProgramError where the stream never ends, as then `method` would not, either."""
        for transformation in upstream_of(self._transformation):
            factory = transformation.factory if isinstance(transformation, PhysicalTransformation) else None
            source = factory.source if isinstance(factory, SourceFactory) else None
            if source is not None and source.boundedness is Boundedness.UNBOUNDED and not source.may_end:
                raise InvalidProgramError(
                    f"{method} waits for the end of the stream, and source {transformation.name!r} has none: bound it, "
                    "take records while they come, with execute_and_collect(limit=...), or write them to a sink"
                )

    def _start_collecting(
        self, job_name: str | None, takes_changelog: bool = True
    ) -> tuple[JobClient, Iterator[Batch]]:
        collect_id = uuid.uuid4().hex
        self._result_sink(CollectSink(collect_id, takes_changelog), "Sink: Collect")
        client = self._environment._submit(job_name)
        return client, client.collected(collect_id)

    def _result_sink(self, sink: Sink, name: str) -> None:
        """Adds the sink with the parallelism of the stream's last operator, so that the rows of a subtask stay in
        order."""
        added = self._sink(SinkFactory(sink), name)
        parallelism = own_parallelism(self._transformation)
        if parallelism is not None:
            added.set_parallelism(parallelism)

    def _collect(self, job_name: str | None) -> list[Batch]:
        client, batches = self._start_collecting(job_name, takes_changelog=False)
        try:
            collected = list(batches)
            client.result()
        finally:
            client.close()
        return collected

    def _table(self, batches: list[pa.RecordBatch]) -> pa.Table:
        if not batches:
            return self._empty_table()
        # Subtasks that inferred their types from different rows may differ in them, for example int64 and double.
        return concat_unified([pa.Table.from_batches([batch]) for batch in batches], "the stream's results")

    def _empty_table(self) -> pa.Table:
        if self._known.record_type is not None:
            return self._known.record_type.schema.empty_table()
        return pa.table({name: pa.nulls(0) for name in self._known.columns or ()})

    def _run_into(
        self, sink: Sink, finish: Callable[[JobExecutionResult], Any], sink_name: str, job_name: str | None
    ) -> Any:
        self._result_sink(sink, sink_name)
        return finish(self._environment._execute_and_wait(job_name))
