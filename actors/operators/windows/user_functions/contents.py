"""What a window of the general operator contains: rows, or one value into which they are folded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from actors.operators.windows.user_functions.contents_by_key import NOTHING
from actors.operators.windows.user_functions.contexts import WindowEvictorContext
from actors.state.keyed.backend import KeyedStateBackend
from flinkray.batches.row_codec import as_row, form_of, short_repr
from flinkray.batches.row_codec import snapshot as copy_of
from flinkray.errors import TypeMismatchError
from flinkray.functions.interfaces import AggregateFunction, as_callable
from flinkray.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.types.records import RecordType
from flinkray.windows.evictors import Evictor

_STATE = "window-contents"

Pane = tuple[Any, Any]
"""A key, and the window under which its state is: what Flink calls a pane."""


class Fold(Struct, frozen=True):
    """How a window folds its rows.

    Attributes:
        add: from contents (NOTHING at first) and a row to contents.
        result: from contents to what the window function gets, or to the result where there is no window function.
        merge: from the contents of two windows to those of one.
        copy: copies contents, so that adding a row does not change those that a snapshot holds.
    """

    add: Callable[[Any, Any], Any]
    result: Callable[[Any], Any]
    merge: Callable[[Any, Any], Any]
    copy: Callable[[Any], Any]

    def of(self, rows: Iterable[Any]) -> Any:
        """The contents of a window that has these rows."""
        contents = NOTHING
        for row in rows:
            contents = self.add(contents, row)
        return contents


def fold_of(factory: WindowFactory) -> Fold:
    """The fold of reduce, of an AggregateFunction, or into the list of all rows."""
    goes_on = factory.process is not None
    if factory.reduce is not None:
        reduce = as_callable(factory.reduce, "reduce")
        form = as_row if goes_on else form_of(factory.output_type)
        return Fold(
            lambda contents, value: value if contents is NOTHING else form(reduce(contents, value)),
            (lambda contents: [contents]) if goes_on else (lambda contents: contents),
            lambda first, second: form(reduce(first, second)),
            copy_of,
        )
    if factory.aggregate is not None:
        aggregate = factory.aggregate
        assert isinstance(aggregate, AggregateFunction)
        return Fold(
            lambda contents, value: aggregate.add(
                value, aggregate.create_accumulator() if contents is NOTHING else contents
            ),
            (lambda contents: [aggregate.get_result(contents)]) if goes_on else aggregate.get_result,
            aggregate.merge,
            copy_of,
        )
    return Fold(_append, list, lambda first, second: [*first, *second], list)


def _append(contents: Any, value: Any) -> list[Any]:
    if contents is NOTHING:
        return [value]
    contents.append(value)
    return contents  # type: ignore[no-any-return]


class WindowContents(ABC):
    """The contents of all keys' windows, one of which the operator makes current before anything else.

    Args:
        backend: holds them, by key and window.
    """

    def __init__(self, backend: KeyedStateBackend) -> None:
        self._backend = backend
        self._state: Any = None

    @abstractmethod
    def open(self) -> None:
        """To be called after the backend was restored."""

    def set_current(self, pane: Pane, group: int) -> None:
        self._backend.set_current_key(pane, group)

    @abstractmethod
    def add(self, value: Any, timestamp: int | None, row: int) -> None:
        """Adds a row to the current window.

        Args:
            row: its number in the batch that is being processed.
        """

    @abstractmethod
    def fire(self, window: Any) -> None:
        """Emits what the current window contains, if there is anything.

        Args:
            window: as the function sees it; its state may be under another.
        """

    def clear(self) -> None:
        """Drops what the current window contains."""
        self._state.clear()

    def merge(self, key: Any, group: int, target: Any, sources: Iterable[Any]) -> None:
        """Moves what the windows `sources` contain to the end of what `target` contains."""
        for source in sources:
            self._backend.set_current_key((key, source), group)
            state = self._take_out()
            if state is not None:
                self._backend.set_current_key((key, target), group)
                self._merge_in(state)

    def _take_out(self) -> Any:
        return self._state.take_out()

    def _merge_in(self, state: Any) -> None:
        self._state.merge_in(state)


class RowContents(WindowContents):
    """All rows, for a window function.

    Args:
        emit: takes the rows of a window that fires.
    """

    def __init__(self, backend: KeyedStateBackend, emit: Callable[[Any], None]) -> None:
        super().__init__(backend)
        self._emit = emit

    def open(self) -> None:
        self._state = self._backend.get_list_state(ListStateDescriptor(_STATE))

    def add(self, value: Any, timestamp: int | None, row: int) -> None:
        self._state.add(value)

    def fire(self, window: Any) -> None:
        rows = self._state.get()
        if rows:
            self._emit(rows)


class FoldedContents(WindowContents):
    """What reduce or an AggregateFunction has made of the rows.

    Args:
        emit: takes the result of a window that fires.
    """

    def __init__(self, backend: KeyedStateBackend, fold: Fold, emit: Callable[[Any], None]) -> None:
        super().__init__(backend)
        self._fold = fold
        self._emit = emit

    def open(self) -> None:
        # The value is in a tuple, since None may be a reduced row, or an accumulator.
        self._state = self._backend.get_state(ValueStateDescriptor(_STATE))

    def add(self, value: Any, timestamp: int | None, row: int) -> None:
        value_tuple = self._state.value()
        self._state.update((self._fold.add(NOTHING if value_tuple is None else value_tuple[0], value),))

    def fire(self, window: Any) -> None:
        value_tuple = self._state.value()
        if value_tuple is not None:
            self._emit(self._fold.result(value_tuple[0]))

    def _take_out(self) -> Any:
        state = self._state.value()
        self._state.clear()
        return state

    def _merge_in(self, state: Any) -> None:
        value_tuple = self._state.value()
        self._state.update(state if value_tuple is None else (self._fold.merge(value_tuple[0], state[0]),))


class WindowRow(Struct):
    """A row in a window, as evictors see it (flinkray.windows.evictors.TimestampedValue)."""

    value: Any
    timestamp: int | None
    record_type: RecordType | None = None
    """The type of the rows of its batch, for built-in aggregates, which work on columns."""


class EvictedContents(RowContents):
    """All rows with their times, of which an evictor leaves some out; after Flink's EvictingWindowOperator.

    Args:
        emit: takes the rows (WindowRow) that the evictor has left.
    """

    def __init__(
        self,
        backend: KeyedStateBackend,
        evictor: Evictor,
        context: WindowEvictorContext,
        where: str,
        emit: Callable[[Any], None],
    ) -> None:
        super().__init__(backend, emit)
        self._evictor = evictor
        self._context = context
        self._where = where
        self.record_type: RecordType | None = None
        """The type of the rows that are being added, where it matters."""

    def add(self, value: Any, timestamp: int | None, row: int) -> None:
        self._state.add(WindowRow(value, timestamp, self.record_type))

    def fire(self, window: Any) -> None:
        rows: Any = self._state.get()
        if not rows:
            return
        rows = self._checked(self._evictor.evict_before(rows, len(rows), window, self._context), "evict_before")
        self._emit(rows)
        rows = self._checked(self._evictor.evict_after(rows, len(rows), window, self._context), "evict_after")
        self._state.update(rows)

    def _checked(self, rows: Any, method: str) -> list[WindowRow]:
        if not isinstance(rows, list) or not all(isinstance(row, WindowRow) for row in rows):
            raise TypeMismatchError(
                f"{self._where}: {method} of {type(self._evictor).__name__} must return the list of the elements that "
                f"stay, not {short_repr(rows)}"
            )
        return rows
