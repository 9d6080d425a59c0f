"""What one Dispatcher leaves to the next."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from actors import persistent_names
from actors.high_availability.job_store import JobStore, StoreCorruptedError, StoredJob
from actors.high_availability.pointers import JobLeadership
from actors.protocol.control_messages import JobDetails
from actors.protocol.ports import Address, SessionId
from actors.protocol.serialized_value import SerializedValue
from actors.storage.fenced_log import LeadershipLostError
from flinkray.execution import JobStatus
from flinkray.persistence import named
from tests.support.control import JOB, four_vertices

STORED = StoredJob(JOB, "four", 7, 1, Address("c/job-master-job"), SessionId("000001-x"))
DETAILS = JobDetails(JOB, "four", JobStatus.FINISHED, ((JobStatus.INITIALIZING, 7), (JobStatus.FINISHED, 9)))


def taken(directory: Path) -> JobStore:
    store = JobStore(str(directory))
    store.take()
    return store


def names(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def test_the_next_dispatcher_finds_the_jobs_and_what_they_run(tmp_path: Path) -> None:
    graph = four_vertices()
    taken(tmp_path).add({JOB: STORED}, JOB, SerializedValue(graph))
    store = JobStore(str(tmp_path))
    assert store.take() == {JOB: STORED}
    found = store.graph(JOB).deserialize()
    assert (found.name, [vertex.id for vertex in found.vertices]) == ("four", [vertex.id for vertex in graph.vertices])


def test_of_a_job_that_has_ended_only_its_result_remains(tmp_path: Path) -> None:
    store = taken(tmp_path)
    store.add({JOB: STORED}, JOB, SerializedValue(four_vertices()))
    JobLeadership(str(tmp_path), JOB).take()
    ended = replace(STORED, status=JobStatus.FINISHED)
    store.end({JOB: ended}, DETAILS)
    assert [name for name in names(tmp_path) if "log-" not in name] == [f"dispatcher/{JOB}.result"]
    assert all(name.startswith("dispatcher/") for name in names(tmp_path))
    following = JobStore(str(tmp_path))
    assert following.take() == {JOB: ended}
    assert following.result(JOB) == DETAILS


def test_of_a_job_that_nobody_can_ask_for_nothing_remains(tmp_path: Path) -> None:
    store = taken(tmp_path)
    store.add({JOB: STORED}, JOB, SerializedValue(four_vertices()))
    store.end({JOB: replace(STORED, status=JobStatus.FINISHED)}, DETAILS)
    store.expire({}, JOB)
    assert all("/log-" in name for name in names(tmp_path))
    assert JobStore(str(tmp_path)).take() == {}


def test_a_dispatcher_whose_place_was_taken_changes_nothing(tmp_path: Path) -> None:
    former = taken(tmp_path)
    former.add({JOB: STORED}, JOB, SerializedValue(four_vertices()))
    current = taken(tmp_path)
    with pytest.raises(LeadershipLostError):
        former.save({})
    with pytest.raises(LeadershipLostError):
        former.end({JOB: replace(STORED, status=JobStatus.FAILED)}, DETAILS)
    assert current.graph(JOB).deserialize().name == "four"
    assert JobStore(str(tmp_path)).take() == {JOB: STORED}


def test_files_that_are_gone_or_damaged_are_named(tmp_path: Path) -> None:
    store = taken(tmp_path)
    store.add({JOB: STORED}, JOB, SerializedValue(four_vertices()))
    path = tmp_path / "dispatcher" / f"{JOB}.graph"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StoreCorruptedError, match=rf"{path} is corrupt"):
        store.graph(JOB)
    path.unlink()
    with pytest.raises(StoreCorruptedError, match=rf"{path} is gone"):
        store.graph(JOB)


def test_of_a_cluster_that_is_down_nothing_remains(tmp_path: Path) -> None:
    store = taken(tmp_path / "cluster")
    store.add({JOB: STORED}, JOB, SerializedValue(four_vertices()))
    store.remove()
    store.remove()
    assert list(tmp_path.iterdir()) == []


def test_jobs_of_which_only_a_newer_version_knows_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken(tmp_path).save({JOB: STORED})
    monkeypatch.delitem(persistent_names.NAMES, "StoredJob@1")
    named.cache_clear()
    with pytest.raises(StoreCorruptedError, match=r"cannot be read .* 'actors/StoredJob@1', .* newer version"):
        taken(tmp_path)
    named.cache_clear()
