"""`pyflink.common.typeinfo`."""

from __future__ import annotations

from flinkray.type_info import TypeInformation, Types

__all__ = ["TypeInformation", "Types"]
