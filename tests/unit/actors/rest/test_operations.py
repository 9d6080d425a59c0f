"""What is said at once to who wants to change something, and what has to be tried."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from actors.protocol.client_requests import TriggerSavepoint
from actors.protocol.control_messages import JobDetails, VertexDetails
from actors.protocol.elements import StopMode
from actors.protocol.job_reports import JobDescription
from actors.rest.asking.call import Call
from actors.rest.asking.refusals import Refusal
from actors.rest.handlers.operations import OperationHandlers
from flinkray.execution import JobStatus
from flinkray.rest.operations import SavepointRequest, StopRequest
from flinkray.types.records import JobId

JOB = JobId("ab" * 16)


def handlers(details: JobDetails, sent: list[TriggerSavepoint]) -> OperationHandlers:
    masters: Any = SimpleNamespace(
        job=lambda _id: details, details=lambda _id: details, trigger=lambda _id, request: sent.append(request)
    )
    return OperationHandlers(masters, SimpleNamespace())  # type: ignore[arg-type]


def job(**options: str) -> JobDetails:
    vertices = (VertexDetails("v", "source", 1, 128, (), ()),)
    described = JobDescription(configuration={name.replace("_", "."): value for name, value in options.items()})
    return JobDetails(JOB, "words", JobStatus.RUNNING, (), vertices, description=described)


def test_a_savepoint_that_has_nowhere_to_go_is_refused_at_once() -> None:
    sent: list[TriggerSavepoint] = []
    nowhere, somewhere = job(), job(**{"execution.checkpointing.savepoint-dir": "/saved"})
    starting = msgspec.structs.replace(nowhere, vertices=())  # its options are not known yet
    call = Call({"jobid": JOB}, body=SavepointRequest())
    with pytest.raises(Refusal, match=r"no directory for the savepoint.*execution\.checkpointing\.savepoint-dir"):
        handlers(nowhere, sent).trigger_savepoint(call)
    with pytest.raises(Refusal, match="no directory"):
        handlers(nowhere, sent).stop(Call({"jobid": JOB}, body=StopRequest()))
    assert sent == []
    for details, body in (
        (nowhere, SavepointRequest(target_directory="/x")),
        (somewhere, call.body),
        (starting, call.body),
    ):
        handlers(details, sent).trigger_savepoint(Call({"jobid": JOB}, body=body))
    assert [request.target for request in sent] == ["/x", "", ""]


def test_what_clients_send_as_null_counts_as_left_out() -> None:
    sent: list[TriggerSavepoint] = []
    stop = msgspec.json.decode(b'{"drain": null, "targetDirectory": "/x", "triggerId": null}', type=StopRequest)
    save = msgspec.json.decode(b'{"cancel-job": null, "target-directory": "/x"}', type=SavepointRequest)
    handlers(job(), sent).stop(Call({"jobid": JOB}, body=stop))
    handlers(job(), sent).trigger_savepoint(Call({"jobid": JOB}, body=save))
    assert [request.stop for request in sent] == [StopMode.SUSPEND, StopMode.GO_ON]


def test_the_mode_in_which_a_job_is_cancelled_is_in_any_case() -> None:
    cancelled: list[str] = []
    masters: Any = SimpleNamespace(details=lambda *_, **__: job(), cancel=cancelled.append)
    operations = OperationHandlers(masters, SimpleNamespace())  # type: ignore[arg-type]
    for mode in ("cancel", "CANCEL"):
        operations.cancel(Call({"jobid": JOB}, {"mode": [mode]}))
    assert cancelled == [JOB] * 2
    with pytest.raises(Refusal, match="mode 'stop'"):
        operations.cancel(Call({"jobid": JOB}, {"mode": ["stop"]}))
