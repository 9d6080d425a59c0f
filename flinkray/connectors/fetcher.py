"""The base of readers whose client blocks: a thread fetches of several splits, and hands batches over to the task.

After Flink's SourceReaderBase with a single SplitFetcher for all splits of a reader.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from typing import Any, Generic, TypeVar

from msgspec import Struct

from flinkray.batches.batch import Batch
from flinkray.connectors.handover import Handover
from flinkray.connectors.source import ReaderStatus, SourceBatch, SourceReader, SourceReaderContext, SourceSplit

S = TypeVar("S", bound=SourceSplit)

_AHEAD_BYTES = 16 << 20
"""The most bytes that may wait for the task."""
_IDLE_S = 1.0
"""How long the thread sleeps at most while there is no split to fetch of."""
_END_S = 10.0
"""How long closing waits for the thread, which closes its connections meanwhile."""
AWAY_S = 120.0
"""For so long a system that does not answer is asked again; a sink of Kafka waits as long for each message."""


class Fetched(Struct, Generic[S], frozen=True):
    """What came of a split."""

    split: S
    """The split as it is behind these rows: what a checkpoint has once the task has them."""
    batch: Batch | None = None
    """None: there were no rows, but the split has moved on."""
    is_end: bool = False
    """Whether the split is read to its end."""


class SplitFetcher(ABC, Generic[S]):
    """Fetches of a client; all methods are called on one thread, which it has for itself."""

    @abstractmethod
    def open(self) -> None:
        """Connects; called before anything else."""

    @abstractmethod
    def add_splits(self, splits: Sequence[S]) -> Iterable[Fetched[S]]:
        """Begins to fetch of further splits, each at its position; gives those that are at their end already."""

    @abstractmethod
    def fetch(self) -> Iterable[Fetched[S]]:
        """What there is, as much as the client gives at a time; waits for a moment only if there is nothing, as the
        thread has other things to do between two calls."""

    @property
    @abstractmethod
    def has_splits(self) -> bool:
        """Whether there is anything to fetch of; if not, `fetch` is not called."""

    def pause_or_resume(self, to_pause: Sequence[str], to_resume: Sequence[str]) -> None:
        """Splits, by id, of which the task wants nothing for now, or something again. What is fetched of them anyway is
        kept, so a client that cannot pause single splits need not."""

    def pending_rows(self, split: S) -> int | None:
        """How many rows the split has behind its position, as far as is known without asking; None: it is not known.
        Called on another thread."""
        return None

    def pending_bytes(self, split: S) -> int | None:
        """As `pending_rows`, in bytes."""
        return None

    def checkpoint_complete(self, splits: Sequence[S]) -> None:
        """A checkpoint with these positions is complete: others may be told, for monitoring or to let go of messages.
        May be called once more after the last `fetch`."""

    @abstractmethod
    def close(self) -> None:
        """Releases everything; called also where `open` or `fetch` failed."""


class PausingFetcher(SplitFetcher[S]):
    """Fetches of those of its splits that are not paused; a subclass keeps them in `_splits`, by id."""

    def __init__(self) -> None:
        self._splits: dict[str, S] = {}
        self._paused: set[str] = set()

    @property
    def has_splits(self) -> bool:
        return bool(self._splits.keys() - self._paused)

    def pause_or_resume(self, to_pause: Sequence[str], to_resume: Sequence[str]) -> None:
        self._paused = (self._paused | set(to_pause)) - set(to_resume)


class Patience:
    """How often a thread asks a system again that did not answer: for `AWAY_S`, anew after each answer.

    Args:
        count: adds to a counter of the operator.
        now_s: a clock that does not go back.
    """

    def __init__(self, count: Callable[[str], None], now_s: Callable[[], float] = time.monotonic) -> None:
        self._count = count
        self._now_s = now_s
        self._since: float | None = None

    def answered(self) -> None:
        """The system is there."""
        self._since = None

    def asks_again(self) -> bool:
        """Whether to ask again after a failure, which is counted as `reads_retried`; no: it has been long enough."""
        now = self._now_s()
        self._since = now if self._since is None else self._since
        if now - self._since >= AWAY_S:
            return False
        self._count("reads_retried")
        return True


def few(places: Iterable[str]) -> str:
    """What a reader stands at, for errors: the first of many."""
    listed = list(places)
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + more


_SHOWN = 3


class FetchingReader(SourceReader, Generic[S]):
    """The task's side: gives what the thread has fetched, and knows how far each split has been given.

    Args:
        name: of the thread.
        tells_checkpoints: whether the fetcher wants to hear of complete checkpoints.
    """

    def __init__(
        self, context: SourceReaderContext, fetcher: SplitFetcher[S], name: str, tells_checkpoints: bool = False
    ) -> None:
        self._context = context
        self._fetcher = fetcher
        self._splits: dict[str, S] = {}
        self._handover: Handover[Fetched[S]] = Handover(_AHEAD_BYTES, context.notify_available)
        self._thread = _FetcherThread(fetcher, self._handover, name)
        self._paused: set[str] = set()
        self._held: deque[Fetched[S]] = deque()
        """What had been fetched of splits before they were paused."""
        self._has_no_more = False
        self._tells_checkpoints = tells_checkpoints
        self._untold: dict[int, list[S]] = {}

    def start(self) -> None:
        self._thread.start()

    def add_splits(self, splits: Sequence[Any]) -> None:
        self._splits.update((split.split_id, split) for split in splits)
        self._thread.add_splits(splits)

    def notify_no_more_splits(self) -> None:
        self._has_no_more = True
        self._context.notify_available()

    def poll(self) -> SourceBatch | ReaderStatus:
        while (fetched := self._next()) is not None:
            split_id = fetched.split.split_id
            self._splits[split_id] = fetched.split
            if fetched.is_end:
                del self._splits[split_id]
                self._context.split_finished(split_id)
            if fetched.batch is not None:
                return SourceBatch(fetched.batch, split_id)
        is_at_end = self._has_no_more and not self._splits
        return ReaderStatus.END_OF_INPUT if is_at_end else ReaderStatus.NOTHING_AVAILABLE

    def _next(self) -> Fetched[S] | None:
        if self._held and self._held[0].split.split_id not in self._paused:
            return self._held.popleft()
        while taken := self._handover.take_nowait(1):
            if taken[0].split.split_id not in self._paused:
                return taken[0]
            self._held.append(taken[0])
        return None

    def snapshot_state(self, checkpoint_id: int) -> list[S]:
        splits = list(self._splits.values())
        if self._tells_checkpoints:
            self._untold[checkpoint_id] = splits
        return splits

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        splits = self._untold.get(checkpoint_id)
        self._untold = {each: known for each, known in self._untold.items() if each > checkpoint_id}
        if splits:
            self._thread.checkpoint_complete(splits)

    def pause_or_resume_splits(self, to_pause: Sequence[str], to_resume: Sequence[str]) -> bool:
        self._paused = (self._paused | set(to_pause)) - set(to_resume)
        # Held ones that may be given come first, in their order.
        self._held = deque(sorted(self._held, key=lambda each: each.split.split_id in self._paused))
        self._thread.pause_or_resume(to_pause, to_resume)
        return True

    def pending_rows(self) -> int | None:
        return _sum_of_known(map(self._fetcher.pending_rows, list(self._splits.values())))

    def pending_bytes(self) -> int | None:
        return _sum_of_known(map(self._fetcher.pending_bytes, list(self._splits.values())))

    def close(self) -> None:
        self._thread.close()


def _sum_of_known(values: Iterable[int | None]) -> int | None:
    """None where there are values, and none is known; nothing waits in a reader without splits."""
    given = list(values)
    known = [value for value in given if value is not None]
    return sum(known) if known or not given else None


class _FetcherThread(Generic[S]):
    """Runs a fetcher. What the task wants of it is done between two fetches."""

    def __init__(self, fetcher: SplitFetcher[S], handover: Handover[Fetched[S]], name: str) -> None:
        self._fetcher = fetcher
        self._handover = handover
        self._orders: deque[Callable[[], None]] = deque()
        self._wake = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name=name, daemon=True)

    # -- the task's thread

    def start(self) -> None:
        self._thread.start()

    def add_splits(self, splits: Sequence[S]) -> None:
        self._tell(lambda: self._hand_over(self._fetcher.add_splits(splits)))

    def pause_or_resume(self, to_pause: Sequence[str], to_resume: Sequence[str]) -> None:
        self._tell(lambda: self._fetcher.pause_or_resume(to_pause, to_resume))

    def checkpoint_complete(self, splits: Sequence[S]) -> None:
        self._tell(lambda: self._fetcher.checkpoint_complete(splits))

    def close(self) -> None:
        self._is_closed = True
        self._handover.close()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_END_S)

    def _tell(self, order: Callable[[], None]) -> None:
        self._orders.append(order)
        self._wake.set()

    # -- the thread

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            try:
                self._fetcher.open()
                while not self._is_closed:
                    self._step()
                self._carry_out_orders()  # what a checkpoint has just completed is told at the end, too
            finally:
                self._fetcher.close()
        except BaseException as caught:  # the task must learn of every way in which the thread ends
            error = caught
        self._handover.finish(None if self._is_closed else error)

    def _step(self) -> None:
        self._carry_out_orders()
        if self._fetcher.has_splits:
            self._hand_over(self._fetcher.fetch())
        else:
            self._wake.wait(_IDLE_S)
            self._wake.clear()

    def _carry_out_orders(self) -> None:
        while self._orders:
            self._orders.popleft()()

    def _hand_over(self, fetched: Iterable[Fetched[S]]) -> None:
        for each in fetched:
            self._handover.offer(each, 1 if each.batch is None else max(1, each.batch.nbytes))
