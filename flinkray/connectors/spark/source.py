"""Spark's DataFrames and Structured Streaming as sources: descriptions only, since the bridge to Spark is a plug-in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkray.connectors.source import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.errors import InvalidProgramError, did_you_mean
from flinkray.filesystems import absolute, join
from flinkray.plugins import BRIDGES, load_plugin
from flinkray.types.records import RecordType

_OUTPUT_MODES = ("append", "update", "complete")


class BridgedSource(Source):
    """A source that the Spark bridge has made: this process imports pyspark only when one is made."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @property
    def boundedness(self) -> Boundedness:
        return self._source.boundedness

    @property
    def output_type(self) -> RecordType | None:
        return self._source.output_type

    def prepare(self) -> Source:
        return self._source.prepare()

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        return self._source.create_enumerator(context, restored)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return self._source.create_reader(context)


class SparkSource(BridgedSource):
    """The rows of a DataFrame; Spark runs it when the job is submitted.

    Args:
        dataframe: of this process's session.
        order_by: column or columns that Spark sorts by first; what each subtask reads then only moves forward.
    Raises:
        InvalidProgramError: a column has no Arrow type.
        UnknownColumnError: `order_by` names a column that is not there.
    """

    def __init__(self, dataframe: Any, order_by: str | Sequence[str] | None = None) -> None:
        super().__init__(load_plugin(BRIDGES, "spark")().source(dataframe, order_by))


@dataclass(frozen=True, slots=True)
class StreamStaging:
    """How a streaming query stages its rows; see `SparkStreamSource`.

    Raises:
        InvalidProgramError: a value makes no sense.
    """

    directory: str
    checkpoint_location: str
    trigger: Mapping[str, Any] | None
    output_mode: str
    query_name: str | None
    max_unread_batches: int

    @staticmethod
    def of(
        staging_directory: str,
        checkpoint_location: str | None,
        trigger: Mapping[str, Any] | None,
        output_mode: str,
        query_name: str | None,
        max_unread_batches: int,
    ) -> StreamStaging:
        """Checks the arguments that `SparkStreamSource` describes, and fills in what follows from them."""
        if not str(staging_directory):
            raise InvalidProgramError("a streaming DataFrame needs a staging_directory")
        if output_mode not in _OUTPUT_MODES:
            raise InvalidProgramError(
                f"no output_mode {output_mode!r}{did_you_mean(output_mode, _OUTPUT_MODES)}; there are "
                f"{', '.join(_OUTPUT_MODES)}"
            )
        if max_unread_batches < 1:
            raise InvalidProgramError(f"max_unread_batches must be at least 1, got {max_unread_batches}")
        directory = absolute(str(staging_directory))
        location = join(directory, "spark-checkpoint") if checkpoint_location is None else str(checkpoint_location)
        return StreamStaging(directory, location, trigger, output_mode, query_name, max_unread_batches)


class SparkStreamSource(BridgedSource):
    """The rows of a streaming DataFrame, whose query starts when the job is submitted; each micro-batch exactly once.

    Spark writes each micro-batch to a staging directory, from which the job reads it; a completed checkpoint that
    covers it removes it again. A job without state begins with all that is staged: what is new, where an earlier one
    took checkpoints to its end, and everything, where there were none.
    A savepoint or an older checkpoint can be restored as long as no later one has had the rows after it removed.

    The partitions of a micro-batch are spread over the subtasks, in no promised order among each other. With fewer
    partitions than subtasks some get no rows, and hold event time back unless the strategy has `with_idleness`.

    Args:
        dataframe: a streaming DataFrame of this process's session.
        staging_directory: a path or URI that Spark's executors, the driver and the job's slots share. One per query;
            keep it with the checkpoint location, and remove both to begin anew.
        checkpoint_location: Spark's own; None: "spark-checkpoint" in the staging directory.
        trigger: arguments of Spark's `trigger`, such as {"processingTime": "5 seconds"} or {"availableNow": True}.
        output_mode: Spark's: "append", "update" or "complete".
        query_name: Spark's name of the query.
        max_unread_batches: so many that no subtask has begun are staged at most; then the query waits.
        ends_with_query: the source ends when the query was stopped or has read all there is. Otherwise it waits for
            the query to be started again. If the query fails, so does the job.
    Raises:
        InvalidProgramError: a column has no Arrow type, the DataFrame is not streaming, or a value makes no sense.
    """

    may_end = True

    def __init__(
        self,
        dataframe: Any,
        staging_directory: str,
        checkpoint_location: str | None = None,
        trigger: Mapping[str, Any] | None = None,
        output_mode: str = "append",
        query_name: str | None = None,
        max_unread_batches: int = 8,
        ends_with_query: bool = False,
    ) -> None:
        staging = StreamStaging.of(
            staging_directory, checkpoint_location, trigger, output_mode, query_name, max_unread_batches
        )
        super().__init__(load_plugin(BRIDGES, "spark")().stream_source(dataframe, staging, ends_with_query))
