"""Functions as sinks (`add_sink`): called with each value, in the task's thread."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import decode, short_repr
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.errors import FlinkrayError, InvalidProgramError, UserFunctionError, make_printable, message_of
from flinkray.functions.interfaces import SinkFunction, as_callable


class SinkFunctionSink(Sink):
    """Calls a function with each value. What it has written by the time of a failure is written again after it.

    The operator opens and closes the function, and saves its state where it is a CheckpointedFunction.
    """

    def __init__(self, function: SinkFunction | Callable[[Any], Any]) -> None:
        if not callable(function) and not isinstance(function, SinkFunction):
            raise InvalidProgramError(f"add_sink takes a function or a SinkFunction object, not {function!r}")
        self.function = function

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        return _FunctionWriter(self.function, context)


class _FunctionWriter(SinkWriter):
    """Calls the function with each value of a batch."""

    def __init__(self, function: SinkFunction | Callable[[Any], Any], context: SinkWriterContext) -> None:
        self._context = context
        self._invoke = as_callable(function, "invoke")

    def write(self, batch: Batch) -> None:
        invoke = self._invoke
        for value in decode(batch):
            try:
                invoke(value)
            except FlinkrayError:
                raise
            except Exception as error:
                raise self._error(value, error) from error

    def close(self) -> None:
        """The operator closes the function."""

    def _error(self, value: Any, error: Exception) -> UserFunctionError:
        make_printable(error)
        # The first frame is this module's; the user's begin after it.
        frames = error.__traceback__.tb_next if error.__traceback__ else None
        return UserFunctionError(
            self._context.operator_name,
            f"{self._context.subtask_index + 1} of {self._context.parallelism}",
            short_repr(value),
            f"{type(error).__name__}: {message_of(error)}",
            "".join(traceback.format_exception(type(error), error, frames)).rstrip(),
        )
