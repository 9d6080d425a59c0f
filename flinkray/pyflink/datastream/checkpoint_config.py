"""`pyflink.datastream.checkpoint_config`."""

from __future__ import annotations

from flinkray.state.checkpoint_config import CheckpointConfig, ExternalizedCheckpointRetention
from flinkray.state.checkpoint_config import ExternalizedCheckpointRetention as ExternalizedCheckpointCleanup

__all__ = ["CheckpointConfig", "ExternalizedCheckpointCleanup", "ExternalizedCheckpointRetention"]
