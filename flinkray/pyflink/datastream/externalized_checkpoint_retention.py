"""`pyflink.datastream.externalized_checkpoint_retention`."""

from __future__ import annotations

from flinkray.checkpoint_config import ExternalizedCheckpointRetention

__all__ = ["ExternalizedCheckpointRetention"]
