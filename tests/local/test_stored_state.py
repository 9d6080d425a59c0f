"""What earlier versions have persisted is read, and gives what an uninterrupted run gives.

See `tests/support/store_state.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from importlib import import_module
from typing import Any

import pytest

from actors import persistent_names
from flinkray import JobExecutionError, JobStatus, UserFunctionError
from flinkray.persistence import loads, named
from graphs.job_graph import JobGraph
from tests.support import stored_clusters, stored_values
from tests.support.pickled_names import globals_in
from tests.support.store_state import KINDS, read, versions
from tests.support.stored_jobs import JOBS, interrupted, resumed, uninterrupted
from tests.support.stored_operators import CASES, first_half, passed_ms, second_half

PACKAGES = ("flinkray", "graphs", "actors")
# What no program makes, or only with Ray.
SELDOM = {
    "flinkray/code_of_file@1",
    "flinkray/MultipleInputFactory@1",
    "graphs/SourceInput@1",
    "actors/RayBlockStore@1",
}
read_once = cache(read)
VERSIONS = versions()


def stored(kind: str) -> list[Any]:
    """(version, name) of all that is there of this kind."""
    found = [(version, name.partition("/")[0]) for version in VERSIONS for name in read_once(version, kind)]
    return [pytest.param(*each, id=" ".join(each)) for each in dict.fromkeys(found)]


@pytest.mark.parametrize(("version", "name"), stored("operators"))
def test_an_operator_goes_on_from_a_snapshot_of_an_earlier_version(version: str, name: str) -> None:
    case = CASES[name]
    with case.harness() as whole:
        first_half(whole)
        before, past_ms = len(whole.results_with_timestamps()), passed_ms(whole)
        second_half(whole)
        expected = whole.results_with_timestamps()[before:]
    with case.harness(read_once(version, "operators")[name]) as restored:
        second_half(restored, past_ms)
        found = restored.results_with_timestamps()
    assert Counter(map(repr, found)) == Counter(map(repr, expected))


@cache
def expected_of(name: str) -> Counter[Any]:
    return uninterrupted(JOBS[name])


@pytest.mark.parametrize("parallelism", [2, 3])
@pytest.mark.parametrize(("version", "name"), stored("jobs"))
def test_a_job_goes_on_from_what_one_of_an_earlier_version_has_left(version: str, name: str, parallelism: int) -> None:
    files = {
        path.removeprefix(f"{name}/"): content
        for path, content in read_once(version, "jobs").items()
        if path.startswith(f"{name}/")
    }
    assert resumed(JOBS[name], files, parallelism) == expected_of(name)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cluster_goes_on_with_the_jobs_that_one_of_an_earlier_version_has_stored(version: str) -> None:
    rows, details = stored_clusters.started_again(read_once(version, "cluster"))
    assert rows == uninterrupted(stored_clusters.JOB)
    running, failed = details[stored_clusters.RUNNING], details[stored_clusters.FAILED]
    assert running.status is JobStatus.FINISHED
    assert running.checkpoints.latest_restored is not None
    assert failed.status is JobStatus.FAILED
    assert failed.error is not None
    assert isinstance(failed.error.exception(), UserFunctionError)
    assert len(failed.failures) == stored_clusters.JOB.options["restart-strategy.fixed-delay.attempts"] + 1


@pytest.mark.parametrize(("version", "name"), stored("values"))
def test_a_value_of_an_earlier_version_is_the_one_that_is_made_today(version: str, name: str) -> None:
    value = loads(read_once(version, "values")[name])
    assert stored_values.plain(value) == stored_values.plain(stored_values.examples()[name])


@pytest.mark.parametrize(("version", "name"), stored("programs"))
def test_a_program_of_an_earlier_version_has_the_operators_that_it_has_today(version: str, name: str) -> None:
    former = loads(read_once(version, "programs")[name])
    assert operators_of(former) == operators_of(stored_values.graph_of(stored_values.programs()[name]))


def operators_of(job_graph: JobGraph) -> list[Any]:
    """All that runs the user's code."""
    operators = [operator for vertex in job_graph.vertices for operator in vertex.operators]
    coordinators = [coordinator for vertex in job_graph.vertices for coordinator in vertex.coordinators]
    codes = [(each.name, loads(each.code_bytes)) for each in operators]
    return [
        *((name, type(code), type(code.factory)) for name, code in codes),
        *((each.operator_name, type(loads(each.factory_bytes))) for each in coordinators),
    ]


def test_a_job_is_refused_what_only_a_newer_version_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not start again and again, nor from an older checkpoint."""
    job = JOBS["state in memory"]
    files = interrupted(job)
    monkeypatch.delitem(persistent_names.NAMES, "KeptSplit@1")
    named.cache_clear()
    try:
        with pytest.raises(JobExecutionError) as failed:
            resumed(job, files)
    finally:
        named.cache_clear()
    says = r"IncompatibleStateError: task .* cannot be restored from checkpoint memory://stored/.*'actors/KeptSplit@1'"
    assert re.search(rf"{says}, which this version .* does not know: .* newer version", str(failed.value))


# -- what this version persists ----------------------------------------------------------------------------------------


def test_what_is_persisted_now_holds_names_in_place_of_modules_and_all_of_them() -> None:
    """Else something has no name, or what is kept with a release does not show whether something can be read."""
    contents = [content for make in KINDS.values() for content in make().values()]
    globals_found, names = map(set().union, *map(globals_in, contents))
    assert {each for each in globals_found if each[0].split(".")[0] in PACKAGES} == {("flinkray.persistence", "named")}
    assert latest_names() - names == SELDOM


def latest_names() -> set[str]:
    """Of each class its last version."""
    latest: dict[str, str] = {}
    for package in PACKAGES:
        for name in import_module(f"{package}.persistent_names").NAMES:
            latest[f"{package}/{name.partition('@')[0]}"] = f"{package}/{name}"
    return set(latest.values())
