"""What the command line shows of jobs, as lines of text. Nothing is cut, as ids and paths are there to be copied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from actors.protocol.client_requests import JobOverview
from actors.protocol.control_messages import JobDetails, VertexDetails
from actors.protocol.failure_records import FailureRecord
from actors.protocol.resources import SlotWait
from flinkray.execution import LATE_RECORDS_DROPPED
from flinkray.rest.jobs import JobExceptions
from flinkray.state.checkpoint_statistics import CheckpointOverview, CheckpointStatistics
from flinkray.types.records import MAX_TIMESTAMP, JobId


def job_lines(jobs: Sequence[tuple[str, JobOverview]], waits: Mapping[JobId, SlotWait]) -> Iterator[str]:
    """The table of jobs, each with its cluster, oldest first; then those that wait for slots, and for which."""
    rows = [("cluster", "job id", "status", "started", "name")]
    for cluster, job in sorted(jobs, key=lambda entry: entry[1].started_ms):
        rows.append((cluster, job.job_id, job.status.value, _time(job.started_ms), job.name))
    yield from _table(rows)
    for _, job in jobs:
        if job.job_id in waits:
            yield f"job {job.job_id} {_slot_wait(waits[job.job_id])}"


def _slot_wait(wait: SlotWait) -> str:
    return f"waits since {_time(wait.since_ms)} for {wait}"


def detail_lines(details: JobDetails) -> Iterator[str]:
    """How a job is, and how it came to be so."""
    yield f"job {details.job_id} {details.name!r}"
    for status, since_ms in details.status_times:
        yield f"  {_time(since_ms)}  {status.value}"
    yield f"rows in {details.records_in:,}, out {details.records_out:,}"
    counts = details.checkpoints.counts
    yield f"checkpoints {counts.completed} completed, {counts.failed} failed, {counts.in_progress} in progress"
    late = details.accumulators.get(LATE_RECORDS_DROPPED, 0)
    if late:
        yield f"rows dropped as late {late:,.0f}"
    if details.watermark is not None:
        yield f"watermark {_watermark(details.watermark)}"
    if details.slot_wait is not None:
        yield _slot_wait(details.slot_wait)
    yield f"restarts {details.restarts}"
    if details.failures:
        yield from _failure_lines(details.failures[-1])
    elif details.error is not None:
        yield f"failure: {details.error.type_name}: {details.error.message}"
    yield ""
    header = ("vertex", "subtasks", "states", "busy", "back-pressured", "watermark")
    yield from _table([header, *(_vertex_row(vertex) for vertex in details.vertices)])


def checkpoint_lines(overview: CheckpointOverview) -> Iterator[str]:
    """The last checkpoints, newest first. Times of subtasks are those of the slowest one."""
    counts = overview.counts
    yield (
        f"{counts.triggered} triggered, {counts.completed} completed, {counts.failed} failed, "
        f"{counts.in_progress} in progress, {counts.restored} restored"
    )
    restored = overview.latest_restored
    if restored is not None:
        kind = "savepoint" if restored.is_savepoint else "checkpoint"
        where = f" of {restored.directory}" if restored.directory else ""
        yield f"last restored {_time(restored.restored_ms)} from {kind} {restored.checkpoint_id}{where}"
    if not overview.history:
        return
    yield ""
    header = ("id", "kind", "status", "triggered", "duration", "size", "acknowledged")
    rows: list[tuple[str, ...]] = [(*header, "sync ms", "async ms", "alignment ms", "directory", "failure")]
    rows.extend(_checkpoint_row(entry) for entry in overview.history)
    yield from _table(rows)


def exception_lines(exceptions: JobExceptions) -> Iterator[str]:
    """The last failures with their tracebacks, newest first."""
    entries = exceptions.exception_history.entries
    if not entries:
        yield "nothing has failed"
    for entry in entries:
        yield f"{_time(entry.timestamp)}  {entry.exception_name} in {entry.task_name or 'the job'}"
        yield from (f"  {line}" for line in entry.stacktrace.splitlines())
        for other in entry.concurrent_exceptions:
            yield f"  beside it in {other.task_name or 'the job'}: {other.exception_name}"
        yield ""
    if exceptions.exception_history.truncated:
        yield "there were more before"


def _checkpoint_row(entry: CheckpointStatistics) -> tuple[str, ...]:
    return (
        str(entry.checkpoint_id),
        entry.kind.value,
        entry.status.value,
        _time(entry.triggered_ms),
        "-" if entry.duration_ms is None else f"{entry.duration_ms / 1000:.3f} s",
        _size(entry.nbytes),
        f"{entry.acknowledged}/{entry.subtasks}",
        f"{entry.sync_ms.maximum:.0f}",
        f"{entry.async_ms.maximum:.0f}",
        f"{entry.alignment_ms.maximum:.0f}",
        entry.directory or "-",
        "" if entry.failure is None else _one_line(entry.failure),
    )


def _failure_lines(record: FailureRecord) -> Iterator[str]:
    root = record.root
    where = f" in {root.task_name}" if root.task_name else ""
    yield f"last failure {_time(root.time_ms)}{where}: {root.error.type_name}: {root.error.message}"
    yield f"  {record.decision}"
    for other in record.concurrent:
        where = f" in {other.task_name}" if other.task_name else ""
        yield f"  beside it{where}: {other.error.type_name}: {_one_line(other.error.message)}"


def _vertex_row(vertex: VertexDetails) -> tuple[str, ...]:
    states = Counter(subtask.state for subtask in vertex.subtasks)
    figures = [subtask.metrics for subtask in vertex.subtasks]
    total_ms = sum(each.busy_ms + each.idle_ms + each.backpressured_ms for each in figures)
    marks = [each.watermark for each in figures]
    known = [mark for mark in marks if mark is not None]
    return (
        vertex.name,
        str(vertex.parallelism),
        ", ".join(f"{count} {state}" for state, count in states.items()),
        _share(sum(each.busy_ms for each in figures), total_ms),
        _share(sum(each.backpressured_ms for each in figures), total_ms),
        _watermark(min(known)) if known and len(known) == len(marks) else "",
    )


def _share(part_ms: float, total_ms: float) -> str:
    return f"{part_ms / total_ms:.0%}" if total_ms else ""


def _watermark(mark: int) -> str:
    """A watermark as a time where it is one, and as a number where it is near the ends of event time."""
    if mark >= MAX_TIMESTAMP:
        return "the end"
    seconds = mark / 1000
    if not _FIRST_SHOWN <= seconds <= _LAST_SHOWN:
        return str(mark)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}Z"


_FIRST_SHOWN, _LAST_SHOWN = (datetime(year, 1, 1, tzinfo=UTC).timestamp() for year in (1900, 9999))


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    shown = [tuple(_in_one_line(cell) for cell in row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _in_one_line(name: str) -> str:
    """A name as it is, but that what a terminal would obey is written as in Python: names are the programs' own."""
    return name if name.isprintable() else "".join(each if each.isprintable() else repr(each)[1:-1] for each in name)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _time(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000):%Y-%m-%d %H:%M:%S}"


def _size(nbytes: int) -> str:
    size = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
