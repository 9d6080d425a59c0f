"""Which of a window's rows a firing leaves out (after Flink's Evictor)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol


class EvictorContext(Protocol):
    def get_current_processing_time(self) -> int: ...

    def get_current_watermark(self) -> int: ...


class TimestampedValue(Protocol):
    """A row in a window."""

    value: Any
    timestamp: int | None


class Evictor(ABC):
    """Removes rows from a window before and after its function sees them; what it removes is gone for good."""

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, ctx: EvictorContext
    ) -> list[TimestampedValue]:
        """The rows that stay, of those that the window has, in order of arrival."""

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, ctx: EvictorContext
    ) -> list[TimestampedValue]:
        """The rows that stay for the next firing."""
