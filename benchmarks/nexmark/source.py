"""Nexmark's events as a source."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.nexmark.events import ALL_FIELDS, TIMES, EventTimes, event_columns
from flinkray import DataGenSource, Source


class NexmarkSource(DataGenSource):
    """The first so many events of Nexmark; event n is the same in every run, whatever the parallelism.

    Args:
        events: how many; None: for ever.
        times: when they happen.
        fields: names of the columns that are made, as in `events.ALL_FIELDS`; the others are NULL. To make only what a
            query reads takes a tenth of the time.
        per_second: how many there are in a second of the clock; None: as many as can be made.
        seed: of all random values.
    """

    def __init__(
        self,
        events: int | None = None,
        times: EventTimes = TIMES,
        *,
        fields: Iterable[str] = ALL_FIELDS,
        per_second: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(event_columns(fields, times, seed), events, per_second)
        self._settings = (events, times, per_second, seed)

    def reading(self, fields: frozenset[str]) -> Source:
        events, times, per_second, seed = self._settings
        asked = {known for known in ALL_FIELDS if known in fields or known.partition(".")[0] in fields}
        return NexmarkSource(events, times, fields=asked, per_second=per_second, seed=seed)
