"""Blocks as Arrow IPC files in a directory: how rows cross to and from a Spark session that is not on Ray.

The directory must be visible to Spark's executors and to the job's slots: any local one on a single machine, a shared
one on several (Spark setting `spark.flinkray.spillDirectory`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, unquote

import pyarrow as pa

from flinkray.errors import PartitionError

_BLOCK = ".arrow"
_RECORD = ".record"
_ENDED = ".ended"

# How long a store stays after its lease has ended, as a job that is restarted ends its lease and renews it again.
GRACE_SECONDS = 30.0


class SpillBlockStore:
    """A BlockStore in a directory. Files appear as a whole: they are written under another name, and renamed."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    @staticmethod
    def create(parent: str | None = None) -> SpillBlockStore:
        """A new store in a new directory below `parent` (the system's temporary directory by default)."""
        if parent is not None:
            Path(parent).mkdir(parents=True, exist_ok=True)
        return SpillBlockStore(tempfile.mkdtemp(prefix="flinkray-spark-", dir=parent))

    @property
    def store_id(self) -> str:
        return str(self._directory)

    def put(self, block_id: str, rows: pa.RecordBatch) -> None:
        aside = self._aside()
        try:
            with pa.OSFile(str(aside), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
                writer.write_batch(rows)
            os.replace(aside, self._path(block_id, _BLOCK))
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise PartitionError(
                f"cannot spill block {block_id!r} ({rows.nbytes} bytes) to {self._directory}: {error}"
            ) from error

    def get(self, block_id: str) -> pa.RecordBatch:
        path = self._path(block_id, _BLOCK)
        try:
            # Mapped, so that rows are loaded as they are read, and their memory belongs to the file cache.
            return pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        except (OSError, pa.ArrowInvalid) as error:
            raise PartitionError(
                f"block {block_id!r} cannot be read from {path}: {error}. It must be on a file system that Spark's "
                f"executors and the job's slots share (Spark setting spark.flinkray.spillDirectory)"
            ) from error

    def discard(self, block_ids: Collection[str]) -> None:
        for block_id in block_ids:
            self._path(block_id, _BLOCK).unlink(missing_ok=True)

    def retain(self, block_ids: Collection[str]) -> None:
        retained = set(block_ids)
        self.discard([name for name in self._names(_BLOCK) if name not in retained])

    def record(self, key: str, value: bytes) -> None:
        aside = self._aside()
        try:
            aside.write_bytes(value)
            os.replace(aside, self._path(key, _RECORD))
        except OSError as error:
            raise PartitionError(f"cannot note {key!r} in {self._directory}: {error}") from error

    def records(self, prefix: str) -> Mapping[str, bytes]:
        keys = self._record_keys(prefix)
        # One listing of a directory may miss a record and show a later one; two listings that agree do not.
        while keys != (again := self._record_keys(prefix)):
            keys = again
        return {key: self._path(key, _RECORD).read_bytes() for key in keys}

    def renew_lease(self) -> None:
        (self._directory / _ENDED).unlink(missing_ok=True)

    def end_lease(self) -> None:
        if self._directory.is_dir():
            (self._directory / _ENDED).touch()

    @property
    def is_unused(self) -> bool:
        """Whether the lease ended some time ago: the driver then removes the directory, when it makes another or
        ends."""
        try:
            return time.time() - (self._directory / _ENDED).stat().st_mtime > GRACE_SECONDS
        except FileNotFoundError:
            return False

    def close(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    def _record_keys(self, prefix: str) -> list[str]:
        return [key for key in self._names(_RECORD) if key.startswith(prefix)]

    def _aside(self) -> Path:
        return self._directory / f".{uuid.uuid4().hex}"

    def _path(self, name: str, suffix: str) -> Path:
        return self._directory / (quote(name, safe="") + suffix)

    def _names(self, suffix: str) -> Iterator[str]:
        for path in sorted(self._directory.glob(f"*{suffix}")):
            yield unquote(path.name[: -len(suffix)])
