"""A streaming DataFrame as a source: a Structured Streaming query whose micro-batches a job reads, each exactly once.

The query runs in the driver, from the submission of the job on, and hands each micro-batch to `foreachBatch`. Spark
guarantees that it calls this in the order of batch ids, that it continues after the last batch that returned, and that
it may repeat that last one. The job guarantees that it continues from its latest completed checkpoint. In between, a
batch must survive the end of both, until a completed checkpoint covers it: Ray's object store ends with its cluster,
and blocks of Spark's executors end with Spark. So batches are files in a staging directory (`actors.spark.staging`):

1. Executors write each partition's rows to a file of a unique name; then the driver writes the manifest of the batch,
   in one step. A batch whose manifest is there is not written again: a repeated batch id is the same batch.
2. The job's enumerator looks for manifests by batch id; files are its splits (`actors.spark.staged_source`).
3. Readers remove the files that a completed checkpoint has as read to the end (`actors.spark.staged_reader`); the
   driver removes the manifest once the files are gone and Spark has gone on to a later batch, so that the batch can
   neither be repeated nor be needed for a restore.

When it has staged a batch, the query waits while too many are unread, which slows Spark down to the job's speed. It
waits after staging, so that a query that is stopped in between leaves a batch that both sides know.

A thread of the driver stops a query that no job reads any more, and tells the job how the query ended.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from actors.blocks.driver import DriverSource
from actors.spark.staged_source import StagedSource
from actors.spark.staging import (
    Manifest,
    QueryEnd,
    ReadProgress,
    StagedFile,
    Staging,
    remove_covered,
    unread_batches,
)
from actors.spark.transfer import BatchFunction, numbered
from actors.spark.types import arrow_schema, cast_batch
from flinkray.connectors.source import (
    Boundedness,
    Source,
)
from flinkray.connectors.spark.source import StreamStaging
from flinkray.errors import InvalidProgramError
from flinkray.types.records import Kind, RecordType

log = logging.getLogger(__name__)

POLL_SECONDS = 0.2
START_SECONDS = 60.0
"""How long to wait for the query object of a query that Spark is already running."""
ENDED_SECONDS = 120.0
"""How long a query goes on after its job has ended: a job that is restarted as a whole looks as if it had ended until
its restart strategy lets it go on."""
SILENCE_SECONDS = 600.0
"""How long a query goes on without a sign of life of a job."""

_REPORT = "partition long, name string, row_counts array<long>"


class StreamingDataFrameSource(DriverSource):
    """A streaming DataFrame in the driver; the StagedSource that `prepare` returns is shipped in its place."""

    may_end = True

    def __init__(self, dataframe: DataFrame, staging: StreamStaging, ends_with_query: bool) -> None:
        _check_streaming(dataframe)
        self._dataframe = dataframe
        self._staging = staging
        self._ends_with_query = ends_with_query
        self._schema = arrow_schema(dataframe.schema)

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.UNBOUNDED

    @property
    def output_type(self) -> RecordType:
        return RecordType(Kind.ROW, self._schema)

    def prepare(self) -> Source:
        """Starts the query, which may stage batches before the job runs."""
        stage_stream(self._dataframe, self._staging)
        return StagedSource(Staging(self._staging.directory), self.output_type, self._ends_with_query)


def stage_stream(dataframe: DataFrame, settings: StreamStaging) -> StreamingQuery:
    """Starts the query that stages the batches of a DataFrame, in place of one that this process runs on the directory.

    Raises:
        InvalidProgramError: the DataFrame is not streaming, or a column has no Arrow type.
        pyspark's AnalysisException: Spark cannot run it, for example in this output mode.
    """
    _check_streaming(dataframe)
    schema = arrow_schema(dataframe.schema)
    stop_streams(settings.directory)
    staging = Staging(settings.directory)
    staging.create()
    staging.begin_query()
    stager = BatchStager(staging, schema, settings.max_unread_batches)
    writer = dataframe.writeStream.foreachBatch(stager).outputMode(settings.output_mode)
    writer = writer.option("checkpointLocation", settings.checkpoint_location)
    if settings.query_name is not None:
        writer = writer.queryName(settings.query_name)
    if settings.trigger is not None:
        writer = writer.trigger(**settings.trigger)
    query = writer.start()
    stager.query.set_result(query)
    watch = QueryWatch(query, staging, stager)
    with _lock:
        _watches[settings.directory] = watch
    # Registered after the handler of Spark's session, so that it runs before it.
    atexit.unregister(stop_streams)
    atexit.register(stop_streams)
    watch.start()
    return query


def _check_streaming(dataframe: DataFrame) -> None:
    if not isinstance(dataframe, DataFrame) or not dataframe.isStreaming:
        raise InvalidProgramError(
            "from_spark_stream takes a streaming DataFrame (spark.readStream...); from_spark takes any other"
        )


class BatchStager:
    """The function that Spark calls with each micro-batch, one after the other."""

    def __init__(self, staging: Staging, schema: pa.Schema, max_unread_batches: int) -> None:
        self._staging = staging
        self._schema = schema
        self._max_unread = max_unread_batches
        self._pause = threading.Event()
        self.query: Future[StreamingQuery] = Future()
        """The query, which is set only when it is running already."""
        self.failure: str | None = None
        """Why a batch could not be staged; the error of the query itself has mostly Java's stack."""

    def __call__(self, dataframe: DataFrame, batch_id: int) -> None:
        try:
            self._stage(dataframe, batch_id)
        except Exception as error:
            self.failure = failure_text(error)
            raise

    def _stage(self, dataframe: DataFrame, batch_id: int) -> None:
        query = self.query.result(START_SECONDS)
        self._staging.claim(str(query.id))
        if self._staging.manifest(batch_id) is None:
            files = write_rows(dataframe, self._schema, self._staging, batch_id)
            self._staging.publish(Manifest(str(query.id), batch_id, tuple(files)))
        remove_covered(self._staging, batch_id)
        while query.isActive and unread_batches(self._staging) > self._max_unread:
            self._pause.wait(POLL_SECONDS)


