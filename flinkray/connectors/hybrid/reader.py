"""A subtask's reader of whichever source is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flinkray.connectors.hybrid.messages import (
    HybridSplit,
    InnerEvent,
    NoMoreOfSource,
    ReadSource,
    SourceRead,
    SourceWanted,
    SplitWanted,
    split_id_of,
)
from flinkray.connectors.source import (
    ReaderStatus,
    SourceBatch,
    SourceProgress,
    SourceReader,
    SourceReaderContext,
)


class HybridReader(SourceReader):
    """Has the reader of the source that it was told to read. When that has read all its splits, it says so, and waits
    to be told what comes next.

    Args:
        sources: how many there are.
    """

    def __init__(self, context: SourceReaderContext, sources: int) -> None:
        self._context = context
        self._last = sources - 1
        self._index = -1
        self._inner: SourceReader | None = None
        self._waiting: list[HybridSplit] = []
        """Splits of sources that it does not read now."""
        self._is_started = False

    def start(self) -> None:
        self._is_started = True
        self._ask_for_source()

    def _ask_for_source(self) -> None:
        """Asks for the source of the first splits that wait; without any, for whatever is to be read."""
        if self._waiting:
            event: Any = SourceWanted(min(split.source_index for split in self._waiting))
        else:
            event = SourceRead(self._index)
        self._context.send_source_event(event)

    def add_splits(self, splits: Sequence[Any]) -> None:
        own = [split.split for split in splits if self._inner is not None and split.source_index == self._index]
        others = [split for split in splits if self._inner is None or split.source_index != self._index]
        if own and self._inner is not None:
            self._inner.add_splits(own)
        begins = bool(others) and not self._waiting and self._inner is None and self._is_started
        self._waiting += others
        if begins:
            self._ask_for_source()

    def handle_source_event(self, event: Any) -> None:
        match event:
            case ReadSource(source_index=index, source=source) if self._inner is None:
                self._index = index
                self._inner = source.create_reader(_InnerReaderContext(self._context, index))
                splits = [split.split for split in self._waiting if split.source_index == index]
                self._waiting = [split for split in self._waiting if split.source_index != index]
                if splits:
                    self._inner.add_splits(splits)
                self._inner.start()
            case NoMoreOfSource(source_index=index) if self._inner is not None and index == self._index:
                self._inner.notify_no_more_splits()
            case InnerEvent(source_index=index, event=inner) if self._inner is not None and index == self._index:
                self._inner.handle_source_event(inner)
        self._context.notify_available()

    def notify_no_more_splits(self) -> None:
        """The enumerator says NoMoreOfSource."""

    def poll(self) -> SourceBatch | SourceProgress | ReaderStatus:
        if self._inner is None:
            return ReaderStatus.NOTHING_AVAILABLE
        given = self._inner.poll()
        match given:
            case SourceBatch():
                return SourceBatch(given.batch, split_id_of(self._index, given.split_id))
            case SourceProgress():
                split_id = split_id_of(self._index, given.split_id)
                return SourceProgress(split_id, given.watermark, given.is_idle)
            case ReaderStatus.END_OF_INPUT if self._index < self._last or self._waiting:
                inner, self._inner = self._inner, None
                inner.close()
                self._ask_for_source()
                return ReaderStatus.NOTHING_AVAILABLE
        return given

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        splits = [] if self._inner is None else self._inner.snapshot_state(checkpoint_id)
        return [*(HybridSplit(self._index, split) for split in splits), *self._waiting]

    def pause_or_resume_splits(self, to_pause: Sequence[str], to_resume: Sequence[str]) -> bool:
        if self._inner is None:
            return True  # no split is read
        prefix = split_id_of(self._index, "")
        paused, resumed = (
            [each.removeprefix(prefix) for each in ids if each.startswith(prefix)] for ids in (to_pause, to_resume)
        )
        return self._inner.pause_or_resume_splits(paused, resumed)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if self._inner is not None:
            self._inner.notify_checkpoint_complete(checkpoint_id)

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()


class _InnerReaderContext:
    """What the reader of one of the sources may do: all that a reader may, under names of the source's own."""

    def __init__(self, context: SourceReaderContext, index: int) -> None:
        self._context = context
        self._index = index

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def send_split_request(self) -> None:
        self._context.send_source_event(SplitWanted(self._index))

    def send_source_event(self, event: Any) -> None:
        self._context.send_source_event(InnerEvent(self._index, event))

    def split_finished(self, split_id: str) -> None:
        self._context.split_finished(split_id_of(self._index, split_id))

    def notify_available(self) -> None:
        self._context.notify_available()

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        self._context.call_later(delay_ms, callback)
