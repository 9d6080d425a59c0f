"""Files that go along with a job (`env.register_cached_file`): packed in the driver, unpacked where a task runs."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path


def pack(path: Path) -> bytes:
    """A file, or a directory with all that is in it, as a tar archive; symbolic links are followed."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", dereference=True) as archive:
        archive.add(path, path.name)
    return packed.getvalue()


def unpack(packed: bytes, directory: Path) -> Path:
    """Unpacks into `directory`, and gives the path there: its own name, with its permissions."""
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(directory, filter="data")
        return directory / archive.getnames()[0]
