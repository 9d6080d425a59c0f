"""Masters die at any moment: with a directory for what outlives them, their jobs go on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from actors import resource_manager, task_executor
from actors.client.cluster import dispatcher_of, resource_manager_of
from actors.dispatcher import COLLECTED_ROWS_TIMEOUT_MS, MAX_SILENT_DEATHS
from actors.high_availability.job_store import JobStore
from actors.hosts.simulation.storage import SimulatedStorage, new_storage
from actors.job_master import JobMaster
from actors.jobs import dispatcher_connection
from actors.protocol.client_requests import (
    CancelJob,
    CollectedReceived,
    GetArchivedJob,
    GetJobDetails,
    GetJobOverview,
    JobOverview,
    ListJobs,
    ShutDownCluster,
    SubmitJob,
)
from actors.protocol.control_messages import (
    AllTaskExecutorsReleased,
    JobEnded,
    RegisterJobMaster,
    ReleaseAllTaskExecutors,
    ReportJob,
)
from actors.protocol.dispatcher_errors import DispatcherNotReadyError, UnknownJobError
from actors.protocol.ports import ENVIRONMENT_FAILED, DeliveryFailed, Endpoint, Payloads
from flinkray import filesystems
from flinkray.errors import InvalidProgramError
from flinkray.execution import JobStatus
from tests.support.control import CLUSTER, JOB, CollectingSlot, World, collecting, four_vertices

DISPATCHER = dispatcher_of(CLUSTER)
RESOURCE_MANAGER = resource_manager_of(CLUSTER)
HA: dict[str, object] = {"high-availability.storageDir": "memory://ha/masters"}
RESTARTS: dict[str, object] = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 1_000,
    "restart-strategy.fixed-delay.delay": 50,
}


@pytest.fixture
def storage() -> Iterator[SimulatedStorage]:
    storage = new_storage("ha")
    filesystems.mount("ha", storage.filesystem())
    yield storage
    filesystems.unmount("ha")


def running(seed: int, **options: object) -> World:
    """A job that runs, with nothing under way."""
    world = World(seed)
    world.behaviour = lambda _deployment: "run"
    world.start(**options)
    world.submit(four_vertices(**options))  # type: ignore[arg-type]
    world.run_until(lambda: len(world.deployed) == 8)
    world.run_for(2_000)
    return world


def until_all_are_gone(world: World) -> None:
    gone: list[str] = []
    world.run_until(lambda: world.alive("TaskExecutor") == world.alive("ResourceManager") == gone)


def finish(world: World) -> None:
    """Tasks that are deployed from now on finish, and those that run are started again."""
    world.behaviour = lambda _deployment: "finish"


def deaths_of(world: World, kind: str) -> int:
    return sum(spec.kind == kind for spec in world.spawned)


# -- sessions without a directory --------------------------------------------------------------------------------


def in_plain_session(seed: int) -> World:
    """A job with a checkpoint directory runs in a session that has none."""
    world = World(seed)
    world.behaviour = lambda _deployment: "run"
    world.start(is_per_job=False, **{"jobstore.expiration-time": 600})
    graph = four_vertices(**{"execution.checkpointing.dir": "memory://ha/checkpoints", **RESTARTS})  # type: ignore[arg-type]
    world.submit(graph)
    world.run_until(lambda: len(world.deployed) == 8)
    return world


@pytest.mark.parametrize("seed", range(5))
def test_a_job_with_a_directory_of_its_own_survives_its_job_masters_in_a_session_without(
    storage: SimulatedStorage, seed: int
) -> None:
    world = in_plain_session(seed)
    for _ in range(2):
        (former,) = world.alive("JobMaster")
        world.crash(former)
        world.run_until(lambda former=former: world.alive("JobMaster") not in ([], [former]))  # type: ignore[misc]
    assert [path for path in storage.files if f"/ha/{CLUSTER}/{JOB}/log-" in path]
    finish(world)
    assert world.await_end().status is JobStatus.FINISHED
    world.run_for(700_000)
    assert not [path for path in storage.files if str(JOB) in path], "what was recorded goes with the job"


def test_a_job_in_a_session_without_a_directory_ends_with_its_dispatcher(storage: SimulatedStorage) -> None:
    world = in_plain_session(1)
    world.crash(DISPATCHER)
    world.run_until(lambda: not world.alive("TaskSlot"))
    world.shutdown()
    assert storage.files


def test_a_session_that_is_shut_down_leaves_nothing_of_its_jobs_but_their_checkpoints(
    storage: SimulatedStorage,
) -> None:
    world = in_plain_session(2)
    assert storage.files
    world.run_until(lambda: bool(world.ask_dispatcher(ShutDownCluster())))
    assert not storage.files


# -- slots that are not replaced ---------------------------------------------------------------------------------


def lose_for_long(world: World, kind: str) -> None:
    """That process dies with a worker, and nothing takes the worker's place for longer than slots are waited for."""
    world.total_cpus = 1
    world.crash(world.alive(kind)[0])
    if kind != "TaskExecutor":
        world.crash(world.alive("TaskExecutor")[0])
    world.run_for(45_000)


