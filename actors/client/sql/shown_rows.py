"""What is shown of a result that changes: its last changes, or the rows that there are."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from flinkray.types.rows import SHORT_STRINGS

Cells = tuple[str, ...]


class LastChanges:
    """The last changes of a result, as they came."""

    def __init__(self, most: int) -> None:
        self._changes: deque[Cells] = deque(maxlen=most)

    def add(self, kind: int, row: Cells) -> None:
        self._changes.append((SHORT_STRINGS[kind], *row))

    def rows(self, most: int) -> Sequence[Cells]:
        """The last ones, at most so many."""
        return list(self._changes)[-most:]


class RowsNow:
    """The rows that a changelog leads to, in the order in which they came; an updated row keeps its place.

    Args:
        most: of more rows, those are forgotten that changed longest ago.
    """

    def __init__(self, most: int = 1_000_000) -> None:
        self._most = most
        self._rows: dict[int, Cells] = {}
        self._places: dict[Cells, list[int]] = {}
        self._next = 0
        self._taken_back: int | None = None
        """The place of the row that the -U before took back."""

    def add(self, kind: int, row: Cells) -> None:
        operation = SHORT_STRINGS[kind]
        if operation in ("-U", "-D"):
            place = self._remove(row)
            self._taken_back = place if operation == "-U" else None
            return
        place = self._taken_back if operation == "+U" else None
        self._taken_back = None
        if place is None:
            place, self._next = self._next, self._next + 1
        self._rows[place] = row
        self._places.setdefault(row, []).append(place)
        if len(self._rows) > self._most:
            self._remove(next(iter(self._rows.values())))

    def _remove(self, row: Cells) -> int | None:
        places = self._places.get(row)
        if not places:
            return None
        place = places.pop()
        if not places:
            del self._places[row]
        del self._rows[place]
        return place

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self, most: int) -> Sequence[Cells]:
        """The last ones, at most so many."""
        return [self._rows[place] for place in sorted(self._rows)[-most:]]
