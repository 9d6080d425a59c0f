"""How a task waits in the middle of a mail, which its host decides: its thread sleeps, or other loops act meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

others_act: ContextVar[Callable[[], None] | None] = ContextVar("others_act", default=None)
"""Set by a host without threads around each step of a loop: a call lets another loop make a step in the same thread,
after which the waiting mailbox looks again. None: the task has a thread, which sleeps."""
