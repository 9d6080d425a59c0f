"""The commonest mistake with event time: seconds that are taken for milliseconds."""

from __future__ import annotations

import datetime
import logging

import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.errors import operator_label
from flinkray.time.watermarks import WatermarkStrategy

log = logging.getLogger(__name__)


class SecondsCheck:
    """Says once where integers that are taken for milliseconds are seconds by all appearances: with an event time in
    1970 nothing fails, but a window of an hour has the rows of a month and a half.

    Args:
        where: names operator and subtask in the log.
    """

    def __init__(self, strategy: WatermarkStrategy, where: str) -> None:
        self._assigner = strategy.assigner
        self._where = where
        self._is_done = strategy.assigner is None

    def look(self, batch: Batch) -> None:
        """Looks at the first batch that has event time."""
        if self._is_done or not batch.num_rows or batch.timestamps is None:
            return
        self._is_done = True
        first = batch.timestamps[0].as_py()
        if first in _SECONDS and not self._has_unit(batch):
            log.warning(
                "%s: the event time %d that %s gives is %s as milliseconds, and %s as seconds. Event time is in "
                "milliseconds: if these are seconds, multiply them by 1000, as in with_timestamp_assigner(%s), or make "
                "the column a timestamp",
                operator_label(self._where),
                first,
                _assigner_name(self._assigner),
                _utc(first / 1000),
                _utc(first),
                f"col({self._assigner!r}) * 1000" if isinstance(self._assigner, str) else "... * 1000",
            )

    def _has_unit(self, batch: Batch) -> bool:
        """Whether the event time comes from a column that says its unit."""
        if not isinstance(self._assigner, str) or self._assigner not in batch.data.schema.names:
            return False
        return not pa.types.is_integer(batch.data.schema.field(self._assigner).type)


_SECONDS = range(100_000_000, 31_536_000_000)
"""Numbers that are times of 1973 and later as seconds, and of 1970 as milliseconds, beyond small ones of examples."""


def _assigner_name(assigner: object) -> str:
    return f"column {assigner!r}" if isinstance(assigner, str) else "the timestamp assigner"


def _utc(seconds: float) -> str:
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M}"
