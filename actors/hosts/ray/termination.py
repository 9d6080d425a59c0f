"""What SIGTERM does to the process of an actor; nodes and containers send it when they are shut down.

Ray waits then for every call that runs, and that of `watch` never returns: the process would live on, and take no
message any more.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)

# How a shell tells that a process ended by SIGTERM. Ray takes any status but 0 for a death, after which an endpoint
# that restarts is started again.
EXIT_STATUS = 128 + signal.SIGTERM

# How long after SIGTERM the process ends at the latest.
TIMEOUT_S = 5.0


def on_sigterm(end: Callable[[], None]) -> None:
    """Has SIGTERM end this process: after `end`, which is called on a thread of its own, or when that takes too long.

    To be called on the main thread. Nothing else is called at the exit of the process, and nobody is waited for.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    # The main thread of an actor is mostly not in Python, where it could call a handler. The number of a signal that
    # has one is written to this pipe in any case.
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGTERM, lambda _signal, _frame: None)
    # A process that a function forks would write to it as well, and its end be taken for that of this one. It must not
    # get a signal before that is undone.
    os.register_at_fork(before=_hold, after_in_parent=_let_come, after_in_child=_reset)
    threading.Thread(target=_await, args=(reader, end), name="await SIGTERM", daemon=True).start()


def _hold() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _let_come() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _reset() -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _let_come()


def _await(reader: int, end: Callable[[], None]) -> None:
    while os.read(reader, 1)[0] != signal.SIGTERM:
        pass
    ending = threading.Thread(target=_end, args=(end,), name="end after SIGTERM", daemon=True)
    ending.start()
    ending.join(TIMEOUT_S)
    os._exit(EXIT_STATUS)


def _end(end: Callable[[], None]) -> None:
    log.info("this process ends, as it got SIGTERM")
    end()
    logging.shutdown()
