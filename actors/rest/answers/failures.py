"""What failed in a job, in Flink's shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actors.protocol.control_messages import JobDetails
from actors.protocol.dispatcher_errors import DispatcherNotReadyError, EndpointSilentError
from actors.protocol.failure_records import FailureRecord, TaskFailure
from actors.rest.answers.task_managers import id_of
from flinkray import errors
from flinkray.errors import ErrorInfo, FlinkrayError, NoResourceAvailableError
from flinkray.rest.jobs import ConcurrentFailure, ExceptionHistory, Failure, JobExceptions

# How many are given where it is not said, as with Flink.
MOST = 20

TYPE = "type"
"""The label that says whose matter a failure is."""


def exceptions(job: JobDetails, most: int = MOST, labels: Sequence[tuple[str, str]] = ()) -> JobExceptions:
    """The last failures, newest first.

    Args:
        most: how many at most.
        labels: (label, value) of which a failure has to have each.
    """
    records = list(reversed(job.failures))
    if not records and job.error is not None:
        last = job.status_times[-1][1] if job.status_times else 0
        records = [FailureRecord(TaskFailure(last, job.error), "")]
    entries = [_entry(record) for record in records]
    found = [each for each in entries if all(each.failure_labels.get(key) == value for key, value in labels)]
    return JobExceptions(exception_history=ExceptionHistory(entries=found[:most], truncated=len(found) > most))


def label_of(error: ErrorInfo) -> str:
    """`resources`: slots or nodes were missing; `system`: storage, the network or flinkray itself; `user`: the program
    or its data. Told from the error's name alone, as what a user's exception holds is not unpickled here."""
    if error.type_name == NoResourceAvailableError.__name__:
        return "resources"
    known = getattr(errors, error.type_name, None) or _ELSEWHERE.get(error.type_name)
    if isinstance(known, type) and issubclass(known, FlinkrayError):
        return "user" if known.origin == "user" else "system"
    return "user"


_ELSEWHERE: Mapping[str, Any] = {each.__name__: each for each in (DispatcherNotReadyError, EndpointSilentError)}


def _entry(record: FailureRecord) -> Failure:
    concurrent = [ConcurrentFailure(**_fields(failure)) for failure in record.concurrent]
    return Failure(**_fields(record.root), concurrent_exceptions=concurrent)


def _fields(failure: TaskFailure) -> dict[str, Any]:
    known: dict[str, Any] = {
        "exception_name": failure.error.type_name,
        "stacktrace": str(failure.error),
        "timestamp": failure.time_ms,
        "failure_labels": {TYPE: label_of(failure.error)},
    }
    if failure.task_name is not None:
        known["task_name"] = failure.task_name
    if failure.location is not None:
        known |= {"endpoint": failure.location, "task_manager_id": id_of(failure.location)}
    return known
