"""Arrow arrays of numbers and times as numpy sees them, where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

INT64 = np.dtype(np.int64)


def fixed_width(array: pa.Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The values of an array that stores them as `dtype`, without a copy, read-only; what stands for null is anything.

    As `to_numpy`, which gives the interpreter's lock away four times, each of which may wake a thread that waits.
    """
    buffer = array.buffers()[1]
    if buffer is None:  # there are no values, or none but nulls
        return np.zeros(len(array), dtype)
    values = np.frombuffer(buffer, dtype, len(array), array.offset * dtype.itemsize)
    values.flags.writeable = False  # the memory of an array that numpy made still is
    return values
