"""Spilling: batches that do not fit into memory are written to a file of this process, and read back in any order."""

from __future__ import annotations

import contextlib
import pickle
import tempfile
import weakref
from collections.abc import Callable
from typing import IO

from msgspec import Struct

from flinkray.batches.batch import Batch
from flinkray.errors import FlinkrayError


class Spilled(Struct, frozen=True):
    """Where a batch is in its file."""

    offset: int
    length: int
    rows: int
    nbytes: int
    """Bytes that the batch takes in memory."""


class SpillFile:
    """A file that grows by batches, which can be read in any order. Not for two threads at once.

    It has no name where the system allows that, so that it disappears with the process however that ends. The first
    write creates it.

    Args:
        directory: where the file is created; empty: the system's temporary directory.
        what: names the contents in errors.
    """

    def __init__(self, directory: str, what: str) -> None:
        self._directory = directory
        self._what = what
        self._file: IO[bytes] | None = None
        self._size = 0
        self._finalizer: Callable[[], object] | None = None

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._size

    def write(self, batch: Batch) -> Spilled:
        """Appends the batch; gives where it is.

        Raises:
            FlinkrayError: there is no room, or no such directory.
        """
        data = pickle.dumps(batch, protocol=5)
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="flinkray-", dir=self._directory or None)  # noqa: SIM115
                # Nobody calls `close` where an owner is dropped after a failure.
                self._finalizer = weakref.finalize(self, _close, self._file)
            self._file.seek(self._size)
            self._file.write(data)
        except OSError as error:
            raise self._error("written", error) from error
        spilled = Spilled(self._size, len(data), batch.num_rows, batch.nbytes)
        self._size += len(data)
        return spilled

    def read(self, spilled: Spilled) -> Batch:
        """The batch that `write` put there.

        Raises:
            FlinkrayError: the file cannot be read.
        """
        assert self._file is not None, "nothing was written"
        try:
            self._file.seek(spilled.offset)
            data = self._file.read(spilled.length)
        except OSError as error:
            raise self._error("read", error) from error
        batch: Batch = pickle.loads(data)
        return batch

    def close(self) -> None:
        """Frees the file's room on the disk. Closing twice is harmless."""
        if self._finalizer is not None:
            self._finalizer()
        self._file = None

    def _error(self, done: str, error: OSError) -> FlinkrayError:
        where = self._directory or tempfile.gettempdir()
        return FlinkrayError(
            f"{self._what} could not be {done} in {where}: {error}; make room there, or name another directory with "
            "io.tmp.dirs"
        )


def _close(file: IO[bytes]) -> None:
    with contextlib.suppress(OSError):  # rows that were not flushed for lack of room are of no use any more
        file.close()