@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("victim", ["TaskExecutor", "JobMaster"])
@pytest.mark.parametrize("seed", range(3))
def test_a_job_that_ran_goes_on_when_a_lost_node_is_replaced_after_the_time_for_slots(seed: int, victim: str) -> None:
    options = {**HA, **RESTARTS, "slot.request.timeout": 10_000}
    world = running(seed, **options)
    lose_for_long(world, victim)
    assert world.status() is not JobStatus.FAILED
    failures = world.ask(world.alive("JobMaster")[0], GetJobDetails()).failures
    assert "NoResourceAvailableError" in {failure.root.error.type_name for failure in failures}
    finish(world)
    world.total_cpus = 2
    assert world.await_end().status is JobStatus.FINISHED


@pytest.mark.usefixtures("storage")
def test_a_job_that_ran_and_whose_slots_do_not_come_fails_as_its_restart_strategy_says() -> None:
    options = {**HA, **RESTARTS, "restart-strategy.fixed-delay.attempts": 2, "slot.request.timeout": 10_000}
    world = running(1, **options)
    lose_for_long(world, "TaskExecutor")
    error = world.await_end().error
    assert error is not None
    assert error.type_name == "NoResourceAvailableError"


# -- the Dispatcher ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("seed", range(10))
def test_a_dispatcher_that_is_started_again_finds_its_job_running_and_ends_it(seed: int) -> None:
    world = running(seed, **HA, **RESTARTS)
    before = set(world.alive("TaskSlot"))
    started_ms = world.ask_dispatcher(GetJobOverview(JOB)).started_ms
    world.crash(DISPATCHER)
    world.await_status(JobStatus.RUNNING)
    overview = world.ask_dispatcher(GetJobOverview(JOB))
    assert (overview.name, overview.started_ms, [overview.job_master]) == ("four", started_ms, world.alive("JobMaster"))
    assert set(world.alive("TaskSlot")) == before
    assert len(world.deployed) == 8, "nothing that runs is disturbed"
    world.ask_dispatcher(CancelJob(JOB))
    assert world.await_end().status is JobStatus.CANCELED


@pytest.mark.usefixtures("storage")
def test_requests_before_the_jobs_are_recovered_are_refused_and_not_answered_wrongly() -> None:
    world = running(1, **HA, **RESTARTS)
    world.crash(DISPATCHER)
    for request in (
        GetJobOverview(JOB),
        GetArchivedJob(JOB),
        ListJobs(),
        CancelJob(JOB),
        SubmitJob.of(four_vertices()),
    ):
        if world.endpoint(DISPATCHER) is None or not world.endpoint(DISPATCHER)._is_ready:
            with pytest.raises(DispatcherNotReadyError, match="cluster 'c' is reading what it knew"):
                world.ask(DISPATCHER, request)
    world.await_status(JobStatus.RUNNING)


def test_a_store_that_cannot_be_read_is_named_by_a_dispatcher_that_waits_for_it(storage: SimulatedStorage) -> None:
    world = running(1, **HA, **RESTARTS)
    (path,) = [path for path in storage.files if path.endswith("dispatcher/log-0000000002")]
    whole, storage.files[path] = storage.files[path], b"{}\n"
    world.crash(DISPATCHER)
    world.run_for(100)
    with pytest.raises(DispatcherNotReadyError, match=r"log-0000000002 is corrupt.*see high-availability\.storageDir"):
        world.ask(DISPATCHER, ListJobs())
    storage.files[path] = whole
    world.await_status(JobStatus.RUNNING)


