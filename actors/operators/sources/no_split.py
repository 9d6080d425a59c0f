"""A mistake that no row shows: event time that waits for a subtask of a source which has nothing to read."""

from __future__ import annotations

import logging

from flinkray.errors import operator_label
from flinkray.time.watermarks import WatermarkStrategy

log = logging.getLogger(__name__)

_PATIENCE_MS = 10_000
"""How long a subtask may wait for its first split before that is said: listing files or partitions takes less, and who
waits for the results of a window looks for a reason after this."""


class NoSplitCheck:
    """Says once that a subtask has had no split, and so gives no watermark, which all behind the source wait for.

    Args:
        parallelism: how many subtasks the source has; a single one without splits holds back nobody.
        where: names operator and subtask in the log.
    """

    def __init__(self, strategy: WatermarkStrategy, parallelism: int, where: str) -> None:
        self._where = where
        self._is_done = parallelism == 1 or strategy.generator is None or strategy.idle_timeout_ms is not None
        self._since_ms: float | None = None

    def look(self, has_split: bool, now_ms: float) -> None:
        """Looks whether there is a split by now; `now_ms` is monotonic."""
        if self._is_done:
            return
        if self._since_ms is None:
            self._since_ms = now_ms
        if has_split:
            self._is_done = True
        elif now_ms - self._since_ms >= _PATIENCE_MS:
            self._is_done = True
            log.warning(
                "%s has had no split, such as a file or a partition, for %d s. It gives no watermark, so that "
                "event-time windows and timers behind the source wait for it: with_idleness('10 s') of the watermark "
                "strategy (of tables, table.exec.source.idle-timeout) leaves it out, and with no more subtasks "
                "than splits there is none such",
                operator_label(self._where),
                (now_ms - self._since_ms) // 1_000,
            )
