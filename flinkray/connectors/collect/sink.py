"""The sink that brings rows to the driver: a description, since the runtime itself writes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.errors import InvalidProgramError
from flinkray.types.changelogs import ChangelogMode


@dataclass(frozen=True)
class CollectSink(Sink):
    """Rows for `JobClient.collected(collect_id)`.

    They wait at the JobMaster until the driver takes them, and the job's tasks wait with them: the memory that they
    take is bounded.
    """

    collect_id: str
    takes_changelog: bool = True
    """Whether whoever takes the rows sees their kinds."""
    needs_coordinator: ClassVar[bool] = True
    """Says to the compiler that the sink has a coordinator at the JobMaster, which takes the rows."""

    @property
    def accepts(self) -> ChangelogMode:
        return ChangelogMode.ALL if self.takes_changelog else ChangelogMode.INSERT_ONLY

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        raise InvalidProgramError("a CollectSink is written by the runtime itself; give it to sink_to")