@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("seed", range(15))
def test_a_job_whose_submission_was_answered_is_never_lost_and_its_end_is_told_by_every_dispatcher(seed: int) -> None:
    world = World(seed)
    world.start(**HA, **RESTARTS)

    def crash_now_and_then() -> None:
        for _ in range(world.random.randint(1, 20)):
            world.step()
        if world.random.random() < 0.2:
            world.crash(DISPATCHER)

    overview: JobOverview | None = None
    while overview is None:
        try:
            overview = world.ask(DISPATCHER, SubmitJob.of(four_vertices(**RESTARTS)))  # type: ignore[arg-type]
        except DispatcherNotReadyError:
            crash_now_and_then()
    for _ in range(30):
        crash_now_and_then()
    assert world.await_end().status is JobStatus.FINISHED
    world.crash(DISPATCHER)
    assert world.await_end().accumulators == {"ended": 8}
    (job,) = world.ask_dispatcher(ListJobs())
    assert (job.job_id, job.status) == (JOB, JobStatus.FINISHED)
    world.run_for(5_000)
    assert world.alive("JobMaster") == world.alive("TaskExecutor") == []


@pytest.mark.usefixtures("storage")
def test_a_submission_is_answered_once_by_the_same_dispatcher() -> None:
    world = World(1)
    world.start(is_per_job=False, **HA)
    world.submit(four_vertices())
    with pytest.raises(InvalidProgramError, match="was submitted to this cluster before"):
        world.submit(four_vertices())


@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("steps", range(0, 40, 4))
def test_a_cancellation_survives_the_dispatcher_that_was_asked_for_it(steps: int) -> None:
    world = running(steps, **HA, **RESTARTS)
    world.ask(DISPATCHER, CancelJob(JOB))
    world.run_until(lambda: not world.endpoint(DISPATCHER)._queue._queue)
    for address in world.alive("JobMaster"):
        world.crash(address)
    for _ in range(steps):
        world.step()
    world.crash(DISPATCHER)
    assert world.await_end().status is JobStatus.CANCELED


@pytest.mark.usefixtures("storage")
def test_a_dispatcher_whose_place_was_taken_ends_and_says_nothing_that_is_not_stored() -> None:
    world = running(6, **HA, **RESTARTS)
    former = world.endpoint(DISPATCHER)
    JobStore(f"{HA['high-availability.storageDir']}/{CLUSTER}").take()
    finish(world)
    world.crash(world.alive("TaskExecutor")[0])
    assert world.await_end().status is JobStatus.FINISHED
    assert world.endpoint(DISPATCHER) is not former, "another life of it has told the end"
    assert former._jobs[JOB].archived is None


def test_nothing_is_stored_any_more_when_the_cluster_is_down(storage: SimulatedStorage) -> None:
    world = running(3, **HA)
    assert any("/dispatcher/" in path for path in storage.files)
    world.run_until(lambda: bool(world.ask(DISPATCHER, ShutDownCluster())))
    assert storage.files == {}


def test_the_data_of_an_ended_job_goes_and_its_result_stays(storage: SimulatedStorage) -> None:
    world = World(4)
    world.start(is_per_job=False, **HA)
    world.submit(four_vertices())
    world.await_end()
    kept = [path for path in storage.files if "log-" not in path]
    assert kept == [f"masters/{CLUSTER}/dispatcher/{JOB}.result"]


@pytest.mark.parametrize("times", [0, 1])
def test_a_session_forgets_a_job_some_time_after_its_end(storage: SimulatedStorage, times: int) -> None:
    world = World(times)
    world.start(is_per_job=False, **HA, **{"jobstore.expiration-time": 600})
    world.submit(four_vertices())
    world.await_end()
    for _ in range(times):
        world.crash(DISPATCHER)
        world.ask_dispatcher(ListJobs())
    world.run_for(590_000)
    assert world.await_end().accumulators == {"ended": 8}
    world.run_for(20_000)
    assert world.ask_dispatcher(ListJobs()) == ()
    with pytest.raises(UnknownJobError, match=r"no job 'job'.*ended longer ago than jobstore\.expiration-time"):
        world.ask_dispatcher(GetArchivedJob(JOB))
    assert all("log-" in path for path in storage.files)
    world.crash(DISPATCHER)
    assert world.ask_dispatcher(ListJobs()) == ()


