"""Checkpoints in Flink's shapes."""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import structs

from actors.protocol.job_reports import CheckpointConfiguration, CheckpointReport, SubtaskCheckpoint, VertexCheckpoint
from actors.rest.answers.aggregates import statistics, statistics_of
from actors.rest.answers.states import UNKNOWN
from flinkray.redaction import redacted
from flinkray.rest import checkpoints as shapes
from flinkray.state.checkpoint_statistics import (
    CheckpointKind,
    CheckpointStatistics,
    CheckpointStatus,
    RestoredCheckpoint,
)

_NOWHERE = "<checkpoint-not-externally-addressable>"

_NO_INTERVAL = 2**63 - 1
"""Flink's interval of a job without checkpoints."""


def checkpoints(report: CheckpointReport, vertices: Mapping[str, int]) -> shapes.Checkpoints:
    """The last checkpoints and savepoints, and sums over all of them.

    Args:
        vertices: all of the job -> their parallelism. As in Flink, a vertex that had finished before a checkpoint
            counts as one that has acknowledged it, with nothing to save.
    """
    report = _with_ended(report, vertices)
    overview, written = report.overview, _written(report.vertices)
    counts = overview.counts
    nothing = statistics(())
    return shapes.Checkpoints(
        counts=shapes.CheckpointCounts(
            restored=counts.restored,
            total=counts.triggered,
            in_progress=counts.in_progress,
            completed=counts.completed,
            failed=counts.failed,
        ),
        summary=shapes.CheckpointSummary(
            checkpointed_size=statistics_of(report.summary.new_bytes),
            state_size=statistics_of(report.summary.state_bytes),
            end_to_end_duration=statistics_of(report.summary.duration_ms),
            alignment_buffered=nothing,
            processed_data=nothing,
            persisted_data=statistics_of(report.summary.in_flight_bytes),
        ),
        latest=shapes.LatestCheckpoints(
            completed=_latest(overview.latest_completed, written),
            savepoint=_latest(overview.latest_savepoint, written),
            failed=_latest(overview.latest_failed, written),
            restored=_restored(overview.latest_restored),
        ),
        history=[_checkpoint(entry, written) for entry in overview.history],
    )


def checkpoint(report: CheckpointReport, checkpoint_id: int, vertices: Mapping[str, int]) -> shapes.Checkpoint | None:
    """One checkpoint with all vertices, as Flink's dashboard takes each to be there; None: it is not known (any more).

    Args:
        vertices: as for `checkpoints`.
    """
    report = _with_ended(report, vertices)
    entry = _entry(report, checkpoint_id)
    if entry is None:
        return None
    parts = {each.vertex_id: each for each in report.vertices if each.checkpoint_id == checkpoint_id}
    tasks = {
        name: _vertex(entry, parts.get(name) or _ended_part(entry, name, parallelism))
        for name, parallelism in vertices.items()
    }
    return _checkpoint(entry, _written(report.vertices), tasks)


def vertex(
    report: CheckpointReport, checkpoint_id: int, vertex_id: str, vertices: Mapping[str, int]
) -> shapes.VertexCheckpointDetails | None:
    """One checkpoint by the subtasks of a vertex; None: it is not known (any more).

    Args:
        vertices: as for `checkpoints`.
    """
    report = _with_ended(report, vertices)
    entry = _entry(report, checkpoint_id)
    found = (e for e in report.vertices if e.checkpoint_id == checkpoint_id and e.vertex_id == vertex_id)
    part = next(found, None)
    if entry is None or part is None:
        return None
    rows = list(part.acknowledged())
    summed = _vertex(entry, part)
    fields: dict[str, Any] = {name: getattr(summed, name) for name in summed.__struct_fields__}
    return shapes.VertexCheckpointDetails(
        **fields, summary=_summary(entry, rows), subtasks=_subtasks(entry, part.subtasks, rows)
    )


def written_bytes(report: CheckpointReport) -> int | None:
    """How many were written for the latest completed checkpoint, which is less than its state where it is incremental;
    None: there is none."""
    latest = report.overview.latest_completed
    return None if latest is None else _checkpoint(latest, _written(report.vertices)).checkpointed_size


