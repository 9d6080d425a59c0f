"""The table of what is served, and its description."""

from __future__ import annotations

import json
import re
from typing import get_args

import msgspec
import pytest

from flinkray.rest.openapi import openapi
from flinkray.rest.routes import ROUTES, NoSuchRoute, find, table


@pytest.mark.parametrize(
    ("path", "handler", "parameters"),
    [
        ("/jobs/overview", "jobs_overview", {}),
        ("/jobs/ab", "job", {"jobid": "ab"}),
        ("/v1/jobs/ab", "job", {"jobid": "ab"}),
        # As clients send it that know the server's address with a slash at its end, or a path with one.
        ("//v1/jobs/ab/", "job", {"jobid": "ab"}),
        ("/jobs/ab/checkpoints/config", "checkpoint_configuration", {"jobid": "ab"}),
        ("/jobs/ab/checkpoints/cd", "triggered_checkpoint", {"jobid": "ab", "triggerid": "cd"}),
        ("/jobs/ab/vertices/v/subtasks/metrics", "subtasks_metrics", {"jobid": "ab", "vertexid": "v"}),
        ("/jobs/ab/vertices/v/subtasks/1", "subtask", {"jobid": "ab", "vertexid": "v", "subtaskindex": "1"}),
    ],
)
def test_what_is_named_comes_before_what_varies(path: str, handler: str, parameters: dict[str, str]) -> None:
    route, found = find("GET", path)
    assert (route.handler, found) == (handler, parameters)


@pytest.mark.parametrize("path", ["", "/", "//", "/v1", "/v2/jobs", "/jobs//ab", "/jobs/ab/nothing"])
def test_other_paths_are_not_served(path: str) -> None:
    with pytest.raises(NoSuchRoute) as refused:
        find("GET", path)
    assert refused.value.methods == frozenset()


def test_another_method_is_told_which_there_are() -> None:
    with pytest.raises(NoSuchRoute) as refused:
        find("PUT", "/jobs/ab")
    assert refused.value.methods == {"GET", "PATCH"}


def test_a_request_with_a_field_that_it_does_not_have_is_refused_and_not_carried_out_without_it() -> None:
    # Of a body that has a key for each vertex, what is behind a key.
    bodies = {get_args(route.body)[1] if get_args(route.body) else route.body for route in ROUTES}
    for body in bodies - {None}:
        with pytest.raises(msgspec.ValidationError, match="unknown field"):
            msgspec.json.decode(b'{"target_directory": "/x"}', type=body)


def test_no_two_routes_are_the_same() -> None:
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)


def test_only_what_changes_something_takes_a_body_or_another_method() -> None:
    assert all(route.is_write for route in ROUTES if route.method != "GET" or route.body is not None)


def test_the_description_has_every_route_with_its_parameters_and_answer() -> None:
    described = json.loads(json.dumps(openapi("1.2")))
    operations = {
        (method.upper(), path): operation
        for path, each in described["paths"].items()
        for method, operation in each.items()
    }
    assert len(operations) == len(ROUTES)
    ids = [operation["operationId"] for operation in operations.values()]
    assert len(set(ids)) == len(ids)
    stop = operations["POST", "/jobs/{jobid}/stop"]
    body = stop["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    assert "targetDirectory" in described["components"]["schemas"][body.rpartition("/")[2]]["properties"]
    (job_id,) = stop["parameters"]
    assert job_id["name"] == "jobid"
    assert re.search(job_id["schema"]["pattern"], "0" * 32)
    assert not re.search(job_id["schema"]["pattern"], "0" * 33)
    attempt = operations["GET", "/jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}/attempts/{attempt}"]
    kinds = [each["schema"]["type"] for each in attempt["parameters"]]
    assert kinds == ["string", "string", "integer", "integer"]
    overview = operations["GET", "/overview"]["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
    assert "slots-available" in described["components"]["schemas"][overview.rpartition("/")[2]]["properties"]


def test_the_page_of_the_documentation_has_a_row_for_each_route() -> None:
    rows = list(table())
    assert len(rows) == len(ROUTES) + 2
    assert "| GET | `/jobs/overview` |  | All jobs, with their subtasks by state. |" in rows