@pytest.mark.parametrize("options", [{}, HA])
@pytest.mark.usefixtures("storage")
def test_what_was_to_happen_to_a_job_later_does_not_matter_once_it_is_forgotten(options: dict[str, object]) -> None:
    world = World(2)
    world.slot_endpoint = CollectingSlot
    world.start(is_per_job=False, **options, **{"jobstore.expiration-time": 0})
    world.submit(collecting())
    world.await_end()
    world.tell(world.alive("JobMaster")[0], CollectedReceived("rows"))
    world.run_until(lambda: world.ask_dispatcher(ListJobs()) == ())
    world.run_for(COLLECTED_ROWS_TIMEOUT_MS + 10_000)
    assert world.ask_dispatcher(ListJobs()) == ()


def test_a_job_that_runs_is_not_forgotten() -> None:
    world = World(3)
    world.behaviour = lambda _deployment: "run"
    world.start(is_per_job=False, **{"jobstore.expiration-time": 1})
    world.submit(four_vertices())
    world.run_for(60_000)
    assert world.status() is JobStatus.RUNNING


def end_with_rows_to_take(seed: int) -> World:
    """A job that has finished while its driver has not taken its rows."""
    world = World(seed)
    world.slot_endpoint = CollectingSlot
    world.start(**HA)
    world.submit(collecting())
    assert world.await_end().status is JobStatus.FINISHED
    return world


@pytest.mark.usefixtures("storage", "impatient")
@pytest.mark.parametrize("times", [1, 2])
def test_rows_of_an_ended_job_wait_for_the_driver_though_the_dispatcher_is_started_again(times: int) -> None:
    world = end_with_rows_to_take(1)
    job_masters = world.alive("JobMaster")
    for _ in range(times):
        world.crash(DISPATCHER)
        world.run_for(30_000)
    assert world.alive("JobMaster") == job_masters != []


@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("seed", range(6))
def test_a_dispatcher_that_is_started_again_hears_that_rows_were_taken_meanwhile(seed: int) -> None:
    world = end_with_rows_to_take(seed)
    (job_master,) = world.alive("JobMaster")
    world.crash(DISPATCHER)
    world.tell(job_master, CollectedReceived("rows"))
    world.run_for(5_000)
    assert world.alive("JobMaster") == []
    assert world.status() is JobStatus.FINISHED


@pytest.mark.usefixtures("storage")
def test_a_dispatcher_that_is_started_again_asks_an_ended_job_until_that_can_be_reached() -> None:
    world = end_with_rows_to_take(2)
    (job_master,) = world.alive("JobMaster")
    world.silenced.add(job_master)
    world.crash(DISPATCHER)
    world.ask_dispatcher(ListJobs())
    lost = world.take_undelivered(DISPATCHER, job_master)[-1]
    assert isinstance(lost, ReportJob)
    world.tell(DISPATCHER, DeliveryFailed(job_master, lost, "it cannot be reached"))
    world.silenced.clear()
    world.run_until(lambda: (job_master, lost) in world.delivered, max_ms=5_000)


def test_without_a_directory_the_job_ends_with_its_dispatcher() -> None:
    world = running(5)
    world.crash(DISPATCHER)
    world.run_until(lambda: world.alive("TaskExecutor") == [])
    assert world.alive("TaskSlot") == []


# -- JobMasters --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("seed", range(10))
def test_a_job_master_that_dies_is_replaced_and_its_job_comes_to_its_end(seed: int) -> None:
    world = running(seed, **HA, **RESTARTS)
    finish(world)
    (first,) = world.alive("JobMaster")
    for _ in range(seed * 3):
        world.step()
    world.crash(first)
    assert world.await_end().status is JobStatus.FINISHED
    masters = [spec for spec in world.spawned if spec.kind == "JobMaster"]
    assert [spec.address for spec in masters] == [first, f"{first}.2"]
    sessions = [spec.arguments[2] for spec in masters]
    assert sessions == sorted(set(sessions)), "sessions sort in the order of the JobMasters"
    assert world.ask_dispatcher(GetJobOverview(JOB)).job_master == f"{first}.2"
    world.run_for(5_000)
    assert world.alive("JobMaster") == world.alive("TaskExecutor") == world.alive("TaskSlot") == []


@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("seed", range(5))
def test_the_workers_of_a_job_master_that_dies_wait_for_the_next_one(seed: int) -> None:
    world = running(seed, **HA, **RESTARTS)
    (first,) = world.alive("JobMaster")
    workers = world.alive("TaskExecutor")
    world.crash(first)
    world.run_until(lambda: world.alive("JobMaster") == [f"{first}.2"] and world.status() is JobStatus.RUNNING)
    world.run_for(1_000)
    assert world.alive("TaskExecutor") == workers


