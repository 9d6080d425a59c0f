"""Hands each committed checkpoint's rows to Spark exactly once, in the driver, while the job runs.

The writers' blocks and the commits are in a store; a thread of the driver looks there, and calls the user's `write`
for one checkpoint after the other as soon as every subtask has committed it. At the end of input a commit waits until
`write` has had everything, so when the job has finished, Spark has its rows; and if `write` raises, the job fails.
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
"""Called with a checkpoint's rows and its id; None for the rows after the last checkpoint."""

POLL_SECONDS = 0.2
POLL_SECONDS_AFTER_END = 5.0
DRIVER_SILENCE_SECONDS = 120.0

_END = math.inf
"""Sorts after every checkpoint."""

_DELIVERED = "delivered/"
_FAILED = "failed/delivery"
_ALIVE = "alive/driver"


class Group(Struct, frozen=True):
    """The committables of one checkpoint; `checkpoint_id` None: those after the last one."""

    checkpoint_id: int | None
    committables: tuple[Committable, ...]


def due_groups(
    found: Sequence[Committable], checkpoint_of: Mapping[str, int], delivered: Collection[str]
) -> tuple[list[Group], bool]:
    """What can be handed over now, in the order of checkpoints, and whether that is all there will ever be.

    A checkpoint is due when each subtask has committed for it or for a later one, or has ended: a subtask commits in
    order, and one that did not take part in a checkpoint that was aborted commits those rows with the next.
    """
    if not found:
        return [], False
    progress: dict[int, float] = {}
    groups: dict[float, list[Committable]] = {}
    for each in found:
        checkpoint = checkpoint_of.get(each.key, _END)
        groups.setdefault(checkpoint, []).append(each)
        progress[each.subtask] = max(progress.get(each.subtask, 0), _END if each.is_last else checkpoint)
    due: list[Group] = []
    for checkpoint in sorted(groups):
        members = groups[checkpoint]
        if any(progress.get(subtask, -1) < checkpoint for subtask in range(members[0].parallelism)):
            return due, False
        remaining = tuple(member for member in members if member.key not in delivered)
        if remaining:
            due.append(Group(None if checkpoint == _END else int(checkpoint), remaining))
    parallelism = groups[max(groups)][-1].parallelism
    is_all = all(progress.get(subtask, -1) == _END for subtask in range(parallelism))
    return due, is_all


class Delivery:
    """The driver's thread of one sink. `start` it before the job, `stop` it after.

    It goes on after everything has come, because a job that is restarted at its very end commits again.
    """

    def __init__(self, spark: SparkSession, store: BlockStore, write: WriteFunction) -> None:
        self._spark = spark
        self._store = store
        self._write = write
        self._delivered: set[str] = set()
        self._has_delivered_end = False
        self._stopped = threading.Event()
        # A daemon: if the program ends without its job, nothing is left to wait for.
        self._thread = threading.Thread(target=self._run, name="spark-sink-delivery", daemon=True)

    def start(self) -> None:
        self._store.record(_ALIVE, str(time.time()).encode())
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after what it is writing; any thread but its own may call it, again too."""
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
            with contextlib.suppress(PartitionError):  # the store is gone, and with it the job that would hear of it
                self._store.record(_FAILED, pickle.dumps(ErrorInfo.of(error)))

    def step(self) -> bool:
        """Hands over what is due; whether that was all."""
        due, is_all = due_groups(committed(self._store), checkpoints(self._store), self._delivered)
        for group in due:
            blocks = [block for committable in group.committables for block in committable.blocks]
            # What follows the last checkpoint comes once: if the job is restarted after that, it is the same again.
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
    """In a slot, after a commit: at the end of input waits until Spark has everything that was committed.

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
