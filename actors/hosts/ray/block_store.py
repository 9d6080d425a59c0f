"""Blocks of rows in Ray's object store, owned by an actor that outlives whoever wrote them.

An object of the store dies with the process that made it, and Spark's Python workers and a job's slots end before
their rows are read. So the holder has a task copy each block: the copy belongs to the holder, and lies on the node
where the block was written (Ray runs the task where its argument is). The rows never pass through the holder itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa
import ray

from flinkray.errors import PartitionError

log = logging.getLogger(__name__)

NAMESPACE = "flinkray"

# Until a job's first renewal: longer than a job may wait for its slots. After it: three renewals may be missed.
FIRST_LEASE_SECONDS = 900.0
LEASE_SECONDS = 60.0
# After the job's end: a job that is restarted ends its lease and takes it up again.
GRACE_SECONDS = 30.0


@ray.remote(num_cpus=0, num_returns=2, max_retries=0)
def _copy(rows: Any) -> tuple[Any, bool]:
    """The same rows as an object of whoever called this, and a small result that says they are there."""
    return rows, True


class _BlockHolder:
    """The actor: knows each block's reference. Its methods never wait for data."""

    def __init__(self) -> None:
        self._blocks: dict[str, Any] = {}
        self._records: dict[str, bytes] = {}
        self._expires = 0.0
        self._watch: asyncio.Task[None] | None = None

    async def start(self, has_lease: bool) -> None:
        if has_lease:
            self._expires = time.monotonic() + FIRST_LEASE_SECONDS
            self._watch = asyncio.get_running_loop().create_task(self._end_when_unused())

    async def put(self, block_id: str, references: list[Any]) -> None:
        copy, is_there = cast(Sequence[Any], _copy.remote(references[0]))
        await is_there
        self._blocks[block_id] = copy

    async def get(self, block_id: str) -> list[Any]:
        """In a list, so that the reference arrives and not the rows; empty where there is no such block."""
        return [self._blocks[block_id]] if block_id in self._blocks else []

    async def discard(self, block_ids: list[str]) -> None:
        for block_id in block_ids:
            self._blocks.pop(block_id, None)

    async def retain(self, block_ids: list[str]) -> None:
        self._blocks = {block_id: self._blocks[block_id] for block_id in block_ids if block_id in self._blocks}

    async def record(self, key: str, value: bytes) -> None:
        self._records[key] = value

    async def records(self, prefix: str) -> dict[str, bytes]:
        return {key: value for key, value in self._records.items() if key.startswith(prefix)}

    async def lease(self, seconds: float) -> None:
        self._expires = time.monotonic() + seconds

    async def _end_when_unused(self) -> None:
        while time.monotonic() < self._expires:
            await asyncio.sleep(min(5.0, LEASE_SECONDS / 4))
        ray.kill(ray.get_runtime_context().current_actor)


class RayBlockStore:
    """Implements `actors.spark.blocks.BlockStore`; connects a process to Ray where it is not (Spark's workers)."""

    def __init__(self, name: str, address: str) -> None:
        self._name = name
        self._address = address
        self._holder: Any = None

    @staticmethod
    def create(outlives_driver: bool) -> RayBlockStore:
        """A new store in the connected cluster.

        Args:
            outlives_driver: whether it stays when this process ends; it then ends when no job renews its lease for
                a minute. Otherwise it ends with this process.
        """
        name = f"flinkray-blocks-{uuid.uuid4().hex[:12]}"
        store = RayBlockStore(name, ray.get_runtime_context().gcs_address)
        lifetime = {"lifetime": "detached"} if outlives_driver else {}
        remote = ray.remote(num_cpus=0, max_restarts=0)(_BlockHolder)
        store._holder = remote.options(name=name, namespace=NAMESPACE, **lifetime).remote()
        ray.get(store._holder.start.remote(outlives_driver))
        return store

    @property
    def store_id(self) -> str:
        return self._name

    def put(self, block_id: str, rows: pa.RecordBatch) -> None:
        self._connect()  # first, or ray.put would start a cluster of its own
        self._ask("put", block_id, [ray.put(rows)])

    def get(self, block_id: str) -> pa.RecordBatch:
        references = self._ask("get", block_id)
        if not references:
            raise PartitionError(f"block {block_id!r} is not (or no longer) in {self._name}")
        try:
            return ray.get(references[0])
        except ray.exceptions.RayError as error:
            raise PartitionError(f"block {block_id!r} of {self._name} was lost: {error}") from error

    def discard(self, block_ids: Collection[str]) -> None:
        self._ask("discard", list(block_ids))

    def retain(self, block_ids: Collection[str]) -> None:
        self._ask("retain", list(block_ids))

    def record(self, key: str, value: bytes) -> None:
        self._ask("record", key, value)

    def records(self, prefix: str) -> Mapping[str, bytes]:
        answer: dict[str, bytes] = self._ask("records", prefix)
        return answer

    def renew_lease(self) -> None:
        self._lease(LEASE_SECONDS)

    def end_lease(self) -> None:
        self._lease(GRACE_SECONDS)

    @property
    def is_unused(self) -> bool:
        """Never: the holder ends itself with its lease."""
        return False

    def close(self) -> None:
        if not ray.is_initialized():
            return  # the cluster is gone, and the holder with it
        with contextlib.suppress(PartitionError):
            ray.kill(self._find())

    def __reduce__(self) -> tuple[Any, ...]:
        return RayBlockStore, (self._name, self._address)

    def _lease(self, seconds: float) -> None:
        with contextlib.suppress(PartitionError):  # a reader that needs the store will say that it is gone
            self._find().lease.remote(seconds)

    def _ask(self, method: str, *arguments: Any) -> Any:
        try:
            return ray.get(getattr(self._find(), method).remote(*arguments))
        except ray.exceptions.RayActorError as error:
            raise PartitionError(
                f"{self._name}, which held rows between Spark and this job, has ended: {error}. It ends with the "
                f"driver, with stop_spark(), or a minute after the job; run the program again"
            ) from error

    def _find(self) -> Any:
        if self._holder is None:
            self._connect()
            try:
                self._holder = ray.get_actor(self._name, namespace=NAMESPACE)
            except ValueError as error:
                raise PartitionError(f"{self._name}, which held rows between Spark and this job, is gone") from error
        return self._holder

    def _connect(self) -> None:
        if not ray.is_initialized():
            ray.init(address=self._address, namespace=NAMESPACE, logging_level=logging.ERROR, log_to_driver=False)
