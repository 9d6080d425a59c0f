"""`pyflink.datastream.connectors.hybrid_source`."""

from __future__ import annotations

from flinkray.connectors.hybrid import source as native
from flinkray.connectors.source import Source

__all__ = ["HybridSource", "HybridSourceBuilder"]


class HybridSource:
    @staticmethod
    def builder(first_source: Source) -> HybridSourceBuilder:
        return HybridSourceBuilder(first_source)


class HybridSourceBuilder:
    """Sources that are read one after another; all but the last end."""

    def __init__(self, first_source: Source) -> None:
        self._sources = [first_source]

    def add_source(self, source: Source) -> HybridSourceBuilder:
        self._sources.append(source)
        return self

    def build(self) -> native.HybridSource:
        """
        Raises:
            InvalidProgramError: one that is not the last does not end.
        """
        return native.HybridSource(*self._sources)
