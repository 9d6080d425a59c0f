"""`pyflink.datastream.execution_mode`."""

from __future__ import annotations

from flinkray.environment_settings import RuntimeExecutionMode

__all__ = ["RuntimeExecutionMode"]
