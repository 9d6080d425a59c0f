"""The staging directory between a streaming query and the job that reads it. Imports no Spark, as slots use it as well.

    manifests/<batch id>.json       which files a micro-batch consists of; written last, in one step
    rows/<batch id>/<file>.arrow    one Arrow IPC file per Spark partition that has rows
    query.json                      the query that the batches belong to
    end.json                        how the query has ended
    progress.json                   how far the job has come; changes every few seconds while it runs

A batch exists as soon as its manifest does. Everything else that one side knows about the other is in such small files,
so that either side can be restarted while the other runs, is gone, or is on another machine.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from msgspec import Struct, convert, to_builtins
from pyarrow import fs

from actors.blocks.store import coalesce
from flinkray import filesystems
from flinkray.errors import FlinkrayError

_MANIFESTS, _ROWS = "manifests", "rows"
_QUERY, _END, _PROGRESS = "query.json", "end.json", "progress.json"
_DIGITS = 19
"""Digits of a batch id in a file's name, so that names are sorted as the numbers are."""


class StagingError(FlinkrayError):
    """The content of a staging directory does not belong to the query or the job that uses it."""

    origin = "user"


class StagedFile(Struct, frozen=True):
    """The file with the rows of one Spark partition."""

    name: str
    """Unique, so that files of repeated attempts are told apart."""
    rows: tuple[int, ...]
    """The number of rows in each Arrow batch of the file; there is at least one batch, and none is empty."""


class Manifest(Struct, frozen=True):
    """The files of one micro-batch."""

    query_id: str
    batch_id: int
    files: tuple[StagedFile, ...]
    """Files in the order of Spark's partitions; none for a batch without rows."""


class QueryEnd(Struct, frozen=True):
    """How the query has ended."""

    error: str | None
    """Why the query failed; None: it was stopped, or has read all rows."""


class ReadProgress(Struct, frozen=True):
    """How far the job has come with reading."""

    beat: str
    """Another text each time that the job writes its progress, as a sign of life."""
    handed_out_below: int
    """All splits of batches before this one have been handed out to readers."""
    covered_below: int
    """All splits of batches before this one had been handed out at a completed checkpoint."""
    is_closed: bool = False
    """Whether the job has ended, or is about to be restarted."""


