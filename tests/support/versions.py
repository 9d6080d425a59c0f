"""What tests make alike in all the versions of Arrow and numpy that they run with, and what older ones lack."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest

ARROW = int(pa.__version__.split(".")[0])
"""Arrow's major version."""
Time = TypeVar("Time", np.datetime64, np.timedelta64)


def needs_arrow(version: int, reason: str) -> pytest.MarkDecorator:
    """Marks what works from that major version of Arrow on; `docs/installation.md` says so to users."""
    return pytest.mark.skipif(version > ARROW, reason=f"Arrow {version}: {reason}")


def arrow_array(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    """`pa.array`, also of what older versions of Arrow do not take: halves from Python's floats (21), UUIDs (24)."""
    if pa.types.is_float16(arrow_type):
        return pa.array(values, pa.float64()).cast(arrow_type)
    if arrow_type == pa.uuid():
        stored = [value.bytes if isinstance(value, uuid.UUID) else value for value in values]
        return pa.array(stored, arrow_type)
    if pa.types.is_struct(arrow_type) and any(pa.types.is_float16(field.type) for field in arrow_type):
        columns = [
            arrow_array([None if value is None else value[field.name] for value in values], field.type)
            for field in arrow_type
        ]
        is_null = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(columns, fields=list(arrow_type), mask=is_null)
    return pa.array(values, arrow_type)


def without_unit(time: type[Time], value: int | str = "NaT") -> Time:
    """A time of numpy's that has no unit, of whose making numpy 2.5 warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return time(value)
