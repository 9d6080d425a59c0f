"""`pyflink.datastream.checkpointing_mode`."""

from __future__ import annotations

from flinkray.checkpoint_config import CheckpointingMode

__all__ = ["CheckpointingMode"]
