"""`pyflink.common.watermark_strategy`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from flinkray.pyflink.imported_names import imported
from flinkray.pyflink.unavailable import unavailable
from flinkray.time.watermarks import WatermarkStrategy

__all__ = ["TimestampAssigner", "WatermarkStrategy"]


__getattr__ = imported(
    __name__,
    unavailable(
        __name__,
        "AssignerWithPeriodicWatermarksWrapper",
        "it wraps a class of Java; use WatermarkStrategy.for_generator(...) with a WatermarkGenerator of your own",
    ),
)


class TimestampAssigner(ABC):
    """Gives each value its event time."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Epoch milliseconds."""
