"""What windows contain that fold rows one by one: per key a list of rows, a reduced value or an accumulator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from actors.keys.state_tables import KeyedTables, same_rows
from actors.operators.functions.shared_values import FrozenValues, SharedValues, decoded, encoded
from actors.state.snapshots.pickling import with_one_nan
from actors.state.snapshots.snapshot import KeyedTable
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.batches.row_codec import short_repr
from flinkray.batches.row_codec import snapshot as copy_of

NOTHING = object()
"""The contents before the first value."""

_SIZE = "windows"


class ContentsByKey:
    """What one window contains, by key, in order of the keys' first rows. There may be a window for each row."""

    __slots__ = ("_fired", "_shared", "contents", "key_groups")

    def __init__(self) -> None:
        self.contents: dict[Any, Any] = {}
        self.key_groups: dict[Any, int] = {}
        """The key group of each key, as its first row had it; keys are never removed."""
        self._shared: SharedValues[dict[Any, Any]] | None = None
        """What snapshots share with this window; None: there was no snapshot yet."""
        self._fired: set[Any] | None = None
        """Keys that fired, with what they have here now, before a restore with a lower watermark; None: no key did."""

    def changeable(self, key: Any, key_group: int, copy: Callable[[Any], Any]) -> Any:
        """The key's contents, to be changed and put back; NOTHING for a new key.

        Args:
            copy: used where a snapshot shares them.
        """
        contents = self.contents.get(key, NOTHING)
        if contents is NOTHING:
            self.key_groups[key] = key_group
            return contents
        if self._fired:
            self._fired.discard(key)
        return copy(contents) if self._is_shared(key, contents) else contents

    def exposed(self, key: Any) -> Any:
        """The key's contents for the user's function, which may change the values that it gets."""
        contents = self.contents[key]
        if self._is_shared(key, contents):
            contents = self.contents[key] = copy_of(contents)
        return contents

    def keys_to_fire(self) -> Iterable[Any]:
        """The keys for which the window is to fire when the watermark reaches its end."""
        return [key for key in self.contents if key not in self._fired] if self._fired else self.contents

    def _is_shared(self, key: Any, contents: Any) -> bool:
        if self._shared is None:
            return False
        current = self._shared.current()
        return bool(current) and any(frozen.get(key, NOTHING) is contents for frozen in current)

    # -- snapshots

    def freeze(self) -> FrozenContentsByKey:
        if self._shared is None:
            self._shared = SharedValues()
        return self.key_groups, self._shared.freeze(self.contents), frozenset(self._fired or ())

    def restore(self, key: Any, key_group: int, contents: Any, has_fired: bool) -> None:
        self.contents[key] = contents
        self.key_groups[key] = key_group
        if has_fired:
            if self._fired is None:
                self._fired = set()
            self._fired.add(key)


FrozenContentsByKey = tuple[Mapping[Any, int], FrozenValues[dict[Any, Any]], frozenset[Any]]
"""The key groups (there may be more keys by now), the contents, and the keys that fired before their time."""


def contents_table(
    frozen: Mapping[int, FrozenContentsByKey], watermark: int, due: Collection[int], size: int, tables: KeyedTables
) -> KeyedTable:
    """The contents of windows at a barrier, a row per window and key; any thread may call it.

    Args:
        frozen: by window start.
        watermark: at the barrier.
        due: the starts of windows that are due at the watermark and have fired for the keys only that are said to have.
    """
    starts: list[int] = []
    keys: list[Any] = []
    values: list[Any] = []
    key_groups: list[int] = []
    fired_until: list[int] = []
    for start, (frozen_groups, contents, fired) in frozen.items():
        end = start + size - 1
        others_until = min(watermark, end - 1) if start in due else watermark
        for key, value in contents.values.items():
            starts.append(start)
            keys.append(key)
            values.append(value)
            key_groups.append(frozen_groups[key])
            fired_until.append(max(watermark, end) if key in fired else others_until)
    columns = {
        "start": pa.array(starts, pa.int64()),
        "place": from_numpy(np.arange(len(starts))),
        "key": encoded(keys, lambda row: f"{tables.where}: the key of window {starts[row]}"),
        "key_group": pa.array(key_groups, pa.int32()),
        "contents": encoded(values, lambda row: f"{tables.where}: window {starts[row]} of key {short_repr(keys[row])}"),
        "fired_until": pa.array(fired_until, pa.int64()),
    }
    return tables.grouped(np.array(key_groups, np.int32), columns, {_SIZE: _description(size).encode()})


def restored_contents(tables: Iterable[pa.Table], size: int, where: str) -> Iterator[tuple[int, Any, int, Any, int]]:
    """For each window and key, in the order of the snapshot: window start, key, key group, contents, and the watermark
    until which windows have fired for it."""
    for part in same_rows(tables, _SIZE, _description(size), where):
        ordered = part.take(np.argsort(part.columns["place"].to_numpy(), kind="stable")).columns
        yield from zip(
            ordered["start"].to_pylist(),
            map(with_one_nan, decoded(ordered["key"])),
            ordered["key_group"].to_pylist(),
            decoded(ordered["contents"]),
            ordered["fired_until"].to_pylist(),
            strict=True,
        )


def _description(size: int) -> str:
    return f"of {size} ms"
