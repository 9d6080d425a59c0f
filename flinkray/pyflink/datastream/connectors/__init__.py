"""`pyflink.datastream.connectors`."""

from __future__ import annotations

from flinkray.pyflink.datastream.connectors.file_system import FileSink, FileSource

__all__ = ["FileSink", "FileSource"]
