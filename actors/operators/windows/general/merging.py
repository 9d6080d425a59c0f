"""Windows that merge: which are open for a key, and under which of them their state is (Flink's MergingWindowSet)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable
from typing import Any

from actors.state.keyed.backend import KeyedStateBackend
from flinkray.errors import InvalidProgramError
from flinkray.state.descriptors import MapStateDescriptor
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.windows.assigners import MergeCallback, MergingWindowAssigner, SessionWindows

MergeFunction = Callable[[Any, Collection[Any], Any, Collection[Any]], None]
"""`merge(new window, windows that it takes the place of, its state window, state windows whose state goes there)`."""

_STATE = MapStateDescriptor("merging-window-set")


class MergingWindowSet:
    """The open windows of one key, each with its *state window* (after Flink's MergingWindowSet).

    When windows merge, the state of the first one stays where it is, so that it need not be moved with every row.
    """

    def __init__(self, assigner: MergingWindowAssigner, windows: dict[Any, Any]) -> None:
        self.windows = windows
        """The state window of each open window."""
        self._assigner = assigner
        # One's own merge_windows may merge any of them; ours those that overlap or touch, of which no two are open.
        self._are_apart = type(assigner).merge_windows is SessionWindows.merge_windows
        self._in_order: list[Any] | None = None
        """The open windows in order, where they are apart and one has been added."""

    def add(self, window: Any, merge: MergeFunction) -> Any:
        """Opens a window; gives the one that it has become part of, or itself."""
        windows = self.windows
        if window in windows:
            return window
        merged = _Merged()
        neighbours = self._neighbours(window)
        if neighbours:
            self._assigner.merge_windows([*neighbours, window], merged)
        result = window
        is_merged = False
        for new, parts in merged.results:
            if window in parts:
                result, is_merged = new, True
            self._merge(new, [part for part in parts if part in windows], merge)
        if not is_merged:
            self._open(window, window)
        return result

    def _neighbours(self, window: Any) -> Collection[Any]:
        """The open windows that may merge with this one, or with each other."""
        if not self._are_apart:
            return self.windows
        if self._in_order is None:
            self._in_order = sorted(self.windows)
        first = last = bisect_left(self._in_order, window)
        if first and self._in_order[first - 1].intersects(window):
            first -= 1
        while last < len(self._in_order) and self._in_order[last].intersects(window):
            last += 1
        return self._in_order[first:last]

    def _open(self, window: Any, state_window: Any) -> None:
        self.windows[window] = state_window
        if self._in_order is not None:
            insort(self._in_order, window)

    def _close(self, window: Any) -> Any:
        """Closes a window, and gives its state window."""
        if self._in_order is not None:
            del self._in_order[bisect_left(self._in_order, window)]
        return self.windows.pop(window)

    def _merge(self, new: Any, parts: list[Any], merge: MergeFunction) -> None:
        if not parts or parts == [new]:  # nothing has been open before, or the one that was takes the new one in
            return
        state_windows = [self._close(part) for part in parts]
        self._open(new, state_windows[0])
        merge(new, parts, state_windows[0], state_windows[1:])

    def retire(self, window: Any) -> None:
        """Closes the window, which is over."""
        self._close(window)


class _Merged(MergeCallback):
    def __init__(self) -> None:
        self.results: list[tuple[Any, list[Any]]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.results.append((merge_result, list(to_be_merged)))


class MergingWindows:
    """The window sets of all keys: in keyed state, read when a key comes up and written back by `persist`."""

    def __init__(self, assigner: MergingWindowAssigner, backend: KeyedStateBackend) -> None:
        self._assigner = assigner
        self._backend = backend
        self._sets: dict[Any, tuple[int, MergingWindowSet, dict[Any, Any]]] = {}
        """For each key that has come up since the last `persist`: its key group, its windows, and those that are in
        state."""

    def open(self) -> None:
        """To be called after the backend was restored."""
        self._state = self._backend.get_map_state(_STATE)

    def of(self, key: Any, key_group: int) -> MergingWindowSet:
        known = self._sets.get(key)
        if known is not None:
            return known[1]
        self._backend.set_current_key(key, key_group)
        saved = dict(self._state.items())
        windows = MergingWindowSet(self._assigner, saved.copy())
        self._sets[key] = key_group, windows, saved
        return windows

    def persist(self) -> None:
        """Writes the sets back. To be called before anything else may read the state: after each batch, and after each
        round of timers."""
        for key, (key_group, windows, saved) in self._sets.items():
            if windows.windows == saved:
                continue
            self._backend.set_current_key(key, key_group)
            for window in saved.keys() - windows.windows.keys():
                self._state.remove(window)
            for window, state_window in windows.windows.items():
                if saved.get(window) != state_window:
                    self._state.put(window, state_window)
        self._sets.clear()


def check_merging(factory: WindowFactory) -> None:
    """Raises InvalidProgramError for windows that merge with a trigger that cannot."""
    trigger = factory.trigger or factory.assigner.get_default_trigger(None)
    if isinstance(factory.assigner, MergingWindowAssigner) and not trigger.can_merge():
        raise InvalidProgramError(
            f"{type(factory.assigner).__name__} merges windows, and {type(trigger).__name__} cannot (its can_merge "
            "gives False); use another trigger, or give it can_merge and on_merge"
        )
