"""Waiting for a condition with a deadline, instead of sleeping."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

DEADLINE_S = 60.0
"""Only what fails takes it: far more than anything takes on a machine that does much else."""


def eventually(look: Callable[[], T], accept: Callable[[T], bool] = bool, deadline_s: float = DEADLINE_S) -> T:
    """What `look` gives once `accept` takes it; fails with the last look after the deadline."""
    pause = threading.Event()
    end = time.monotonic() + deadline_s
    while not accept(value := look()):
        if time.monotonic() > end:
            raise AssertionError(f"still not so after {deadline_s} s: {value!r}")
        pause.wait(0.01)
    return value
