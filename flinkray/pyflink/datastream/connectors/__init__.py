"""`pyflink.datastream.connectors`."""

from __future__ import annotations

from flinkray.pyflink.datastream.connectors.base import DeliveryGuarantee, Sink, Source
from flinkray.pyflink.datastream.connectors.file_system import FileSink, FileSource

__all__ = ["DeliveryGuarantee", "FileSink", "FileSource", "Sink", "Source"]
