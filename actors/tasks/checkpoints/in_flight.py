"""Rows that an unaligned barrier overtook, as parts of a checkpoint."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import IO

from actors.keys.hashes import key_columns, key_groups
from actors.protocol.checkpoint_handles import PartKind, StatePart
from actors.state.snapshots.snapshot import PendingPart, StateWriter
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.types.keys import KeySelector

_GATE, _RESULT = "gate ", "result "


def gate_part(gate_index: int) -> str:
    """Name of the part with rows that had come to a gate and were not processed."""
    return f"{_GATE}{gate_index}"


def result_part(result_index: int, subpartition: int) -> str:
    """Name of the part with rows that were on their way out."""
    return f"{_RESULT}{result_index}/{subpartition}"


def gate_of(name: str) -> int:
    """The gate of a part with that name, as which restored tasks get all rows in flight."""
    return int(name.removeprefix(_GATE))


class InFlightPart(PendingPart):
    """Batches, oldest first. Their rows are written as Arrow's IPC format has them, with kind and timestamps."""

    def __init__(self, name: str, batches: Sequence[Batch]) -> None:
        self.name = name
        self.nbytes = sum(batch.nbytes for batch in batches)
        self._batches: Sequence[Batch] = batches

    def write(self, writer: StateWriter) -> StatePart:
        batches, self._batches = self._batches, ()

        def write_all(stream: IO[bytes]) -> None:
            for batch in batches:
                pickle.dump(batch, stream, protocol=5)

        rows = sum(batch.num_rows for batch in batches)
        return StatePart(self.name, PartKind.IN_FLIGHT, writer.write_with(write_all), rows)

    def discard(self) -> None:
        self._batches = ()


def read_in_flight(data: bytes) -> Iterator[Batch]:
    """The batches of a part."""
    stream = BytesIO(data)
    while stream.tell() < len(data):
        batch: Batch = pickle.load(stream)
        yield batch


def rows_of_key_groups(batch: Batch, selector: KeySelector, owned: range, max_parallelism: int, where: str) -> Batch:
    """The rows whose keys belong to these key groups: of what was in flight when the job had another parallelism."""
    groups = key_groups(key_columns(batch, selector, where), max_parallelism)
    is_own = (groups >= owned.start) & (groups < owned.stop)
    return batch if is_own.all() else batch.filter(from_numpy(is_own))
