"""Endpoints that die, and what others hear of it. Importable by Ray's workers."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from actors.protocol.ports import Address, Endpoint, EndpointContext, EndpointSpec, Payloads
from tests.support.endpoints import Recorder


def deaths(seen: list[Any], address: Address) -> int:
    """How often a Recorder that has seen this heard of the death of the endpoint."""
    return seen.count(("died", address))


class Mortal(Recorder):
    """A Recorder that tells its process, and passes on what it is told to a journal."""

    def __init__(self, context: EndpointContext, journal: Address | None = None) -> None:
        super().__init__(context)
        self._journal = journal

    def on_message(self, message: Any, payloads: Payloads) -> None:
        super().on_message(message, payloads)
        match message:
            case ("number", number) if self._journal is not None:
                self.context.tell(self._journal, ("journal", os.getpid(), number))
            case ("greet", address):
                self.context.tell(address, ("greeting", os.getpid()))

    def on_request(self, request: Any) -> Any:
        if request == "pid":
            return os.getpid()
        return super().on_request(request)


def mortal(address: Address, journal: Address | None = None, **options: Any) -> EndpointSpec:
    """The spec of a Mortal."""
    return EndpointSpec(address, Mortal, (journal,), **options)


class Stillborn(Endpoint):
    """Cannot be constructed; notes when that was tried."""

    def __init__(self, context: EndpointContext, path: str) -> None:
        super().__init__(context)
        with open(path, "a") as file:
            file.write(f"{time.monotonic()}\n")
        raise RuntimeError("it cannot be constructed")

    def on_message(self, message: Any, payloads: Payloads) -> None:
        raise AssertionError("it was not constructed")


class Closing(Mortal):
    """Notes in a file that it was asked to end, tells its journal, and then takes as long as it is told to."""

    def __init__(self, context: EndpointContext, journal: Address, path: str, takes_s: float) -> None:
        super().__init__(context, journal)
        self._path = path
        self._takes_s = takes_s

    def on_stop(self) -> None:
        with open(self._path, "a") as file:
            file.write("stopped")
        assert self._journal is not None
        self.context.tell(self._journal, "it ends")
        threading.Event().wait(self._takes_s)
