"""Session windows with the user's own functions: reduce, AggregateFunction, ProcessWindowFunction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from actors.columns.ordering import order_by
from actors.operators.windows.sessions.contents import FoldedSessions, SessionContents
from actors.operators.windows.sessions.operator_base import SessionOperatorBase
from actors.operators.windows.sessions.session_table import SessionIds
from actors.operators.windows.user_functions.calls import CallingOperator, WindowCalls
from flinkray.batches.batch import Batch
from flinkray.time.windows import Window
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.types.records import MAX_TIMESTAMP

_SESSIONS_AT_ONCE = 1_024
"""So many keys and windows of sessions that fire become Python values at a time."""


class RowSessionOperator(CallingOperator, SessionOperatorBase):
    """Folds the rows of each session into a list, a reduced value or an accumulator, and calls the user's function.

    The contents of sessions that become one are merged by the order of their first rows, before the rows that have just
    come.
    """

    def __init__(self, factory: WindowFactory) -> None:
        super().__init__(factory)
        self._calls = WindowCalls(factory)
        self._fired: list[int] = []
        """The sessions that have fired since the last pause."""

    def _make_contents(self) -> SessionContents:
        self._contents = FoldedSessions(self._calls.fold, self.context)
        return self._contents

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        super().process_batch(batch, input_index)
        self._calls.end_round()

    def _fire_due(self, watermark: int) -> Iterator[None]:
        due = self._store.due(watermark)
        return self._fire_and_end(due, self._store.over(self._late_limit))

    def _fire_and_end(self, due: SessionIds, over: SessionIds) -> Iterator[None]:
        """Fires sessions, and calls `clear` for those that are over, in the order of these times, as the function may
        keep state by key. (It is called again after a restore if a snapshot comes in between.)"""
        to_clear = over if self._calls.has_clear else over[:0]
        sessions, is_end = np.concatenate([due, to_clear]), np.repeat([0, 1], [len(due), len(to_clear)])
        starts, ends = self._store.windows(sessions)
        lasts = ends - 1
        lasts[len(due) :] = np.minimum(lasts[len(due) :], MAX_TIMESTAMP - self._lateness) + self._lateness
        order = order_by(lasts, starts, sessions, is_end)
        for begin in range(0, len(order), _SESSIONS_AT_ONCE):
            some = order[begin : begin + _SESSIONS_AT_ONCE]
            windows = self._windows_of(sessions[some])
            for (key, group, window), session, has_ended in zip(windows, sessions[some], is_end[some], strict=True):
                if has_ended:
                    self._calls.clear(key, group, window)
                else:
                    (contents,) = self._contents.exposed(session[np.newaxis])
                    self._calls.fire(key, group, window, contents)
                    self._fired.append(session)
                yield
        self._note_fired()
        self._store.release(over)

    def _end_round(self) -> None:
        self._note_fired()
        super()._end_round()

    def _note_fired(self) -> None:
        if self._fired:
            self._store.fired(np.array(self._fired))
            self._fired = []

    def _emit(self, sessions: SessionIds) -> None:
        for (key, group, window), contents in zip(
            self._windows_of(sessions), self._contents.exposed(sessions), strict=True
        ):
            self._calls.fire(key, group, window, contents)

    def _windows_of(self, sessions: SessionIds) -> Iterator[tuple[Any, int, Window]]:
        """Key, key group and window of each session."""
        starts, ends = (times.tolist() for times in self._store.windows(sessions))
        keys, groups = self._calls.keys(self._store.keys(sessions), len(sessions))
        return zip(keys, groups, map(Window, starts, ends), strict=True)
