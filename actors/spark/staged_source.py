"""The source that reads the batches which a streaming query stages (`from_spark_stream`). Imports no Spark.

The enumerator looks for manifests in the order of batch ids; each file of a batch is a split.
"""

from __future__ import annotations

import bisect
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

from msgspec import Struct

from actors.spark.staged_reader import StagedReader, StagedSplit
from actors.spark.staging import Manifest, ReadProgress, Staging, StagingError
from flinkray.connectors.source import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.errors import FlinkrayError
from flinkray.types.records import RecordType

POLL_MS = 200
BEAT_MS = 2_000
SPLITS_AHEAD = 4
"""Splits per subtask that are found ahead of the readers; all of them are in every checkpoint of the enumerator."""


class SparkQueryError(FlinkrayError):
    """The streaming query that feeds the source failed."""


def _one_thread() -> Executor:
    return ThreadPoolExecutor(1, thread_name_prefix="staged-batches")


class StagedSource(Source):
    """The rows that a query stages, each batch once.

    Args:
        ends_with_query: whether the source ends when the query has ended without an error and all rows are read.
        create_executor: makes the executor that lists the directory, one call at a time, off the JobMaster's thread.
    """

    may_end = True

    def __init__(
        self,
        staging: Staging,
        output_type: RecordType,
        ends_with_query: bool,
        create_executor: Callable[[], Executor] = _one_thread,
    ) -> None:
        self.staging = staging
        self.ends_with_query = ends_with_query
        self.create_executor = create_executor
        self._type = output_type

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.UNBOUNDED

    @property
    def output_type(self) -> RecordType:
        return self._type

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        return StagedEnumerator(context, self, restored or EnumeratorState(None, None, ()))

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return StagedReader(context, self.staging, self._type.schema)


class EnumeratorState(Struct, frozen=True):
    """How far the enumerator has come. Pickled into checkpoints."""

    query_id: str | None
    """The query whose batches are read; None before the first batch was found."""
    next_batch_id: int | None
    """The first batch that has not been found; None: begin with the oldest that exists."""
    splits: tuple[StagedSplit, ...]
    """Splits that were found and are no reader's."""


class NewSplits(Struct, frozen=True):
    """What a look at the directory has found."""

    query_id: str | None
    next_batch_id: int | None
    """The first batch that does not exist yet; None: there was no batch at all."""
    splits: tuple[StagedSplit, ...]
    is_all: bool
    """Whether the query has ended, and there is no batch after these."""


class StagedEnumerator(SplitEnumerator):
    """Hands files out in the order of batches, one to each reader that asks.

    The JobMaster's thread never touches the directory: one look after the other runs on the executor, and a timer takes
    over what each has found.
    """

    def __init__(self, context: SplitEnumeratorContext, source: StagedSource, restored: EnumeratorState) -> None:
        self._context = context
        self._staging = source.staging
        self._ends_with_query = source.ends_with_query
        self._query_id = restored.query_id
        self._next_batch_id = restored.next_batch_id
        self._free = sorted(restored.splits, key=_order)
        self._returned: dict[int, list[StagedSplit]] = {}
        """The splits of each subtask's failed attempt: they go to its next attempt, as other subtasks may be
        further."""
        self._asking: list[int] = []
        self._is_all = False
        self._covered_below = self._handed_out_below
        self._cuts: dict[int, int] = {}
        """The value of `_handed_out_below` at each checkpoint, by its id."""
        self._executor = source.create_executor()
        self._look: Future[NewSplits] | None = None
        self._next_beat_ms = context.now_ms()
        self._written: tuple[int, int] | None = None
        self._is_closed = False

    def start(self) -> None:
        self._tick()

    def add_reader(self, subtask_index: int) -> None:
        """Forgets the request of a former attempt; the new one asks for itself."""
        self._forget_request(subtask_index)

    def handle_split_request(self, subtask_index: int) -> None:
        self._forget_request(subtask_index)
        self._asking.append(subtask_index)
        self._answer()

    def add_splits_back(self, splits: Sequence[StagedSplit], subtask_index: int) -> None:
        self._forget_request(subtask_index)
        returned = self._returned.setdefault(subtask_index, [])
        for split in splits:
            bisect.insort(returned, split, key=_order)

    def snapshot_state(self, checkpoint_id: int) -> EnumeratorState:
        self._cuts[checkpoint_id] = self._handed_out_below
        returned = (split for splits in self._returned.values() for split in splits)
        return EnumeratorState(self._query_id, self._next_batch_id, (*self._free, *returned))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._covered_below = max(self._covered_below, self._cuts.get(checkpoint_id, 0))
        self._cuts = {each: below for each, below in self._cuts.items() if each > checkpoint_id}

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._executor.submit(self._staging.record_progress, self._progress())
            self._executor.shutdown(wait=False)

    # -- handing out

    def _answer(self) -> None:
        """Assigns splits to the subtasks that have asked, in the order of their requests."""
        for subtask_index in list(self._asking):
            splits = self._returned.get(subtask_index) or self._free
            if splits:
                self._forget_request(subtask_index)
                self._context.assign_splits([splits.pop(0)], subtask_index)
            elif self._is_all:
                self._forget_request(subtask_index)
                self._context.signal_no_more_splits(subtask_index)

    def _forget_request(self, subtask_index: int) -> None:
        if subtask_index in self._asking:
            self._asking.remove(subtask_index)

    @property
    def _handed_out_below(self) -> int:
        """The first batch of which a split has not been handed out."""
        waiting = [splits[0].batch_id for splits in (self._free, *self._returned.values()) if splits]
        return min([*waiting, self._next_batch_id or 0])

    # -- looking

    def _tick(self) -> None:
        if self._is_closed:
            return
        if self._look is not None and self._look.done():
            look, self._look = self._look, None
            self._add(look.result())
        if self._is_all:
            return
        if self._look is None:
            self._look = self._executor.submit(
                look_for_batches,
                self._staging,
                EnumeratorState(self._query_id, self._next_batch_id, ()),
                SPLITS_AHEAD * self._context.parallelism - len(self._free),
                self._ends_with_query,
                self._due_progress(),
            )
        self._context.call_later(POLL_MS, self._tick)

    def _add(self, found: NewSplits) -> None:
        self._query_id = found.query_id
        self._next_batch_id = found.next_batch_id
        self._free.extend(found.splits)
        self._is_all = found.is_all
        self._answer()

    def _due_progress(self) -> ReadProgress | None:
        """The progress, when the query is to learn of it: when it has changed, and now and then as a sign of life."""
        progress = self._progress()
        news = progress.handed_out_below, progress.covered_below
        if news == self._written and self._context.now_ms() < self._next_beat_ms:
            return None
        self._written, self._next_beat_ms = news, self._context.now_ms() + BEAT_MS
        return progress

    def _progress(self) -> ReadProgress:
        return ReadProgress(uuid.uuid4().hex, self._handed_out_below, self._covered_below, self._is_closed)


