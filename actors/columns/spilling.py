"""Batches in a file of this process alone, for what does not fit into memory."""

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
    """Of the batch in memory."""


class SpillFile:
    """Grows by batches, which are read in any order. Not for two threads at once.

    The file has no name where the system allows that, so that it goes with the process however that ends. It is made
    by the first write.

    Args:
        directory: where it is; empty: the system's temporary directory.
        what: names what it holds in errors.
    """

    def __init__(self, directory: str, what: str) -> None:
        self._directory = directory
        self._what = what
        self._file: IO[bytes] | None = None
        self._size = 0
        self._finalizer: Callable[[], object] | None = None

    @property
    def size(self) -> int:
        """Bytes written."""
        return self._size

    def write(self, batch: Batch) -> Spilled:
        """
        Raises:
            FlinkrayError: there is no room, or no such directory.
        """
        data = pickle.dumps(batch, protocol=5)
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="flinkray-", dir=self._directory or None)  # noqa: SIM115
                # Of who dies nobody calls `close`.
                self._finalizer = weakref.finalize(self, _close, self._file)
            self._file.seek(self._size)
            self._file.write(data)
        except OSError as error:
            raise self._error("written", error) from error
        spilled = Spilled(self._size, len(data), batch.num_rows, batch.nbytes)
        self._size += len(data)
        return spilled

    def read(self, spilled: Spilled) -> Batch:
        """
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
        """Frees its room. Closing twice is harmless."""
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
    with contextlib.suppress(OSError):  # what was not flushed for want of room does not matter any more
        file.close()
