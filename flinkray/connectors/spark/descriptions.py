"""Spark as source and sink for `from_source` and `sink_to`. Descriptions only: the bridge to Spark is a plug-in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.connectors.source import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.plugins import BRIDGES, load_plugin
from flinkray.types.records import RecordType


class BridgedSource(Source):
    """A source that the Spark bridge makes; this process need not be able to import pyspark until then."""

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
        InvalidProgramError: a column has no Arrow type; UnknownColumnError: `order_by` names none.
    """

    def __init__(self, dataframe: Any, order_by: str | Sequence[str] | None = None) -> None:
        super().__init__(load_plugin(BRIDGES, "spark")().source(dataframe, order_by))


class SparkSink(Sink):
    """Hands each committed checkpoint's rows to Spark, in the driver, exactly once while the driver lives.

    Args:
        write: called as `write(dataframe, checkpoint_id)`, one checkpoint after the other; checkpoint_id is None for
            the rows after the last checkpoint, so for all rows of a job without checkpoints. The job ends when it has
            had everything, and fails when it raises. Checkpoints without rows are left out. The DataFrame can be read
            while `write` runs (any number of times); afterwards its rows are freed.
    """

    def __init__(self, write: Callable[[Any, int | None], object]) -> None:
        self._write = write

    def prepare(self) -> Sink:
        sink: Sink = load_plugin(BRIDGES, "spark")().committing_sink(self._write).prepare()
        return sink

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        raise TypeError("a Spark session stays in the driver: ship what prepare() gives")