def configuration(settings: CheckpointConfiguration) -> shapes.CheckpointConfiguration:
    is_kept = settings.is_kept_on_cancellation or settings.is_kept_on_failure
    return shapes.CheckpointConfiguration(
        mode="exactly_once" if settings.is_exactly_once else "at_least_once",
        interval=_NO_INTERVAL if settings.interval_ms is None else settings.interval_ms,
        timeout=settings.timeout_ms,
        min_pause=settings.min_pause_ms,
        max_concurrent=settings.max_concurrent,
        externalization=shapes.Externalization(
            enabled=is_kept, delete_on_cancellation=not settings.is_kept_on_cancellation
        ),
        state_backend={"hashmap": "HashMapStateBackend", "rocksdb": "EmbeddedRocksDBStateBackend"}.get(
            settings.state_backend, settings.state_backend
        ),
        checkpoint_storage="FileSystemCheckpointStorage" if settings.directory else "JobManagerCheckpointStorage",
        unaligned_checkpoints=settings.is_unaligned,
        tolerable_failed_checkpoints=settings.tolerable_failures,
        aligned_checkpoint_timeout=settings.aligned_timeout_ms,
        checkpoints_after_tasks_finish=settings.has_final,
        state_changelog_enabled=False,
        changelog_periodic_materialization_interval=0,
        changelog_storage="memory",
    )


def _entry(report: CheckpointReport, checkpoint_id: int) -> CheckpointStatistics | None:
    overview = report.overview
    latest = (overview.latest_completed, overview.latest_savepoint, overview.latest_failed)
    known = (*overview.history, *(each for each in latest if each is not None))
    return next((each for each in known if each.checkpoint_id == checkpoint_id), None)


def _with_ended(report: CheckpointReport, vertices: Mapping[str, int]) -> CheckpointReport:
    """With the parts of vertices that had finished before a checkpoint, in those of which the parts are known."""
    known: dict[int, set[str]] = {}
    for part in report.vertices:
        known.setdefault(part.checkpoint_id, set()).add(part.vertex_id)
    ended: list[VertexCheckpoint] = []

    def completed(entry: CheckpointStatistics) -> CheckpointStatistics:
        absent = vertices.keys() - known.get(entry.checkpoint_id, vertices.keys())
        ended.extend(_ended_part(entry, name, vertices[name]) for name in absent)
        more = sum(vertices[name] for name in absent)
        return dataclasses.replace(entry, subtasks=entry.subtasks + more, acknowledged=entry.acknowledged + more)

    def completed_latest(entry: CheckpointStatistics | None) -> CheckpointStatistics | None:
        return None if entry is None else completed(entry)

    overview = report.overview
    completed_overview = dataclasses.replace(
        overview,
        history=tuple(map(completed, overview.history)),
        latest_completed=completed_latest(overview.latest_completed),
        latest_savepoint=completed_latest(overview.latest_savepoint),
        latest_failed=completed_latest(overview.latest_failed),
    )
    # Most of the latest ones are in the history as well.
    parts = {(part.checkpoint_id, part.vertex_id): part for part in (*report.vertices, *ended)}
    return structs.replace(report, overview=completed_overview, vertices=tuple(parts.values()))


def _ended_part(entry: CheckpointStatistics, vertex_id: str, parallelism: int) -> VertexCheckpoint:
    """Of a vertex that had finished: it has nothing to save, and acknowledges when it is asked to."""
    rows = (SubtaskCheckpoint(index, entry.triggered_ms, 0, 0, 0, 0, 0, 0, 0) for index in range(parallelism))
    figures = array("d", (figure for row in rows for figure in row)).tobytes()
    return VertexCheckpoint(entry.checkpoint_id, vertex_id, parallelism, figures)


def _written(vertices: Iterable[VertexCheckpoint]) -> dict[int, tuple[int, int]]:
    """Checkpoint -> (bytes that were written for it, when the last subtask acknowledged it)."""
    found: dict[int, tuple[int, int]] = {}
    for part in vertices:
        new, last = found.get(part.checkpoint_id, (0, UNKNOWN))
        for row in part.acknowledged():
            new, last = new + row.new_bytes, max(last, row.acknowledged_ms)
        found[part.checkpoint_id] = new, last
    return found


def _latest(entry: CheckpointStatistics | None, written: Mapping[int, tuple[int, int]]) -> shapes.Checkpoint | None:
    return None if entry is None else _checkpoint(entry, written)


def _checkpoint(
    entry: CheckpointStatistics,
    written: Mapping[int, tuple[int, int]],
    tasks: Mapping[str, shapes.VertexCheckpoint] | None = None,
) -> shapes.Checkpoint:
    is_savepoint = entry.kind is not CheckpointKind.CHECKPOINT
    # Of the latest ones it may be long ago: then what was written for it is not known any more.
    new, last = written.get(entry.checkpoint_id, (entry.nbytes, entry.ended_ms or UNKNOWN))
    ends: dict[str, Any] = {}
    if entry.status is CheckpointStatus.COMPLETED:
        ends = {
            "external_path": redacted(entry.directory) or "<checkpoint-not-externally-addressable>",
            "discarded": False,
        }
    elif entry.status is CheckpointStatus.FAILED:
        ends = {"failure_timestamp": entry.ended_ms or 0, "failure_message": entry.failure}
    return shapes.Checkpoint(
        class_name=entry.status.name.lower(),
        id=entry.checkpoint_id,
        status=entry.status.name,
        is_savepoint=is_savepoint,
        savepoint_format="CANONICAL" if is_savepoint else None,
        trigger_timestamp=entry.triggered_ms,
        latest_ack_timestamp=last,
        checkpointed_size=new,
        state_size=entry.nbytes,
        end_to_end_duration=UNKNOWN if entry.duration_ms is None else entry.duration_ms,
        alignment_buffered=0,
        processed_data=0,
        persisted_data=entry.in_flight_bytes,
        num_subtasks=entry.subtasks,
        num_acknowledged_subtasks=entry.acknowledged,
        checkpoint_type=_TYPES[entry.kind],
        tasks=dict(tasks or {}),
        **ends,
    )


