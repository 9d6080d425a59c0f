"""`pyflink.common.completable_future`: what the methods of PyFlink's JobClient give."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

__all__ = ["CompletableFuture"]


class CompletableFuture(Future[T]):
    """A `concurrent.futures.Future`: `result()`, `exception()`, `done()` ..."""

    @staticmethod
    def of(call: Callable[[], T], name: str) -> CompletableFuture[T]:
        """Calls it on a thread of its own, which does not keep the process alive."""
        future: CompletableFuture[T] = CompletableFuture()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=run, name=name, daemon=True).start()
        return future
