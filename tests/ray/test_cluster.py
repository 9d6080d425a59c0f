"""Jobs on a real Ray cluster: what they take, how they read, and that nothing of them is left."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from actors.client.forgotten import OPEN_JOBS
from actors.client.job_client import ClusterJobClient
from flinkray import (
    DataGenSource,
    DataStream,
    DiscardSink,
    FileSink,
    JobClient,
    JobExecutionError,
    RescaleError,
    SequenceField,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from tests.support.jobs import environment
from tests.support.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]


@pytest.fixture(autouse=True)
def _nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    request.getfixturevalue("ray_cluster")
    import ray

    actors_before = {actor.actor_id for actor in live_actors()}
    # What the test before has given back may not be counted yet; an object of an earlier one may be there still.
    all_cpus = ray.cluster_resources()["CPU"]
    free_before = eventually(ray.available_resources, lambda free: free.get("CPU") == all_cpus)
    yield
    eventually(live_actors, lambda actors: {actor.actor_id for actor in actors} <= actors_before)
    # Every CPU is free again, and every byte of the object store.
    eventually(
        ray.available_resources, lambda free: all(free.get(name, 0) >= free_before[name] for name in free_before)
    )


def live_actors() -> list[Any]:
    """The actors of flinkray that live now, as `ray list actors` shows them."""
    import ray
    from ray.util.state import list_actors

    actors = list_actors(address=ray.get_runtime_context().gcs_address, limit=1000, detail=True)
    return [actor for actor in actors if actor.ray_namespace == "flinkray" and actor.state != "DEAD"]


def numbers(env: StreamExecutionEnvironment) -> DataStream:
    """A thousand rows a second, for ever."""
    source = DataGenSource({"number": SequenceField()}, rows_per_second=1000)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")


def endless(env: StreamExecutionEnvironment) -> None:
    """Four vertices at the environment's parallelism, which run until cancelled."""
    stream = numbers(env).rebalance().map(lambda row: row).name("map").disable_chaining()
    stream = stream.rebalance().filter(lambda row: row is not None).name("filter").disable_chaining()
    stream.rebalance().sink_to(DiscardSink()).name("end")


def slots() -> list[str]:
    return [actor.repr_name for actor in live_actors() if actor.class_name == "TaskSlot"]


def slot_process() -> int:
    """The process of a slot; 0 as long as none has one: rows may come while the other slot's process still starts."""
    return next((actor.pid for actor in live_actors() if actor.class_name == "TaskSlot" and actor.pid), 0)


def running(client: JobClient) -> None:
    eventually(lambda: client.progress().records_out, lambda rows: rows > 0, deadline_s=60)


def test_actors_read_as_job_vertex_and_subtask_and_measure_on_rays_endpoint() -> None:
    env = environment({"metrics.fetcher.update-interval": "200 ms"}, target="ray")
    endless(env)
    client = env.execute_async("actors")
    try:
        running(client)
        names = {actor.class_name: actor.repr_name for actor in live_actors()}
        assert names["JobMaster"] == "JobMaster(actors)"
        assert {"Dispatcher", "ResourceManager", "TaskExecutor", "TaskSlot"} <= set(names)
        assert len(slots()) == 2, "one slot sharing group at parallelism 2 takes two slots"
        vertices = ("Source: numbers", "map", "filter", "Sink: end")
        expected = [
            f"TaskSlot(actors: {', '.join(f'{vertex} ({subtask}/2)' for vertex in vertices)})" for subtask in (1, 2)
        ]
        # The first rows may come while the other slot's process still starts, which has no name until then.
        eventually(slots, lambda names: sorted(names) == expected, deadline_s=60)
        # The node also exports what other jobs measured before.
        ours = re.compile(r'flinkray_task_records_out.*job_name="actors".*subtask_index=')
        eventually(metrics_page, lambda page: ours.search(page) is not None, deadline_s=100)
    finally:
        client.cancel()
        client.close()


def metrics_page() -> str:
    """All that this node exports; what its agent says of itself while it does not answer, as where it still starts."""
    import ray

    node = ray.nodes()[0]
    url = f"http://127.0.0.1:{node['MetricsExportPort']}/metrics"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            page: str = answer.read().decode()
    except OSError as error:
        log = Path(ray._private.worker.global_worker.node.get_logs_dir_path(), "dashboard_agent.log")
        return f"{url}: {error}\n{log.read_text()[-2000:] if log.exists() else 'its agent has no log'}"
    return page


def test_a_job_whose_client_nobody_keeps_goes_on() -> None:
    env = environment(target="ray")
    endless(env)
    env.execute_async("dropped")
    gc.collect()
    (client,) = OPEN_JOBS.jobs
    assert isinstance(client, ClusterJobClient)
    try:
        running(client)
    finally:
        client.cancel()
        client.close()


