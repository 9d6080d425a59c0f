"""`pyflink.common.utils`."""

from __future__ import annotations

from flinkray.pyflink.unavailable import unavailable

__all__: list[str] = []

__getattr__ = unavailable(__name__, "JavaObjectWrapper", "there are no objects of Java here")
