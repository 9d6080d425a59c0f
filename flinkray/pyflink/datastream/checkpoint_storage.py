"""`pyflink.datastream.checkpoint_storage`."""

from __future__ import annotations

from flinkray.state_backends import CheckpointStorage, FileSystemCheckpointStorage, JobManagerCheckpointStorage

__all__ = ["CheckpointStorage", "FileSystemCheckpointStorage", "JobManagerCheckpointStorage"]
