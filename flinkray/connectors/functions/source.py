"""Generator functions and SourceFunctions as a source (`add_source`): called on a thread of their own, so they may
block."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from typing import Any

import pyarrow as pa

from flinkray.batches.batch import Batch, concat, is_same_layout
from flinkray.batches.row_codec import RowEncoder
from flinkray.batches.sizes import data_bytes
from flinkray.connectors.functions.collector import FunctionCollector
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
from flinkray.connectors.split_list import SplitListEnumerator, batch_rows
from flinkray.connectors.subtask import SubtaskRuntimeContext
from flinkray.errors import InvalidProgramError, TypeMismatchError, operator_label
from flinkray.functions.closures import check_serializable
from flinkray.functions.interfaces import CheckpointedFunction, SourceFunction
from flinkray.functions.type_hints import from_annotation, record_type
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP, Kind, RecordType

_WAITING_BATCHES = 2
"""So many batches' worth of values the function may be ahead of the task."""
_BATCH_BYTES = 8 << 20
"""The most bytes of one batch, where values are wide (see `batch_rows`); a wider value has a batch of its own."""
_END_SECONDS = 1.0
"""How long closing waits for the function to end; a thread that still waits for something else is left behind."""


class GeneratorFunctionSource(Source):
    """Calls a function in a thread of each subtask. It yields values, or whole pa.RecordBatches (not both), whose
    columns are cast to the declared type where there is one.

    The function takes nothing, or a `SourceContext`; a SourceFunction's `run` always does. Its
    position is not known, so after a failure it starts over.

    Args:
        is_changelog: whether `Row`s that it gives may be of any kind; its RecordBatches are of inserts.
    """

    may_end = True
    _is_changelog = False

    def __init__(
        self, function: SourceFunction | Callable[..., Any], type_info: Any = None, is_changelog: bool = False
    ) -> None:
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
        self._is_changelog = is_changelog

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.UNBOUNDED

    @property
    def output_type(self) -> RecordType | None:
        return self._type

    @property
    def is_changelog(self) -> bool:
        return self._is_changelog

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        return SplitListEnumerator(context, ())

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _FunctionReader(context, self._function, self._type, self._is_changelog)


