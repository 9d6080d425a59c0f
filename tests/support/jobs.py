"""Programs for tests of whole jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flinkray import Configuration, StreamExecutionEnvironment


def environment(
    options: Mapping[str, Any] | None = None, *, target: str = "local", parallelism: int = 2
) -> StreamExecutionEnvironment:
    """An environment for `target`, with further options by their keys."""
    return StreamExecutionEnvironment.get_execution_environment(
        Configuration({"parallelism.default": parallelism, "execution.target": target, **(options or {})})
    )
