"""Savepoints that are being deleted: begun by one request, and asked for by others."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable

from msgspec import Struct

from flinkray.errors import ErrorInfo

# How long it is remembered what has become of one: Flink's rest.async.store-duration.
REMEMBERED_MS = 300_000.0

# More than a few at the same time would be somebody's mistake, and would wait.
MOST = 64


class Disposal(Struct):
    """The deletion of one savepoint."""

    ended_ms: float | None = None
    """None: it goes on."""
    error: ErrorInfo | None = None


class Disposals:
    """Deletes savepoints, each in a thread of its own. Any thread.

    Args:
        dispose: deletes the savepoint of that path; blocks.
        monotonic_ms: a clock that never goes back.
    """

    def __init__(self, dispose: Callable[[str], object], monotonic_ms: Callable[[], float]) -> None:
        self._dispose = dispose
        self._monotonic_ms = monotonic_ms
        self._lock = threading.Lock()
        self._known: dict[str, Disposal] = {}

    def begin(self, path: str) -> str | None:
        """Begins to delete a savepoint; gives the id to ask for it with. None: too many are being deleted."""
        request_id, disposal = uuid.uuid4().hex, Disposal()
        with self._lock:
            now = self._monotonic_ms()
            self._known = {
                each: known
                for each, known in self._known.items()
                if known.ended_ms is None or now - known.ended_ms < REMEMBERED_MS
            }
            if sum(known.ended_ms is None for known in self._known.values()) >= MOST:
                return None
            self._known[request_id] = disposal
        name = f"dispose savepoint {request_id}"
        threading.Thread(target=self._run, args=(disposal, path), name=name, daemon=True).start()
        return request_id

    def of(self, request_id: str) -> Disposal | None:
        """What has become of it; None: there was none with this id, or it is long ago."""
        with self._lock:
            return self._known.get(request_id)

    def _run(self, disposal: Disposal, path: str) -> None:
        try:
            self._dispose(path)
        except Exception as error:
            disposal.error = ErrorInfo.of(error)
        disposal.ended_ms = self._monotonic_ms()
