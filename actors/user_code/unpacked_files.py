"""Files of jobs, unpacked once on a node for all processes that use them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from flinkray.functions.cached_files import unpack

# So much of a digest tells contents apart, and keeps paths short.
_DIGITS = 32


class UnpackedFiles:
    """Directories that processes of one user share, each named by its content; any number of processes may use it.

    Each user of a directory holds a shared lock of the file beside it, which the system gives back however its process
    ends. Whoever comes next removes the directories that nobody holds.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._root = root or Path(tempfile.gettempdir()) / f"flinkray-files-{os.getuid()}"
        self._locks: list[int] = []

    def unpack(self, packed: bytes) -> Path:
        """The directory into which `packed` is unpacked; it stays until this is closed. Blocks while it unpacks."""
        return self.make(_key(packed), lambda directory: unpack(packed, directory))

    def make(self, key: str, fill: Callable[[Path], object]) -> Path:
        """The directory of that key, which `fill` has filled; stays as `unpack` has it."""
        self._prepare_root()
        self._locks.append(_hold(self._root / f"{key}.lock"))
        directory = self._root / key
        if not directory.exists():
            filled = Path(tempfile.mkdtemp(prefix=f"{key}.", dir=self._root))
            try:
                fill(filled)
                filled.rename(directory)
            except OSError:
                shutil.rmtree(filled, ignore_errors=True)
                if not directory.exists():  # another process was faster
                    raise
            except BaseException:
                shutil.rmtree(filled, ignore_errors=True)
                raise
        return directory

    def close(self) -> None:
        """Gives the directories back; those that nobody else holds are removed."""
        locks, self._locks = self._locks, []
        for lock in locks:
            os.close(lock)
        if locks:
            self._remove_unused()

    def _prepare_root(self) -> None:
        if not self._locks:
            self._root.mkdir(mode=0o700, exist_ok=True)
            if self._root.stat().st_uid != os.getuid():
                raise PermissionError(f"{self._root} belongs to another user: remove it, or set TMPDIR")
            self._remove_unused()

    def _remove_unused(self) -> None:
        for lock_file in self._root.glob("*.lock"):
            lock = _try_to_own(lock_file)
            if lock is None:
                continue
            for directory in self._root.glob(f"{lock_file.stem}*"):
                if directory != lock_file:
                    shutil.rmtree(directory, ignore_errors=True)
            lock_file.unlink(missing_ok=True)
            os.close(lock)


def _key(packed: bytes) -> str:
    return hashlib.sha256(packed).hexdigest()[:_DIGITS]


def _hold(lock_file: Path) -> int:
    """A shared lock of the file, which nobody has removed meanwhile."""
    while True:
        lock = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_SH)
        if _is_at(lock, lock_file):
            return lock
        os.close(lock)


def _try_to_own(lock_file: Path) -> int | None:
    """The lock of a file that nobody holds; None: somebody does."""
    try:
        lock = os.open(lock_file, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    if _is_at(lock, lock_file):
        return lock
    os.close(lock)
    return None


def _is_at(lock: int, lock_file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(lock), lock_file.stat())
    except FileNotFoundError:
        return False
