"""`pyflink.common.restart_strategy`."""

from __future__ import annotations

from flinkray.state.restart_strategies import RestartStrategies, RestartStrategyConfiguration

__all__ = ["RestartStrategies", "RestartStrategyConfiguration"]
