"""Timestamp assigners as PyFlink takes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flinkray.time.watermarks import WatermarkStrategy


class WholeMillis:
    """An assigner of whose times the fractions of milliseconds are cut off."""

    def __init__(self, extract_timestamp: Callable[[Any, int], Any]) -> None:
        self._extract = extract_timestamp

    def extract_timestamp(self, value: Any, record_timestamp: int) -> Any:
        found = self._extract(value, record_timestamp)
        return int(found) if isinstance(found, float) and math.isfinite(found) else found


def in_whole_millis(strategy: WatermarkStrategy) -> WatermarkStrategy:
    """The strategy, whose function may give floats, such as `time.time() * 1000`."""
    assigner = getattr(strategy, "assigner", None)
    extract = getattr(assigner, "extract_timestamp", assigner)
    if isinstance(assigner, WholeMillis) or not callable(extract):  # a column, an expression, or nothing of the kind
        return strategy
    return replace(strategy, assigner=WholeMillis(extract))