_TYPES = {
    CheckpointKind.CHECKPOINT: "CHECKPOINT",
    CheckpointKind.SAVEPOINT: "SAVEPOINT",
    CheckpointKind.STOP: "SYNC_SAVEPOINT",
}


def _restored(restored: RestoredCheckpoint | None) -> shapes.RestoredCheckpoint | None:
    if restored is None:
        return None
    return shapes.RestoredCheckpoint(
        id=restored.checkpoint_id,
        restore_timestamp=restored.restored_ms,
        is_savepoint=restored.is_savepoint,
        external_path=redacted(restored.directory),
    )


def _vertex(entry: CheckpointStatistics, part: VertexCheckpoint) -> shapes.VertexCheckpoint:
    rows = list(part.acknowledged())
    last = max((row.acknowledged_ms for row in rows), default=UNKNOWN)
    is_complete = len(rows) == part.subtasks
    return shapes.VertexCheckpoint(
        id=entry.checkpoint_id,
        status="COMPLETED" if is_complete else entry.status.name,
        latest_ack_timestamp=last,
        checkpointed_size=sum(row.new_bytes for row in rows),
        state_size=sum(row.state_bytes for row in rows),
        end_to_end_duration=last - entry.triggered_ms if rows else UNKNOWN,
        alignment_buffered=0,
        processed_data=0,
        persisted_data=sum(row.in_flight_bytes for row in rows),
        num_subtasks=part.subtasks,
        num_acknowledged_subtasks=len(rows),
    )


def _summary(entry: CheckpointStatistics, rows: Sequence[SubtaskCheckpoint]) -> shapes.SubtasksSummary:
    nothing = statistics(())
    return shapes.SubtasksSummary(
        checkpointed_size=statistics([row.new_bytes for row in rows]),
        state_size=statistics([row.state_bytes for row in rows]),
        end_to_end_duration=statistics([row.acknowledged_ms - entry.triggered_ms for row in rows]),
        checkpoint_duration=shapes.DurationStatistics(
            sync=statistics([row.sync_ms for row in rows]), async_=statistics([row.async_ms for row in rows])
        ),
        alignment=shapes.AlignmentStatistics(
            buffered=nothing,
            processed=nothing,
            persisted=statistics([row.in_flight_bytes for row in rows]),
            duration=statistics([row.alignment_ms for row in rows]),
        ),
        start_delay=statistics([row.start_delay_ms for row in rows]),
    )


def _subtasks(
    entry: CheckpointStatistics, expected: int, rows: Sequence[SubtaskCheckpoint]
) -> list[shapes.SubtaskCheckpoint]:
    """By their index; which ones are missing of a vertex of which some have finished is not known, so the lowest are
    shown."""
    by_index = {row.subtask_index: _subtask(entry, row) for row in rows}
    index = 0
    while len(by_index) < expected:
        if index not in by_index:
            by_index[index] = shapes.SubtaskCheckpoint(class_name="pending", index=index, status="pending_or_failed")
        index += 1
    return [by_index[each] for each in sorted(by_index)]


def _subtask(entry: CheckpointStatistics, row: SubtaskCheckpoint) -> shapes.SubtaskCheckpoint:
    return shapes.SubtaskCheckpoint(
        class_name="completed",
        index=row.subtask_index,
        status="completed",
        ack_timestamp=row.acknowledged_ms,
        end_to_end_duration=row.acknowledged_ms - entry.triggered_ms,
        checkpointed_size=row.new_bytes,
        state_size=row.state_bytes,
        checkpoint=shapes.CheckpointDurations(sync=round(row.sync_ms), async_=round(row.async_ms)),
        alignment=shapes.CheckpointAlignment(
            buffered=0, processed=0, persisted=row.in_flight_bytes, duration=round(row.alignment_ms)
        ),
        start_delay=round(row.start_delay_ms),
        unaligned_checkpoint=row.in_flight_bytes > 0,
        aborted=False,
    )