class _FunctionReader(SourceReader):
    """The task's side of the Handover: takes the values that wait, and makes batches of them."""

    def __init__(
        self,
        context: SourceReaderContext,
        function: SourceFunction | Callable[..., Any],
        declared: RecordType | None,
        is_changelog: bool,
    ) -> None:
        self._context = context
        self._split_id = f"function-{context.subtask_index}"
        self._function = function
        self._declared = declared
        # Weights are bytes, and no row weighs less than its share of a batch: so one limit is one of rows and of bytes.
        row_weight = max(1, _BATCH_BYTES // context.batch_rows)
        self._limit = row_weight * context.batch_rows
        self._handover: Handover[tuple[Any, int | None]] = Handover(
            _WAITING_BATCHES * self._limit, context.notify_available
        )
        self._waiting: deque[Batch] = deque()
        self._forms: set[bool] = set()
        """What has come so far: RecordBatches (True), other values (False)."""
        self._subtask = f"{context.subtask_index + 1} of {context.parallelism}"
        self._encoder = RowEncoder(
            context.operator_name, self._subtask, declared, "type_info", gives_changelog=is_changelog
        )
        self._thread = threading.Thread(
            target=copy_context().run,  # its lines of the log are the subtask's
            args=(_run, function, context, FunctionCollector(self._handover, row_weight)),
            name=context.operator_name,
            daemon=True,
        )

    def start(self) -> None:
        self._thread.start()

    def poll(self) -> SourceBatch | ReaderStatus:
        # Asked before, since the thread may fail and finish in between, and its error comes with the next look.
        is_drained = self._handover.is_drained
        if not self._waiting:
            self._waiting.extend(self._batches(self._handover.take_nowait(self._limit)))
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

    def _batches(self, items: list[tuple[Any, int | None]]) -> Iterator[Batch]:
        """Batches of the items, in order. In a batch either all rows have a timestamp, or none has."""
        self._forms.update({isinstance(value, pa.RecordBatch) for value, _ in items})
        if len(self._forms) == 2:
            raise InvalidProgramError(f"{self._context.operator_name!r} yields both RecordBatches and other values")
        if True in self._forms:
            yield from self._whole_batches(items)
            return
        for has_timestamps, group in itertools.groupby(items, lambda each: each[1] is not None):
            values, times = map(list, zip(*group, strict=True))
            yield self._encoder.encode(values, self._checked(times) if has_timestamps else None)

    def _checked(self, times: list[Any]) -> pa.Array:
        """The timestamps of `collect_with_timestamp` as a column of int64."""
        try:
            return pa.array(times, pa.int64())
        except (OverflowError, pa.ArrowException) as error:
            wrong = next((time for time in times if not _is_millis(time)), times[0])
            raise TypeMismatchError(
                f"{operator_label(self._context.operator_name, self._subtask)}: the timestamp of "
                f"collect_with_timestamp is an int of epoch milliseconds that fits 64 bits, not {wrong!r}"
            ) from error

    def _whole_batches(self, items: list[tuple[pa.RecordBatch, int | None]]) -> Iterator[Batch]:
        """Neighbours of one layout are coalesced, and what is too large for a batch is split."""
        alike: list[Batch] = []
        for data, timestamp in items:
            batch = self._whole_batch(data, timestamp)
            if alike and not is_same_layout(alike[0], batch):
                yield from self._split(concat(alike))
                alike = []
            alike.append(batch)
        if alike:
            yield from self._split(concat(alike))

    def _whole_batch(self, data: pa.RecordBatch, timestamp: int | None) -> Batch:
        # Converted as those of rows are, among which NumPy's numbers may be.
        time = None if timestamp is None else self._checked([timestamp])[0].as_py()
        if self._declared is None:
            return Batch(data, Kind.ROW, time)
        return Batch(self._fitted(data, self._declared), self._declared.kind, time)

    def _split(self, batch: Batch) -> Iterator[Batch]:
        length = batch_rows(self._context, data_bytes(batch.data) / batch.num_rows)
        if batch.num_rows <= length:
            yield batch
            return
        for start in range(0, batch.num_rows, length):
            yield batch.slice(start, length)

    def _fitted(self, data: pa.RecordBatch, declared: RecordType) -> pa.RecordBatch:
        """The columns of the declared type, and of its types; casts only where nothing is lost."""
        if data.schema.equals(declared.schema, check_metadata=True):
            return data
        where = operator_label(self._context.operator_name, self._subtask)
        if declared.kind is Kind.OBJECT or sorted(data.schema.names) != sorted(declared.schema.names):
            raise TypeMismatchError(
                f"{where}: the function gave a RecordBatch of the columns {', '.join(data.schema.names)}, which does "
                f"not fit type_info={declared}"
            )
        columns = []
        for field in declared.schema:
            column = data.column(field.name)
            try:
                columns.append(column.cast(field.type))
            except pa.ArrowException as error:
                raise TypeMismatchError(
                    f"{where}: column {field.name!r} of a RecordBatch is {column.type} and does not fit {field.type}, "
                    f"as which type_info= declares it: {error}"
                ) from error
        return pa.RecordBatch.from_arrays(columns, schema=declared.schema)


class _SourceContext:
    """Implements `flinkray.functions.interfaces.SourceContext`, in the function's thread."""

    def __init__(self, context: SourceReaderContext, collector: FunctionCollector) -> None:
        self._collector = collector
        self.subtask_index = context.subtask_index
        self.parallelism = context.parallelism

    def collect(self, value: Any) -> None:
        self._offer(value, None)

    def collect_with_timestamp(self, value: Any, timestamp: int) -> None:
        self._offer(value, timestamp)

    def is_cancelled(self) -> bool:
        return self._collector.is_closed

    def _offer(self, value: Any, timestamp: int | None) -> None:
        if not self._collector.collect(value, timestamp):
            raise _Closed


class _Closed(BaseException):
    """Unwinds a function that collects after its source was closed; no `except Exception` of the user's stops it."""


def _run(
    function: SourceFunction | Callable[..., Any],
    context: SourceReaderContext,
    collector: FunctionCollector,
) -> None:
    """The thread: calls the function to its end, and hands over what it gives."""
    error: BaseException | None = None
    try:
        _call(function, _SourceContext(context, collector), SubtaskRuntimeContext(context), collector)
    except _Closed:
        pass  # nobody wants the rest
    except BaseException as caught:  # also SystemExit: the task must learn of every way in which the thread ends
        error = caught
    collector.finish(error)


def _call(
    function: SourceFunction | Callable[..., Any],
    source_context: _SourceContext,
    runtime_context: SubtaskRuntimeContext,
    collector: FunctionCollector,
) -> None:
    with contextlib.ExitStack() as stack:
        if isinstance(function, SourceFunction):
            stack.callback(function.close)
            function.open(runtime_context)
            values: Iterable[Any] | None = function.run(source_context)
        else:
            values = function(source_context) if _takes_context(function) else function()
        for value in values or ():
            if not collector.collect(value, None):
                close = getattr(values, "close", None)
                if close is not None:
                    close()  # runs the generator's own finally blocks
                return


def _is_millis(time: Any) -> bool:
    return isinstance(time, int) and MIN_TIMESTAMP <= time <= MAX_TIMESTAMP


def _takes_context(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False  # a builtin
    return any(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
