"""`pyflink.datastream.checkpoint_storage`."""

from __future__ import annotations

from flinkray.pyflink.unavailable import unavailable
from flinkray.state.backends import CheckpointStorage, FileSystemCheckpointStorage, JobManagerCheckpointStorage

__all__ = ["CheckpointStorage", "FileSystemCheckpointStorage", "JobManagerCheckpointStorage"]

__getattr__ = unavailable(
    __name__,
    "CustomCheckpointStorage",
    "it names classes or options of Java; use HashMapStateBackend or EmbeddedRocksDBStateBackend, with "
    "JobManagerCheckpointStorage or FileSystemCheckpointStorage",
)
