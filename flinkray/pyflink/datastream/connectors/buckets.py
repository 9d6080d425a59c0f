"""What PyFlink's FileSink does beyond flinkray's: a directory per bucket, and files that end at a size or an age."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from flinkray.batches.batch import Batch
from flinkray.connectors.committer import Committer
from flinkray.connectors.files.writing.compaction import FileCompaction
from flinkray.connectors.files.writing.sink import FileSink
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.filesystems import join

_ANY_CHECKPOINT = -1
"""Files are rolled at any time, and say nothing of their checkpoint."""


@dataclass(frozen=True)
class Limits:
    """When a file ends before the next checkpoint, which ends it in any case."""

    part_bytes: int
    """A file ends after the line that makes it larger than so many bytes."""
    age_ms: int
    """A file ends before a line that comes so many milliseconds after its first one."""
    quiet_ms: int
    """A file ends before a line that comes so many milliseconds after its last one."""


@dataclass(frozen=True)
class BucketedSink(Sink):
    """Writes through one FileSink per bucket.

    Args:
        base_path: of the directories of all buckets.
        convert: makes of a batch what the format can hold; called with the operator's name for errors.
        bucket_at: directory below the base path for rows that are written at a time (epoch ms); "" for itself.
        limits: of files of lines; None: only checkpoints end files.
        compaction: of the files of a bucket; None: each is seen as it was written.
    """

    base_path: str
    format: str
    convert: Callable[[Batch, str], Batch]
    bucket_at: Callable[[int], str]
    limits: Limits | None
    prefix: str
    suffix: str
    compaction: FileCompaction | None = None

    @property
    def commits_globally(self) -> bool:
        return self.compaction is not None

    def create_global_committer(self) -> Committer:
        return self.files("").create_global_committer()

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        return _BucketsWriter(self, context, restored)

    def create_committer(self) -> Committer | None:
        return self.files("").create_committer()  # its files are named by their whole path

    def files(self, bucket: str) -> FileSink:
        """The sink of one bucket."""
        directory = join(self.base_path, bucket) if bucket else self.base_path
        return FileSink(directory, self.format, self.prefix, suffix=self.suffix, compaction=self.compaction)


@dataclass
class _Bucket:
    """A directory of lines, and what its open file holds."""

    writer: SinkWriter
    nbytes: int = 0
    opened_ms: int | None = None
    """When the first line of the open file was written; None: no file is open."""
    written_ms: int = 0


class _BucketsWriter(SinkWriter):
    def __init__(
        self, sink: BucketedSink, context: SinkWriterContext, restored: Sequence[dict[str, Any]] | None
    ) -> None:
        self._sink = sink
        self._context = context
        self._buckets: dict[str, _Bucket] = {}
        self._ended: list[Any] = []
        """Files that have ended since the last checkpoint."""
        self._restored = restored
        for name in sorted({name for states in restored or () for name in states}):
            self._bucket(name)

    def write(self, batch: Batch) -> None:
        now = self._context.now_ms()
        bucket = self._bucket(self._sink.bucket_at(now))
        converted = self._sink.convert(batch, self._context.operator_name)
        limits = self._sink.limits
        if limits is None:
            bucket.writer.write(converted)
            bucket.opened_ms = now
            return
        if bucket.opened_ms is not None and (
            now - bucket.opened_ms >= limits.age_ms or now - bucket.written_ms >= limits.quiet_ms
        ):
            self._end_file(bucket)
        self._write_lines(bucket, converted, limits.part_bytes, now)

    def _write_lines(self, bucket: _Bucket, lines: Batch, part_bytes: int, now: int) -> None:
        """Each file gets lines until it is larger than `part_bytes`."""
        lengths = pc.binary_length(lines.data.column(0)).to_numpy(zero_copy_only=False) + 1  # with the line break
        ends = np.cumsum(lengths, dtype=np.int64)
        row = written = 0
        while row < len(ends):
            # The first line after which the file is too large goes into it as well.
            stop = min(len(ends), int(np.searchsorted(ends, part_bytes - bucket.nbytes + written, side="right")) + 1)
            bucket.writer.write(lines.slice(row, stop - row))
            bucket.opened_ms = now if bucket.opened_ms is None else bucket.opened_ms
            bucket.written_ms = now
            bucket.nbytes += int(ends[stop - 1]) - written
            row, written = stop, int(ends[stop - 1])
            if bucket.nbytes > part_bytes:
                self._end_file(bucket)

    def flush(self, end_of_input: bool) -> None:
        for bucket in self._buckets.values():
            bucket.writer.flush(end_of_input)

    def prepare_commit(self, checkpoint_id: int) -> list[Any]:
        for bucket in self._buckets.values():
            self._end_file(bucket, checkpoint_id)
        ended, self._ended = self._ended, []
        return ended

    def snapshot_state(self, checkpoint_id: int) -> Any:
        states = {name: bucket.writer.snapshot_state(checkpoint_id) for name, bucket in self._buckets.items()}
        return {name: state for name, state in states.items() if state is not None} or None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        for bucket in self._buckets.values():
            bucket.writer.notify_checkpoint_complete(checkpoint_id)

    def close(self) -> None:
        for bucket in self._buckets.values():
            bucket.writer.close()
        self._sink.create_global_committer().abort(self._ended)

    def _bucket(self, name: str) -> _Bucket:
        bucket = self._buckets.get(name)
        if bucket is None:
            states = None if self._restored is None else [each[name] for each in self._restored if name in each]
            bucket = _Bucket(self._sink.files(name).create_writer(self._context, states))
            self._buckets[name] = bucket
        return bucket

    def _end_file(self, bucket: _Bucket, checkpoint_id: int = _ANY_CHECKPOINT) -> None:
        # What a writer has prepared is not its own any more, so that this one has to give it up when it closes.
        self._ended.extend(bucket.writer.prepare_commit(checkpoint_id))
        bucket.nbytes = 0
        bucket.opened_ms = None
