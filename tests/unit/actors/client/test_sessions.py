"""Starting sessions, on a host whose names can be given once as Ray's can."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import pytest

from actors.client import session
from actors.client.cluster import dispatcher_of, resource_manager_of
from actors.protocol.client_requests import JobOverview
from actors.protocol.dispatcher_errors import DispatcherNotReadyError, EndpointSilentError
from actors.protocol.ports import Address, EndpointGone, EndpointSpec
from flinkray.config.configuration import Configuration
from flinkray.errors import ConfigurationError
from flinkray.execution import JobStatus
from flinkray.types.records import JobId
from tests.support.control import CLUSTER, World

BOTH = {dispatcher_of(CLUSTER), resource_manager_of(CLUSTER)}


class NamedWorld(World):
    """Refuses a name that is taken, as Ray does."""

    def spawn(self, spec: EndpointSpec) -> None:
        if spec.address in self.addresses():
            raise ValueError(f"The name {spec.address} is already taken")
        super().spawn(spec)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Without sessions; what is started is not listed yet, as when somebody else starts it at this moment."""
    world = NamedWorld(1)
    monkeypatch.setattr(session, "connect_to_session", lambda _name: world)
    monkeypatch.setattr(session, "_cluster_ids", frozenset)
    return world


def test_a_second_start_of_a_session_leaves_the_first_alone(world: World) -> None:
    session.start_session(CLUSTER, Configuration())
    with pytest.raises(ConfigurationError, match="session 'c' is being started by somebody else"):
        session.start_session(CLUSTER, Configuration())
    assert world.addresses() == BOTH
    assert session.session_jobs(CLUSTER) == ()


def test_a_session_whose_dispatcher_has_died_cannot_be_started_over_what_is_left(world: World) -> None:
    session.start_session(CLUSTER, Configuration())
    world.kill(dispatcher_of(CLUSTER))
    with pytest.raises(ConfigurationError, match="what is left of one that has died is about to end"):
        session.start_session(CLUSTER, Configuration())
    assert world.addresses() == {resource_manager_of(CLUSTER)}


def test_nothing_is_left_of_a_session_that_does_not_answer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*_arguments: object) -> None:
        raise EndpointGone(Address("c/dispatcher"))

    monkeypatch.setattr(session, "ask_once", ask)
    with pytest.raises(EndpointGone):
        session.start_session(CLUSTER, Configuration())
    assert world.addresses() == set()


@pytest.mark.parametrize("name", ["", "a b", "a/b", "job-0123456789ab", "job-" + "0" * 12])
def test_what_cannot_name_a_session_is_refused(name: str, world: World) -> None:
    with pytest.raises(ConfigurationError, match=f"'{name}' cannot name a session"):
        session.start_session(name, Configuration())
    assert world.addresses() == set()


@pytest.mark.parametrize(
    "error",
    [EndpointSilentError("it has not answered for 60 s"), DispatcherNotReadyError(CLUSTER, "reads", "it is gone")],
)
def test_a_session_that_cannot_shut_down_is_ended_by_force(
    error: Exception, world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    session.start_session(CLUSTER, Configuration())

    def ask(*_arguments: object) -> None:
        raise error

    monkeypatch.setattr(session, "ask_once", ask)
    monkeypatch.setattr(session, "SHUTDOWN_TIMEOUT_S", 0.05)
    session.stop_session(CLUSTER)
    assert world.addresses() == set()
    assert f"session 'c' is ended by force: {error}" in caplog.text


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("answers_before", [0, 1])
def test_a_session_that_is_gone_is_no_session_but_one_that_goes_when_it_is_asked_to_is_stopped(
    answers_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.start_session(CLUSTER, Configuration())
    answers = [False] * answers_before

    def ask(*_arguments: object) -> bool:
        if not answers:
            raise EndpointGone(dispatcher_of(CLUSTER))
        return answers.pop()

    monkeypatch.setattr(session, "ask_once", ask)
    with pytest.raises(ConfigurationError, match="there is no session 'c'") if not answers else nullcontext():
        session.stop_session(CLUSTER)


def test_an_empty_id_is_that_of_no_job_and_one_in_capitals_that_of_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    job = JobOverview(JobId("ab" * 16), "only", JobStatus.RUNNING, 0, Address("c/job-master"))
    monkeypatch.setattr(session, "list_clusters", lambda: [CLUSTER])
    monkeypatch.setattr(session, "session_jobs", lambda _name: (job,))
    monkeypatch.setattr(session, "connect_to_session", lambda _name: World(1))
    for cluster in (None, CLUSTER):
        for empty in ("", " "):
            with pytest.raises(ConfigurationError, match="the id of the job is empty"):
                session.job_client(empty, cluster)
        assert session.job_client(f" {job.job_id.upper()}\n", cluster).job_id == job.job_id, "as Flink takes it"


def test_one_cluster_is_asked_on_the_thread_of_who_asks() -> None:
    here = threading.current_thread()
    assert session.of_each(["one"], lambda _name: threading.current_thread() is here) == {"one": True}
    assert session.of_each(list[str](), str) == {}


def test_a_session_whose_directory_cannot_be_used_says_so_soon_and_leaves_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = ["", "", "no such bucket", "no such bucket"]

    def ask(*_arguments: object) -> None:
        raise DispatcherNotReadyError(CLUSTER, "is reading", failures.pop(0))

    monkeypatch.setattr(session, "ask_once", ask)
    monkeypatch.setattr(session, "STORE_TIMEOUT_S", 0.0)
    with pytest.raises(DispatcherNotReadyError, match="no such bucket"):
        session.start_session(CLUSTER, Configuration())
    assert len(failures) == 1, "it was waited for while it only was not ready"
    assert world.addresses() == set()
