"""Hands each committed checkpoint's rows to Spark exactly once, in the driver, while the job runs.

The writers' blocks and the commits are in a store; a thread of the driver looks there, and calls the user's `write`
for one checkpoint after the other as soon as every subtask has committed it. At the end of input a commit waits until
`write` has had everything, so when the job has finished, Spark has its rows; and if `write` raises, the job fails.
"""

from __future__ import annotations

import logging
import pickle
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from actors.spark.blocks import BlockStore
from actors.spark.sink import Committable, checkpoints, committed, common_schema
from actors.spark.transfer import read_blocks
from flinkray.errors import ErrorInfo, FlinkrayError

log = logging.getLogger(__name__)

WriteFunction = Callable[[DataFrame, int | None], object]
"""Called with a checkpoint's rows and its id; None for the rows after the last checkpoint."""

POLL_SECONDS = 0.2
DRIVER_SILENCE_SECONDS = 120.0

_DELIVERED = "delivered/"
_FAILED = "failed/delivery"
_ALIVE = "alive/driver"


@dataclass(frozen=True, slots=True)
class Group:
    """The committables of one checkpoint; `checkpoint_id` None: those after the last one."""

    checkpoint_id: int | None
    committables: tuple[Committable, ...]


def due_groups(
    found: Iterable[Committable], checkpoint_of: dict[str, int], delivered: frozenset[str]
) -> tuple[list[Group], bool]:
    """What can be handed over now, in the order of checkpoints, and whether that is all there will ever be.

    A checkpoint is due when each subtask has committed for it or had ended before; a later one waits for it.
    """
    committables = list(found)
    if not committables:
        return [], False
    groups: dict[int | None, list[Committable]] = {}
    for committable in committables:
        groups.setdefault(checkpoint_of.get(committable.key), []).append(committable)
    ordered = sorted(groups, key=lambda checkpoint: (checkpoint is None, checkpoint or 0))
    due: list[Group] = []
    ended: set[int] = set()
    for checkpoint in ordered:
        members = groups[checkpoint]
        parallelism = members[0].parallelism
        if len({member.subtask for member in members} | ended) < parallelism:
            return due, False
        ended |= {member.subtask for member in members if member.is_last}
        remaining = tuple(member for member in members if member.key not in delivered)
        if remaining:
            due.append(Group(checkpoint, remaining))
    return due, len(ended) == committables[0].parallelism


class Delivery:
    """The driver's thread of one sink. `start` it before the job, `stop` it after."""

    def __init__(self, spark: SparkSession, store: BlockStore, write: WriteFunction) -> None:
        self._spark = spark
        self._store = store
        self._write = write
        self._delivered: set[str] = set()
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
            while not self._stopped.wait(POLL_SECONDS):
                self._store.record(_ALIVE, str(time.time()).encode())
                if self.step():
                    return
        except Exception as error:
            log.error("the rows of a checkpoint could not be handed to Spark: %s", error)
            self._store.record(_FAILED, pickle.dumps(ErrorInfo.of(error)))

    def step(self) -> bool:
        """Hands over what is due; whether that was all."""
        due, is_all = due_groups(committed(self._store), checkpoints(self._store), frozenset(self._delivered))
        for group in due:
            blocks = [block for committable in group.committables for block in committable.blocks]
            if blocks:
                schema = common_schema(blocks, None)
                rows = read_blocks(self._spark, self._store, [block.block_id for block in blocks], schema)
                self._write(rows, group.checkpoint_id)
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
