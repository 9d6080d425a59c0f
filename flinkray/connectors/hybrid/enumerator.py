"""Enumerates one source after another: the next one when all readers have read the one before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flinkray.connectors.hybrid.messages import (
    HybridEnumeratorState,
    HybridSplit,
    InnerEvent,
    NoMoreOfSource,
    ReadSource,
    SourceRead,
    SourceWanted,
    SplitWanted,
)
from flinkray.connectors.source import Boundedness, Source, SplitEnumerator, SplitEnumeratorContext
from flinkray.errors import InvalidProgramError

SourceFactory = Callable[[SplitEnumerator], Source]


class HybridEnumerator(SplitEnumerator):
    """Has the enumerator of the source that is read, and knows what each reader reads.

    A reader that was lost goes on with the splits of its checkpoint, perhaps of a former source. What it had got of
    former sources since then comes back here, and goes to readers that begin.

    Args:
        sources: each a source, or a function that makes one from the enumerator of the one before it.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext,
        sources: Sequence[Source | SourceFactory],
        restored: HybridEnumeratorState | None,
    ) -> None:
        self._context = context
        self._sources = sources
        self._ended = {} if restored is None else dict(restored.ended)
        self._made: dict[int, Source] = {}
        self._read: dict[int, int] = {}
        """Reader -> the last source that it has read; -1: none. Not there: it is reading, or has not begun."""
        self._reading: dict[int, int] = {}
        """Reader -> the source that it reads."""
        self._returned = [] if restored is None else list(restored.returned)
        self._index = 0 if restored is None else restored.source_index
        self._inner = self._created(None if restored is None else restored.inner)

    def _created(self, restored: Any) -> SplitEnumerator:
        inner = _InnerContext(self, self._index)
        return self._source(self._index).create_enumerator(inner, restored)

    def _source(self, index: int) -> Source:
        source = self._sources[index]
        if isinstance(source, Source):
            return source
        if index not in self._made:  # the job was restored since then
            before = self._source(index - 1).create_enumerator(_InnerContext(self, index - 1), self._ended[index - 1])
            self._made[index] = self._made_by(source, index, before)
            before.close()
        return self._made[index]

    def _made_by(self, function: SourceFactory, index: int, before: SplitEnumerator) -> Source:
        source = function(before)
        if not isinstance(source, Source):
            raise InvalidProgramError(f"HybridSource: a function made {source!r} where it should make the next Source")
        if index + 1 < len(self._sources) and source.boundedness is Boundedness.UNBOUNDED:
            raise InvalidProgramError(
                f"HybridSource: a function made {type(source).__name__}, which never ends, so those behind it would "
                "not be read; say where it ends, or put it last"
            )
        return source.prepare()

    def start(self) -> None:
        self._inner.start()

    # -- what readers say

    def add_reader(self, subtask_index: int) -> None:
        """Nothing happens before the reader says what it needs: it may have been restored with splits."""
        self._read.pop(subtask_index, None)
        self._reading.pop(subtask_index, None)

    def handle_split_request(self, subtask_index: int) -> None:
        """Readers say SplitWanted."""

    def handle_source_event(self, subtask_index: int, event: Any) -> None:
        match event:
            case SourceWanted(source_index=index):
                self._let_read(subtask_index, index)
            case SourceRead(source_index=index):
                self._reading.pop(subtask_index, None)
                self._read[subtask_index] = index
                self._send_on(subtask_index)
                self._begin_next_source()
            case SplitWanted(source_index=index) if index == self._index:
                self._inner.handle_split_request(subtask_index)
            case SplitWanted(source_index=index):
                self._give_back_split(subtask_index, index)
            case InnerEvent(source_index=index, event=inner) if index == self._index:
                self._inner.handle_source_event(subtask_index, inner)

    def _let_read(self, subtask_index: int, index: int) -> None:
        self._read.pop(subtask_index, None)
        self._reading[subtask_index] = index
        self._context.send_event_to_reader(subtask_index, ReadSource(index, self._source(index)))
        if index == self._index:
            self._inner.add_reader(subtask_index)

    def _give_back_split(self, subtask_index: int, index: int) -> None:
        """A split of a former source that came back; where there is none, there will be none."""
        split = next((each for each in self._returned if each.source_index == index), None)
        if split is None:
            self._context.send_event_to_reader(subtask_index, NoMoreOfSource(index))
        else:
            self._returned.remove(split)
            self._context.assign_splits([split], subtask_index)

    def _send_on(self, subtask_index: int) -> None:
        """Has a reader read what came back of a former source, or the source that is read now."""
        index = min([self._index, *(split.source_index for split in self._returned)])
        if index < self._index or self._read[subtask_index] < index:
            self._let_read(subtask_index, index)

    def _begin_next_source(self) -> None:
        """Goes on to the next source if all readers have read this one."""
        subtasks = range(self._context.parallelism)
        has_next = self._index + 1 < len(self._sources)
        if not has_next or self._returned or any(self._read.get(each) != self._index for each in subtasks):
            return
        before = self._inner
        source = self._sources[self._index + 1]
        if not isinstance(source, Source):
            self._ended[self._index] = before.snapshot_state(0)
            self._made[self._index + 1] = self._made_by(source, self._index + 1, before)
        before.close()
        self._index += 1
        self._inner = self._created(None)
        self._inner.start()
        for each in subtasks:
            self._send_on(each)

    # -- what the enumerator of a source does

    def assign(self, index: int, splits: Sequence[Any], subtask_index: int) -> None:
        self._context.assign_splits([HybridSplit(index, split) for split in splits], subtask_index)

    def is_reading(self, subtask_index: int, index: int) -> bool:
        return self._reading.get(subtask_index) == index

    def is_current(self, index: int) -> bool:
        return self._index == index

    # -- the rest

    def add_splits_back(self, splits: Sequence[Any], subtask_index: int) -> None:
        self._read.pop(subtask_index, None)
        self._reading.pop(subtask_index, None)
        own = [split.split for split in splits if split.source_index == self._index]
        self._returned += [split for split in splits if split.source_index != self._index]
        if own:
            self._inner.add_splits_back(own, subtask_index)

    def snapshot_state(self, checkpoint_id: int) -> HybridEnumeratorState:
        inner = self._inner.snapshot_state(checkpoint_id)
        return HybridEnumeratorState(self._index, inner, dict(self._ended), tuple(self._returned))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._inner.notify_checkpoint_complete(checkpoint_id)

    def close(self) -> None:
        self._inner.close()


class _InnerContext:
    """What the enumerator of one of the sources may do; once another source is read, nothing any more."""

    def __init__(self, outer: HybridEnumerator, index: int) -> None:
        self._outer = outer
        self._context = outer._context
        self._index = index

    @property
    def parallelism(self) -> int:
        return self._context.parallelism

    @property
    def registered_readers(self) -> frozenset[int]:
        readers = self._context.registered_readers
        return frozenset(each for each in readers if self._outer.is_reading(each, self._index))

    def now_ms(self) -> int:
        return self._context.now_ms()

    def assign_splits(self, splits: Sequence[Any], subtask_index: int) -> None:
        self._outer.assign(self._index, splits, subtask_index)

    def signal_no_more_splits(self, subtask_index: int) -> None:
        self._context.send_event_to_reader(subtask_index, NoMoreOfSource(self._index))

    def send_event_to_reader(self, subtask_index: int, event: Any) -> None:
        self._context.send_event_to_reader(subtask_index, InnerEvent(self._index, event))

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        def call() -> None:
            if self._outer.is_current(self._index):
                callback()

        self._context.call_later(delay_ms, call)
