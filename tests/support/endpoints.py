"""Small endpoints with which the contract of a host is tested. Importable by Ray's workers."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa

from actors.protocol.ports import Address, DeliveryFailed, Endpoint, EndpointDied, EndpointSpec, Payloads
from flinkray.batches.batch import Batch


class Recorder(Endpoint):
    """Keeps what it is told; answers questions about it, and does what commands say."""

    def on_start(self) -> None:
        self.seen: list[Any] = []
        self.threads: set[int] = set()

    def on_message(self, message: Any, payloads: Payloads) -> None:
        self.threads.add(threading.get_ident())
        match message:
            case ("forward", address, what):
                self.context.tell(Address(address), what)
            case ("send rows", address, rows):
                batch = Batch(pa.RecordBatch.from_pydict({"x": pa.array(range(rows))}))
                ref = self.context.objects.put([batch])
                self.context.tell(Address(address), ("rows", rows), [ref])
            case ("send numbers", address, count):
                for number in range(count):
                    rows = 40_000 if number % 3 == 0 else 1
                    batch = Batch(pa.RecordBatch.from_pydict({"x": pa.array(range(rows))}))
                    if number % 3 == 0:
                        self.context.tell(Address(address), ("number", number), [self.context.objects.put([batch])])
                    else:
                        self.context.tell(Address(address), ("number", number))
            case ("rows", _):
                (batch,) = payloads[0]
                self.seen.append(("rows", batch.num_rows, batch.data.column(0)[-1].as_py()))
            case ("spawn", spec):
                self.context.spawn(spec)
            case ("watch", address):
                self.context.watch(Address(address))
            case ("kill", address):
                self.context.kill(Address(address))
            case ("restart", address):
                self.context.restart(Address(address))
            case ("later", delay_ms, what):
                self.context.tell_self_later(delay_ms, what)
            case ("blocking", what):
                self.context.run_blocking(lambda: what * 2, lambda result, error: ("done", result, str(error)))
            case ("fail",):
                raise RuntimeError("this endpoint cannot go on")
            case ("loop", steps):
                self.context.start_loop("countdown", Countdown(self, steps))
            case EndpointDied(address, _):
                self.seen.append(("died", address))
            case DeliveryFailed(address, failed, _):
                self.seen.append(("undelivered", address, failed))
            case other:
                self.seen.append(other)

    def on_request(self, request: Any) -> Any:
        if request == "seen":
            return list(self.seen)
        if request == "threads":
            return len(self.threads)
        if request == "error":
            raise ValueError("a bad question")
        return super().on_request(request)


class Countdown:
    """A loop of some steps."""

    def __init__(self, owner: Recorder, steps: int) -> None:
        self._owner = owner
        self._left = steps

    def step(self) -> bool:
        self._left -= 1
        self._owner.context.tell_self(("step", self._left))
        return True

    def wait(self, timeout_ms: float | None) -> None:
        raise AssertionError("a loop that always has work is not asked to wait")

    @property
    def is_done(self) -> bool:
        return self._left == 0


def recorder(address: str, **options: Any) -> EndpointSpec:
    """The spec of a Recorder."""
    return EndpointSpec(Address(address), Recorder, **options)
