"""What a job must not leave behind in this process: threads, batches, memory."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from flinkray.batches.batch import Batch
from tests.support.waiting import eventually


class Leftovers(NamedTuple):
    """What is here beyond what was here before."""

    threads: tuple[str, ...]
    batches: int
    arrow_bytes: int


@contextlib.contextmanager
def nothing_is_left(deadline_s: float = 20.0) -> Iterator[None]:
    """After the block, every thread that began in it has ended, and every batch and Arrow buffer is gone."""
    gc.collect()
    threads, batches, arrow_bytes = set(threading.enumerate()), _batches(), pa.total_allocated_bytes()
    yield

    def look() -> Leftovers:
        gc.collect()
        new = tuple(sorted(thread.name for thread in set(threading.enumerate()) - threads))
        return Leftovers(new, _batches() - batches, pa.total_allocated_bytes() - arrow_bytes)

    # Fewer than before: what an earlier test had left has gone meanwhile.
    eventually(look, lambda left: not left.threads and left.batches <= 0 and left.arrow_bytes <= 0, deadline_s)


def _batches() -> int:
    return sum(type(each) is Batch for each in gc.get_objects())
