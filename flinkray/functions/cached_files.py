"""Files that go along with a job (`env.register_cached_file`): packed in the driver, unpacked where a task runs."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path


def pack(path: Path) -> bytes:
    """A file, or a directory with all that is in it; symbolic links as what they lead to."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", dereference=True) as archive:
        archive.add(path, path.name)
    return packed.getvalue()


def unpack(packed: bytes, directory: Path) -> Path:
    """Where in `directory` it then lies, under its own name and with its permissions."""
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(directory, filter="data")
        return directory / archive.getnames()[0]
