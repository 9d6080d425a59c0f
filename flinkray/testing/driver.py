"""The seam between harnesses and the runtime, which is found as the plug-in `harness` of `flinkray.testing`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, Protocol

from flinkray.batches.batch import Batch
from flinkray.connectors.source import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.errors import InvalidProgramError
from flinkray.testing.elements import Marker, Watermark
from flinkray.types.records import Millis, OutputTag, Timestamp

PLUGINS = "flinkray.testing"


class HarnessDriver(Protocol):
    """The operators of a pipeline, one subtask of each, in the caller's thread.

    What is pushed has passed all of them when the call returns. An error of a user's function is a UserFunctionError.
    """

    def push(self, input_index: int, batch: Batch) -> None:
        """Rows come in."""

    def watermark(self, input_index: int, timestamp: Timestamp) -> None:
        """Event time of the input has reached `timestamp`."""

    def status(self, input_index: int, is_idle: bool) -> None:
        """The input becomes idle, or active again."""

    def end(self, input_index: int) -> None:
        """The end of event time, then of the data. After that of all inputs, every operator has finished."""

    def advance(self, milliseconds: Millis) -> None:
        """Processing time goes on; what is due meanwhile happens in order."""

    @property
    def output(self) -> list[Batch | Watermark | Marker]:
        """What the pipeline's result gave, in order."""

    def side_output(self, tag: OutputTag) -> list[Batch]:
        """What operators gave to that side output, in order."""

    def clear_output(self) -> None:
        """Forgets what came out so far, side outputs included."""

    def snapshot(self) -> bytes:
        """The state of all operators at a barrier, as a savepoint has it."""

    def count_entries(self) -> int:
        """The number of pairs of a key and a state."""

    def count_timers(self, domain: str) -> int:
        """The number of timers that are set; `domain` is "event time" or "processing time"."""

    def close(self) -> None:
        """Closes all operators, once; raises what the first of them that fails raises."""


@dataclass(frozen=True)
class HarnessInput(Source):
    """Stands for an input whose rows the test pushes."""

    input_index: int

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.UNBOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext, restored: object = None) -> SplitEnumerator:
        self._refuse()

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise InvalidProgramError("the input of a harness has rows only in the harness: do not execute its environment")
