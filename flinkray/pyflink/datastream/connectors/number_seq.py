"""`pyflink.datastream.connectors.number_seq`."""

from __future__ import annotations

from flinkray.connectors.sequence.source import SequenceSource as NumberSequenceSource
from flinkray.pyflink.imported_names import imported

__all__ = ["NumberSequenceSource"]

__getattr__ = imported(__name__)
