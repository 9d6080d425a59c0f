"""Refuses threads to code that runs in a simulation, as neither seed nor clock would reach them."""

from __future__ import annotations

import threading
from types import TracebackType

from actors.hosts.simulation.process import SimulatedProcess
from flinkray.errors import FlinkrayError


class ThreadInSimulationError(FlinkrayError):
    """A source, sink or function has tried to start a thread."""

    origin = "user"

    def __init__(self, thread: str) -> None:
        self.thread = thread
        super().__init__(thread)

    def _text(self) -> str:
        return (
            f"the thread {self.thread!r} cannot be started in a simulation, where everything happens in one thread: "
            "generator functions, SourceFunction and FileSource cannot take part, but from_collection, from_sequence, "
            "DataGenSource and sources whose reader does not block can"
        )


def _refuse(thread: threading.Thread) -> None:
    raise ThreadInSimulationError(thread.name)


class confined:
    """A context in which code of a process runs: the process is on top of `acting`, and no thread can be started."""

    __slots__ = ("_acting", "_former", "_process")

    def __init__(self, acting: list[SimulatedProcess], process: SimulatedProcess) -> None:
        self._acting = acting
        self._process = process

    def __enter__(self) -> None:
        self._acting.append(self._process)
        self._former = threading.Thread.start
        threading.Thread.start = _refuse  # type: ignore[method-assign,assignment]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._acting.pop()
        threading.Thread.start = self._former  # type: ignore[method-assign]
