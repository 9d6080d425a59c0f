"""Blocks of rows in Ray's object store, owned by an actor that outlives whoever wrote them.

An object in Ray's store dies with the process that made it, and Spark's Python workers and a job's slots end before
their rows are read. So an actor, the holder, copies each block: the copy belongs to the holder, and is on the node
where the block was written. On a node other than the holder's a task makes the copy (Ray runs the task where its
argument is), so that no rows cross the network for it.

A driver has two holders at most, each for any number of stores: one that ends with the driver, and a detached one for
rows that a job may need after the driver has ended; the latter ends when it has no store. Both drop a store whose lease
has expired. In a Ray cluster that ends with the driver nothing outlives the driver, and there is one holder.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa
import ray
from msgspec import Struct, field

from actors.hosts.ray.cluster import NAMESPACE, is_own_cluster
from flinkray.errors import PartitionError

# The lease until a job's first renewal is longer than a job may wait for its slots.
FIRST_LEASE_SECONDS = 900.0
# A renewed lease lasts so long that three renewals may be missed.
LEASE_SECONDS = 60.0
# The lease after a job's end, as a job that is restarted ends its lease and renews it again.
GRACE_SECONDS = 30.0

# How often a holder checks its leases, and so how long a detached one may stay after the last has expired.
WATCH_SECONDS = 5.0


@ray.remote(num_cpus=0, num_returns=2, max_retries=0)
def _copy(rows: Any) -> tuple[Any, bool]:
    """Copies rows into an object that belongs to the caller, with a small second result that tells when it exists."""
    return rows, True


class _Store(Struct):
    """The blocks and records of one store."""

    expires: float
    blocks: dict[str, Any] = field(default_factory=dict)
    records: dict[str, bytes] = field(default_factory=dict)


class _BlockHolder:
    """The actor that owns the blocks. The first argument of each method names the store; only `put` waits for rows."""

    def __init__(self, is_detached: bool) -> None:
        self._is_detached = is_detached
        self._node_id = ray.get_runtime_context().get_node_id()
        self._stores: dict[str, _Store] = {}
        # One copy at a time on each node, as each of several would map the node's shared memory in its own process.
        self._copying: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(1))
        self._watch: asyncio.Task[None] | None = None

    async def open(self, store_id: str, has_lease: bool) -> None:
        self._stores[store_id] = _Store(time.monotonic() + FIRST_LEASE_SECONDS if has_lease else math.inf)
        if self._watch is None:
            self._watch = asyncio.get_running_loop().create_task(self._watch_leases())

    async def close(self, store_id: str) -> None:
        self._stores.pop(store_id, None)

    async def put(self, store_id: str, block_id: str, references: list[Any], node_id: str) -> bool:
        """Copies a block into the store; whether the store exists."""
        async with self._copying[node_id]:
            copy = await self._copied(references[0], node_id)
        if store_id in self._stores:
            self._stores[store_id].blocks[block_id] = copy
        return store_id in self._stores

    async def get(self, store_id: str, block_id: str) -> list[Any]:
        """The reference of a block, in a list, so that it is not resolved to rows; empty if there is no such block."""
        blocks = self._stores[store_id].blocks if store_id in self._stores else {}
        return [blocks[block_id]] if block_id in blocks else []

    async def discard(self, store_id: str, block_ids: list[str]) -> None:
        if store_id in self._stores:
            for block_id in block_ids:
                self._stores[store_id].blocks.pop(block_id, None)

    async def retain(self, store_id: str, block_ids: list[str]) -> None:
        if store_id in self._stores:
            store = self._stores[store_id]
            store.blocks = {block_id: store.blocks[block_id] for block_id in block_ids if block_id in store.blocks}

    async def record(self, store_id: str, key: str, value: bytes) -> bool:
        """Stores a record; whether the store exists."""
        if store_id in self._stores:
            self._stores[store_id].records[key] = value
        return store_id in self._stores

    async def records(self, store_id: str, prefix: str) -> dict[str, bytes]:
        records = self._stores[store_id].records if store_id in self._stores else {}
        return {key: value for key, value in records.items() if key.startswith(prefix)}

    async def lease(self, store_id: str, seconds: float) -> None:
        if store_id in self._stores:
            self._stores[store_id].expires = time.monotonic() + seconds

    async def _copied(self, reference: Any, node_id: str) -> Any:
        """An object with the same rows that belongs to this actor, on the node of the original."""
        if node_id == self._node_id:
            return await asyncio.to_thread(ray.put, await reference)
        copy, is_there = cast(Sequence[Any], _copy.remote(reference))
        await is_there
        return copy

    async def _watch_leases(self) -> None:
        while self._stores or not self._is_detached:
            await asyncio.sleep(WATCH_SECONDS)
            now = time.monotonic()
            self._stores = {name: store for name, store in self._stores.items() if store.expires > now}
        ray.kill(ray.get_runtime_context().current_actor)


class RayBlockStore:
    """A BlockStore in Ray. It connects processes to Ray that are not yet, as Spark's workers."""

    def __init__(self, store_id: str, holder_name: str, address: str) -> None:
        self._store_id = store_id
        self._holder_name = holder_name
        self._address = address
        self._holder: Any = None
        self._is_own = False
        """Whether this process made the store: if it is not connected to Ray now, the cluster has been shut down."""

    @staticmethod
    def create(outlives_driver: bool) -> RayBlockStore:
        """A new store in the connected cluster.

        Args:
            outlives_driver: whether the store stays when this process ends, until no job has renewed its lease for a
                minute. Otherwise it ends with this process.
        """
        store_id = f"blocks-{uuid.uuid4().hex[:12]}"
        address = ray.get_runtime_context().gcs_address
        is_detached = outlives_driver and not is_own_cluster()
        known = _own_holders.get((address, is_detached))
        if known is not None:
            # A detached holder may have ended since it had no store any more; then a new one is started.
            with contextlib.suppress(ray.exceptions.RayActorError):
                ray.get(known._holder.open.remote(store_id, outlives_driver))
                return known._sibling(store_id)
        store = RayBlockStore(store_id, f"flinkray-{uuid.uuid4().hex[:12]}", address)
        lifetime = {"lifetime": "detached"} if is_detached else {}
        remote = ray.remote(num_cpus=0, max_restarts=0)(_BlockHolder)
        store._is_own = True
        store._holder = remote.options(name=store._holder_name, namespace=NAMESPACE, **lifetime).remote(is_detached)
        ray.get(store._holder.open.remote(store_id, outlives_driver))
        _own_holders[address, is_detached] = store
        return store

    @property
    def store_id(self) -> str:
        return self._store_id

    def put(self, block_id: str, rows: pa.RecordBatch) -> None:
        self._connect()  # first, or ray.put would start a cluster of its own
        node_id = ray.get_runtime_context().get_node_id()
        if not self._ask("put", block_id, [ray.put(rows)], node_id):
            raise self._gone()

    def reference(self, block_id: str) -> Any:
        """The ObjectRef of a block, by which this driver can read it even when the store has been closed.

        Raises:
            PartitionError: the block does not exist, or the store is gone.
        """
        references = self._ask("get", block_id)
        if not references:
            raise PartitionError(f"block {block_id!r} is not (or no longer) in {self._store_id}")
        return references[0]

    def get(self, block_id: str) -> pa.RecordBatch:
        reference = self.reference(block_id)
        try:
            return ray.get(reference)
        except ray.exceptions.RayError as error:
            raise PartitionError(f"block {block_id!r} of {self._store_id} was lost: {error}") from error

    def discard(self, block_ids: Collection[str]) -> None:
        self._ask("discard", list(block_ids))

    def retain(self, block_ids: Collection[str]) -> None:
        self._ask("retain", list(block_ids))

    def record(self, key: str, value: bytes) -> None:
        if not self._ask("record", key, value):
            raise self._gone()

    def records(self, prefix: str) -> Mapping[str, bytes]:
        answer: dict[str, bytes] = self._ask("records", prefix)
        return answer

    def renew_lease(self) -> None:
        self._lease(LEASE_SECONDS)

    def end_lease(self) -> None:
        self._lease(GRACE_SECONDS)

    @property
    def is_unused(self) -> bool:
        """Never True, as the holder drops stores whose lease has expired itself."""
        return False

    def close(self) -> None:
        if not ray.is_initialized():
            return  # the cluster is gone, and the holder with it
        with contextlib.suppress(PartitionError):
            self._ask("close")

    def __reduce__(self) -> tuple[Any, ...]:
        return RayBlockStore, (self._store_id, self._holder_name, self._address)

    def _sibling(self, store_id: str) -> RayBlockStore:
        """Another store of the same holder."""
        store = RayBlockStore(store_id, self._holder_name, self._address)
        store._holder, store._is_own = self._holder, True
        return store

    def _lease(self, seconds: float) -> None:
        with contextlib.suppress(PartitionError):  # a reader that needs the store will say that it is gone
            self._find().lease.remote(self._store_id, seconds)

    def _ask(self, method: str, *arguments: Any) -> Any:
        try:
            return ray.get(getattr(self._find(), method).remote(self._store_id, *arguments))
        except ray.exceptions.RayActorError as error:
            raise self._gone() from error

    def _find(self) -> Any:
        self._connect()
        if self._holder is None:
            try:
                self._holder = ray.get_actor(self._holder_name, namespace=NAMESPACE)
            except ValueError as error:
                raise self._gone() from error
        return self._holder

    def _gone(self) -> PartitionError:
        return PartitionError(
            f"{self._store_id}, which held rows between this job and its driver, is gone: it ends with the driver, "
            f"with stop_spark(), or a minute after the job; run the program again"
        )

    def _connect(self) -> None:
        if not ray.is_initialized():
            if self._is_own:
                raise self._gone()
            ray.init(address=self._address, namespace=NAMESPACE, logging_level=logging.ERROR, log_to_driver=False)


# For each holder of this process, by Ray cluster and whether the holder is detached, one store in it. The store keeps
# the handle without which Ray would end a holder that is not detached.
_own_holders: dict[tuple[str, bool], RayBlockStore] = {}
