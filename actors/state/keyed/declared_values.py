"""Values that typed state takes: others are refused when they are put, and not by the next savepoint."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from flinkray.batches.row_codec import short_repr
from flinkray.batches.value_columns import to_array
from flinkray.errors import TypeMismatchError
from flinkray.types.value_types import Misfit

Check = Callable[[Any], None]

_PLAIN: dict[pa.DataType, type] = {
    pa.float64(): float,
    pa.string(): str,
    pa.large_string(): str,
    pa.bool_(): bool,
    pa.binary(): bytes,
    pa.large_binary(): bytes,
    pa.date32(): datetime.date,
}
"""Python types of which any value fits, so that one look at the class is enough."""


def check_of(state: str, arrow_type: pa.DataType | None) -> Check | None:
    """A function that raises TypeMismatchError where the type does not hold the value; None: any value does.

    Args:
        state: the state's name, for the error.
        arrow_type: the column in which snapshots keep the values; None: pickled.
    """
    if arrow_type is None:
        return None
    plain = _PLAIN.get(arrow_type)
    lowest, highest = _bounds(arrow_type)

    def check(value: Any) -> None:
        # Once for every value that is put, so the common ones are let through by a look at them.
        if type(value) is plain or (type(value) is int and lowest <= value <= highest):
            return
        try:
            to_array([value], arrow_type)
        except Misfit:
            raise TypeMismatchError(
                f"state {state!r} is declared with value_type={arrow_type}, which does not hold {short_repr(value)} "
                f"({type(value).__name__}); declare a type that holds it, or none"
            ) from None

    return check


def _bounds(arrow_type: pa.DataType) -> tuple[int, int]:
    """The lowest and the highest integer of the type; none lies between those of other types."""
    if not pa.types.is_integer(arrow_type):
        return 1, 0
    if pa.types.is_unsigned_integer(arrow_type):
        return 0, 2**arrow_type.bit_width - 1
    return -(2 ** (arrow_type.bit_width - 1)), 2 ** (arrow_type.bit_width - 1) - 1
