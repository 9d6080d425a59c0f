"""An endpoint's main thread whose time and messages a test steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from actors.protocol.main_thread import MainThread, RunAsync
from actors.protocol.ports import Address


@dataclass
class DueMessage:
    """A message that is due at a time; implements `actors.protocol.ports.Cancellable`."""

    due: float
    message: RunAsync | None

    def cancel(self) -> None:
        self.message = None


@dataclass
class SteppedContext:
    """As much of an EndpointContext as a main thread and what is built on it need."""

    address: Address = Address("c/endpoint")
    now: float = 0.0
    told: list[tuple[Address, Any]] = field(default_factory=list)
    watched: list[Address] = field(default_factory=list)
    restarted: list[Address] = field(default_factory=list)
    pending: list[DueMessage] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = self
        self.main_thread = MainThread(self)  # type: ignore[arg-type]

    def monotonic_ms(self) -> float:
        return self.now

    def tell(self, address: Address, message: Any) -> None:
        self.told.append((address, message))

    def watch(self, address: Address) -> None:
        self.watched.append(address)

    def restart(self, address: Address) -> None:
        self.restarted.append(address)

    def tell_self(self, message: RunAsync) -> None:
        self.tell_self_later(0, message)

    def tell_self_later(self, delay_ms: float, message: RunAsync) -> DueMessage:
        self.pending.append(DueMessage(self.now + delay_ms, message))
        return self.pending[-1]

    def run_blocking(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], RunAsync]) -> None:
        try:
            self.tell_self(done(work(), None))
        except Exception as error:
            self.tell_self(done(None, error))

    def advance(self, by_ms: float) -> None:
        """Runs what becomes due, in order."""
        end = self.now + by_ms
        while due := [each for each in self.pending if each.due <= end]:
            first = min(due, key=lambda each: each.due)
            self.pending.remove(first)
            self.now = max(self.now, first.due)
            if first.message is not None:
                first.message.callback()
        self.now = end