def failure_text(error: Exception) -> str:
    """The text of an error of Spark's, without stacks and plans of the JVM."""
    text = str(error).partition("=== Streaming Query ===")[0]
    lines = [line.rstrip() for line in text.splitlines()]
    messages = [line for line in lines if line and not line.startswith(("\tat ", "\t...", "Driver stacktrace:"))]
    return "\n".join([f"{type(error).__name__}: {messages[0] if messages else ''}".strip(), *messages[1:]])


def write_rows(dataframe: DataFrame, schema: pa.Schema, staging: Staging, batch_id: int) -> list[StagedFile]:
    """Runs a micro-batch, and returns its files in the order of Spark's partitions."""
    reports = numbered(dataframe).mapInArrow(_writer(staging, schema, batch_id), _REPORT).collect()
    reports.sort(key=lambda report: report.partition)
    return [StagedFile(report.name, tuple(report.row_counts)) for report in reports]


def _writer(staging: Staging, schema: pa.Schema, batch_id: int) -> BatchFunction:
    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        partition = 0 if task is None else task.partitionId()
        file = staging.write_file(batch_id, partition, (cast_batch(batch, schema) for batch in batches))
        if file is not None:
            report = {"partition": [partition], "name": [file.name], "row_counts": [list(file.rows)]}
            yield pa.RecordBatch.from_pydict(report)

    return write


class JobWatch:
    """Tells from the progress that jobs record whether one still reads the batches. Times are the caller's, in
    seconds."""

    def __init__(self, now: float) -> None:
        self._beat: str | None = None
        self._since = now

    def why_stop(self, progress: ReadProgress | None, now: float) -> str | None:
        """Why the query should be stopped; None: it should go on."""
        beat = None if progress is None else progress.beat
        if beat != self._beat:
            self._beat, self._since = beat, now
        silence = now - self._since
        if progress is not None and progress.is_closed and silence > ENDED_SECONDS:
            return "the job that read it has ended"
        if silence > SILENCE_SECONDS:
            return f"no job has read it for {SILENCE_SECONDS:.0f} s"
        return None


class QueryWatch:
    """The thread of the driver that watches one query and its job."""

    def __init__(self, query: StreamingQuery, staging: Staging, stager: BatchStager) -> None:
        self._query = query
        self._stager = stager
        self._staging = staging
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"spark-query-{query.id}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops the query, and waits until its end is recorded for the job. Not for the thread itself."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._staging.mark_end(QueryEnd(self._follow()))
        except Exception as error:
            log.error("lost sight of the query that feeds %s: %s", self._staging.location, error)

    def _follow(self) -> str | None:
        """Waits until the query ends; returns what went wrong."""
        job = JobWatch(time.monotonic())
        while self._query.isActive and not self._stopped.wait(POLL_SECONDS):
            reason = job.why_stop(self._staging.progress(), time.monotonic())
            if reason is not None:
                log.warning("stopping the query that feeds %s: %s", self._staging.location, reason)
                self._query.stop()
                return f"it was stopped, because {reason}; submit the job again, or start it with stage_stream"
        if self._query.isActive:
            self._query.stop()
        failure = self._query.exception()
        return None if failure is None else self._stager.failure or failure_text(failure)


_watches: dict[str, QueryWatch] = {}
_lock = threading.Lock()


def stop_streams(directory: str | None = None) -> None:
    """Stops the queries that stage in a directory, or all that this process has started."""
    with _lock:
        chosen = [each for each in _watches if directory is None or each == directory]
        watches = [_watches.pop(each) for each in chosen]
    for watch in watches:
        watch.stop()
