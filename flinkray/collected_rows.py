"""The records of a running job as its driver takes them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import decode
from flinkray.execution import JobClient


class CollectedRows(Iterator[Any]):
    """The records of a running job, as they come. Use it in a `with` statement, or read it to its end.

    Leaving the `with` block early, `close()`, and dropping the iterator cancel the job. When the job fails, the next
    record is a JobExecutionError.
    """

    def __init__(self, client: JobClient, batches: Iterator[Batch]) -> None:
        self.job_client = client
        self._batches = batches
        self._rows: Iterator[Any] = iter(())
        self.form: Callable[[Any], Any] | None = None
        """What each record is turned into before it is given; None: it is given as it is."""
        # Runs at the latest when the program ends, so that no job is left behind by a loop that was broken off.
        self._cancel = weakref.finalize(self, _cancel_dropped, client)

    def __next__(self) -> Any:
        for row in self._rows:
            return row
        for batch in self.batches():
            rows = decode(batch)
            self._rows = iter(rows) if self.form is None else map(self.form, rows)
            for row in self._rows:
                return row
        raise StopIteration

    def batches(self) -> Iterator[Batch]:
        """The records that were not taken yet in whole batches, as they come."""
        while self._cancel.alive:
            try:
                batch = next(self._batches, None)
            except BaseException:
                self.close()  # of a job that has failed, nothing more is to come
                raise
            if batch is None:
                self._finish()
                return
            yield batch

    def _finish(self) -> None:
        self._cancel.detach()
        try:
            self.job_client.result()
        finally:
            self.job_client.close()

    def next(self) -> Any:
        """PyFlink's name for `next(rows)`."""
        return next(self)

    def close(self) -> None:
        """Cancels the job unless it has ended; calling it again does nothing."""
        self._rows = iter(())
        if self._cancel.detach() is not None:
            _cancel(self.job_client)

    def __enter__(self) -> CollectedRows:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def _cancel_dropped(client: JobClient) -> None:
    """Cancels the job, without waiting where that could be for ever.

    The garbage collector runs in any thread: also in one of the job's own, if that is in this process, for which the
    job's end would wait in turn.
    """
    if threading.current_thread() is threading.main_thread():
        _cancel(client)
    else:
        threading.Thread(target=_cancel, args=(client,), name="cancel a dropped job").start()


def _cancel(client: JobClient) -> None:
    try:
        if not client.status().is_terminal:
            client.cancel()
    finally:
        client.close()
