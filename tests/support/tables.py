"""Operators of tables over changelogs: cut into batches at random, stopped and rescaled at random, and folded."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from actors.operators.contract.operator import Operator
from flinkray.batches.batch import Batch
from flinkray.types.keys import ColumnKey
from flinkray.types.records import Kind
from flinkray.types.rows import RowKind
from tests.support.rescaling import Subtasks

Change = tuple[int, tuple[Any, ...]]
"""What a row does (the value of its RowKind), and its values."""
_TAKEN_BACK = (RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value)


def changes_as_batch(changes: Sequence[Change], schema: pa.Schema) -> Batch:
    """A batch of changes. As columns of all streams, they may be null."""
    columns = [pa.array([row[place] for _, row in changes], field.type) for place, field in enumerate(schema)]
    kinds = pa.array([kind for kind, _ in changes], pa.int8())
    data = pa.RecordBatch.from_arrays(columns, names=schema.names)
    return Batch(data, Kind.ROW, kinds=kinds if any(kinds.to_pylist()) else None)


def fold(changes: Iterable[Change]) -> Counter[tuple[Any, ...]]:
    """The rows that a changelog leads to. What it takes back must be there."""
    rows: Counter[tuple[Any, ...]] = Counter()
    for kind, row in changes:
        if kind in _TAKEN_BACK:
            assert rows[row] > 0, f"{row} is taken back, and is not there"
            rows[row] -= 1
        else:
            rows[row] += 1
    return +rows


def fold_by_key(changes: Iterable[Change], key: Sequence[int]) -> Counter[tuple[Any, ...]]:
    """The rows that a changelog without -U leads to, each replacing the one of the same key."""
    rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for kind, row in changes:
        assert kind != RowKind.UPDATE_BEFORE.value
        at = tuple(row[place] for place in key)
        assert (at in rows) == (kind != RowKind.INSERT.value), f"{row} of {at}: {rows.get(at)}"
        if kind == RowKind.DELETE.value:
            del rows[at]
        else:
            rows[at] = row
    return Counter(rows.values())


def random_table_changes(
    seed: int, count: int, row: Callable[[random.Random], tuple[Any, ...]], *, deletes: float = 0.3
) -> list[Change]:
    """So many changes of a table that may hold a row several times: rows are added, and rows that are there deleted or
    updated."""
    generator = random.Random(seed)
    there: list[tuple[Any, ...]] = []
    changes: list[Change] = []
    while len(changes) < count:
        if there and generator.random() < deletes:
            old = there.pop(generator.randrange(len(there)))
            if generator.random() < 0.5:
                changes.append((RowKind.DELETE.value, old))
                continue
            there.append(row(generator))
            changes += [(RowKind.UPDATE_BEFORE.value, old), (RowKind.UPDATE_AFTER.value, there[-1])]
        else:
            there.append(row(generator))
            changes.append((RowKind.INSERT.value, there[-1]))
    return changes


def changes_of(
    make: Callable[[], Operator],
    inputs: Sequence[tuple[Sequence[Change], pa.Schema]],
    keys: Sequence[Sequence[str]],
    seed: int,
    *,
    rescales: bool = True,
    largest_batch: int = 12,
    after_batch: Callable[[Subtasks], None] = lambda _: None,
    at_end: Callable[[Subtasks], None] = lambda _: None,
    **settings: Any,
) -> list[Change]:
    """What an operator gives for changes of its inputs: batches of random size, of one input or the other in turn at
    random, while it is stopped and goes on with another parallelism now and then.

    Args:
        keys: the key columns of each input; none: one subtask gets all rows.
        after_batch: what else happens after each batch.
        at_end: what happens when all have come.
    """
    generator = random.Random(seed)
    selectors = tuple(ColumnKey(tuple(key)) if key else None for key in keys)
    parallelism = 1 if not any(keys) else generator.randint(1, 3)
    subtasks = Subtasks(make, selectors, parallelism, **settings)
    left = [list(changes) for changes, _ in inputs]
    found: list[Change] = []
    while any(left):
        index = generator.choice([index for index, changes in enumerate(left) if changes])
        size = generator.randint(1, largest_batch)
        some, left[index] = left[index][:size], left[index][size:]
        subtasks.push(changes_as_batch(some, inputs[index][1]), input_index=index)
        after_batch(subtasks)
        found += _taken(subtasks)
        if rescales and generator.random() < 0.2:
            for harness in subtasks.harnesses:
                harness.operator.prepare_barrier(1)
            found += _taken(subtasks)
            subtasks = subtasks.rescaled(1 if not any(keys) else generator.randint(1, 3))
    at_end(subtasks)
    for harness in subtasks.harnesses:
        harness.end()
    found += _taken(subtasks)
    for harness in subtasks.harnesses:
        harness.operator.close()
    return found


def _taken(subtasks: Subtasks) -> list[Change]:
    found: list[Change] = []
    for harness in subtasks.harnesses:
        for batch in harness.output.batches:
            rows = zip(*(column.to_pylist() for column in batch.data.columns), strict=True)
            found += zip(batch.row_kinds.to_pylist(), rows, strict=True)
        harness.output.clear()
    return found
