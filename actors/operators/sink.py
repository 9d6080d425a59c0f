"""Runs a sink's writer, and commits what it prepared; brings the rows of a collecting sink to the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from actors.elements import LatencyMarker
from actors.messages import RowsTaken
from actors.operators.base import Operator, OperatorContext
from actors.operators.collect_writer import CollectWriter
from actors.user_code import NO_VALUE, raise_attributed
from flinkray.batch import Batch
from flinkray.connectors.sink import Committer, SinkWriter
from flinkray.operator_factories import SinkFactory
from flinkray.types import Timestamp
from graphs.job_graph import OperatorCode


class SinkOperator(Operator):
    """The end of a chain. Without checkpoints, what the writer prepared is committed when its input has ended.

    A task that fails or is cancelled commits nothing: what was prepared is aborted, and the writer closed.
    """

    def __init__(self, code: OperatorCode) -> None:
        factory = code.factory
        assert isinstance(factory, SinkFactory)
        self._sink = factory.sink
        self._collects = bool(getattr(factory.sink, "needs_coordinator", False))
        self._restored: Any = None
        self._writer: SinkWriter | None = None
        self._committer: Committer | None = None
        self._prepared: Sequence[Any] = ()

    @property
    def is_available(self) -> bool:
        return not isinstance(self._writer, CollectWriter) or self._writer.is_available

    def initialize_state(self, restored: Any) -> None:
        self._restored = restored

    def open(self) -> None:
        try:
            if self._collects:
                self._writer = CollectWriter(self.context)
            else:
                self._writer = self._sink.create_writer(_WriterContext(self.context), self._restored)
                self._committer = self._sink.create_committer()
        except Exception as error:
            self._raise(error)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        try:
            self._opened_writer.write(batch)
        except Exception as error:
            self._raise(error)

    def on_watermark(self, timestamp: Timestamp) -> None:
        """Ends here."""

    def process_status(self, is_idle: bool, input_index: int = 0) -> None:
        """Ends here."""

    def process_latency_marker(self, marker: LatencyMarker) -> None:
        """Ends here: its latency has been reported on arrival."""

    def handle_coordinator_event(self, event: Any) -> None:
        if not isinstance(event, RowsTaken) or not isinstance(self._writer, CollectWriter):
            raise TypeError(f"sink {self.context.operator_name!r} cannot handle {event!r}")
        self._writer.on_rows_taken(event.sequence)

    def finish(self) -> None:
        try:
            self._opened_writer.flush(end_of_input=True)
            self._prepared = self._opened_writer.prepare_commit()
            if self._prepared:
                self._opened_committer.commit(self._prepared)
                self._prepared = ()
        except Exception as error:
            self._raise(error)

    def snapshot_state(self, checkpoint_id: int) -> Any:
        return self._opened_writer.snapshot_state(checkpoint_id)

    def close(self) -> None:
        writer, self._writer = self._writer, None
        committer, self._committer = self._committer, None
        steps: list[Callable[[], None]] = []
        if committer is not None:
            if self._prepared:
                steps.append(lambda: committer.abort(self._prepared))
            steps.append(committer.close)
        if writer is not None:
            steps.append(writer.close)
        errors = [error for step in steps if (error := _error_of(step)) is not None]
        if errors:
            self._raise(errors[0])

    @property
    def _opened_writer(self) -> SinkWriter:
        assert self._writer is not None, "the task opens its operators before anything else"
        return self._writer

    @property
    def _opened_committer(self) -> Committer:
        if self._committer is None:
            raise TypeError(
                f"the writer of {type(self._sink).__name__} prepares commits, but the sink has no committer: let "
                "create_committer return one"
            )
        return self._committer

    def _raise(self, error: Exception) -> NoReturn:
        raise_attributed(self.context.operator_name, self.context.subtask, NO_VALUE, error)


class _WriterContext:
    """Implements `flinkray.connectors.sink.SinkWriterContext`."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    @property
    def subtask_index(self) -> int:
        return self._context.subtask_index

    @property
    def parallelism(self) -> int:
        return self._context.parallelism

    @property
    def attempt_number(self) -> int:
        return self._context.attempt_number

    @property
    def operator_name(self) -> str:
        return self._context.operator_name

    @property
    def job_id(self) -> str:
        return self._context.job_id

    def now_ms(self) -> int:
        return self._context.clock.now_ms()


def _error_of(step: Callable[[], None]) -> Exception | None:
    try:
        step()
    except Exception as error:
        return error
    return None
