"""Window assigners that users hand over, and those that numbers of rows stand for."""

from __future__ import annotations

from flinkray.errors import InvalidProgramError
from flinkray.windows.assigners import CountSlidingWindowAssigner, CountTumblingWindowAssigner, WindowAssigner


def count_assigner(size: int, slide: int | None) -> WindowAssigner:
    """The assigner of windows of `size` rows, which begin every `slide` rows.

    Args:
        slide: None or 0: one window after another.
    Raises:
        InvalidProgramError: one of them is no number of rows.
    """
    for name, value in (("size", size), ("slide", slide or 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0 or (name == "size" and value == 0):
            raise InvalidProgramError(f"count_window: {name} is a number of rows, not {value!r}")
    return CountSlidingWindowAssigner.of(size, slide) if slide else CountTumblingWindowAssigner.of(size)


def check_assigner(assigner: object) -> WindowAssigner:
    """The same assigner.

    Raises:
        InvalidProgramError: it is none.
    """
    if not isinstance(assigner, WindowAssigner):
        raise InvalidProgramError(
            f"window takes an assigner such as TumblingEventTimeWindows.of('1 h'), not {assigner!r}"
        )
    return assigner
