"""The sink that keeps nothing."""

from __future__ import annotations

from typing import Any

from flinkray.batches.batch import Batch
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.types.changelogs import ChangelogMode


class DiscardSink(Sink):
    """Takes rows and drops them."""

    @property
    def accepts(self) -> ChangelogMode:
        return ChangelogMode.ALL

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        return _DiscardWriter()


class _DiscardWriter(SinkWriter):
    """Takes batches and keeps none."""

    def write(self, batch: Batch) -> None: ...

    def close(self) -> None: ...
