"""Log levels that a program sets in its driver, where its functions run in other processes."""

from __future__ import annotations

import logging
from collections.abc import Mapping

ROOT = "root"
"""The name of the root logger among the levels."""


def levels_of_this_process() -> dict[str, str]:
    """The levels that were set here, by logger, if logging was set up at all: without a handler nothing is shown below
    warnings."""
    root = logging.getLogger()
    if not root.handlers:
        return {}
    known = logging.Logger.manager.loggerDict.items()
    loggers = {name: each for name, each in known if isinstance(each, logging.Logger) and each.level != logging.NOTSET}
    levels = {name: logging.getLevelName(loggers[name].level) for name in sorted(loggers)}
    return {ROOT: logging.getLevelName(root.level), **levels}


def set_levels(levels: Mapping[str, str]) -> None:
    """Sets the levels of this process."""
    for name, level in levels.items():
        logger = logging.getLogger(None if name == ROOT else name)
        logger.setLevel(int(level.removeprefix("Level ")) if level[-1:].isdigit() else level)
