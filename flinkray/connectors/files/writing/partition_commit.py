"""Telling others that a directory of files is complete: when, and by what."""

from __future__ import annotations

import datetime
import posixpath
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct
from pyarrow import fs

from flinkray.connectors.files.writing.buckets import strftime_of, time_zone
from flinkray.errors import FlinkrayError, InvalidProgramError, did_you_mean
from flinkray.time.durations import Duration, to_millis

PROCESS_TIME, PARTITION_TIME = "process-time", "partition-time"
_TIME = re.compile(r"(\d{1,10})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.\d{1,9})?)?")


@dataclass(frozen=True)
class CommittedPartition:
    """A directory whose files are there, and that nothing more is expected for."""

    path: str
    """Within the file system."""
    values: Mapping[str, str | None]
    """What its name says of each column; None: null."""
    filesystem: fs.FileSystem = field(repr=False)


class PartitionCommitPolicy(ABC):
    """Tells others that a partition is complete. Picklable."""

    @abstractmethod
    def commit(self, partition: CommittedPartition) -> None:
        """Called by the sink's committer when it is time, on a thread that may block: again after a failure, and when
        rows have come late, so that doing the same twice must do no harm. What it raises fails the job."""


@dataclass(frozen=True)
class PartitionCommit:
    """When partitions are complete, which is looked at with each checkpoint, and what happens then. At the end of the
    input all are.

    Args:
        trigger: "process-time": a partition is complete so long after its first rows were written; "partition-time":
            when the watermark is so long after the time that its name says.
        delay: how long; by process time, 0 is the checkpoint after which its first files are there.
        success_file: the name of an empty file that is made in a partition; None: none is made.
        policies: what else is called for a partition, in order, after that.
        timestamp_pattern: the time of a partition, with a dollar for the value of a column, such as "$dt $hour:00:00";
            None: the value of the first column.
        timestamp_format: how that is written, of Java's yyyy, MM, dd, HH, mm and ss; None: a date, or one with a time.
        time_zone: the one that the time is in.
        extractor: gives the time of a partition for its values, in place of pattern and format. Naive times are in
            that time zone.
    """

    trigger: str = PROCESS_TIME
    delay: Duration = 0
    success_file: str | None = "_SUCCESS"
    policies: Sequence[PartitionCommitPolicy] = ()
    timestamp_pattern: str | None = None
    timestamp_format: str | None = None
    time_zone: str = "UTC"
    extractor: Callable[[Mapping[str, str | None]], datetime.datetime] | None = None

    def __post_init__(self) -> None:
        triggers = (PROCESS_TIME, PARTITION_TIME)
        if self.trigger not in triggers:
            hint = did_you_mean(self.trigger, triggers)
            raise InvalidProgramError(
                f"PartitionCommit(trigger=...) is one of {', '.join(triggers)}, not {self.trigger!r}{hint}"
            )
        to_millis(self.delay, "PartitionCommit(delay=...)")
        time_zone(self.time_zone, "partition commit")
        if self.timestamp_format is not None:
            strftime_of(self.timestamp_format, "partition commit")
        if self.success_file is not None and (not self.success_file or "/" in self.success_file):
            raise InvalidProgramError(f"a file that marks a partition cannot be called {self.success_file!r}")
        if self.success_file is None and not self.policies:
            raise InvalidProgramError("PartitionCommit says that nothing happens; name a success_file, or policies")

    def is_due(self, values: Mapping[str, str | None], created_ms: int, now_ms: int, watermark: int) -> bool:
        """Whether a partition is complete.

        Args:
            created_ms: when its first rows were written.
            now_ms: by the clock of the writers.
            watermark: that of all writers.
        Raises:
            FlinkrayError: its name says no time.
        """
        delay = to_millis(self.delay, "delay")
        if self.trigger == PROCESS_TIME:
            return delay == 0 or now_ms > created_ms + delay
        time_ms = self.time_of(values)
        return time_ms is not None and watermark > time_ms + delay

    def time_of(self, values: Mapping[str, str | None]) -> int | None:
        """The time of a partition in epoch milliseconds; None: one of its values is null, so nobody knows."""
        found = self._extracted(values)
        if found is None:
            return None
        if found.tzinfo is None:  # a time that clocks skip or show twice is the earlier one, as in Java
            found = found.replace(tzinfo=time_zone(self.time_zone, "partition commit"))
        return int(found.timestamp() * 1000)

    def _extracted(self, values: Mapping[str, str | None]) -> datetime.datetime | None:
        if self.extractor is not None:
            return self.extractor(values)
        if self.timestamp_pattern is None:
            text = next(iter(values.values()))
        else:
            text = self.timestamp_pattern
            for column in sorted(values, key=len, reverse=True):  # $day is no $d
                if f"${column}" in text:
                    if values[column] is None:
                        return None
                    text = text.replace(f"${column}", str(values[column]))
        return None if text is None else self._parsed(text)

    def _parsed(self, text: str) -> datetime.datetime:
        try:
            if self.timestamp_format is not None:
                return datetime.datetime.strptime(text, strftime_of(self.timestamp_format, "partition commit"))
            matched = _TIME.fullmatch(text)
            if matched:
                year, month, day, hour, minute, second = (int(part or 0) for part in matched.groups())
                start = datetime.datetime(year, month, day)
                return start + datetime.timedelta(hours=hour, minutes=minute, seconds=second)  # an hour may be 24
            reason = "expected one such as 2024-01-31 or 2024-01-31 13:00:00"
        except ValueError as error:
            reason = str(error)
        raise FlinkrayError(
            f"the time of a partition cannot be read from {text!r}: {reason}; set timestamp_pattern and "
            "timestamp_format of PartitionCommit ('partition.time-extractor.timestamp-pattern' and "
            "'-formatter' of a table), or trigger it by process-time"
        )

    def carry_out(self, partition: CommittedPartition) -> None:
        """What happens to a partition that is complete."""
        if self.success_file is not None:
            path = posixpath.join(partition.path, self.success_file)
            with partition.filesystem.open_output_stream(path, compression=None):
                pass
        for policy in self.policies:
            policy.commit(partition)


class PartitionWritten(Struct, frozen=True):
    """A committable: files of a checkpoint are in a partition, which is to be committed when it is time."""

    partition: str
    """Its directory below that of the sink."""
    created_ms: int


class WriterProgress(Struct, frozen=True):
    """A committable that a writer adds with each checkpoint: how far it is."""

    watermark: int
    now_ms: int
    has_ended: bool
