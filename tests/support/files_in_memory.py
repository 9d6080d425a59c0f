"""Runs Python with temporary files in memory: `python -m tests.support.files_in_memory -m pytest ...`.

A store of RocksDB opens and closes in 60 ms on a disk, which it waits for, and in 5 ms in memory; checkpoints and files
of sinks wait likewise. Where there is no room in memory, files are where they are otherwise.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")
_BYTES = 4 << 30
"""So much must be free: the tests keep a few hundred megabytes, and what they measure must not run out."""


def has_room(directory: Path) -> bool:
    return os.access(directory, os.W_OK) and shutil.disk_usage(directory).free >= _BYTES


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # after which the directory goes, too
    parent = _MEMORY if has_room(_MEMORY) else None
    with tempfile.TemporaryDirectory(prefix="flinkray-tests-", dir=parent, ignore_cleanup_errors=True) as directory:
        command = [sys.executable, *arguments]
        try:
            return subprocess.run(command, env={**os.environ, "TMPDIR": directory}, check=False).returncode
        except KeyboardInterrupt:  # the tests have had it too, and have said so
            return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
