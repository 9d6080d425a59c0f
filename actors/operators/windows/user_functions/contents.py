"""How the general window operator keeps what is in a window: rows, or one value that takes them in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from actors.operators.windows.user_functions.contexts import WindowTimes
from actors.operators.windows.user_functions.panes import NOTHING
from actors.state.keyed.backend import KeyedStateBackend
from flinkray.batches.row_codec import as_row, form_of, short_repr
from flinkray.batches.row_codec import snapshot as copy_of
from flinkray.errors import TypeMismatchError
from flinkray.functions.interfaces import AggregateFunction, as_callable
from flinkray.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.types.records import RecordType
from flinkray.windows.evictors import Evictor

_NAME = "window-contents"

Pane = tuple[Any, Any]
"""A key, and the window under which its state is."""


class Fold(Struct, frozen=True):
    """What a window makes of its rows.

    Attributes:
        add: contents (NOTHING at first) and a row to contents.
        result: contents to what the window function gets, or to the result where there is none.
        merge: the contents of two windows in one.
        copy: so that taking in a row does not change what a snapshot holds.
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
    """That of reduce, of an AggregateFunction, or the list of all rows."""
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
    """The contents of all keys' windows, of which the operator makes one current before anything else.

    Args:
        backend: where they are kept, by key and window.
    """

    def __init__(self, backend: KeyedStateBackend) -> None:
        self._backend = backend
        self._state: Any = None

    @abstractmethod
    def open(self) -> None:
        """After the backend was restored."""

    def set_current(self, pane: Pane, group: int) -> None:
        self._backend.set_current_key(pane, group)

    @abstractmethod
    def add(self, value: Any, timestamp: int | None, row: int) -> None:
        """
        Args:
            row: its number in the batch that is being processed.
        """

    @abstractmethod
    def fire(self, window: Any) -> None:
        """Hands on what the current window has, if it has anything.

        Args:
            window: as the function sees it; its state may be under another.
        """

    def clear(self) -> None:
        """Drops what the current window has."""
        self._state.clear()

    def merge(self, key: Any, group: int, target: Any, sources: Iterable[Any]) -> None:
        """Moves what the windows `sources` have to behind that of `target`."""
        for source in sources:
            self._backend.set_current_key((key, source), group)
            taken = self._take_out()
            if taken is not None:
                self._backend.set_current_key((key, target), group)
                self._merge_in(taken)

    def _take_out(self) -> Any:
        return self._state.take_out()

    def _merge_in(self, taken: Any) -> None:
        self._state.merge_in(taken)


class RowContents(WindowContents):
    """All rows, for a window function.

    Args:
        emit: takes the rows of a window that fires.
    """

    def __init__(self, backend: KeyedStateBackend, emit: Callable[[Any], None]) -> None:
        super().__init__(backend)
        self._emit = emit

    def open(self) -> None:
        self._state = self._backend.get_list_state(ListStateDescriptor(_NAME))

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
        # In a tuple, since None may be a reduced row, or an accumulator.
        self._state = self._backend.get_state(ValueStateDescriptor(_NAME))

    def add(self, value: Any, timestamp: int | None, row: int) -> None:
        held = self._state.value()
        self._state.update((self._fold.add(NOTHING if held is None else held[0], value),))

    def fire(self, window: Any) -> None:
        held = self._state.value()
        if held is not None:
            self._emit(self._fold.result(held[0]))

    def _take_out(self) -> Any:
        taken = self._state.value()
        self._state.clear()
        return taken

    def _merge_in(self, taken: Any) -> None:
        held = self._state.value()
        self._state.update(taken if held is None else (self._fold.merge(held[0], taken[0]),))


class WindowRow(Struct):
    """A row in a window (flinkray.windows.evictors.TimestampedValue)."""

    value: Any
    timestamp: int | None
    record_type: RecordType | None = None
    """Of the batch that it came with; kept for built-in aggregates, which work on columns."""


class EvictedContents(RowContents):
    """All rows with their times, of which an evictor leaves some out; after Flink's EvictingWindowOperator.

    Args:
        emit: takes the rows (WindowRow) that the evictor has left.
    """

    def __init__(
        self, backend: KeyedStateBackend, evictor: Evictor, times: WindowTimes, where: str, emit: Callable[[Any], None]
    ) -> None:
        super().__init__(backend, emit)
        self._evictor = evictor
        self._times = times
        self._where = where
        self.record_type: RecordType | None = None
        """Of the rows that are being added, where it matters."""

    def add(self, value: Any, timestamp: int | None, row: int) -> None:
        self._state.add(WindowRow(value, timestamp, self.record_type))

    def fire(self, window: Any) -> None:
        rows: Any = self._state.get()
        if not rows:
            return
        rows = self._left(self._evictor.evict_before(rows, len(rows), window, self._times), "evict_before")
        self._emit(rows)
        rows = self._left(self._evictor.evict_after(rows, len(rows), window, self._times), "evict_after")
        self._state.update(rows)

    def _left(self, rows: Any, method: str) -> list[WindowRow]:
        if not isinstance(rows, list) or not all(isinstance(row, WindowRow) for row in rows):
            raise TypeMismatchError(
                f"{self._where}: {method} of {type(self._evictor).__name__} must return the list of the elements that "
                f"stay, not {short_repr(rows)}"
            )
        return rows
