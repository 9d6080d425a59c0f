"""Which directory rows go to, where no column says it."""

from __future__ import annotations

import datetime
import zoneinfo
from abc import ABC, abstractmethod
from collections.abc import Iterator

import pyarrow as pa
from msgspec import Struct

from flinkray.batches.batch import Batch
from flinkray.connectors.files.partitions import by_values
from flinkray.errors import InvalidProgramError

_DATE_FIELDS = {
    "yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"
}  # fmt: skip


class BucketContext(Struct, frozen=True):
    """The times at which a batch is written, in epoch milliseconds."""

    now_ms: int
    """By the task's clock."""
    watermark: int
    """The last one that came; -2**63 before the first."""


class BucketAssigner(ABC):
    """Says which directory rows go to. Picklable; called by the tasks that write."""

    @abstractmethod
    def assign(self, batch: Batch, context: BucketContext) -> str | pa.Array:
        """The directory of the rows below the sink's: one for all, such as "2024-01-01--13", or text for each row;
        empty: the sink's own. Its parts do not begin with a dot or an underscore, which readers take for hidden."""


class BasePathBucketAssigner(BucketAssigner):
    """All rows go to the sink's directory."""

    def assign(self, batch: Batch, context: BucketContext) -> str:
        return ""


class DateTimeBucketAssigner(BucketAssigner):
    """A directory per hour, or whatever the format names, by the time at which rows are written.

    Args:
        format: of Java's yyyy, MM, dd, HH, mm and ss, and what is no letter; letters within single quotes are text.
        zone: such as "Europe/Berlin"; None: that of the process.
    """

    def __init__(self, format: str = "yyyy-MM-dd--HH", zone: str | None = None) -> None:
        self._format = strftime_of(format, "bucket assigner")
        self._zone = zone
        if zone is not None:
            time_zone(zone, "bucket assigner")
        # A format of seconds is used once per second at most.
        self._last: tuple[int, str] = (-1, "")

    def assign(self, batch: Batch, context: BucketContext) -> str:
        second = context.now_ms // 1000
        if self._last[0] != second:
            zone = None if self._zone is None else zoneinfo.ZoneInfo(self._zone)
            self._last = (second, datetime.datetime.fromtimestamp(second, zone).strftime(self._format))
        return self._last[1]


def strftime_of(pattern: str, whose: str) -> str:
    """A pattern of Java's DateTimeFormatter as Python has it.

    Raises:
        InvalidProgramError: a letter in it is not known.
    """
    pieces: list[str] = []
    rest = pattern
    while rest:
        letter = rest[0]
        if letter == "'":
            quoted, _, rest = rest[1:].partition("'")
            pieces.append((quoted or "'").replace("%", "%%"))
            continue
        run = rest[: len(rest) - len(rest.lstrip(letter))] if letter.isalpha() else letter
        if letter.isalpha() and run not in _DATE_FIELDS:
            known = ", ".join(_DATE_FIELDS)
            raise InvalidProgramError(f"{run!r} in the format {pattern!r} of a {whose} is not known; there are {known}")
        pieces.append(_DATE_FIELDS.get(run) or run.replace("%", "%%"))
        rest = rest[len(run) :]
    return "".join(pieces)


def time_zone(name: str, whose: str) -> zoneinfo.ZoneInfo:
    """The time zone of that name.

    Raises:
        InvalidProgramError: there is none.
    """
    try:
        return zoneinfo.ZoneInfo(name)
    except (ValueError, zoneinfo.ZoneInfoNotFoundError) as error:
        raise InvalidProgramError(
            f"no time zone {name!r} of a {whose}; name one such as 'UTC' or 'Europe/Berlin'"
        ) from error


def by_bucket(data: pa.RecordBatch, buckets: str | pa.Array) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each directory, in their order.

    Raises:
        ValueError: there is not a directory for each row, or one cannot be.
    """
    if isinstance(buckets, str):
        yield _checked(buckets), data
        return
    if isinstance(buckets, pa.ChunkedArray):
        buckets = buckets.combine_chunks()
    if len(buckets) != data.num_rows or buckets.null_count:
        raise ValueError(f"of {data.num_rows} rows {len(buckets) - buckets.null_count} have a directory")
    for (bucket,), rows in by_values(data, [buckets.cast(pa.string())]):
        yield _checked(bucket), rows


def _checked(bucket: str) -> str:
    if any(not part or part.startswith((".", "_")) for part in bucket.split("/")) and bucket:
        raise ValueError(f"a directory for files cannot be {bucket!r}: readers take a part of it for hidden, or empty")
    return bucket
