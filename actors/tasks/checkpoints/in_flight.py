"""Rows in flight: those that an unaligned barrier overtook, written as parts of a checkpoint and read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import IO

from actors.keys.hashes import key_columns, key_groups
from actors.protocol.checkpoint_handles import PartKind, StatePart
from actors.state.snapshots.snapshot import PendingPart, StateWriter
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.persistence import Pickler, load
from flinkray.types.keys import KeySelector

_GATE, _RESULT = "gate ", "result "


def gate_part(gate_index: int) -> str:
    """The name of the part with the rows that waited at a gate."""
    return f"{_GATE}{gate_index}"


def result_part(result_index: int, subpartition: int) -> str:
    """The name of the part with the rows that waited in a result's subpartition."""
    return f"{_RESULT}{result_index}/{subpartition}"


def gate_of(name: str) -> int:
    """The index of the gate in a part's name. Restored tasks get all rows in flight as parts of gates."""
    return int(name.removeprefix(_GATE))


class InFlightPart(PendingPart):
    """A part of batches, oldest first. Each is pickled, its rows in Arrow's IPC format with kind and timestamps."""

    def __init__(self, name: str, batches: Sequence[Batch]) -> None:
        self.name = name
        self.nbytes = sum(batch.nbytes for batch in batches)
        self._batches: Sequence[Batch] = batches

    def write(self, writer: StateWriter) -> StatePart:
        batches, self._batches = self._batches, ()

        def write_all(stream: IO[bytes]) -> None:
            for batch in batches:
                Pickler(stream).dump(batch)

        rows = sum(batch.num_rows for batch in batches)
        return StatePart(self.name, PartKind.IN_FLIGHT, writer.write_with(write_all), rows)

    def discard(self) -> None:
        self._batches = ()


def read_in_flight(data: bytes) -> Iterator[Batch]:
    """Reads the batches of a part, oldest first."""
    stream = BytesIO(data)
    while stream.tell() < len(data):
        batch: Batch = load(stream)
        yield batch


def rows_of_key_groups(batch: Batch, selector: KeySelector, owned: range, max_parallelism: int, where: str) -> Batch:
    """The rows of a batch whose keys belong to key groups of this subtask (`owned`).

    Rows that were in flight when the job had another parallelism may belong to other subtasks.
    """
    groups = key_groups(key_columns(batch, selector, where), max_parallelism)
    is_own = (groups >= owned.start) & (groups < owned.stop)
    return batch if is_own.all() else batch.filter(from_numpy(is_own))
