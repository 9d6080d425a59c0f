"""`pyflink.datastream.connectors.hybrid_source`."""

from __future__ import annotations

from flinkray.pyflink.unavailable import unavailable

__all__: list[str] = []

__getattr__ = unavailable(
    __name__,
    "HybridSource HybridSourceBuilder",
    "one source does not follow another here; read both and unite them with union(), "
    "or write one Source that reads first this, then that (flinkray.Source)",
)
