"""Windows whose function gets all rows: kept in columns, and made values when the window fires."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.elements import CheckpointOptions
from actors.large_columns import repeated_rows, whole
from actors.operators.base import OperatorContext, Output
from actors.operators.keyed_rows import KeyedRows, decoded
from actors.operators.window_calls import WindowCalls
from actors.operators.window_groups import WindowGroup, windows_between
from actors.operators.window_kept_rows import KeptRowsOperator
from actors.operators.window_times import Times
from actors.operators.windowed_rows import Found, WindowedRows
from actors.ordering import distinct, is_other_than_before, order_by
from actors.state.key_index import Ids
from actors.state.snapshot import OperatorSnapshot, RestoredState
from actors.taking import places_of_runs
from flinkray.keys import KeySelector
from flinkray.operator_factories import WindowFactory
from flinkray.types import MIN_TIMESTAMP
from flinkray.windowing import Window

_STATE = "rows"


class ProcessWindowOperator(KeptRowsOperator):
    """Calls the function with all rows of a window and key, in order of arrival.

    Windows fire in order, in each the keys by first arrival. In processing time a batch is in the windows of the moment
    at which it arrives.
    """

    _STATES = (_STATE,)
    _CONTENTS_IN = _STATE

    _VALUES_AT_ONCE = 1 << 14
    """Rows become values until there are so many, or those of a key: they take several times the columns' memory."""

    def __init__(self, factory: WindowFactory) -> None:
        super().__init__(factory)
        self._calls = WindowCalls(factory)
        self._ended_until: int = MIN_TIMESTAMP
        """The function was told of the end of windows that were over at this watermark."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._calls.setup(self, output)

    def _key_selectors(self) -> Sequence[KeySelector | None]:
        return self.context.keys[:1] or (None,)

    def open(self) -> None:
        self._calls.open()

    def close(self) -> None:
        super().close()
        self._calls.close()

    @property
    def current_watermark(self) -> int:
        return self._watermark

    def end_keys(self) -> None:
        super().end_keys()
        self._ended_until = self._watermark
        self._calls.end_keys()

    # -- results

    def _end_round(self) -> None:
        self._calls.end_round()

    def _sides(self, group: WindowGroup) -> list[WindowedRows | None]:
        """Those of the same columns each: values are to have the types that they came with."""
        alike: list[list[Found]] = []
        for found in group.sides[0]:
            for others in alike:
                if _are_alike(others[0].run.rows, found.run.rows):
                    others.append(found)
                    break
            else:
                alike.append([found])
        return [self._put_in_order(found) for found in alike]

    def _fire_sides(self, sides: Sequence[WindowedRows | None], starts: Times) -> None:
        there = [side for side in sides if side is not None and len(side.ids)]
        if not there:
            return
        ids, order, begins, counts = self._groups_in_order(there)
        ends = np.cumsum(counts)
        group = 0
        while group < len(ends):
            before = int(ends[group - 1]) if group else 0
            until = max(group + 1, int(ends.searchsorted(before + self._VALUES_AT_ONCE, "right")))
            some = slice(group, until)
            rows = _values(there, order[places_of_runs(begins[some], counts[some])])
            told, place = self._told(ids[order[begins[some]]], starts), 0
            for (key, key_group, window), end in zip(told, (ends[some] - before).tolist(), strict=True):
                self._calls.fire(key, key_group, window, rows[place:end])
                place = end
            group = until

    def _groups_in_order(self, sides: Sequence[WindowedRows]) -> tuple[Ids, Ids, Ids, Ids]:
        """The window and key of each row of all sides; the rows by window and key, then arrival; and where those of
        each window and key begin there, and how many they are: by window, then by their first row's arrival."""
        if len(sides) == 1:
            ids = sides[0].ids
            arrivals = None  # rows of a window are in this order
            order = order_by(ids)
        else:
            ids = np.concatenate([side.ids for side in sides])
            arrivals = np.concatenate([side.positions for side in sides])
            order = order_by(ids, arrivals)
        begins = np.flatnonzero(is_other_than_before(ids[order]))
        firsts = order[begins]
        by_arrival = order_by(ids[firsts] // len(self._keys), firsts if arrivals is None else arrivals[firsts])
        counts = np.diff(np.append(begins, len(order)))
        return ids, order, begins[by_arrival], counts[by_arrival]

    def _told(self, ids: Ids, starts: Times) -> Iterator[tuple[Any, int, Window]]:
        """Key, key group and window of each, which is a number of window and key."""
        windows, key_ids = np.divmod(ids, len(self._keys))
        begins = starts[windows]
        keys, groups = self._calls.keys(self._keys.take(key_ids), len(ids))
        return zip(keys, groups, map(Window, begins.tolist(), (begins + self._times.size).tolist()), strict=True)

    def _before_release(self, watermark: int) -> None:
        if not self._calls.are_told_of_ends:
            return
        before, over = (self._times.over_limit(time) for time in (self._ended_until, watermark))
        self._ended_until = watermark
        for starts in windows_between(self._times, self._buffers, before, over):
            for group in self._groups(starts, self._buffers):
                ids = distinct(np.concatenate([found.ids(len(self._keys)) for found in group.sides[0]]))
                for key, key_group, window in self._told(ids, group.starts):
                    self._calls.clear(key, key_group, window)
        self._end_round()

    # -- snapshots

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot:
        snapshot = super().snapshot_state(checkpoint_id, options)
        self._calls.snapshot_state(checkpoint_id, options, snapshot)
        return snapshot

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._calls.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._calls.notify_checkpoint_aborted(checkpoint_id)

    def initialize_state(self, restored: RestoredState | None) -> None:
        super().initialize_state(restored)
        self._ended_until = self._watermark
        self._calls.initialize_state(restored)


def _are_alike(rows: KeyedRows, others: KeyedRows) -> bool:
    return rows.kind is others.kind and rows.data.schema.equals(others.data.schema, check_metadata=True)


def _values(sides: Sequence[WindowedRows], places: npt.NDArray[np.int64]) -> list[Any]:
    """The rows at these places, which count through all sides, as user functions see them."""
    if len(sides) == 1:
        return _decoded(sides[0], places)
    values = np.empty(len(places), object)
    first = 0
    for side in sides:
        which = np.flatnonzero((places >= first) & (places < first + len(side.ids)))
        for place, value in zip(which.tolist(), _decoded(side, places[which] - first), strict=True):
            values[place] = value
        first += len(side.ids)
    return values.tolist()


def _decoded(side: WindowedRows, places: npt.NDArray[np.int64]) -> list[Any]:
    return decoded(repeated_rows(whole(side.rows.data), side.places[places]), side.rows.kind)
