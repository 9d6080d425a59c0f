"""`pyflink.common.watermark_strategy`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from flinkray.watermarks import WatermarkStrategy

__all__ = ["TimestampAssigner", "WatermarkStrategy"]


class TimestampAssigner(ABC):
    """Gives each value its event time."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Epoch milliseconds."""