def test_two_slot_sharing_groups_at_parallelism_two_take_four_slots() -> None:
    env = environment(target="ray")
    numbers(env).map(lambda row: row).slot_sharing_group("other").sink_to(DiscardSink())
    client = env.execute_async("two groups")
    try:
        running(client)
        assert len(slots()) == 4
    finally:
        client.cancel()
        client.close()


def test_a_job_is_rescaled_while_it_runs_and_has_each_row_once(tmp_path: Path) -> None:
    rows = 20_000  # for twenty seconds, in which a busy machine rescales twice
    options = {
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "slot.idle.timeout": "200 ms",
    }
    env = environment(options, target="ray", parallelism=1)
    source = DataGenSource({"number": SequenceField()}, rows, rows_per_second=1000)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").key_by(lambda row: row.number % 7)
    stream.reduce(lambda _, row: row).sink_to(FileSink(tmp_path / "rows"))
    client = env.execute_async("rescaled")
    try:
        running(client)
        for parallelism in (3, 2):
            assert set(client.rescale(parallelism, timeout=60).values()) == {parallelism}
            eventually(slots, lambda names, wanted=parallelism: len(names) == wanted, deadline_s=60)
        client.result(120)
    finally:
        client.close()
    files = (path for path in (tmp_path / "rows").rglob("*.parquet") if not path.name.startswith("."))
    written = [number for path in files for number in pq.read_table(path).column("number").to_pylist()]
    assert sorted(written) == list(range(rows))


def test_a_job_is_not_rescaled_to_more_slots_than_there_are(tmp_path: Path) -> None:
    options = {"execution.checkpointing.interval": "200 ms", "execution.checkpointing.dir": str(tmp_path)}
    env = environment(options, target="ray")
    endless(env)
    client = env.execute_async("large")
    try:
        running(client)
        with pytest.raises(RescaleError, match=r"it would need .* more slot"):
            client.rescale(100, timeout=60)
    finally:
        client.cancel()
        client.close()


def test_a_failed_job_shows_the_users_line_and_leaves_nothing() -> None:
    def inverse(value: int) -> float:
        return 10 / (value - 5)

    with pytest.raises(JobExecutionError, match=r"operator 'inverse' \(subtask"):
        environment(target="ray").from_sequence(0, 9).map(inverse).name("inverse").to_arrow()


def test_a_slot_that_is_killed_fails_its_job_by_name() -> None:
    import os
    import signal

    env = environment(target="ray")
    endless(env)
    client = env.execute_async("killed")
    try:
        running(client)
        os.kill(eventually(slot_process), signal.SIGKILL)
        with pytest.raises(JobExecutionError, match="process died"):
            client.result(timeout=60)
    finally:
        client.close()


ONE_CPU_PROGRAM = """
import ray
from flinkray import Configuration, StreamExecutionEnvironment

ray.init(address="local", num_cpus=1, include_dashboard=False)
configuration = Configuration({"parallelism.default": 2, "slot.request.timeout": "5 s"})
env = StreamExecutionEnvironment.get_execution_environment(configuration)
env.from_sequence(0, 9).rebalance().print()  # one region: both slots or nothing
env.execute("too large")
"""


def test_a_job_that_the_cluster_cannot_hold_says_what_it_needs_and_what_to_do() -> None:
    done = subprocess.run([sys.executable, "-c", ONE_CPU_PROGRAM], capture_output=True, text=True, timeout=150)
    assert done.returncode != 0
    assert "NoResourceAvailableError" in done.stderr
    assert "needs 2 slot(s)" in done.stderr
    assert "The cluster has: " in done.stderr
    assert "lower 'parallelism.default'" in done.stderr


TOO_LARGE_FOR_OTHERS = """
import ray
from ray.cluster_utils import Cluster

from actors.client.session import start_session
from flinkray import Configuration, StreamExecutionEnvironment
from flinkray.errors import JobExecutionError

head = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args=head)
try:
    ray.init(address=cluster.address, namespace="flinkray")
    start_session("shared", Configuration({}))
    for options in ({"execution.target": "ray"}, {"execution.target": "ray-session", "flinkray.cluster-id": "shared"}):
        env = StreamExecutionEnvironment.get_execution_environment(Configuration({"parallelism.default": 2, **options}))
        env.from_sequence(0, 9).rebalance().print()
        try:
            env.execute("too large")
        except JobExecutionError as error:
            print(str(error).splitlines()[0])
finally:
    ray.shutdown()
    cluster.shutdown()
"""


def test_a_job_that_a_cluster_of_others_can_never_hold_is_told_at_once_in_a_session_too() -> None:
    """Long before the time for slots, 300 s, is over."""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", TOO_LARGE_FOR_OTHERS],
        capture_output=True,
        text=True,
        timeout=150,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert done.returncode == 0, done.stderr[-5000:]
    text = "its TaskExecutors take 2 CPUs, and the whole cluster has 1"
    assert done.stdout.count(text) == 2, done.stdout
