"""`pyflink.datastream.connectors.number_seq`."""

from __future__ import annotations

from flinkray.connectors.sequence import SequenceSource as NumberSequenceSource

__all__ = ["NumberSequenceSource"]
