"""`pyflink.datastream.connectors.number_seq`."""

from __future__ import annotations

from flinkray.connectors.sequence.source import SequenceSource as NumberSequenceSource

__all__ = ["NumberSequenceSource"]
