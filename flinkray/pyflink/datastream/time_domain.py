"""`pyflink.datastream.time_domain`."""

from __future__ import annotations

from flinkray.functions.interfaces import TimeDomain

__all__ = ["TimeDomain"]
