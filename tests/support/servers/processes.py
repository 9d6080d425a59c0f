"""Servers that are processes of their own, and when they answer."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from examples.servers import ServerUnavailable
from tests.support.waiting import eventually

START_S = 30


class ServerProcess(ABC):
    """A running server, which can be stopped and started again, with the same data at the same port.

    Args:
        name: for errors.
        log: the file that gets what it prints.
    """

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self._name = name
        self._command = command
        self._log = log
        self._process = self._start()

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it can be used; may raise while it cannot."""

    def stop(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)

    def restart(self) -> None:
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)

        def answers() -> bool:
            if process.poll() is not None:
                raise ServerUnavailable(f"{self._name} ended: {self._log.read_text()[-2000:]}")
            with contextlib.suppress(Exception):
                return self._answers()
            return False

        eventually(answers, deadline_s=START_S)
        return process
