"""Session windows with the user's own functions: reduce, AggregateFunction, ProcessWindowFunction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from actors.operators.accumulator_base import Cells
from actors.operators.session_base import SessionOperatorBase
from actors.operators.session_contents import FoldedSessions, SessionContents
from actors.operators.window_calls import CallingOperator, WindowCalls
from flinkray.batch import Batch
from flinkray.operator_factories import WindowFactory
from flinkray.windowing import Window


class RowSessionOperator(CallingOperator, SessionOperatorBase):
    """Keeps per session a list of rows, a reduced value or an accumulator, and calls the user's function.

    What sessions that become one have kept is put together by the order of their first rows, before what has just come.
    """

    def __init__(self, factory: WindowFactory) -> None:
        super().__init__(factory)
        self._calls = WindowCalls(factory)

    def _make_contents(self) -> SessionContents:
        self._contents = FoldedSessions(self._calls.fold, self.context)
        return self._contents

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        super().process_batch(batch, input_index)
        self._calls.end_round()

    def _fire_due(self, watermark: int) -> None:
        super()._fire_due(watermark)
        self._calls.end_round()

    def _emit(self, cells: Cells) -> None:
        for (key, group, window), contents in zip(self._told(cells), self._contents.to_show(cells), strict=True):
            self._calls.fire(key, group, window, contents)

    def _before_release(self, cells: Cells) -> None:
        if self._calls.are_told_of_ends:
            for key, group, window in self._told(cells):
                self._calls.clear(key, group, window)

    def _told(self, cells: Cells) -> Iterator[tuple[Any, int, Window]]:
        """Key, key group and window of each."""
        starts, ends = (times.tolist() for times in self._store.windows(cells))
        keys, groups = self._calls.keys(self._store.keys(cells), len(cells))
        return zip(keys, groups, map(Window, starts, ends), strict=True)
