"""What changes something: cancelling and stopping jobs, checkpoints, savepoints and their deletion.

Nothing is kept here of savepoints and checkpoints: their JobMaster knows all requests by their ids, so that another
server, or this one after it was started again, can be asked as well.
"""

from __future__ import annotations

import re
import uuid
from typing import Any

from msgspec import UNSET

from actors.protocol.client_requests import Rescale, TriggerPeriodicCheckpoint, TriggerSavepoint
from actors.protocol.elements import StopMode
from actors.rest.asking.call import Call
from actors.rest.asking.disposals import Disposals
from actors.rest.asking.masters import Masters
from actors.rest.asking.refusals import Refusal
from flinkray.config.options import SAVEPOINT_DIRECTORY
from flinkray.errors import ErrorInfo
from flinkray.execution import JobStatus
from flinkray.rest import operations as shapes
from flinkray.rest.jobs import VertexRequirements
from flinkray.types.records import JobId

_ID = re.compile(r"[0-9a-f]{32}")


class OperationHandlers:
    """Handlers of routes that change something, and of those that tell what has become of it."""

    def __init__(self, masters: Masters, disposals: Disposals) -> None:
        self._masters = masters
        self._disposals = disposals

    def cancel(self, call: Call) -> shapes.Nothing:
        mode = (call.list_in_query("mode") or ["cancel"])[-1]
        if mode.lower() != "cancel":
            raise Refusal(400, f"mode {mode!r} is not there: it is `cancel`; POST to /jobs/<id>/stop stops a job")
        return self._cancel(call.job_id())

    def cancel_application(self, call: Call) -> shapes.Nothing:
        return self._cancel(JobId(call.id_of("applicationid")))

    def trigger_savepoint(self, call: Call) -> shapes.Triggered:
        request: shapes.SavepointRequest = call.body
        stop = StopMode.SUSPEND if request.cancel_job else StopMode.GO_ON
        return self._save(call, request.target_directory, stop, request)

    def stop(self, call: Call) -> shapes.Triggered:
        request: shapes.StopRequest = call.body
        stop = StopMode.DRAIN if request.drain else StopMode.SUSPEND
        return self._save(call, request.target_directory, stop, request)

    def triggered_savepoint(self, call: Call) -> shapes.SavepointProgress:
        request_id = call.id_of("triggerid")
        details = self._masters.details(call.job_id(), is_fresh=True)
        result = next((each for each in details.savepoints if each.request_id == request_id), None)
        if result is None:
            if request_id in details.pending_savepoints:
                return shapes.SavepointProgress(status=_IN_PROGRESS)
            raise Refusal(
                404, f"no savepoint of job {details.name!r} was asked for as {request_id!r}, or it is long ago"
            )
        if result.error is not None:
            failed = shapes.SavepointResult(failure_cause=_cause(result.error))
            return shapes.SavepointProgress(status=_COMPLETED, operation=failed)
        location = shapes.SavepointResult(location=result.directory or "")
        return shapes.SavepointProgress(status=_COMPLETED, operation=location)

    def trigger_checkpoint(self, call: Call) -> shapes.Triggered:
        request: shapes.CheckpointRequest = call.body
        if request.checkpoint_type not in (None, "CONFIGURED"):
            kind = request.checkpoint_type
            raise Refusal(400, f"checkpointType {kind!r} cannot be chosen: checkpoints are as the job configures them")
        request_id = _id_of(request.trigger_id)
        self._running(call)
        self._masters.trigger(call.job_id(), TriggerPeriodicCheckpoint(request_id))
        return shapes.Triggered(request_id=request_id)

    def triggered_checkpoint(self, call: Call) -> shapes.CheckpointProgress:
        request_id = call.id_of("triggerid")
        found = self._masters.triggered_checkpoint(call.job_id(), request_id)
        if found is None:
            raise Refusal(404, f"no checkpoint was asked for as {request_id!r}, or it is long ago")
        if found.failure is not None:
            cause = shapes.FailureCause(class_="CheckpointError", stack_trace=found.failure)
            return shapes.CheckpointProgress(status=_COMPLETED, operation=shapes.CheckpointResult(failure_cause=cause))
        if found.checkpoint_id is None:
            return shapes.CheckpointProgress(status=_IN_PROGRESS)
        operation = shapes.CheckpointResult(checkpoint_id=found.checkpoint_id)
        return shapes.CheckpointProgress(status=_COMPLETED, operation=operation)

    def trigger_rescaling(self, call: Call) -> shapes.Triggered:
        parallelism = call.number_in_query("parallelism", 0)
        if parallelism < 1:
            raise Refusal(400, "?parallelism= has to be given, from 1 on")
        return shapes.Triggered(request_id=self._rescale(call, parallelism))

    def triggered_rescaling(self, call: Call) -> shapes.RescalingProgress:
        request_id = call.id_of("triggerid")
        found = self._masters.rescale(call.job_id(), request_id)
        if found is None:
            raise Refusal(404, f"no rescale was asked for as {request_id!r}, or it is long ago")
        if not found.is_done:
            return shapes.RescalingProgress(status=_IN_PROGRESS)
        failure = UNSET if found.error is None else _cause(found.error)
        return shapes.RescalingProgress(status=_COMPLETED, operation=shapes.RescalingResult(failure_cause=failure))

    def rescale(self, call: Call) -> shapes.Nothing:
        bounds: dict[str, VertexRequirements] = call.body
        for vertex, each in bounds.items():
            lower, upper = each.parallelism.lower_bound, each.parallelism.upper_bound
            if not 1 <= lower <= upper:
                raise Refusal(400, f"vertex {vertex}: lowerBound {lower} has to be from 1 to upperBound, {upper}")
        if not bounds:
            raise Refusal(400, "the body names no vertex")
        self._rescale(call, {vertex: each.parallelism.upper_bound for vertex, each in bounds.items()})
        return shapes.Nothing()

    def dispose_savepoint(self, call: Call) -> shapes.Triggered:
        request: shapes.DisposalRequest = call.body
        if not request.savepoint_path:
            raise Refusal(400, "savepoint-path has to name the savepoint to delete")
        request_id = self._disposals.begin(request.savepoint_path)
        if request_id is None:
            raise Refusal(503, "too many savepoints are being deleted: ask again when some are")
        return shapes.Triggered(request_id=request_id)

    def savepoint_disposal(self, call: Call) -> shapes.DisposalProgress:
        request_id = call.id_of("triggerid")
        found = self._disposals.of(request_id)
        if found is None:
            raise Refusal(404, f"no savepoint was to be deleted as {request_id!r}, or it is long ago")
        if found.ended_ms is None:
            return shapes.DisposalProgress(status=_IN_PROGRESS)
        if found.error is None:
            return shapes.DisposalProgress(status=_COMPLETED, operation=shapes.DisposalResult())
        failed = shapes.DisposalResult(failure_cause=_cause(found.error))
        return shapes.DisposalProgress(status=_COMPLETED, operation=failed)

    # -- inside --------------------------------------------------------------------------------------------------

    def _cancel(self, job_id: JobId) -> shapes.Nothing:
        details = self._masters.details(job_id, is_fresh=True)
        if details.status.is_terminal and details.status is not JobStatus.CANCELED:
            raise Refusal(409, f"job {details.name!r} is {details.status.name}, and cannot be cancelled any more")
        self._masters.cancel(job_id)
        return shapes.Nothing()

    def _save(self, call: Call, target: str | None, stop: StopMode, request: Any) -> shapes.Triggered:
        if request.format_type not in (None, "CANONICAL"):
            raise Refusal(400, f"formatType {request.format_type!r} is not there: there is one format, CANONICAL")
        request_id = _id_of(request.trigger_id)
        self._running(call)
        job = self._masters.details(call.job_id())
        if not target and job.vertices and not job.description.configuration.get(SAVEPOINT_DIRECTORY.key):
            raise Refusal(
                400,
                f"the request names no directory for the savepoint, and job {job.name!r} has no "
                f"{SAVEPOINT_DIRECTORY.key}",
            )
        self._masters.trigger(call.job_id(), TriggerSavepoint(request_id, target or "", stop))
        return shapes.Triggered(request_id=request_id)

    def _rescale(self, call: Call, parallelism: int | dict[str, int]) -> str:
        """Gives the id of the request."""
        self._running(call)
        request_id = uuid.uuid4().hex
        self._masters.trigger(call.job_id(), Rescale(request_id, parallelism))
        return request_id

    def _running(self, call: Call) -> None:
        """Raises Refusal for a job that has ended."""
        job = self._masters.job(call.job_id())
        if job.status.is_terminal:
            raise Refusal(409, f"job {job.name!r} is {job.status.name}: it cannot be changed or saved any more")


_IN_PROGRESS = shapes.OperationStatus(id="IN_PROGRESS")
_COMPLETED = shapes.OperationStatus(id="COMPLETED")


def _id_of(trigger_id: str | None) -> str:
    if trigger_id is None:
        return uuid.uuid4().hex
    if not _ID.fullmatch(trigger_id.lower()):
        raise Refusal(400, f"triggerId {trigger_id!r} is no id: it has 32 hexadecimal digits")
    return trigger_id.lower()


def _cause(error: ErrorInfo) -> shapes.FailureCause:
    return shapes.FailureCause(class_=error.type_name, stack_trace=str(error))