@pytest.mark.usefixtures("storage")
def test_what_a_past_job_master_reports_is_ignored() -> None:
    world = running(2, **HA, **RESTARTS)
    (first,) = world.alive("JobMaster")
    endpoint = world.endpoint(first)
    session, details = endpoint._session, endpoint._details()
    world.crash(first)
    world.run_until(lambda: world.alive("JobMaster") not in ([], [first]))
    world.tell(DISPATCHER, JobEnded(session, details, False))
    world.tell(RESOURCE_MANAGER, RegisterJobMaster(JOB, session, first))
    world.await_status(JobStatus.RUNNING)
    world.run_for(1_000)
    assert world.status() is JobStatus.RUNNING
    assert world.endpoint(RESOURCE_MANAGER)._jobs[JOB].job_master == f"{first}.2"


class BrokenJobMaster(Endpoint):
    """Dies as soon as it starts."""

    CAUSE = "it cannot be"

    def __init__(self, context: Any, *_arguments: Any) -> None:
        super().__init__(context)

    def on_start(self) -> None:
        self.context.fatal(RuntimeError(self.CAUSE))

    def on_message(self, message: Any, payloads: Payloads) -> None: ...


@pytest.mark.usefixtures("storage")
def test_a_job_that_kills_its_job_master_every_time_fails() -> None:
    world = World(1)
    world.replaced[JobMaster] = BrokenJobMaster
    world.start(**HA)
    world.submit(four_vertices())
    details = world.await_end()
    assert details.status is JobStatus.FAILED
    assert details.error is not None
    assert "the JobMaster of job 'four' died: it cannot be" in details.error.message
    assert deaths_of(world, "JobMaster") == MAX_SILENT_DEATHS


@pytest.mark.usefixtures("storage")
def test_a_job_whose_environment_cannot_be_set_up_is_not_tried_again() -> None:
    class WithoutEnvironment(BrokenJobMaster):
        CAUSE = f"{ENVIRONMENT_FAILED}: no such package"

    world = World(1)
    world.replaced[JobMaster] = WithoutEnvironment
    world.start(**HA)
    world.submit(four_vertices())
    details = world.await_end()
    assert details.status is JobStatus.FAILED
    assert details.error is not None
    assert "could not be set up: no such package" in details.error.message
    assert deaths_of(world, "JobMaster") == 1


def test_a_job_graph_that_cannot_be_read_any_more_fails_its_job(storage: SimulatedStorage) -> None:
    world = running(3, **HA, **RESTARTS)
    (path,) = [path for path in storage.files if path.endswith(".graph")]
    storage.files[path] = storage.files[path][:-1]
    world.crash(world.alive("JobMaster")[0])
    details = world.await_end()
    assert details.status is JobStatus.FAILED
    assert details.error is not None
    assert f"{path} is corrupt" in details.error.message


@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("seed", range(12))
def test_masters_that_die_at_any_moments_never_leave_the_job_stuck(seed: int) -> None:
    world = World(seed)
    world.start(**HA)
    world.submit(four_vertices(2, "other", **RESTARTS))
    for _ in range(6):
        for _ in range(world.random.randint(1, 120)):
            world.step()
        victims = [*world.alive("JobMaster"), *world.alive("ResourceManager"), *world.alive("Dispatcher")]
        world.crash(world.random.choice(victims))
    assert world.await_end().status is JobStatus.FINISHED
    world.run_until(lambda: bool(world.ask_dispatcher(ShutDownCluster())))
    world.run_for(1_000)
    assert world.alive("JobMaster") == world.alive("TaskSlot") == world.alive("TaskExecutor") == []


# -- the ResourceManager -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_a_resource_manager_that_is_started_again_learns_who_has_which_slot(seed: int) -> None:
    world = running(seed)
    before = set(world.alive("TaskSlot"))
    world.crash(RESOURCE_MANAGER)
    for _ in range(seed * 2):
        world.step()
    # One that hears of the job before it hears of its workers may have started others, which it then gives up.
    world.run_for(40_000)
    overview = world.overview()
    assert (overview.task_executors, overview.slots, overview.free_slots) == (2, 2, 0)
    assert overview.pending_task_executors == 0
    assert set(world.alive("TaskSlot")) == before
    assert len(world.deployed) == 8, "nothing that runs is disturbed"
    world.ask(DISPATCHER, CancelJob(JOB))
    world.await_end()
    world.run_until(lambda: world.alive("TaskExecutor") == [])


