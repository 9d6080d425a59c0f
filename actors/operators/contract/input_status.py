"""What an input gave when it was asked for more (Flink's DataInputStatus)."""

from __future__ import annotations

import enum


class InputStatus(enum.Enum):
    """The answer of an input that was asked to process its next element."""

    MORE_AVAILABLE = "more available"
    """Something was processed; ask again."""
    NOTHING_AVAILABLE = "nothing available"
    """Ask again after the input has announced something."""
    END_OF_DATA = "end of data"
    """The last row has been processed. It is given once."""
    END_OF_INPUT = "end of input"
    """Nothing at all will come any more, no row, watermark or barrier."""
