"""`pyflink.datastream.externalized_checkpoint_retention`."""

from __future__ import annotations

from flinkray.state.checkpoint_config import ExternalizedCheckpointRetention

__all__ = ["ExternalizedCheckpointRetention"]
