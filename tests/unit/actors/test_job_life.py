"""Whole jobs through Dispatcher, ResourceManager, JobMaster and TaskExecutors, message by message, in any order."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from msgspec.structs import replace

from actors.client.cluster import dispatcher_of, resource_manager_of, start_cluster
from actors.dispatcher import COLLECTED_ROWS_TIMEOUT_MS, LINGER_MS, SUBMISSION_TIMEOUT_MS
from actors.protocol.client_requests import CancelJob, ClusterResources, CollectedReceived, ShutDownCluster
from actors.protocol.ports import Payloads
from actors.protocol.task_messages import AddJobFiles, SubmitTask, TaskDeployment
from actors.task_executor import TaskExecutor
from flinkray.config.configuration import Configuration
from flinkray.errors import ErrorInfo, InvalidProgramError, PartitionError
from flinkray.execution import JobStatus
from flinkray.types.records import JobId
from tests.support.control import (
    CLUSTER,
    CollectingSlot,
    FakeTaskSlot,
    World,
    collecting,
    four_vertices,
    run_all_tasks,
)

SEEDS = range(12)


def assert_everything_is_given_back(world: World) -> None:
    """After a job: no slot, no worker, no JobMaster is left of a cluster that was started for it."""
    world.run_for(5_000)
    assert world.alive("TaskSlot") == []
    assert world.alive("TaskExecutor") == []
    assert world.alive("JobMaster") == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_finishes_and_gives_everything_back(seed: int) -> None:
    world = World(seed)
    world.start()
    world.submit(four_vertices())
    details = world.await_end()
    assert details.status is JobStatus.FINISHED
    assert details.accumulators == {"ended": 8}
    assert [status for status, _ in details.status_times] == [
        JobStatus.INITIALIZING,
        JobStatus.CREATED,
        JobStatus.RUNNING,
        JobStatus.FINISHED,
    ]
    assert len(world.deployed) == 8
    assert_everything_is_given_back(world)


@pytest.mark.parametrize(("second_group", "slots"), [("other", 4), (None, 2)])
@pytest.mark.parametrize("slots_per_task_executor", [1, 3])
def test_a_job_takes_one_slot_per_subtask_of_the_widest_vertex_of_each_slot_sharing_group(
    second_group: str | None, slots: int, slots_per_task_executor: int
) -> None:
    world = World(1)
    world.start(**{"taskmanager.numberOfTaskSlots": slots_per_task_executor})
    world.submit(four_vertices(2, second_group))
    world.run_until(lambda: len(world.deployed) == 8)
    # A slot that the job gives back may be taken for free while its end is under way, and be given to it once more.
    assert len([spec for spec in world.spawned if spec.kind == "TaskSlot"]) == slots
    assert world.await_end().status is JobStatus.FINISHED
    assert len({slot for slot, _ in world.deployed}) == slots
    executors = [spec for spec in world.spawned if spec.kind == "TaskExecutor"]
    assert len(executors) == -(-slots // slots_per_task_executor)
    assert {spec.cpus for spec in executors} == {float(slots_per_task_executor)}


def tell_what_is_free(world: World, *free_cpus: float) -> None:
    resources = ClusterResources(float("inf"), is_autoscaled=True, free_cpus=free_cpus)
    world.tell(resource_manager_of(CLUSTER), resources)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_whose_slots_fit_into_one_node_takes_one_task_executor(seed: int) -> None:
    world = World(seed)
    world.start()
    tell_what_is_free(world, 8.0)
    world.run_for(1_000)  # else the job may be there first
    world.submit(four_vertices(2, "other"))
    assert world.await_end().status is JobStatus.FINISHED
    assert [spec.cpus for spec in world.spawned if spec.kind == "TaskExecutor"] == [4.0]
    assert len({slot for slot, _ in world.deployed}) == 4
    assert_everything_is_given_back(world)


def test_a_job_does_not_wait_for_room_in_one_place_that_somebody_else_has_taken() -> None:
    world = World(3, total_cpus=3)
    world.start()
    tell_what_is_free(world, 8.0)
    world.submit(four_vertices(2, "other"))
    world.run_for(20_000)
    assert world.overview().task_executors == 3
    world.total_cpus = 4
    assert world.await_end().status is JobStatus.FINISHED
    assert_everything_is_given_back(world)


def test_code_and_files_go_to_a_slot_once_however_often_its_tasks_start_and_so_does_its_environment() -> None:
    world = World(5)
    world.start()
    restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": 2}
    environment = '{"env_vars": {"A": "b"}}'
    graph = four_vertices(1, **restarts, **{"python.runtime-env": environment})
    world.behaviour = lambda task: "fail" if task.attempt_number < 2 and task.vertex_name == "first" else "finish"
    world.submit(replace(graph, cached_files={"words": b"packed"}))
    assert world.await_end().status is JobStatus.FINISHED
    assert max(task.attempt_number for _, task in world.deployed) == 2
    (slot,) = {slot for slot, _ in world.deployed}
    taken = [message for address, message in world.delivered if address == slot]
    assert [each.files.deserialize() for each in taken if isinstance(each, AddJobFiles)] == [{"words": b"packed"}]
    tasks = [each.deployment for each in taken if isinstance(each, SubmitTask)]
    with_code = [task.vertex_id for task in tasks if task.operators]
    assert sorted(with_code) == sorted({task.vertex_id for task in tasks})
    with_environment = {spec.kind for spec in world.spawned if spec.runtime_env == environment}
    assert with_environment == {"JobMaster", "TaskSlot"}


def test_names_in_the_dashboard_say_what_runs_where() -> None:
    world = World(3)
    world.start()
    world.submit(four_vertices(2))
    world.await_end()
    names = {spec.display_name for spec in world.spawned}
    assert names == {
        "ResourceManager(c)",
        "Dispatcher(c)",
        "JobMaster(four)",
        "TaskExecutor(te-1)",
        "TaskExecutor(te-2)",
        "TaskSlot(four: Source: numbers (1/2), first (1/2), second (1/2), Sink: out (1/2))",
        "TaskSlot(four: Source: numbers (2/2), first (2/2), second (2/2), Sink: out (2/2))",
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_no_task_is_deployed_before_the_whole_region_has_its_slots(seed: int) -> None:
    world = World(seed, total_cpus=3)
    world.start(**{"slot.request.timeout": 5_000})
    world.submit(four_vertices(2, "other", **{"slot.request.timeout": 5_000}))
    details = world.await_end()
    assert details.status is JobStatus.FAILED
    assert world.deployed == []
    assert_everything_is_given_back(world)


class BrokenTaskExecutor(TaskExecutor):
    """Cannot even start, as where a module is missing."""

    def on_start(self) -> None:
        self.context.fatal(ModuleNotFoundError("no module named 'pandas'"))

    def on_message(self, message: Any, payloads: Payloads) -> None: ...


@pytest.mark.parametrize("mode", ["streaming", "batch"])
@pytest.mark.parametrize("seed", SEEDS)
def test_workers_that_never_come_up_fail_every_job_at_once_with_the_cause(seed: int, mode: str) -> None:
    world = World(seed)
    world.replaced[TaskExecutor] = BrokenTaskExecutor
    world.start()
    world.tell(resource_manager_of(CLUSTER), ClusterResources(64.0))
    world.submit(four_vertices(2, **{"execution.runtime-mode": mode}))
    world.run_until(lambda: world.status().is_terminal, max_ms=10_000)
    details = world.await_end()
    assert details.status is JobStatus.FAILED
    assert details.error is not None
    assert "3 TaskExecutors in a row died before they could register; the last: " in details.error.message
    assert "no module named 'pandas'" in details.error.message
    assert_everything_is_given_back(world)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cancelled_job_cancels_every_task(seed: int) -> None:
    world = World(seed)
    world.behaviour = lambda _deployment: "run"
    world.start()
    job = world.submit(four_vertices())
    for _ in range(seed * 25):
        world.step()
    world.ask(dispatcher_of(CLUSTER), CancelJob(job))
    details = world.await_end()
    assert details.status is JobStatus.CANCELED
    assert {subtask.state for vertex in details.vertices for subtask in vertex.subtasks} == {"CANCELED"}
    assert_everything_is_given_back(world)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_failed_task_fails_the_job_with_its_error_and_cancels_the_others(seed: int) -> None:
    world = World(seed)

    def behaviour(deployment: TaskDeployment) -> str:
        return "fail" if deployment.task_name == "second (2/2)" else "run"

    world.behaviour = behaviour
    world.start()
    world.submit(four_vertices(2, "other"))
    details = world.await_end()
    assert details.status is JobStatus.FAILED
    assert details.error is not None
    assert (details.error.type_name, details.error.message) == ("ValueError", "bad row in second (2/2)")
    states = [subtask.state for vertex in details.vertices for subtask in vertex.subtasks]
    assert sorted(states) == ["CANCELED"] * 7 + ["FAILED"]
    assert_everything_is_given_back(world)


@pytest.mark.parametrize("kind", ["TaskSlot", "TaskExecutor"])
@pytest.mark.parametrize("free_cpus", [(), (8.0,), (3.0, 1.0)])
@pytest.mark.parametrize("seed", range(25))
def test_a_worker_that_dies_at_any_moment_never_leaves_the_job_stuck(
    seed: int, free_cpus: tuple[float, ...], kind: str
) -> None:
    world = World(seed)
    world.start()
    tell_what_is_free(world, *free_cpus)
    world.submit(four_vertices(2, "other"))
    world.run_until(lambda: bool(world.alive(kind)))
    for _ in range(world.random.randint(0, 120)):
        world.step()
    victims = world.alive(kind)
    ran = bool(victims)
    if victims:
        world.kill(world.random.choice(victims))
    details = world.await_end()
    if details.status is JobStatus.FAILED:
        assert ran
        assert details.error is not None
        assert "is lost" in details.error.message
    else:
        assert details.status is JobStatus.FINISHED
    assert_everything_is_given_back(world)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_master_that_dies_fails_its_job_and_frees_its_slots(seed: int) -> None:
    world = World(seed)
    world.behaviour = lambda _deployment: "run"
    world.start()
    world.submit(four_vertices())
    for _ in range(20 + seed * 20):
        world.step()
    (job_master,) = world.alive("JobMaster")
    world.kill(job_master)
    details = world.await_end()
    assert details.status is JobStatus.FAILED
    assert details.error is not None
    assert "JobMaster of job 'four' died" in details.error.message
    assert_everything_is_given_back(world)


def test_a_task_that_does_not_stop_has_its_slot_killed() -> None:
    world = World(5)
    world.behaviour = lambda deployment: "stick" if deployment.task_name == "first (1/2)" else "run"
    world.start()
    job = world.submit(four_vertices())
    world.run_until(lambda: len(world.deployed) == 8)
    world.ask(dispatcher_of(CLUSTER), CancelJob(job))
    world.run_for(25_000)
    assert world.status() is JobStatus.CANCELLING
    assert world.await_end().status is JobStatus.CANCELED
    assert_everything_is_given_back(world)


def test_a_job_without_slots_says_what_it_needs_and_what_there_is() -> None:
    world = World(2, total_cpus=2)
    world.start()
    world.submit(four_vertices(3, **{"slot.request.timeout": 10_000}))
    details = world.await_end()
    assert details.error is not None
    assert details.error.type_name == "NoResourceAvailableError"
    assert "job 'four' needs 3 slot(s) of 1 CPU and did not get 1 of them" in details.error.message
    assert "they did not come within 10 s (slot.request.timeout)" in details.error.message
    assert "2 TaskExecutor(s) with 2 slot(s), 0 of them free, and 2 CPU(s)" in details.error.message
    assert "lower 'parallelism.default'" in details.error.message
    assert_everything_is_given_back(world)


def test_a_job_that_can_never_fit_fails_after_a_short_grace() -> None:
    world = World(2, total_cpus=2)
    world.start()
    world.tell(resource_manager_of(CLUSTER), ClusterResources(2.0))
    started = world.now
    world.submit(four_vertices(3))
    details = world.await_end()
    assert details.status is JobStatus.FAILED
    assert 3_000 <= world.now - started < 5_000
    assert details.error is not None
    assert "its TaskExecutors take 3 CPUs, and the whole cluster has 2" in details.error.message


def test_an_autoscaled_cluster_is_given_time() -> None:
    world = World(2, total_cpus=2)
    world.start()
    world.tell(resource_manager_of(CLUSTER), ClusterResources(2.0, is_autoscaled=True))
    world.submit(four_vertices(3))
    world.run_for(20_000)
    world.total_cpus = 3
    assert world.await_end().status is JobStatus.FINISHED


def test_a_task_executor_that_hangs_is_noticed_by_its_heartbeats() -> None:
    world = World(4)
    run_all_tasks(world)
    world.silenced.add(world.alive("TaskExecutor")[0])
    details = world.await_end()
    assert details.status is JobStatus.FAILED
    assert details.error is not None
    # The ResourceManager may notice first, and then ends what it cannot hear.
    causes = (" is lost: its heartbeats stopped", " is lost: killed by c/resource-manager")
    assert details.error.message.startswith("the slot of c/te-1-")
    assert details.error.message.endswith(causes)


@pytest.mark.parametrize(
    ("of_session", "of_job"),
    [
        ({"heartbeat.interval": 1_000, "heartbeat.timeout": 5_000}, {}),
        ({}, {"heartbeat.interval": 100_000, "heartbeat.timeout": 500_000}),
    ],
)
def test_a_job_keeps_its_slots_whatever_its_session_or_its_own_options_say_of_heartbeats(
    of_session: dict[str, object], of_job: dict[str, object]
) -> None:
    world = World(4)
    world.behaviour = lambda _deployment: "run"
    world.start(is_per_job=False, **of_session)
    world.submit(four_vertices(**of_job))  # type: ignore[arg-type]
    world.run_until(lambda: len(world.deployed) == 8)
    slots = world.alive("TaskSlot")
    world.run_for(120_000)
    assert world.status() is JobStatus.RUNNING
    assert world.alive("TaskSlot") == slots


def test_a_worker_that_hangs_is_noticed_within_the_sessions_heartbeat_timeout() -> None:
    world = World(4)
    run_all_tasks(world, is_per_job=False, **{"heartbeat.interval": 1_000, "heartbeat.timeout": 5_000})
    hanging = world.alive("TaskExecutor")[0]
    world.silenced.add(hanging)
    world.silenced.update(world.alive("ResourceManager"))  # which would notice as well
    world.run_until(lambda: world.status() is not JobStatus.RUNNING, max_ms=8_000)
    details = world.await_end()
    assert details.error is not None
    assert f"{hanging} is lost: its heartbeats stopped" in details.error.message


def test_a_session_keeps_idle_workers_for_the_next_job_and_then_releases_them() -> None:
    world = World(6)
    world.start(is_per_job=False)
    world.submit(four_vertices())
    world.await_end()
    world.run_for(2_000)
    workers = world.alive("TaskExecutor")
    assert len(workers) == 2
    graph = four_vertices()
    second = type(graph)(JobId("second"), "second", False, graph.vertices, graph.configuration)
    world.submit(second)
    assert world.await_end(JobId("second")).status is JobStatus.FINISHED
    world.run_for(1_000)
    assert world.alive("TaskExecutor") == workers
    assert world.overview().free_slots == 2
    world.run_for(40_000)
    assert world.alive("TaskExecutor") == []


def test_a_job_waits_for_the_slots_of_another_one_in_a_session() -> None:
    world = World(7, total_cpus=2)
    world.start(is_per_job=False)
    world.tell(resource_manager_of(CLUSTER), ClusterResources(2.0))
    graph = four_vertices()
    second = type(graph)(JobId("second"), "second", False, graph.vertices, graph.configuration)
    world.submit(graph)
    world.submit(second)
    assert world.await_end().status is JobStatus.FINISHED
    assert world.await_end(JobId("second")).status is JobStatus.FINISHED


def test_a_job_is_submitted_once() -> None:
    world = World(8)
    world.start(is_per_job=False)
    world.submit(four_vertices())
    with pytest.raises(InvalidProgramError, match="was submitted to this cluster before"):
        world.submit(four_vertices())


@pytest.mark.parametrize("seed", SEEDS)
def test_shutting_down_cancels_the_job_and_ends_the_workers(seed: int) -> None:
    world = World(seed)
    world.behaviour = lambda _deployment: "run"
    world.start()
    world.submit(four_vertices())
    for _ in range(seed * 20):
        world.step()
    world.run_until(lambda: bool(world.ask(dispatcher_of(CLUSTER), ShutDownCluster())))
    assert world.status() is JobStatus.CANCELED
    assert world.alive("TaskSlot") == world.alive("TaskExecutor") == world.alive("JobMaster") == []


def test_a_source_coordinator_that_cannot_be_made_fails_the_job() -> None:
    from tests.support.graphs import Program

    program = Program()
    program.sink(program.key_by(program.source(), "k"))
    world = World(9)
    world.start()
    world.submit(program.job_graph())
    details = world.await_end()
    assert details.status is JobStatus.FAILED
    assert details.error is not None
    assert "graphs make no enumerators" in details.error.message


def test_channels_lead_to_the_slots_of_their_producers() -> None:
    world = World(10)
    world.start()
    world.submit(four_vertices(2, "other"))
    world.await_end()
    slots: dict[Any, Any] = {
        partition.partition_id: slot for slot, deployment in world.deployed for partition in deployment.partitions
    }
    channels = [c for _, deployment in world.deployed for gate in deployment.gates for c in gate.channels]
    assert len(channels) == 3 * 4
    assert all(slots[channel.partition_id] == channel.producer for channel in channels)


def test_a_detached_cluster_ends_a_while_after_its_job() -> None:
    world = World(13)
    start_cluster(world, CLUSTER, Configuration(), is_per_job=True, ends_by_itself=True)
    world.submit(four_vertices())
    assert world.await_end().status is JobStatus.FINISHED
    world.run_for(55_000)
    assert world.status() is JobStatus.FINISHED
    world.run_for(10_000)
    assert world.addresses() == set()


def end_with_rows_to_take(world: World) -> None:
    """A detached cluster whose job has finished while its driver has not taken its rows."""
    world.slot_endpoint = CollectingSlot
    start_cluster(world, CLUSTER, Configuration(), is_per_job=True, ends_by_itself=True)
    world.submit(collecting())
    assert world.await_end().status is JobStatus.FINISHED


def test_a_detached_cluster_stays_for_as_long_as_rows_wait_for_the_driver() -> None:
    world = World(14)
    end_with_rows_to_take(world)
    world.run_for(COLLECTED_ROWS_TIMEOUT_MS - 10_000)
    (job_master,) = world.alive("JobMaster")
    world.tell(job_master, CollectedReceived("rows"))
    world.run_for(LINGER_MS - 5_000)
    assert world.alive("JobMaster") == []
    assert world.status() is JobStatus.FINISHED
    world.run_until(lambda: world.addresses() == set(), max_ms=15_000)


def test_a_detached_cluster_whose_rows_nobody_takes_ends() -> None:
    world = World(15)
    end_with_rows_to_take(world)
    world.run_until(lambda: world.addresses() == set(), max_ms=COLLECTED_ROWS_TIMEOUT_MS + LINGER_MS + 10_000)


def test_a_detached_cluster_whose_rows_are_lost_ends_a_while_after_that() -> None:
    world = World(16)
    end_with_rows_to_take(world)
    world.kill(world.alive("JobMaster")[0])
    world.run_until(lambda: world.addresses() == set(), max_ms=LINGER_MS + 10_000)


def test_a_detached_cluster_that_gets_no_job_ends() -> None:
    world = World(17)
    start_cluster(world, CLUSTER, Configuration(), is_per_job=True, ends_by_itself=True)
    world.run_for(SUBMISSION_TIMEOUT_MS - 10_000)
    assert world.alive("Dispatcher")
    world.run_until(lambda: world.addresses() == set(), max_ms=20_000)


def test_a_detached_cluster_whose_job_takes_long_stays() -> None:
    world = World(18)
    world.behaviour = lambda _deployment: "run"
    start_cluster(world, CLUSTER, Configuration(), is_per_job=True, ends_by_itself=True)
    world.submit(four_vertices())
    world.run_for(SUBMISSION_TIMEOUT_MS + 20_000)
    assert world.status() is JobStatus.RUNNING


class ComplainingSlot(FakeTaskSlot):
    """Tasks that fail; those that read from others say that these are gone."""

    def _report(self, deployment: TaskDeployment, state: str, error: ErrorInfo | None = None) -> None:
        if error is not None and "Source" not in deployment.task_name:
            error = ErrorInfo.of(PartitionError(f"no partition for {deployment.attempt_id}"))
        super()._report(deployment, state, error)


@pytest.mark.parametrize("seed", SEEDS)
def test_why_a_job_restarts_is_logged_each_time_and_kept(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    world = World(seed)
    world.slot_endpoint = ComplainingSlot
    world.start()
    world.behaviour = lambda _deployment: "fail"
    restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": 3}
    world.submit(four_vertices(**restarts))
    details = world.await_end()
    failures = details.failures
    assert details.restarts == 3
    assert [record.decision.partition(":")[0] for record in failures] == ["restarts after 1 s"] * 3 + ["fails"]
    logged = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    for record in failures:
        root = record.root
        text = f"job 'four' {record.decision}; {root.task_name} failed: {root.error}"
        assert logged.count(text) == record.decision.startswith("restarts")
