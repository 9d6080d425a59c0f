"""`pyflink.datastream.utils`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

__all__ = ["ResultTypeQueryable"]


class ResultTypeQueryable(ABC):
    """Says which type its results have."""

    @abstractmethod
    def get_produced_type(self) -> Any: ...
