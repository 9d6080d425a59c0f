"""`pyflink.datastream.checkpointing_mode`."""

from __future__ import annotations

from flinkray.state.checkpoint_config import CheckpointingMode

__all__ = ["CheckpointingMode"]
