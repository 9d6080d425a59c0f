"""What simulations must not do, as it would not replay: read the machine's clock, or hold what an earlier one left.

Threads that jobs of other tests have left may go on: simulations have the main one alone.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

OURS = tuple(f"{os.sep}{package}{os.sep}" for package in ("actors", "flinkray", "graphs"))
_CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "sleep")


@pytest.fixture(autouse=True)
def _no_real_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime takes its time from the host; what read the machine's clock would not replay."""
    for name in _CLOCKS:
        monkeypatch.setattr(time, name, _guarded(name, getattr(time, name)))


@pytest.fixture(autouse=True, scope="module")
def _nothing_left_of_other_tests() -> None:
    """The garbage collector ends clusters that earlier tests have dropped, which look at the clock while they end."""
    gc.collect()


@pytest.fixture(autouse=True)
def _log_without_frames() -> Iterator[None]:
    """What pytest keeps of a log must not hold what the frames of an error hold: a run ends with nothing held."""
    original = logging.getLogRecordFactory()

    def make(*arguments: Any, **keywords: Any) -> logging.LogRecord:
        record = original(*arguments, **keywords)
        record.msg, record.args = record.getMessage(), None
        if record.exc_info:
            record.exc_text, record.exc_info = logging.Formatter().formatException(record.exc_info), None
        return record

    logging.setLogRecordFactory(make)
    yield
    logging.setLogRecordFactory(original)


def _guarded(name: str, original: Any) -> Any:
    def guard(*arguments: Any) -> Any:
        file = sys._getframe(1).f_code.co_filename
        is_ours = any(package in file for package in OURS) and f"{os.sep}tests{os.sep}" not in file
        if is_ours and threading.current_thread() is threading.main_thread():
            raise AssertionError(f"{file} calls time.{name} in a simulation")
        return original(*arguments)

    return guard