def look_for_batches(
    staging: Staging, known: EnumeratorState, room: int, ends_with_query: bool, progress: ReadProgress | None = None
) -> NewSplits:
    """Finds the batches that follow the known ones, until there are `room` splits. May wait for the file system.

    Args:
        progress: to be recorded for the query; if there is one, it is also checked whether batches are missing.

    Raises:
        SparkQueryError: the query failed.
        StagingError: the batches do not belong to the query that the job's state is about.
    """
    if progress is not None:
        staging.record_progress(progress)
    end = staging.end()  # read before the batches: if the query has ended, all of them exist by now
    if end is not None and end.error is not None:
        raise SparkQueryError(f"the Spark query that feeds {staging.location} failed: {end.error}")
    query_id = _same_query(staging, known.query_id, staging.query_id())
    next_batch_id, is_last = known.next_batch_id, False
    splits: list[StagedSplit] = []
    already_there = range(0)
    if next_batch_id is None:
        ids = staging.batch_ids()
        if not ids:
            return NewSplits(query_id, None, (), end is not None and ends_with_query)
        # A job without state begins with what no earlier job's checkpoint has covered.
        next_batch_id, already_there = ids[0], range(ids[0], ids[-1] + 1)
    while len(splits) < room or next_batch_id in already_there:
        manifest = staging.manifest(next_batch_id)
        if manifest is None:
            if progress is not None:
                _check_no_gap(staging, next_batch_id)
            is_last = end is not None and ends_with_query
            break
        _same_query(staging, query_id, manifest.query_id)
        splits += _splits(staging, manifest, next_batch_id in already_there)
        next_batch_id += 1
    return NewSplits(query_id, next_batch_id, tuple(splits), is_last)


def _check_no_gap(staging: Staging, batch_id: int) -> None:
    """Raises StagingError if there are later batches, and not this one."""
    if any(each > batch_id for each in staging.batch_ids()) and staging.manifest(batch_id) is None:
        raise StagingError(
            f"Spark batch {batch_id}, with which the job would go on, is gone from {staging.location}: it was removed "
            "once a later checkpoint covered it. Restore from the latest checkpoint, or start without state"
        )


def _splits(staging: Staging, manifest: Manifest, was_there_before: bool) -> list[StagedSplit]:
    splits = [StagedSplit(manifest.batch_id, index, file) for index, file in enumerate(manifest.files)]
    if was_there_before:
        present = staging.present_files(manifest.batch_id)
        splits = [split for split in splits if split.file.name in present]
    return splits


def _same_query(staging: Staging, known: str | None, found: str | None) -> str | None:
    if known is not None and found is not None and known != found:
        raise StagingError(
            f"{staging.location} holds batches of query {found}, and the job's state is about query {known}: restore "
            "with the staging directory that goes with it, or start without state"
        )
    return known or found


def _order(split: StagedSplit) -> tuple[int, int]:
    return split.order
