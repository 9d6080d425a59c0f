"""Generator functions and SourceFunctions as a source (`add_source`)."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from flinkray.batch import Batch
from flinkray.closures import check_serializable
from flinkray.connectors.function_context import SubtaskRuntimeContext
from flinkray.connectors.handover import Handover
from flinkray.connectors.source import (
    Boundedness,
    ReaderStatus,
    Source,
    SourceBatch,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.connectors.split_list import SplitListEnumerator
from flinkray.errors import InvalidProgramError
from flinkray.functions import CheckpointedFunction, SourceFunction
from flinkray.row_codec import RowEncoder
from flinkray.type_hints import from_annotation, record_type
from flinkray.types import Kind, RecordType

_WAITING_BATCHES = 2
"""Batches' worth of values that the function may be ahead."""
_END_SECONDS = 1.0
"""How long closing waits for the function to end; one that waits for something else then is left behind."""


class GeneratorFunctionSource(Source):
    """Calls a function in a thread of each subtask. It yields values, or whole pa.RecordBatches (not both).

    The function takes nothing, or a `flinkray.functions.SourceContext`; a SourceFunction's `run` always does. Its
    position is not known, so after a failure it starts over.
    """

    def __init__(self, function: SourceFunction | Callable[..., Any], type_info: Any = None) -> None:
        if not isinstance(function, SourceFunction) and not callable(function):
            raise InvalidProgramError(f"add_source takes a generator function or a SourceFunction, not {function!r}")
        if isinstance(function, CheckpointedFunction):
            raise InvalidProgramError(
                f"{type(function).__name__} is a CheckpointedFunction, whose state add_source does not save: after a "
                "failure the function starts over; write a Source, whose reader says its position, for from_source"
            )
        check_serializable(function, "source")
        self._function = function
        self._type = from_annotation(function, of_items=True) if type_info is None else record_type(type_info)

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.UNBOUNDED

    @property
    def output_type(self) -> RecordType | None:
        return self._type

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        return SplitListEnumerator(context, ())

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _FunctionReader(context, self._function, self._type)


class _FunctionReader(SourceReader):
    """The task's side: takes what waits, and makes batches of it."""

    def __init__(
        self, context: SourceReaderContext, function: SourceFunction | Callable[..., Any], declared: RecordType | None
    ) -> None:
        self._context = context
        self._split_id = f"function-{context.subtask_index}"
        self._function = function
        self._handover: Handover[tuple[Any, int | None]] = Handover(
            _WAITING_BATCHES * context.batch_rows, context.notify_available
        )
        self._waiting: deque[Batch] = deque()
        subtask = f"{context.subtask_index + 1} of {context.parallelism}"
        self._encoder = RowEncoder(context.operator_name, subtask, declared, "type_info")
        self._thread = threading.Thread(
            target=_run, args=(function, context, self._handover), name=context.operator_name, daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def poll(self) -> SourceBatch | ReaderStatus:
        # Asked before, since the thread may fail and finish in between, and its error comes with the next look.
        is_drained = self._handover.is_drained
        if not self._waiting:
            self._waiting.extend(self._batches(self._handover.take_nowait(self._context.batch_rows)))
        if self._waiting:
            return SourceBatch(self._waiting.popleft(), self._split_id)
        return ReaderStatus.END_OF_INPUT if is_drained else ReaderStatus.NOTHING_AVAILABLE

    def add_splits(self, splits: Any) -> None: ...

    def notify_no_more_splits(self) -> None: ...

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return []

    def close(self) -> None:
        is_running = self._thread.is_alive()  # looked at first: closing is what may end it
        self._handover.close()
        if is_running:
            if isinstance(self._function, SourceFunction):
                self._function.cancel()
            self._thread.join(_END_SECONDS)

    def _batches(self, taken: list[tuple[Any, int | None]]) -> Iterator[Batch]:
        """Of a batch all rows have a timestamp, or none has."""
        values = [value for value, _ in taken]
        if any(isinstance(value, pa.RecordBatch) for value in values):
            if not all(isinstance(value, pa.RecordBatch) for value in values):
                raise InvalidProgramError(f"{self._context.operator_name!r} yields both RecordBatches and other values")
            yield Batch(pa.concat_batches(values), Kind.ROW)
            return
        for has_timestamps, run in itertools.groupby(taken, lambda each: each[1] is not None):
            values, times = map(list, zip(*run, strict=True))
            yield self._encoder.encode(values, pa.array(times, pa.int64()) if has_timestamps else None)


class _SourceContext:
    """Implements `flinkray.functions.SourceContext`, in the function's thread."""

    def __init__(self, context: SourceReaderContext, handover: Handover[tuple[Any, int | None]]) -> None:
        self._handover = handover
        self.subtask_index = context.subtask_index
        self.parallelism = context.parallelism

    def collect(self, value: Any) -> None:
        self._offer(value, None)

    def collect_with_timestamp(self, value: Any, timestamp: int) -> None:
        self._offer(value, timestamp)

    def is_cancelled(self) -> bool:
        return self._handover.is_closed

    def _offer(self, value: Any, timestamp: int | None) -> None:
        if not self._handover.offer((value, timestamp), _weight(value)):
            raise _Closed


class _Closed(BaseException):
    """Unwinds a function that collects after its source was closed; no `except Exception` of the user's stops it."""


def _run(
    function: SourceFunction | Callable[..., Any],
    context: SourceReaderContext,
    handover: Handover[tuple[Any, int | None]],
) -> None:
    """The thread: calls the function to its end, and hands over what it gives."""
    error: BaseException | None = None
    try:
        _call(function, _SourceContext(context, handover), SubtaskRuntimeContext(context), handover)
    except _Closed:
        pass  # nobody wants the rest
    except BaseException as caught:  # also SystemExit: the task must learn of every way in which the thread ends
        error = caught
    handover.finish(error)


def _call(
    function: SourceFunction | Callable[..., Any],
    source_context: _SourceContext,
    runtime_context: SubtaskRuntimeContext,
    handover: Handover[tuple[Any, int | None]],
) -> None:
    with contextlib.ExitStack() as stack:
        if isinstance(function, SourceFunction):
            stack.callback(function.close)
            function.open(runtime_context)
            values: Iterable[Any] | None = function.run(source_context)
        else:
            values = function(source_context) if _takes_context(function) else function()
        for value in values or ():
            if not handover.offer((value, None), _weight(value)):
                close = getattr(values, "close", None)
                if close is not None:
                    close()  # runs the generator's own finally blocks
                return


def _weight(value: Any) -> int:
    return value.num_rows if isinstance(value, pa.RecordBatch) else 1


def _takes_context(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False  # a builtin
    return any(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
