"""Spark as a sink for `sink_to`: a description only, since the bridge to Spark is a plug-in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.plugins import BRIDGES, load_plugin


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
