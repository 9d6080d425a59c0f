"""Checkpoints for tests: written as tasks write them, made up at random, and read by the subtasks of a restored job."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from actors.checkpoints.coordination.completed import CompletedCheckpoint, OperatorState
from actors.checkpoints.storage.reading import RestoredOperatorState
from actors.protocol.checkpoint_handles import (
    FileState,
    InlineState,
    OperatorSubtaskState,
    PartKind,
    SharedFile,
    StatePart,
    TaskRestore,
)
from actors.protocol.elements import CheckpointOptions
from actors.protocol.resources import AllocationId
from actors.protocol.task_messages import TaskDeployment
from actors.state.snapshots.snapshot import KeyedTable, ListMode, OperatorSnapshot, StateWriter
from flinkray.config.configuration import Configuration
from flinkray.types.records import JobId, OperatorId
from graphs.execution_graph import AttemptId, ExecutionGraph, ExecutionVertexId
from graphs.key_groups import key_group_range, subtask_for_key_group

JOB = JobId("0123456789abcdef")


def completed(
    operators: Iterable[OperatorState] = (), checkpoint_id: int = 1, directory: str = "", is_savepoint: bool = False
) -> CompletedCheckpoint:
    return CompletedCheckpoint(
        job_id=JOB,
        job_name="a job",
        checkpoint_id=checkpoint_id,
        triggered_ms=1_000,
        completed_ms=2_000,
        is_savepoint=is_savepoint,
        directory=directory,
        operators={state.operator_id: state for state in operators},
    )


def sharing(checkpoint_id: int, paths: Iterable[str], is_savepoint: bool = False) -> CompletedCheckpoint:
    """A checkpoint that uses these shared files."""
    files = tuple(shared_file(path) for path in sorted(paths))
    part = StatePart("native", PartKind.NATIVE, inline(b""), len(files), (0, 128), files)
    return completed([operator_state({0: [part]})], checkpoint_id, f"/job/chk-{checkpoint_id}", is_savepoint)


def shared_file(path: str) -> SharedFile:
    return SharedFile(path.rsplit("/")[-1], path, 1, 0)


def inline(data: bytes) -> InlineState:
    return InlineState(data, zlib.crc32(data))


def operator_state(
    parts: Mapping[int, Sequence[StatePart]],
    parallelism: int = 1,
    operator_id: str = "operator",
    name: str = "map",
    uid: str | None = None,
    max_parallelism: int = 128,
    finished: Iterable[int] = (),
    coordinator: bytes | None = None,
    computes: str = "",
    gates: tuple[int, ...] = (),
    results: tuple[tuple[OperatorId, int], ...] = (),
) -> OperatorState:
    return OperatorState(
        operator_id=OperatorId(operator_id),
        name=name,
        uid=uid,
        parallelism=parallelism,
        max_parallelism=max_parallelism,
        subtasks={index: OperatorSubtaskState(tuple(each)) for index, each in parts.items()},
        finished=frozenset(finished),
        coordinator=coordinator,
        computes=computes,
        gates=gates,
        results=results,
    )


# -- state with known content ------------------------------------------------------------------------------------


def snapshot_of(
    owned: range,
    rows: Sequence[tuple[int, int]] = (),
    split: Sequence[Any] = (),
    union: Sequence[Any] = (),
    broadcast: Sequence[Any] = (),
) -> OperatorSnapshot:
    """One subtask's; `rows` are (key group, value)."""
    snapshot = OperatorSnapshot()
    groups = np.array([group for group, _ in rows], dtype=np.int32)
    data = pa.table({"value": pa.array([value for _, value in rows], pa.int64())})
    snapshot.add_keyed("keyed", lambda: KeyedTable.of(groups, data), owned)
    snapshot.add_list("split", split, ListMode.SPLIT)
    snapshot.add_list("union", union, ListMode.UNION)
    snapshot.add_list("broadcast", broadcast, ListMode.BROADCAST)
    return snapshot


def write_parts(snapshot: OperatorSnapshot, writer: StateWriter) -> list[StatePart]:
    return [part.write(writer) for part in snapshot.parts]


def in_flight(name: str, *rows: Any) -> StatePart:
    """Rows in flight, as text, for tests of who gets them."""
    return StatePart(name, PartKind.IN_FLIGHT, inline(repr(rows).encode()), len(rows))


def options_for(directory: str = "", shared: str = "") -> CheckpointOptions:
    return CheckpointOptions(directory=directory, shared_directory=shared)


