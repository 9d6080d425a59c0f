"""Makes a process log as options say: which lines, how they are written, and whose they are."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping

from msgspec import Struct

from actors.logs.context import LogContext, enter_process, mark_records
from actors.logs.formats import FORMATTERS
from actors.logs.levels import set_levels
from flinkray.config.configuration import Configuration
from flinkray.config.options import LOG_FORMAT, LOG_LEVELS


class LogSettings(Struct, frozen=True):
    """What options say of the log."""

    levels: Mapping[str, str] = {}
    format: str = LOG_FORMAT.default
    is_format_set: bool = False
    """Whether the program has asked for that format, so that it replaces what logging was set up with."""

    @classmethod
    def of(cls, configuration: Configuration) -> LogSettings:
        return cls(configuration.get(LOG_LEVELS), configuration.get(LOG_FORMAT), configuration.is_set(LOG_FORMAT))


class _OwnHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to standard error where nobody else has set up logging."""


_owns_process = False


def own_process(settings: LogSettings, context: LogContext) -> None:
    """Sets up the log of a process that runs nothing but an endpoint, and what belongs to it.

    Args:
        context: whose lines are those of threads that say nothing else.
    """
    global _owns_process
    _owns_process = True
    enter_process(context)
    set_up(settings, context)


def set_up(settings: LogSettings, context: LogContext) -> None:
    """Sets up the log of this process for a job of which something runs here, or once more for another one.

    A process that is the program's own keeps what logging was set up with there, unless the options set something.
    """
    mark_records()
    if _owns_process and context.job_id:
        enter_process(context)
    root, formatter = logging.getLogger(), FORMATTERS[settings.format]()
    if _owns_process:
        # Not a handler of the root: functions that set up logging where they run would find it set up.
        logging.lastResort = _OwnHandler(sys.stderr)
        logging.lastResort.setLevel(logging.WARNING)
        logging.lastResort.setFormatter(formatter)
    if not root.handlers and (settings.levels or settings.is_format_set):
        root.addHandler(_OwnHandler(sys.stderr))
    for handler in root.handlers:
        if isinstance(handler, _OwnHandler) or (settings.is_format_set and _prints(handler)):
            handler.setFormatter(formatter)
    set_levels(settings.levels)


def _prints(handler: logging.Handler) -> bool:
    """Whether it writes to what a terminal shows, rather than to a file or somewhere else that has a format of its
    own."""
    return isinstance(handler, logging.StreamHandler) and handler.stream in (
        sys.stderr,
        sys.stdout,
        sys.__stderr__,
        sys.__stdout__,
    )
