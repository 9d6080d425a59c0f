"""`pyflink.datastream.stream_execution_environment`."""

from __future__ import annotations

from flinkray.environment import StreamExecutionEnvironment

__all__ = ["StreamExecutionEnvironment"]
