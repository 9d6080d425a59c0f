"""What programs of Flink 1 give to `add_source` and `add_sink`, where it stands for a connector."""

from __future__ import annotations

from abc import ABC, abstractmethod

from flinkray.connectors.sink import Sink
from flinkray.connectors.source import Source


class StandsForSource(ABC):
    @abstractmethod
    def to_source(self) -> Source:
        """What it stands for."""


class StandsForSink(ABC):
    @abstractmethod
    def to_sink(self) -> Sink:
        """What it stands for."""
