"""The buffer of one input: rows that windows keep, in few sorted runs of columns, whatever number of slices there
is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from actors.columns.large_columns import Columns
from actors.keys.index import Ids
from actors.keys.state_tables import KeyedTables, StateRows
from actors.operators.windows.base.times import Times
from actors.operators.windows.buffers.buffered_rows import BufferedRows, concat_rows, restored_rows, rows_table
from actors.operators.windows.buffers.sliced_runs import HIGHEST_LEVEL, SlicedRun, merged_runs
from actors.state.snapshots.snapshot import KeyedTable
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.types.records import Kind

# Columns of snapshots beside those of the rows.
_SLICE = "slice"
_FIRED_UNTIL = "fired_until"

# So many runs of about as many rows become one: there are few to look into, and a row is copied few times.
_MERGED_AT_ONCE = 8


class Layout(Struct):
    """Runs whose rows have the same columns, in order of arrival, but for those of a snapshot.

    They are not merged with runs of other columns before a window has rows of both, so that each window has the types
    of its rows.
    """

    kind: Kind
    schema: pa.Schema
    has_fired_otherwise: bool
    runs: list[SlicedRun]

    def has(self, rows: BufferedRows) -> bool:
        return (
            self.kind is rows.kind
            and self.has_fired_otherwise == (rows.fired_until is not None)
            and self.schema.equals(rows.data.schema, check_metadata=True)
        )

    def add(self, run: SlicedRun, where: str) -> None:
        """Adds a run, and merges the last runs where there are several that are not larger than the last one."""
        runs = self.runs
        runs.append(run)
        while (level := runs[-1].level) < HIGHEST_LEVEL:
            begin = len(runs)
            while begin and runs[begin - 1].level <= level:
                begin -= 1
            if len(runs) - begin < _MERGED_AT_ONCE:
                return
            try:
                runs[begin:] = [merged_runs(runs[begin:], where)]
            except pa.ArrowException:  # not all columns can be concatenated: dictionaries may have too many values
                runs[begin:] = [replace(run, level=HIGHEST_LEVEL) for run in runs[begin:]]


class RowBuffer:
    """Rows by slice. They are copied when they come in, so that no received batch stays alive.

    Args:
        where: names the operator in errors.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._layouts: list[Layout] = []

    def add(self, run: SlicedRun) -> None:
        layout = next((each for each in self._layouts if each.has(run.rows)), None)
        if layout is None:
            rows = run.rows
            layout = Layout(rows.kind, rows.data.schema, rows.fired_until is not None, [])
            self._layouts.append(layout)
        layout.add(run, self._where)

    @property
    def layouts(self) -> Sequence[Layout]:
        return self._layouts

    def earliest(self) -> int | None:
        """The start of the first slice; None: there is none."""
        return min((run.earliest for run in self._runs()), default=None)

    def slices_between(self, earliest: int, latest: int) -> list[Times]:
        """The starts of all slices from `earliest` to `latest`; in each array ascending, each once."""
        found = []
        for run in self._runs():
            if run.earliest <= latest and run.latest >= earliest:
                begin, end = run.starts.searchsorted(earliest), run.starts.searchsorted(latest, "right")
                found.append(run.starts[begin:end])
        return found

    def of_keys(self, keys: Ids, earliest: int, latest: int) -> RowBuffer:
        """A buffer with the rows of these keys, which ascend, of all runs with slices from `earliest` to `latest`."""
        found = RowBuffer(self._where)
        for layout in self._layouts:
            runs = (run.of_keys(keys) for run in layout.runs if run.earliest <= latest and run.latest >= earliest)
            there = [run for run in runs if run is not None]
            if there:
                found._layouts.append(replace(layout, runs=there))
        return found

    def release(self, limit: int) -> None:
        """Forgets the rows of the slices that start at or before this."""
        for layout in self._layouts:
            runs = layout.runs
            if any(run.earliest <= limit for run in runs):
                layout.runs = []
                for run in runs:
                    rest = run if run.earliest > limit else run.after(limit)
                    if rest is not None:
                        layout.add(rest, self._where)
        self._layouts = [layout for layout in self._layouts if layout.runs]

    def _runs(self) -> list[SlicedRun]:
        return [run for layout in self._layouts for run in layout.runs]

    def live_keys(self) -> list[Ids]:
        return [run.live().key_ids for run in self._runs()]

    def renumber_keys(self, new_ids: Ids) -> None:
        """Gives key n the number `new_ids[n]`."""
        for layout in self._layouts:
            layout.runs = [run.renumbered(new_ids) for run in layout.runs]

    # -- snapshots

    def capture(self) -> list[list[SlicedRun]]:
        """All rows as they are now, by layout; nothing of it changes any more."""
        return [list(layout.runs) for layout in self._layouts]

    def restore(self, part: StateRows, key_ids: Ids, watermark: int) -> int:
        """Adds rows of a snapshot. Gives the watermark until which windows have fired with all of them.

        Args:
            watermark: of this subtask; that of the one which the rows come from may have been higher, and it may have
                fired for some keys only what was due.
        """
        fired_until = as_numpy(part.columns[_FIRED_UNTIL])
        is_different = bool((fired_until != watermark).any())
        rows = replace(restored_rows(part, key_ids), fired_until=fired_until if is_different else None)
        self.add(SlicedRun.of_rows(rows, as_numpy(part.columns[_SLICE])))
        return int(fired_until.min(initial=watermark))


