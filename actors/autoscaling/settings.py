"""What the autoscaler of a job is told."""

from __future__ import annotations

from msgspec import Struct

from flinkray.config.autoscaler_options import (
    BACKLOG_LAG_THRESHOLD,
    CATCH_UP_DURATION,
    MAX_SCALE_DOWN_FACTOR,
    MAX_SCALE_UP_FACTOR,
    MAX_UTILIZATION,
    METRICS_WINDOW,
    MIN_UTILIZATION,
    RESTART_TIME,
    SCALE_DOWN_INTERVAL,
    STABILIZATION_INTERVAL,
    TARGET_UTILIZATION,
    VERTEX_EXCLUDE_IDS,
    VERTEX_MAX_PARALLELISM,
    VERTEX_MIN_PARALLELISM,
)
from flinkray.config.configuration import Configuration


class AutoscalerSettings(Struct, frozen=True, kw_only=True):
    """Times are milliseconds; see the options of the same names."""

    window_ms: int = METRICS_WINDOW.default
    stabilization_ms: int = STABILIZATION_INTERVAL.default
    target: float = TARGET_UTILIZATION.default
    highest: float = MAX_UTILIZATION.default
    lowest: float = MIN_UTILIZATION.default
    catch_up_ms: int = CATCH_UP_DURATION.default
    restart_ms: int = RESTART_TIME.default
    scale_down_interval_ms: int = SCALE_DOWN_INTERVAL.default
    most_lost: float = MAX_SCALE_DOWN_FACTOR.default
    most_gained: float = MAX_SCALE_UP_FACTOR.default
    fewest: int = VERTEX_MIN_PARALLELISM.default
    most: int = VERTEX_MAX_PARALLELISM.default
    excluded: frozenset[str] = frozenset()
    backlog_ms: int = BACKLOG_LAG_THRESHOLD.default

    @classmethod
    def of(cls, configuration: Configuration) -> AutoscalerSettings:
        names = configuration.get(VERTEX_EXCLUDE_IDS).split(";")
        return cls(
            window_ms=configuration.get(METRICS_WINDOW),
            stabilization_ms=configuration.get(STABILIZATION_INTERVAL),
            target=configuration.get(TARGET_UTILIZATION),
            highest=configuration.get(MAX_UTILIZATION),
            lowest=configuration.get(MIN_UTILIZATION),
            catch_up_ms=configuration.get(CATCH_UP_DURATION),
            restart_ms=configuration.get(RESTART_TIME),
            scale_down_interval_ms=configuration.get(SCALE_DOWN_INTERVAL),
            most_lost=configuration.get(MAX_SCALE_DOWN_FACTOR),
            most_gained=configuration.get(MAX_SCALE_UP_FACTOR),
            fewest=configuration.get(VERTEX_MIN_PARALLELISM),
            most=configuration.get(VERTEX_MAX_PARALLELISM),
            excluded=frozenset(name.strip() for name in names if name.strip()),
            backlog_ms=configuration.get(BACKLOG_LAG_THRESHOLD),
        )
