"""The base of enumerators whose splits are known at the start, and belong to one subtask each, for good."""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from flinkray.connectors.source import SourceSplit, SplitEnumerator, SplitEnumeratorContext

S = TypeVar("S", bound=SourceSplit)


class HashedSplitEnumerator(SplitEnumerator, Generic[S]):
    """Assigns each split to the subtask that a hash of its id names. Its state is the list of those that no reader
    has."""

    def __init__(self, context: SplitEnumeratorContext, restored: Sequence[S] | None) -> None:
        self._context = context
        self._restored = restored
        self._waiting: dict[int, list[S]] = defaultdict(list)
        self._told: set[int] = set()
        """Subtasks whose readers know that no more splits will come."""

    @abstractmethod
    def first_splits(self) -> Sequence[S]:
        """All splits, asked for where the job starts from no checkpoint."""

    def start(self) -> None:
        self._add(self.first_splits() if self._restored is None else self._restored)

    def handle_split_request(self, subtask_index: int) -> None: ...

    def add_reader(self, subtask_index: int) -> None:
        self._told.discard(subtask_index)  # one that was started again has heard nothing
        self._assign()

    def add_splits_back(self, splits: Sequence[Any], subtask_index: int) -> None:
        self._add(splits)

    def snapshot_state(self, checkpoint_id: int) -> list[S]:
        return [split for splits in self._waiting.values() for split in splits]

    def close(self) -> None: ...

    def _add(self, splits: Sequence[S]) -> None:
        for split in splits:
            self._waiting[zlib.crc32(split.split_id.encode()) % self._context.parallelism].append(split)
        self._assign()

    def _assign(self) -> None:
        for subtask in sorted(self._context.registered_readers):
            if splits := self._waiting.pop(subtask, []):
                self._context.assign_splits(splits, subtask)
            if subtask not in self._told:
                self._told.add(subtask)
                self._context.signal_no_more_splits(subtask)
