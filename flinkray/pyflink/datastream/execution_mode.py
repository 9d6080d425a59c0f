"""`pyflink.datastream.execution_mode`."""

from __future__ import annotations

from flinkray.streams.settings.environment_settings import RuntimeExecutionMode

__all__ = ["RuntimeExecutionMode"]