class Staging:
    """A staging directory. Picklable, and usable in any process and thread; all methods wait for the file system.

    Args:
        location: a path that is the same on all machines, or a URI of any pyarrow file system.
    """

    def __init__(self, location: str) -> None:
        self.location = location
        self._system, self._path = filesystems.resolve(location)

    def __reduce__(self) -> tuple[type[Staging], tuple[str]]:
        return Staging, (self.location,)

    def create(self) -> None:
        for directory in (_MANIFESTS, _ROWS):
            self._system.create_dir(self._at(directory), recursive=True)

    # -- rows

    def write_file(self, batch_id: int, partition: int, batches: Iterable[pa.RecordBatch]) -> StagedFile | None:
        """Writes the rows of one partition to a file; None: the partition has no rows."""
        name = f"{partition:06d}-{uuid.uuid4().hex}.arrow"
        rows: list[int] = []
        with contextlib.ExitStack() as stack:
            for batch in coalesce(batches):
                if not rows:
                    self._system.create_dir(self._directory(batch_id), recursive=True)
                    file = stack.enter_context(self._system.open_output_stream(self._file(batch_id, name)))
                    writer = stack.enter_context(pa.ipc.new_file(file, batch.schema))
                writer.write_batch(batch)
                rows.append(batch.num_rows)
        return StagedFile(name, tuple(rows)) if rows else None

    def read_file(self, batch_id: int, file: StagedFile, position: int) -> Iterator[pa.RecordBatch]:
        """The rows of a file from row `position` on.

        Raises:
            StagingError: the file does not exist any more, or differs from what the manifest says.
        """
        path = self._file(batch_id, file.name)
        try:
            with self._system.open_input_file(path) as opened:
                reader = pa.ipc.open_file(opened)
                for index, count in enumerate(file.rows):
                    if position < count:
                        yield _expected(reader.get_batch(index), count).slice(position)
                    position = max(0, position - count)
        except FileNotFoundError as error:
            raise StagingError(
                f"the rows of Spark batch {batch_id} are gone from {self.location} ({file.name}): they are removed "
                "once a completed checkpoint covers them. Restore from the latest checkpoint, or start without state "
                "to go on with what is staged"
            ) from error
        except (pa.ArrowInvalid, OSError, ValueError) as error:
            raise StagingError(
                f"cannot read {file.name} of Spark batch {batch_id} in {self.location}: {error}"
            ) from error

    def remove_file(self, batch_id: int, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._system.delete_file(self._file(batch_id, name))

    def present_files(self, batch_id: int) -> frozenset[str]:
        """The names of the files of a batch that have not been removed."""
        selector = fs.FileSelector(self._directory(batch_id), allow_not_found=True)
        return frozenset(info.base_name for info in self._system.get_file_info(selector) if info.is_file)

    # -- batches

    def publish(self, manifest: Manifest) -> None:
        self._write(self._manifest(manifest.batch_id), to_builtins(manifest))

    def manifest(self, batch_id: int) -> Manifest | None:
        found = self._read(self._manifest(batch_id))
        return None if found is None else convert(found, Manifest)

    def batch_ids(self) -> list[int]:
        """The ids of all batches that exist, ascending."""
        selector = fs.FileSelector(self._at(_MANIFESTS), allow_not_found=True)
        names = (info.base_name for info in self._system.get_file_info(selector))
        # A file whose name begins with a dot is being written.
        return sorted(int(name.removesuffix(".json")) for name in names if not name.startswith("."))

    def remove_batch(self, batch_id: int) -> None:
        """Removes a batch's manifest, and files of rows that failed attempts have left."""
        with contextlib.suppress(FileNotFoundError):
            self._system.delete_dir(self._directory(batch_id))
        with contextlib.suppress(FileNotFoundError):
            self._system.delete_file(self._manifest(batch_id))

    # -- the query and the job

    def query_id(self) -> str | None:
        found = self._read(self._at(_QUERY))
        return None if found is None else str(found["query_id"])

    def claim(self, query_id: str) -> None:
        """Makes the batches those of a query.

        Raises:
            StagingError: the batches belong to another query, whose batch ids mean other rows: new batches would be
                taken for repeated ones.
        """
        owner = self.query_id()
        if owner is None:
            self._write(self._at(_QUERY), {"query_id": query_id})
        elif owner != query_id:
            raise StagingError(
                f"{self.location} holds batches of query {owner}, and this is query {query_id}: a staging directory "
                "and a Spark checkpoint location belong together. Use the checkpoint location that goes with it, or "
                "an empty staging directory"
            )

    def mark_end(self, end: QueryEnd) -> None:
        self._write(self._at(_END), to_builtins(end))

    def end(self) -> QueryEnd | None:
        found = self._read(self._at(_END))
        return None if found is None else convert(found, QueryEnd)

    def record_progress(self, progress: ReadProgress) -> None:
        self._write(self._at(_PROGRESS), to_builtins(progress))

    def progress(self) -> ReadProgress | None:
        found = self._read(self._at(_PROGRESS))
        return None if found is None else convert(found, ReadProgress)

    def begin_query(self) -> None:
        """Removes the end of an earlier query, the progress of an earlier job, and batches that nobody needs any
        more."""
        for newest in self.batch_ids()[-1:]:
            remove_covered(self, newest)
        for name in (_END, _PROGRESS):
            with contextlib.suppress(FileNotFoundError):
                self._system.delete_file(self._at(name))

    # -- inside

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}"

    def _directory(self, batch_id: int) -> str:
        return self._at(f"{_ROWS}/{batch_id:0{_DIGITS}d}")

    def _file(self, batch_id: int, name: str) -> str:
        return f"{self._directory(batch_id)}/{name}"

    def _manifest(self, batch_id: int) -> str:
        return self._at(f"{_MANIFESTS}/{batch_id:0{_DIGITS}d}.json")

    def _write(self, path: str, value: dict[str, Any]) -> None:
        """Writes a small file so that it appears as a whole: under another name, which is then renamed."""
        directory, _, name = path.rpartition("/")
        aside = f"{directory}/.{name}.{uuid.uuid4().hex}"
        with self._system.open_output_stream(aside) as file:
            file.write(json.dumps(value).encode())
        self._system.move(aside, path)

    def _read(self, path: str) -> dict[str, Any] | None:
        try:
            with self._system.open_input_stream(path) as file:
                found: dict[str, Any] = json.loads(file.read())
                return found
        except FileNotFoundError:
            return None


def unread_batches(staging: Staging) -> int:
    """How many staged batches the job has not begun to read."""
    progress = staging.progress()
    begun_below = 0 if progress is None else progress.handed_out_below
    return sum(1 for batch_id in staging.batch_ids() if batch_id >= begun_below)


def remove_covered(staging: Staging, current_batch_id: int) -> None:
    """Removes the oldest batches that nobody can need any more.

    A batch stays if an older one does, as a job without state reads from the oldest batch on and must find no gap.
    """
    progress = staging.progress()
    covered_below = 0 if progress is None else min(progress.covered_below, current_batch_id)
    for batch_id in staging.batch_ids():
        manifest = staging.manifest(batch_id) if batch_id < covered_below else None
        if manifest is None or staging.present_files(batch_id) & {file.name for file in manifest.files}:
            return
        staging.remove_batch(batch_id)


def _expected(batch: pa.RecordBatch, rows: int) -> pa.RecordBatch:
    if batch.num_rows != rows:
        raise ValueError(f"a batch has {batch.num_rows} rows where the manifest says {rows}")
    return batch
