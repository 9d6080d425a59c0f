"""`pyflink.table.module`."""

from __future__ import annotations

from flinkray.pyflink.unavailable import unavailable

__all__: list[str] = []

__getattr__ = unavailable(
    __name__,
    "HiveModule Module ModuleEntry",
    "functions are those built in, and your own by create_temporary_function",
)
