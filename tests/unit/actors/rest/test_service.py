"""One request, from its route to its answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from actors.protocol.dispatcher_errors import EndpointSilentError, UnknownJobError
from actors.protocol.ports import EndpointGone
from actors.rest.access import Access
from actors.rest.asking.call import Call
from actors.rest.kept_answers import KeptAnswers
from actors.rest.service import Request, Response, Service
from flinkray.errors import CheckpointError, ConfigurationError
from flinkray.rest.routes import ROUTES
from flinkray.types.records import JobId


def service_of(access: Access | None = None, **handlers: Callable[[Call], Any]) -> Service:
    every = {route.handler: lambda _: None for route in ROUTES}
    return Service([SimpleNamespace(**{**every, **handlers})], access or Access())


def ask(service: Service, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> Response:
    path, _, query = path.partition("?")
    named = {"host": "localhost", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return service.answer(Request(method, path, query, named, body))


def raises(error: Exception) -> Callable[[Call], Any]:
    def handler(_call: Call) -> Any:
        raise error

    return handler


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnknownJobError(JobId("x"), "c"), 404),
        (EndpointGone("c/dispatcher"), 503),
        (EndpointSilentError("it hangs"), 503),
        (TimeoutError("later"), 503),
        (CheckpointError("no savepoint is possible"), 409),
        (ConfigurationError("wrong"), 400),
        (KeyError("a bug"), 500),
    ],
)
def test_what_goes_wrong_is_a_status_and_a_sentence(error: Exception, status: int) -> None:
    answer = ask(service_of(job_ids=raises(error)), "/jobs")
    assert answer.status == status
    (text,) = json.loads(answer.body)["errors"]
    assert "a bug" not in text, "what is not for users is in the log"


def test_errors_hide_secrets() -> None:
    error = CheckpointError("cannot write to s3://key:secret@bucket/path")
    assert b"secret@" not in ask(service_of(job_ids=raises(error)), "/jobs").body


def test_who_may_not_ask_learns_nothing_of_what_is_there() -> None:
    service = service_of(Access("t0ken"))
    assert {ask(service, path).status for path in ("/jobs", "/nothing", "/jobs/overview")} == {401}


def test_parameters_arrive_as_they_were_meant() -> None:
    calls: list[Call] = []
    service = service_of(task_manager_log_file=calls.append, vertex_metrics=calls.append)
    ask(service, "/taskmanagers/a~b/logs/worker%20one.out")
    ask(service, "/jobs/j/vertices/v/metrics?get=0.a%2Cb,c&get=d")
    assert calls[0].parameters == {"taskmanagerid": "a~b", "filename": "worker one.out"}
    assert calls[1].list_in_query("get") == ["0.a", "b", "c", "d"]
    assert calls[1].list_in_query("agg") is None


def test_too_many_parameters_are_refused() -> None:
    assert ask(service_of(), "/jobs?" + "&".join(f"a{i}=1" for i in range(101))).status == 400


def test_a_handler_of_each_route_has_to_be_there() -> None:
    with pytest.raises(TypeError, match="nothing answers GET /config"):
        Service([], Access())


@pytest.mark.parametrize("text", ["x", "-1", "+1", "1.0", "\u0661", "", "1" * 19])
def test_only_digits_are_a_number(text: str) -> None:
    def number(call: Call) -> list[str]:
        return [str(call.number("checkpointid"))]

    call = Call({"checkpointid": text})
    with pytest.raises(Exception, match="whole number"):
        number(call)


def test_names_that_are_no_utf_8_are_answered_all_the_same() -> None:
    service = service_of(plan=lambda _: {"name": "\udc80 \xfc"}, job_log=lambda _: "\udc80")
    assert json.loads(ask(service, "/jobs/j/plan").body) == {"name": "\udc80 \xfc"}
    assert ask(service, "/jobs/j/logs").body == b"?"
    assert ask(service, "/\udc80").status == 404


def kept_service(clock: list[float], access: Access | None = None, **handlers: Callable[[Call], Any]) -> Service:
    every = {route.handler: lambda _: None for route in ROUTES}
    kept = KeptAnswers(lambda: clock[0], 100)
    return Service([SimpleNamespace(**{**every, **handlers})], access or Access(), kept=kept)


def get(path: str, host: str = "localhost", method: str = "GET") -> Request:
    path, _, query = path.partition("?")
    return Request(method, path, query, {"host": host})


def test_who_asks_the_same_within_a_moment_gets_the_same_without_work() -> None:
    clock = [0.0]
    service = kept_service(clock, job_ids=lambda _: ["a"])
    assert service.kept_answer(get("/jobs")) is None
    answer = service.answer(get("/jobs"))
    clock[0] = 99.0
    assert service.kept_answer(get("/jobs")) == answer
    others = (get("/jobs?x=1"), get("/v1/jobs"), get("/jobs", "127.0.0.1"), get("/jobs", method="HEAD"))
    assert [service.kept_answer(each) for each in others] == [None] * 4
    clock[0] = 100.0
    assert service.kept_answer(get("/jobs")) is None


def test_kept_answers_are_for_those_who_may_ask() -> None:
    service = kept_service([0.0], Access("t0ken"))
    request = Request("GET", "/jobs", headers={"host": "x", "authorization": "Bearer t0ken"})
    assert service.answer(request).status == 200
    assert service.kept_answer(request) is not None
    assert service.kept_answer(get("/jobs", "x")) is None


def test_nothing_that_was_said_before_a_change_is_said_after_it() -> None:
    def changed_meanwhile(_call: Call) -> list[str]:
        headers = {"host": "localhost", "content-type": "application/json"}
        assert service.answer(Request("PATCH", "/jobs/j", headers=headers)).status == 202
        return ["old"]

    service = kept_service([0.0], cluster_overview=changed_meanwhile)
    for path in ("/jobs", "/overview"):
        service.answer(get(path))
    assert service.kept_answer(get("/jobs")) is None
    assert service.kept_answer(get("/overview")) is None, "it was made while something changed"


@pytest.mark.parametrize("path", ["/jobs/j/savepoints/t", "/savepoint-disposal/t", "/jobs", "/taskmanagers/t/stdout"])
def test_what_is_awaited_or_failed_or_is_a_file_is_asked_for_each_time(path: str) -> None:
    service = kept_service([0.0], job_ids=raises(TimeoutError("later")), task_manager_stdout=lambda _: "text")
    service.answer(get(path))
    assert service.kept_answer(get(path)) is None


def test_kept_answers_are_bounded() -> None:
    kept = KeptAnswers(lambda: 0.0, 100)
    kept.put("large", b"x" * 300_000, kept.begin())
    for number in range(600):
        kept.put(number, b"x", kept.begin())
    assert [kept.get(each) for each in ("large", 0, 599)] == [None, None, b"x"]


def test_kept_answers_that_count_no_more_are_dropped_with_the_next_one() -> None:
    clock = [0.0]
    kept = KeptAnswers(lambda: clock[0], 100)
    for number in range(50):
        clock[0] = 10.0 * number
        kept.put(number, b"x", kept.begin())
    assert sorted(kept._bodies) == list(range(40, 50))  # type: ignore[type-var]
