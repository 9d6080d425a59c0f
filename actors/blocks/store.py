"""Blocks: the batches in which rows cross between a job and others (Spark, Ray Data), and the store that holds them."""

from __future__ import annotations

import io
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Protocol

import pyarrow as pa
from msgspec import Struct

# Large enough that the cost per block (a message or a file, about 5 ms) vanishes, small enough that a reader, which
# holds one and fetches the next, stays far below a slot's memory.
BLOCK_BYTES = 8 << 20


class Block(Struct, frozen=True):
    """The description of a block: what is known of it without reading it.

    Attributes:
        block_id: its name in the store; names the attempt that wrote it, so that a repeated attempt never mixes in.
        rows: its number of rows, at least one.
        nbytes: the bytes of its columns.
        checksum: CRC-32 of its columns, by which a restored reader knows that it reads the same rows again.
    """

    block_id: str
    rows: int
    nbytes: int
    checksum: int

    @staticmethod
    def of(block_id: str, rows: pa.RecordBatch) -> Block:
        return Block(block_id, int(rows.num_rows), int(rows.nbytes), _checksum(rows))


class BlockStore(Protocol):
    """Holds blocks, and small records beside them. A handle: picklable, usable from any process and thread.

    All methods may wait for the store; none is for a thread that must not block.
    """

    @property
    def store_id(self) -> str: ...

    def put(self, block_id: str, rows: pa.RecordBatch) -> None:
        """Durable for the life of the store when it returns. Putting an id again replaces the block."""

    def get(self, block_id: str) -> pa.RecordBatch:
        """The block, without copying where the store is on this node.

        Raises:
            PartitionError: it is not there, or the store is gone.
        """

    def discard(self, block_ids: Collection[str]) -> None:
        """Frees these blocks; unknown ones are ignored."""

    def retain(self, block_ids: Collection[str]) -> None:
        """Frees all blocks but these."""

    def record(self, key: str, value: bytes) -> None:
        """Keeps a small value under `key`, replacing an earlier one."""

    def records(self, prefix: str) -> Mapping[str, bytes]:
        """Every record whose key begins with `prefix`."""

    def renew_lease(self) -> None:
        """Says that a job needs the store for another while. Returns at once."""

    def end_lease(self) -> None:
        """Says that the job has ended: unless it (or its next attempt) comes back, the store ends itself soon."""

    @property
    def is_unused(self) -> bool:
        """Whether the lease ended long enough ago that only this driver has to let go."""

    def close(self) -> None:
        """Frees everything. Closing twice is harmless."""


def coalesce(batches: Iterable[pa.RecordBatch], block_bytes: int = BLOCK_BYTES) -> Iterator[pa.RecordBatch]:
    """The same rows in order, in batches of about `block_bytes` (at most one input batch more); none is empty."""
    pending: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        pending.append(batch)
        size += batch.nbytes
        if size >= block_bytes:
            yield pa.concat_batches(pending)
            pending, size = [], 0
    if pending:
        yield pa.concat_batches(pending)


class _Checksum(io.RawIOBase):
    """CRC-32 of what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.value = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.value = zlib.crc32(data, self.value)
        return len(data)


def _checksum(rows: pa.RecordBatch) -> int:
    """The CRC-32 of the rows as Arrow streams them, column by column: a copy of the block would double its memory."""
    checksum = _Checksum()
    with pa.ipc.new_stream(pa.PythonFile(checksum, "w"), rows.schema) as stream:
        stream.write_batch(rows)
    return checksum.value
