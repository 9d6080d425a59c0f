"""The sink that brings rows to the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.errors import InvalidProgramError


@dataclass(frozen=True)
class CollectSink(Sink):
    """Rows for `JobClient.collected(collect_id)`. They wait in the JobMaster until the driver takes them, and the
    job's tasks wait with them, so the driver's memory is bounded by what it takes."""

    collect_id: str
    needs_coordinator: ClassVar[bool] = True
    """The runtime itself takes the rows, through a coordinator at the JobMaster."""

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        raise InvalidProgramError("a CollectSink is written by the runtime itself; give it to sink_to")
