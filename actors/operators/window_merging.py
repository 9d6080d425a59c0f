"""Which windows of a key are open where windows may merge, and under which of them their state is (sessions)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from actors.state.keyed_state import KeyedStateBackend
from flinkray.errors import InvalidProgramError
from flinkray.state import MapStateDescriptor
from flinkray.windowing import MergeCallback, MergingWindowAssigner

MergeFunction = Callable[[Any, Collection[Any], Any, Collection[Any]], None]
"""`merge(new window, windows that it takes the place of, its state window, state windows whose state goes there)`."""

_STATE = MapStateDescriptor("merging-window-set")


class MergingWindowSet:
    """The open windows of one key, each with its *state window* (after Flink's MergingWindowSet).

    When windows merge, the state of the first one stays where it is, so that it need not be moved with every row.
    """

    def __init__(self, assigner: MergingWindowAssigner, windows: dict[Any, Any]) -> None:
        self.windows = windows
        """Window -> its state window."""
        self._assigner = assigner

    def add(self, window: Any, merge: MergeFunction) -> Any:
        """Opens a window; gives the one that it has become part of, or itself."""
        windows = self.windows
        if window in windows:
            return window
        if not windows:
            windows[window] = window
            return window
        merged = _Merged()
        self._assigner.merge_windows([*windows, window], merged)
        result = window
        is_merged = False
        for new, parts in merged.results:
            if window in parts:
                result, is_merged = new, True
            self._merge(new, [part for part in parts if part in windows], merge)
        if not is_merged:
            windows[window] = window
        return result

    def _merge(self, new: Any, parts: list[Any], merge: MergeFunction) -> None:
        if not parts or parts == [new]:  # nothing has been open before, or the one that was takes the new one in
            return
        state_windows = [self.windows.pop(part) for part in parts]
        self.windows[new] = state_windows[0]
        merge(new, parts, state_windows[0], state_windows[1:])

    def retire(self, window: Any) -> None:
        """The window is over."""
        del self.windows[window]


class _Merged(MergeCallback):
    def __init__(self) -> None:
        self.results: list[tuple[Any, list[Any]]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.results.append((merge_result, list(to_be_merged)))


class MergingWindows:
    """The sets of all keys: in keyed state, read when a key comes up and written back by `persist`."""

    def __init__(self, assigner: MergingWindowAssigner, backend: KeyedStateBackend) -> None:
        self._assigner = assigner
        self._backend = backend
        self._sets: dict[Any, tuple[int, MergingWindowSet, dict[Any, Any]]] = {}
        """Of the keys that have come up since the last `persist`: key group, windows, and what is in state."""

    def open(self) -> None:
        """After the backend was restored."""
        self._state = self._backend.get_map_state(_STATE)

    def of(self, key: Any, group: int) -> MergingWindowSet:
        found = self._sets.get(key)
        if found is not None:
            return found[1]
        self._backend.set_current_key(key, group)
        saved = dict(self._state.items())
        windows = MergingWindowSet(self._assigner, saved.copy())
        self._sets[key] = group, windows, saved
        return windows

    def persist(self) -> None:
        """Before anything else may read the state: after each batch, and after each round of timers."""
        for key, (group, windows, saved) in self._sets.items():
            if windows.windows == saved:
                continue
            self._backend.set_current_key(key, group)
            for window in saved.keys() - windows.windows.keys():
                self._state.remove(window)
            for window, state_window in windows.windows.items():
                if saved.get(window) != state_window:
                    self._state.put(window, state_window)
        self._sets.clear()


class NoWindowState:
    """Stands for the state of a window where windows merge: as in Flink, there is none."""

    def __init__(self, where: str) -> None:
        self._where = where

    def _refuse(self, descriptor: Any) -> Any:
        raise InvalidProgramError(
            f"{self._where}: state per window ({descriptor.name!r}) is not there for windows that merge, since nobody "
            "could tell what becomes of it when they do; use global_state(), or an AggregateFunction with a merge"
        )

    get_state = get_list_state = get_map_state = get_reducing_state = get_aggregating_state = _refuse
