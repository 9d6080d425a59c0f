"""Hands each committed checkpoint's rows to Spark exactly once, in the driver, while the job runs.

The writers' blocks and the commits are in a store. A thread of the driver watches it, and calls the user's `write` for
one checkpoint after the other, as soon as every subtask has committed it. The last commit, at the end of input, waits
until `write` has had all rows, so that Spark has them when the job has finished; and if `write` raises, the job fails.
"""

from __future__ import annotations

import contextlib
import logging
import math
import pickle
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession

from actors.blocks.sink import Committable, checkpoints, committed, common_schema
from actors.blocks.store import BlockStore
from actors.spark.transfer import read_blocks
from flinkray.errors import ErrorInfo, FlinkrayError, PartitionError

log = logging.getLogger(__name__)

WriteFunction = Callable[[DataFrame, int | None], object]
"""Called with a checkpoint's rows and its id, which is None for the rows after the last checkpoint."""

POLL_SECONDS = 0.2
POLL_SECONDS_AFTER_END = 5.0
DRIVER_SILENCE_SECONDS = 120.0

_END = math.inf
"""The id of what comes after the last checkpoint, which sorts after all other ids."""

_DELIVERED = "delivered/"
_FAILED = "failed/delivery"
_ALIVE = "alive/driver"


class CheckpointRows(Struct, frozen=True):
    """The rows of one checkpoint, as its committables; with None as id those after the last checkpoint."""

    checkpoint_id: int | None
    committables: tuple[Committable, ...]


def due_rows(
    found: Sequence[Committable], checkpoint_of: Mapping[str, int], delivered: Collection[str]
) -> tuple[list[CheckpointRows], bool]:
    """The rows that can be handed over now, in the order of checkpoints, and whether no others will ever come.

    A checkpoint is due when each subtask has committed for it or for a later one, or has ended: a subtask commits in
    order, and commits the rows of a checkpoint that was aborted with the next one.
    """
    if not found:
        return [], False
    progress: dict[int, float] = {}
    groups: dict[float, list[Committable]] = {}
    for each in found:
        checkpoint = checkpoint_of.get(each.key, _END)
        groups.setdefault(checkpoint, []).append(each)
        progress[each.subtask] = max(progress.get(each.subtask, 0), _END if each.is_last else checkpoint)
    due: list[CheckpointRows] = []
    for checkpoint in sorted(groups):
        members = groups[checkpoint]
        if any(progress.get(subtask, -1) < checkpoint for subtask in range(members[0].parallelism)):
            return due, False
        remaining = tuple(member for member in members if member.key not in delivered)
        if remaining:
            due.append(CheckpointRows(None if checkpoint == _END else int(checkpoint), remaining))
    parallelism = groups[max(groups)][-1].parallelism
    is_all = all(progress.get(subtask, -1) == _END for subtask in range(parallelism))
    return due, is_all


class Delivery:
    """The thread of the driver that serves one sink. It is started before the job, and stopped after it.

    The thread goes on after the last rows, as a job that is restarted at its very end commits again.
    """

    def __init__(self, spark: SparkSession, store: BlockStore, write: WriteFunction) -> None:
        self._spark = spark
        self._store = store
        self._write = write
        self._delivered: set[str] = set()
        self._has_delivered_end = False
        self._stopped = threading.Event()
        # A daemon, as nothing is left to wait for if the program ends before its job.
        self._thread = threading.Thread(target=self._run, name="spark-sink-delivery", daemon=True)

    def start(self) -> None:
        self._store.record(_ALIVE, str(time.time()).encode())
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, when the present call of `write` returns. Any other thread may call it, also twice."""
        self._stopped.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            pause = POLL_SECONDS
            while not self._stopped.wait(pause):
                self._store.record(_ALIVE, str(time.time()).encode())
                pause = POLL_SECONDS_AFTER_END if self.step() else POLL_SECONDS
        except Exception as error:
            log.error("the rows of a checkpoint could not be handed to Spark: %s", error)
            with contextlib.suppress(PartitionError):  # if the store is gone, so is the job that would read this
                self._store.record(_FAILED, pickle.dumps(ErrorInfo.of(error)))

    def step(self) -> bool:
        """Hands over the rows that are due; whether no others will come."""
        due, is_all = due_rows(committed(self._store), checkpoints(self._store), self._delivered)
        for group in due:
            blocks = [block for committable in group.committables for block in committable.blocks]
            # Rows after the last checkpoint are written once: a job that is restarted then commits the same rows again.
            is_again = group.checkpoint_id is None and self._has_delivered_end
            if blocks and not is_again:
                schema = common_schema(blocks, None)
                rows = read_blocks(self._spark, self._store, [block.block_id for block in blocks], schema)
                self._write(rows, group.checkpoint_id)
            self._has_delivered_end = self._has_delivered_end or group.checkpoint_id is None
            for committable in group.committables:
                self._delivered.add(committable.key)
                self._store.record(_DELIVERED + committable.key, b"")
            self._store.discard([block.block_id for block in blocks])
        return is_all


def after_commit(store: BlockStore, is_last: bool) -> None:
    """Runs in a slot after a commit: at the end of input, waits until Spark has all rows that were committed.

    Raises:
        FlinkrayError: `write` raised, or the driver is gone.
    """
    while True:
        failures = store.records(_FAILED)
        if failures:
            cause: BaseException = pickle.loads(next(iter(failures.values()))).exception()
            raise FlinkrayError(f"the write function of a Spark sink raised: {cause}") from cause
        delivered = {key.removeprefix(_DELIVERED) for key in store.records(_DELIVERED)}
        if not is_last or all(committable.key in delivered for committable in committed(store)):
            return
        seen = float(next(iter(store.records(_ALIVE).values()), b"0"))
        if time.time() - seen > DRIVER_SILENCE_SECONDS:
            raise FlinkrayError("the driver, which hands the rows of a Spark sink to Spark, is gone")
        threading.Event().wait(POLL_SECONDS)
