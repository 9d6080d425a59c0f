"""`pyflink.java_gateway`."""

from __future__ import annotations

from flinkray.pyflink.unavailable import unavailable

__all__: list[str] = []

__getattr__ = unavailable(
    __name__,
    "get_gateway launch_gateway import_flink_view",
    "there is no Java here; use Python libraries in your functions, or a Source or Sink of your own",
)