class FiredUntil(Struct, frozen=True):
    """Until when windows had fired at a barrier, key by key."""

    watermark: int
    """For all keys but some."""
    keys: Ids
    """Those keys, which have fired in one window more."""
    watermark_of_keys: int

    @classmethod
    def all(cls, watermark: int) -> FiredUntil:
        """For all keys until the watermark."""
        return cls(watermark, np.empty(0, np.int64), watermark)

    def of(self, key_ids: Ids) -> Times:
        fired_until = np.full(len(key_ids), self.watermark, np.int64)
        fired_until[np.isin(key_ids, self.keys)] = self.watermark_of_keys
        return fired_until


class FiringProgress:
    """How far windows have fired that are due at a watermark, window after window, in each key after key.

    Args:
        before: the watermark at which all windows that were due have fired.
    """

    def __init__(self, before: int) -> None:
        self._before = before
        self._last = before
        """The last millisecond of the window that fires."""
        self._keys: list[int] = []
        """The keys that this window has fired for."""
        self._next: int | None = None

    def fires_next(self, last: int, key: int) -> None:
        """The next to fire is the window that ends with that millisecond, for that key."""
        if last != self._last:
            self._last, self._keys = last, []
        elif self._next is not None:
            self._keys.append(self._next)
        self._next = key

    def fired_until(self) -> FiredUntil:
        """Before the next fires."""
        return FiredUntil(max(self._before, self._last - 1), np.array(self._keys, np.int64), self._last)


def buffer_table(
    captured: Sequence[SlicedRun],
    fired: FiredUntil,
    keys: Columns | None,
    tables: KeyedTables,
    metadata: Mapping[str, bytes],
    where: str,
) -> KeyedTable:
    """The rows of a layout as they were at a barrier, as a table; any thread may call it.

    Args:
        where: names the operator in errors.
    """
    parts = [run.live() for run in captured]
    try:
        rows = concat_rows(parts, where)
    except pa.ArrowException:  # dictionaries may have too many values for one
        rows = concat_rows([part.without_dictionaries() for part in parts], where)
    starts = np.concatenate([run.slices() for run in captured])
    fired_until = fired.of(rows.key_ids)
    if rows.fired_until is not None:
        np.maximum(fired_until, rows.fired_until, out=fired_until)
    return rows_table(rows, {_SLICE: from_numpy(starts), _FIRED_UNTIL: from_numpy(fired_until)}, keys, tables, metadata)
