"""`pyflink.datastream.output_tag`."""

from __future__ import annotations

from flinkray.types import OutputTag

__all__ = ["OutputTag"]
