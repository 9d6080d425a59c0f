"""`pyflink.datastream.state_backend`."""

from __future__ import annotations

from flinkray.state_backends import EmbeddedRocksDBStateBackend, HashMapStateBackend, StateBackend

__all__ = ["EmbeddedRocksDBStateBackend", "HashMapStateBackend", "StateBackend"]
