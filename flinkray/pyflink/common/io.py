"""`pyflink.common.io`."""

from __future__ import annotations

from flinkray.pyflink.unavailable import unavailable

__all__: list[str] = []

__getattr__ = unavailable(
    __name__,
    "InputFormat",
    "it wraps a class of Java; read files with FileSource, or write a Source of your own (flinkray.Source)",
)
