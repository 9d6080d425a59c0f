"""The thread that owns all state of connections to other slots, as steps."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

Command = Callable[[], None]

COMMANDS_PER_ROUND = 64
"""Commands that may run before something is sent: enough to gather credits and buffers into one message, few enough
that a flood of commands does not hold back what can be sent."""


class NetworkLoop:
    """Runs posted commands one after another, and lets the connections send between them.

    Args:
        rounds: each sends one message if it has one, and says whether it had.
        on_error: gets what is a bug by definition, since commands and rounds handle what can go wrong with data.
    """

    def __init__(self, rounds: Sequence[Callable[[], bool]], on_error: Callable[[BaseException], None]) -> None:
        self._rounds = rounds
        self._on_error = on_error
        self._commands: deque[Command] = deque()
        self._since_round = 0
        self._signal = threading.Event()
        self._is_stopping = False
        self._is_done = False

    def post(self, command: Command) -> None:
        """Has the loop run `command`, behind those posted before. Any thread may call it."""
        self._commands.append(command)
        self._signal.set()

    def stop(self) -> None:
        """Ends the loop when it has nothing left to do. Any thread may call it."""
        self._is_stopping = True
        self._signal.set()

    def step(self) -> bool:
        """One command, or one message per round; False when there was neither."""
        try:
            if self._commands and self._since_round < COMMANDS_PER_ROUND:
                self._since_round += 1
                self._commands.popleft()()
                return True
            self._since_round = 0
            has_sent = [send() for send in self._rounds]
        except Exception as error:
            self._end()
            self._on_error(error)
            return False
        is_busy = any(has_sent) or bool(self._commands)
        if self._is_stopping and not is_busy:
            self._end()
        return is_busy

    def _end(self) -> None:
        self._is_done = True
        self._signal.set()  # a host that waits before it looks at is_done must not wait for ever

    def wait(self, timeout_ms: float | None) -> None:
        self._signal.wait(None if timeout_ms is None else timeout_ms / 1000)
        # Cleared after the wait and before the next step: what is posted in between is seen by that step.
        self._signal.clear()

    @property
    def is_done(self) -> bool:
        return self._is_done
