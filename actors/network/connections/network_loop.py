"""The loop that owns all state of the connections to other slots: one command or one message per step."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

Command = Callable[[], None]

COMMANDS_PER_ROUND = 64
"""Commands that may run before something is sent: enough to gather credits and buffers into one message, few enough
that a flood of commands does not hold back what can be sent."""

STEPS_OF_HELP = 256
"""After so many steps a thread that helps goes on with its own work, and leaves the rest to the loop's thread."""

DEEPEST_HELP = 4
"""How many loops a thread may be helping at once. What it does for one loop may post a command to the loop of another
slot, where it helps too; each takes some frames of the interpreter's stack, so it must not go on through a hundred."""

_helping = threading.local()


class NetworkLoop:
    """Runs posted commands one after another, and lets the connections send between them.

    Where threads `help`, whoever posts a command runs it, and those that others post meanwhile, unless another thread
    is at it already, which runs it then. That takes less than waking the loop's own thread. After "flat combining"
    (Hendler, Incze, Shavit, Tzafrir, SPAA 2010).

    Args:
        rounds: each sends one message if it has one, and says whether it had.
        on_error: gets what is a bug by definition, since commands and rounds handle what can go wrong with data.
        is_helped: threads help. They hold no lock then that a command or a round might take.
    """

    def __init__(
        self,
        rounds: Sequence[Callable[[], bool]],
        on_error: Callable[[BaseException], None],
        is_helped: bool = False,
    ) -> None:
        self._rounds = rounds
        self._on_error = on_error
        self._is_helped = is_helped
        self._acting = threading.Lock()
        """Held by the thread that makes a step."""
        self._commands: deque[Command] = deque()
        self._since_round = 0
        self._signal = threading.Event()
        self._is_stopping = False
        self._is_done = False

    def post(self, command: Command) -> None:
        """Has the loop run `command`, behind those posted before. Any thread may call it; it may have to help."""
        self.add(command)
        self.help()

    def add(self, command: Command) -> None:
        """As `post`, for a thread that holds locks. It calls `help` when it holds none."""
        self._commands.append(command)
        if not self._is_helped:
            self._signal.set()

    def help(self) -> None:
        """Runs what has been posted, where threads help and none is at it. Any thread may call it, holding no lock."""
        # What is added while another thread acts is seen by that one: it looks again once it has released the lock.
        while self._is_helped and self._commands and not self._is_done:
            depth = getattr(_helping, "depth", 0)
            if depth == DEEPEST_HELP:
                self._signal.set()
                return
            if not self._acting.acquire(blocking=False):
                return
            _helping.depth = depth + 1
            try:
                has_more = self._steps(STEPS_OF_HELP)
            finally:
                _helping.depth = depth
                self._acting.release()
            if has_more or self._is_stopping:  # the loop's thread may have found the lock taken, and wait
                self._signal.set()
                return

    def _steps(self, most: int) -> bool:
        """Makes at most so many steps; whether there was still something to do after the last."""
        return all(self._step() for _ in range(most))

    def stop(self) -> None:
        """Ends the loop when it has nothing left to do. Any thread may call it."""
        self._is_stopping = True
        self._signal.set()

    def step(self) -> bool:
        """Runs one command, or lets each round send one message; False when there was neither, or another thread is at
        it."""
        if not self._acting.acquire(blocking=False):
            return False
        try:
            has_worked = self._step()
        finally:
            self._acting.release()
        return has_worked or bool(self._commands)  # nobody else knows of commands that were added since

    def _step(self) -> bool:
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
