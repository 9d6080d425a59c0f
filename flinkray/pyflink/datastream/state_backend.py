"""`pyflink.datastream.state_backend`."""

from __future__ import annotations

from flinkray.pyflink.unavailable import unavailable
from flinkray.state.backends import EmbeddedRocksDBStateBackend, HashMapStateBackend, PredefinedOptions, StateBackend

__all__ = ["EmbeddedRocksDBStateBackend", "HashMapStateBackend", "PredefinedOptions", "StateBackend"]

__getattr__ = unavailable(
    __name__,
    "CustomStateBackend",
    "it names classes or options of Java; use HashMapStateBackend or EmbeddedRocksDBStateBackend, with "
    "JobManagerCheckpointStorage or FileSystemCheckpointStorage",
)
