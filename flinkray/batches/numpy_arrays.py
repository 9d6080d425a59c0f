"""Arrow arrays of numbers and times as numpy arrays and back, without a copy where that can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flinkray.errors import TypeMismatchError

INT64 = np.dtype(np.int64)
_LARGEST_EXACT = 1 << 53
"""Doubles hold all whole numbers up to this one."""


def check_exact_as_floats(column: pa.Array, what: str, otherwise: str) -> None:
    """Checks that pandas and numpy, which have no null among whole numbers and make floats of them, would change none.

    Args:
        what: names the column in the error; `otherwise` is a way out besides filling the nulls.
    Raises:
        TypeMismatchError: they would.
    """
    if not column.null_count or not pa.types.is_integer(column.type) or column.type.bit_width < 64:
        return
    bounds = pc.min_max(column).as_py()
    if bounds["min"] is not None and max(-bounds["min"], bounds["max"]) > _LARGEST_EXACT:
        raise TypeMismatchError(
            f"{what} has nulls and whole numbers beyond 2**53, which the floats that pandas and numpy make of such a "
            f"column do not hold exactly; fill the nulls before (fill_null, COALESCE), or {otherwise}"
        )


def fixed_width(array: pa.Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The values of an array that stores them as `dtype`: read-only, not copied, and anything where there is a null.

    As Arrow's `to_numpy`, but that releases the interpreter's lock four times, each of which may wake another thread.
    """
    buffer = array.buffers()[1]
    if buffer is None:  # there are no values, or none but nulls
        return np.zeros(len(array), dtype)
    values = np.frombuffer(buffer, dtype, len(array), array.offset * dtype.itemsize)
    values.flags.writeable = False  # the memory of an array that numpy made still is
    return values


def numpy_dtype(arrow_type: pa.DataType) -> np.dtype[Any]:
    """Numpy's type of booleans or numbers; `to_pandas_dtype` imports pandas before Arrow 26."""
    return _DTYPES[arrow_type]


def as_numpy(array: pa.Array) -> npt.NDArray[Any]:
    """The values, of any type: read-only and not copied for numbers without nulls.

    As Arrow's `to_numpy(zero_copy_only=False)`, but that imports pandas when it is first called.
    """
    dtype = _DTYPES.get(array.type)
    if dtype is None or array.null_count:
        return array.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    if dtype.kind != "b":
        return fixed_width(array, dtype)
    buffer, (skipped, first) = array.buffers()[1], divmod(array.offset, 8)
    packed = np.frombuffer(buffer, np.uint8, offset=skipped) if len(array) else np.empty(0, np.uint8)
    return np.unpackbits(packed, count=first + len(array), bitorder="little")[first:].view(np.bool_)


def from_numpy(values: npt.NDArray[Any], is_null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """The values as an Arrow array; numbers are not copied.

    As `pa.array`, but that imports pandas when it is first called (a third of a second of each process), and takes ten
    times as long for booleans.

    Args:
        values: shape (length,).
        is_null: which values are null, of the same shape; None: none is.
    """
    arrow_type = _ARROW_TYPES.get(values.dtype)
    if arrow_type is None or type(values) is not np.ndarray or values.ndim != 1:
        return pa.array(values, mask=is_null)
    validity = None if is_null is None or not is_null.any() else _bits(~is_null)
    content = _bits(values) if values.dtype.kind == "b" else pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(arrow_type, len(values), [validity, content])


def _bits(flags: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


_DTYPES: dict[pa.DataType, np.dtype[Any]] = {
    pa.from_numpy_dtype(name): np.dtype(name) for name in ("bool", *np.typecodes["AllInteger"], "e", "f", "d")
}
"""Numpy's type for each Arrow type of booleans and numbers."""
_ARROW_TYPES = {dtype: arrow_type for arrow_type, dtype in _DTYPES.items()}