# -- reading -----------------------------------------------------------------------------------------------------


def deployment_of(graph: ExecutionGraph, vertex_id: ExecutionVertexId) -> TaskDeployment:
    """As far as restoring goes."""
    vertex = graph.vertices[vertex_id]
    job_vertex = vertex.job_vertex
    return TaskDeployment(
        job_id=JOB,
        job_name="a job",
        attempt_id=AttemptId("attempt"),
        vertex_id=job_vertex.id,
        vertex_name=job_vertex.name,
        kind=job_vertex.job_vertex.kind,
        subtask_index=vertex_id.subtask_index,
        parallelism=job_vertex.parallelism,
        max_parallelism=job_vertex.max_parallelism,
        attempt_number=1,
        allocation_id=AllocationId("allocation"),
        operators=job_vertex.job_vertex.operators,
        head_node=job_vertex.job_vertex.head_node,
        partitions=(),
        gates=(),
        configuration=Configuration(),
    )


def restored_state(
    graph: ExecutionGraph, vertex_id: ExecutionVertexId, restore: TaskRestore, operator_id: OperatorId
) -> RestoredOperatorState:
    return RestoredOperatorState(deployment_of(graph, vertex_id), restore, operator_id)


def keyed_values(state: RestoredOperatorState) -> list[int]:
    return [value for table in state.keyed("keyed") for value in table.column("value").to_pylist()]


# -- at random ---------------------------------------------------------------------------------------------------


def random_rows(rng: random.Random, parallelism: int, max_parallelism: int, rows: int) -> list[list[tuple[int, int]]]:
    """(key group, value) by the subtask that owns the group; values are 0, 1, ..."""
    by_subtask: list[list[tuple[int, int]]] = [[] for _ in range(parallelism)]
    for value in range(rows):
        group = rng.randrange(max_parallelism)
        by_subtask[subtask_for_key_group(group, parallelism, max_parallelism)].append((group, value))
    return by_subtask


def owned_by(index: int, parallelism: int, max_parallelism: int) -> range:
    return key_group_range(index, parallelism, max_parallelism)


def random_checkpoint(rng: random.Random, directory: str = "", path: str = "") -> CompletedCheckpoint:
    """Anything that metadata has to hold. `path` is that of `directory` within its file system."""
    operators = [_random_operator(rng, f"{index:032x}", path) for index in range(rng.randrange(4))]
    return completed(operators, rng.randrange(1 << 40), directory, rng.random() < 0.5)


def _random_operator(rng: random.Random, operator_id: str, path: str) -> OperatorState:
    parallelism = rng.randrange(1, 4)
    indices = [index for index in range(parallelism) if rng.random() < 0.7]
    return operator_state(
        {index: [_random_part(rng, path) for _ in range(rng.randrange(4))] for index in indices},
        parallelism,
        operator_id,
        rng.choice(["map", "Größe → 数", 'with "quotes"\n']),
        rng.choice([None, "uid", ""]),
        rng.choice([1, 128, 32_768]),
        [index for index in range(parallelism) if rng.random() < 0.3],
        rng.choice([None, b"", rng.randbytes(20)]),
        rng.choice(["", "SUM(größe)"]),
        rng.choice([(), (0, 0, 1)]),
        rng.choice([(), ((OperatorId("größe"), 1), (OperatorId("map"), 0))]),
    )


def _random_part(rng: random.Random, path: str) -> StatePart:
    kind = rng.choice(list(PartKind))
    data: InlineState | FileState = inline(rng.randbytes(rng.randrange(50)))
    if path and rng.random() < 0.5:
        where = rng.choice([f"{path}/state", f"{path}/deep/state", "/elsewhere/chk-1/state", "bucket/key"])
        data = FileState(where, rng.randrange(1 << 50), rng.randrange(1 << 50), rng.randrange(1 << 32))
    beside = path.rsplit("/", 1)[0] if path else "/job"
    shared = tuple(
        SharedFile("000012.sst", rng.choice([f"{beside}/shared/{n}", f"/other/shared/{n}"]), n, rng.randrange(1 << 32))
        for n in range(rng.randrange(3) if kind is PartKind.NATIVE else 0)
    )
    groups = (0, rng.randrange(1, 128)) if kind in (PartKind.KEYED, PartKind.NATIVE) else None
    return StatePart(rng.choice(["a", "gate 0", "später"]), kind, data, rng.randrange(100), groups, shared)
