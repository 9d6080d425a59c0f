"""`pyflink.datastream.checkpoint_config`."""

from __future__ import annotations

from flinkray.pyflink.imported_names import imported
from flinkray.state import checkpoint_config
from flinkray.state.checkpoint_config import ExternalizedCheckpointRetention
from flinkray.state.checkpoint_config import ExternalizedCheckpointRetention as ExternalizedCheckpointCleanup

__all__ = ["CheckpointConfig", "ExternalizedCheckpointCleanup", "ExternalizedCheckpointRetention"]

__getattr__ = imported(__name__)


class CheckpointConfig(checkpoint_config.CheckpointConfig):
    """flinkray's settings of checkpoints."""

    def get_checkpoint_interval(self) -> int:
        """Milliseconds between the starts of checkpoints; -1: there are none."""
        return self.interval or -1