@pytest.mark.parametrize("seed", range(10))
def test_a_resource_manager_that_dies_while_slots_are_given_out_delays_the_job_only(seed: int) -> None:
    world = World(seed)
    world.start()
    world.submit(four_vertices(2, "other"))
    for _ in range(2):
        for _ in range(world.random.randint(1, 60)):
            world.step()
        world.crash(RESOURCE_MANAGER)
    assert world.await_end().status is JobStatus.FINISHED
    world.run_until(lambda: world.alive("TaskExecutor") == world.alive("TaskSlot") == [])


def test_two_resource_managers_never_give_the_same_name_twice() -> None:
    world = running(7, **RESTARTS)
    world.crash(RESOURCE_MANAGER)
    world.run_for(3_000)
    world.crash(world.alive("TaskExecutor")[0])
    world.run_until(lambda: len(world.deployed) == 16)
    addresses = [spec.address for spec in world.spawned]
    assert len(addresses) == len(set(addresses))
    slots = {(deployment.allocation_id, slot) for slot, deployment in world.deployed}
    assert len({allocation for allocation, _ in slots}) == len({slot for _, slot in slots}) > 2


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for a master that does not come back gives up after 20 s."""
    monkeypatch.setattr(task_executor, "REGISTRATION_TIMEOUT_MS", 20_000.0)
    monkeypatch.setattr(resource_manager, "DISPATCHER_TIMEOUT_MS", 20_000.0)
    monkeypatch.setattr(dispatcher_connection, "DISPATCHER_TIMEOUT_MS", 20_000.0)


@pytest.mark.usefixtures("impatient")
def test_a_worker_without_jobs_ends_when_no_resource_manager_comes_back() -> None:
    world = running(8, **RESTARTS)
    world.kill(RESOURCE_MANAGER)
    world.run_for(40_000)
    assert len(world.alive("TaskExecutor")) == 2, "jobs keep their slots"
    assert world.status() is JobStatus.RUNNING
    world.ask(DISPATCHER, CancelJob(JOB))
    assert world.await_end().status is JobStatus.CANCELED
    world.run_for(5_000)
    assert world.alive("TaskExecutor") == []


@pytest.mark.usefixtures("impatient")
def test_a_resource_manager_whose_dispatcher_never_comes_back_ends_with_its_workers() -> None:
    world = running(9)
    world.kill(DISPATCHER)
    world.run_until(lambda: not world.alive("TaskExecutor") + world.alive("ResourceManager") + world.alive("JobMaster"))


@pytest.mark.usefixtures("storage", "impatient")
def test_a_job_goes_on_for_as_long_as_its_dispatcher_may_come_back() -> None:
    world = running(9, **HA, **RESTARTS)
    world.kill(DISPATCHER)
    world.run_for(15_000)
    assert len(world.alive("TaskSlot")) == 2
    world.run_until(lambda: not world.alive("TaskExecutor") + world.alive("ResourceManager") + world.alive("JobMaster"))


@pytest.mark.parametrize("seed", range(10))
def test_a_cluster_that_is_shut_down_while_its_resource_manager_dies_ends_its_workers(seed: int) -> None:
    world = running(seed)
    world.ask(DISPATCHER, ShutDownCluster())
    for _ in range(seed * 6):
        world.step()
    if world.alive("ResourceManager"):
        world.crash(RESOURCE_MANAGER)
    world.run_until(lambda: bool(world.ask(DISPATCHER, ShutDownCluster())))
    world.run_for(2_000)
    assert world.alive("TaskExecutor") == world.alive("TaskSlot") == []


def test_a_second_request_to_release_all_workers_waits_for_those_of_the_first() -> None:
    world = running(4)
    for worker in world.alive("TaskExecutor"):
        world.silenced.add(worker)
    for _ in range(2):
        world.tell(RESOURCE_MANAGER, ReleaseAllTaskExecutors(DISPATCHER))
    world.run_for(1_000)
    assert not [message for _, message in world.delivered if isinstance(message, AllTaskExecutorsReleased)]
    world.run_for(10_000)
    assert world.alive("TaskExecutor") == [], "they are ended whatever they do"


def test_only_masters_that_can_go_on_are_started_again() -> None:
    for options, is_restarted in ((HA, True), ({}, False)):
        world = World(1)
        world.start(**options)
        assert {spec.kind: spec.restarts for spec in world.spawned}["Dispatcher"] is is_restarted
        assert {spec.address: spec.restarts for spec in world.spawned}[RESOURCE_MANAGER]
