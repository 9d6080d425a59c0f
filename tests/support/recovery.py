"""A job on Ray whose processes are killed while it runs, and what it must have committed all the same.

Run as a module it does so in a Ray cluster of several nodes, of which it removes one, and prints how the
job went on: `python -m tests.support.recovery <directory> <rows>`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import duckdb
import numpy as np
import numpy.typing as npt

from actors.client.cluster import job_cluster_id
from examples.servers import free_port
from flinkray import (
    Configuration,
    Count,
    DataGenSource,
    FileSink,
    JobClient,
    JobStatus,
    StreamExecutionEnvironment,
    Sum,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from tests.support.waiting import eventually

HOUR_MS = 3_600_000
KEYS = 1_000
# 36 rows in a window and key.
STEP_MS = 100

Rows = npt.NDArray[np.int64]

DEADLINE_S = 90.0
"""For whatever is waited for; far more than is allowed, so that a slow recovery is told from none."""


def key(rows: Rows) -> Rows:
    return (rows * 2_654_435_761 >> 7) % KEYS


def value(rows: Rows) -> Rows:
    return rows * 7919 % 997 + 1


def event_time(rows: Rows) -> Rows:
    return rows * STEP_MS


@dataclass(frozen=True)
class RecoveryJob:
    """Running sums of each key, and sums of each key and hour, into files below `directory`; takes checkpoints."""

    directory: Path
    rows: int
    rows_per_second: int = 80_000
    savepoint: str = ""
    """That the job starts from."""
    options: Mapping[str, object] = field(default_factory=dict)

    def submit(self) -> JobClient:
        options = {
            "parallelism.default": 2,
            "execution.target": "ray",
            "execution.checkpointing.interval": "200 ms",
            "execution.checkpointing.dir": str(self.directory / "checkpoints"),
            "execution.state-recovery.path": self.savepoint,
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 20,
            "restart-strategy.fixed-delay.delay": "100 ms",
            **self.options,
        }
        environment = StreamExecutionEnvironment.get_execution_environment(Configuration(options))
        source = DataGenSource(
            {"key": key, "value": value, "time": event_time}, self.rows, rows_per_second=self.rows_per_second
        )
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("time")
        keyed = environment.from_source(source, strategy, "rows").key_by("key")
        keyed.aggregate(count=Count(), total=Sum("value")).sink_to(FileSink(self.directory / "running"))
        windows = keyed.window(TumblingEventTimeWindows.of("1 h")).aggregate(count=Count(), total=Sum("value"))
        windows.sink_to(FileSink(self.directory / "windows"))
        return environment.execute_async("recovery")

    def check(self) -> None:
        """Every row has counted exactly once, in both results, as DuckDB computes them from the same rows."""
        numbers = np.arange(self.rows, dtype=np.int64)
        columns = {"key": key(numbers), "value": value(numbers), "time": event_time(numbers)}
        with duckdb.connect() as database:
            database.register("input", columns)
            for name in ("running", "windows"):
                files = sorted(str(path) for path in (self.directory / name).glob("[!.]*.parquet"))
                database.read_parquet(files).create_view(name)
            self._check_windows(database)
            self._check_running(database)

    def _check_windows(self, database: duckdb.DuckDBPyConnection) -> None:
        expected = f"""
            SELECT key, time // {HOUR_MS} * {HOUR_MS} AS window_start, count(*) AS count, sum(value)::BIGINT AS total
            FROM input GROUP BY ALL"""
        found = "SELECT key, window_start, count, total FROM windows"
        _check_same(database, expected, found)

    def _check_running(self, database: duckdb.DuckDBPyConnection) -> None:
        """The order of a key's rows from two sources is not given: it has each of the counts 1, 2, ... once, and what
        the total grows by from one to the next are the values of its rows."""
        _check_same(
            database,
            "SELECT key, row_number() OVER (PARTITION BY key) AS count FROM input",
            "SELECT key, count FROM running",
        )
        _check_same(
            database,
            "SELECT key, value FROM input",
            "SELECT key, total - lag(total, 1, 0) OVER (PARTITION BY key ORDER BY count) AS value FROM running",
        )


def _check_same(database: duckdb.DuckDBPyConnection, expected: str, found: str) -> None:
    for what, first, second in (("missing", expected, found), ("too many", found, expected)):
        rows = database.sql(f"({first}) EXCEPT ALL ({second})").limit(10).fetchall()
        assert not rows, f"{what}: {rows}; expected: {expected}"


# -- processes ---------------------------------------------------------------------------------------------------


def processes(client: JobClient) -> list[Any]:
    """The actors of the job's cluster whose processes run, as `ray list actors` shows them."""
    import ray
    from ray.util.state import list_actors

    prefix = f"{job_cluster_id(client.job_id)}/"
    actors = list_actors(address=ray.get_runtime_context().gcs_address, limit=1000, detail=True)
    return [actor for actor in actors if actor.state == "ALIVE" and (actor.name or "").startswith(prefix)]


def pids_of(client: JobClient, class_name: str) -> set[int]:
    return {actor.pid for actor in processes(client) if actor.class_name == class_name}


@dataclass(frozen=True, slots=True)
class Recovery:
    """How a job went on after a kill; in seconds since then."""

    killed: str
    seconds: float
    """Until a checkpoint was complete that was triggered after the kill, and the processes were as many as before."""
    has_restored: bool
    """The job's tasks began again from a checkpoint."""
    statuses: tuple[str, ...]
    """What the job was found to be meanwhile, and when."""

    def __str__(self) -> str:
        tasks = "began again" if self.has_restored else "went on"
        return f"{self.killed}: recovered after {self.seconds:.2f} s; its tasks {tasks} ({', '.join(self.statuses)})"


class _Watch:
    """Looks at a job from the moment of a kill on."""

    def __init__(self, client: JobClient) -> None:
        self._client = client
        self._restored = client.checkpoints().latest_restored
        self._killed_ms, self._started = time.time() * 1000, time.monotonic()
        self._statuses: list[str] = []
        self._last: JobStatus | None = None

    def seconds(self) -> float:
        return time.monotonic() - self._started

    def await_checkpoint(self) -> None:
        """Returns once a checkpoint is complete that was triggered since."""
        went_on = eventually(self._went_on, lambda found: found is not None, DEADLINE_S)
        if not went_on:
            self._client.result(timeout=1)  # raises why the job failed
            raise AssertionError("the job was over before it had to recover: give it more rows")

    def _went_on(self) -> bool | None:
        """None: not yet. False: it is over."""
        latest, status = self._client.checkpoints().latest_completed, self._client.status()
        if status is not self._last:
            self._statuses.append(f"{status.value} at {self.seconds():.2f}")
            self._last = status
        if latest is not None and latest.triggered_ms > self._killed_ms:
            return True
        return False if status.is_terminal else None

    def recovery(self, killed: str) -> Recovery:
        has_restored = self._client.checkpoints().latest_restored != self._restored
        return Recovery(killed, self.seconds(), has_restored, tuple(self._statuses))


def await_checkpoints(client: JobClient, count: int) -> None:
    """Returns once the job has completed that many since its JobMaster started."""

    def is_decided() -> bool:
        return client.checkpoints().counts.completed >= count or client.status().is_terminal

    eventually(is_decided, bool, DEADLINE_S)
    if client.status().is_terminal:
        client.result(timeout=1)
        raise AssertionError("the job was over before it had to recover: give it more rows")


def kill_and_recover(client: JobClient, class_name: str, sent: signal.Signals) -> Recovery:
    """Sends a signal to one process of that class, and waits until the job goes on with as many others of them."""
    await_checkpoints(client, 3)
    before = pids_of(client, class_name)
    victim = min(before)
    watch = _Watch(client)

    def is_replaced(pids: set[int]) -> bool:
        return victim not in pids and len(pids) >= len(before)

    os.kill(victim, sent)
    try:
        watch.await_checkpoint()
        eventually(lambda: pids_of(client, class_name), is_replaced, DEADLINE_S)
        return watch.recovery(class_name)
    finally:
        if sent is signal.SIGSTOP:
            with contextlib.suppress(ProcessLookupError):  # it has been ended; else it wakes, and finds its place taken
                os.kill(victim, signal.SIGCONT)


class CheckedJob(Protocol):
    """A job that can be submitted, and says whether what it has written is right."""

    def submit(self) -> JobClient: ...

    def check(self) -> None: ...


def run_with_kills(job: CheckedJob, victims: Sequence[str], sent: signal.Signals = signal.SIGKILL) -> list[Recovery]:
    """Runs the job to its end, sends the signal to a process of each of these classes on the way, one after the other,
    and checks what it has committed."""
    client = job.submit()
    try:
        recoveries = [kill_and_recover(client, name, sent) for name in victims]
        client.result(timeout=120)
    finally:
        client.close()
    job.check()
    return recoveries


# -- stopping with a savepoint -----------------------------------------------------------------------------------


def stop_killing_the_job_master(job: RecoveryJob, delay_s: float) -> str:
    """Stops the job with a savepoint, goes on from that to the end, and checks what both have committed; gives how the
    first one ended.

    Args:
        delay_s: how long after the savepoint's metadata has appeared the JobMaster is killed.
    """
    directory = job.directory / "savepoints"
    client = job.submit()
    try:
        await_checkpoints(client, 2)
        (job_master,) = pids_of(client, "JobMaster")
        with ThreadPoolExecutor(1) as driver:
            stopping = driver.submit(client.stop_with_savepoint, str(directory), timeout=DEADLINE_S)
            eventually(lambda: any(directory.glob("*/_metadata")), bool, DEADLINE_S)
            threading.Event().wait(delay_s)
            with suppress(ProcessLookupError):  # it may have done all that it had to
                os.kill(job_master, signal.SIGKILL)
            saved = stopping.result()
        savepoints = len(list(directory.glob("*/_metadata")))
        was_replaced = client.checkpoints().latest_restored is not None
    finally:
        client.close()
    following = replace(job, savepoint=saved).submit()
    try:
        following.result(timeout=120)
    finally:
        following.close()
    job.check()
    how = "by its second JobMaster" if was_replaced else "by its first JobMaster"
    return f"JobMaster killed {delay_s * 1000:.0f} ms after the savepoint: stopped {how}, {savepoints} savepoint(s)"


# -- nodes -------------------------------------------------------------------------------------------------------


def run_losing_a_node(job: RecoveryJob) -> Recovery:
    """The same in a Ray cluster of its own, of which a node with a slot is removed. In a process without Ray only."""
    import ray
    from ray.cluster_utils import Cluster

    memory = 200 << 20
    # The dashboard answers what processes there are. Its usual port may be that of another cluster on this machine.
    head = {"num_cpus": 1, "include_dashboard": True, "dashboard_port": free_port(), "object_store_memory": memory}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    client = None
    try:
        # Three slots' room beside the head: two are taken, so that what is lost finds a place.
        nodes = {
            node.node_id: node for node in (cluster.add_node(num_cpus=1, object_store_memory=memory) for _ in "123")
        }
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, namespace="flinkray")
        client = job.submit()
        await_checkpoints(client, 3)
        slots = {actor.node_id for actor in processes(client) if actor.class_name == "TaskSlot"}
        masters = {actor.node_id for actor in processes(client) if not actor.class_name.startswith("Task")}
        # A node without masters where there is one: those have cases of their own.
        victim = min(slots & set(nodes), key=lambda node: (node in masters, node))
        watch = _Watch(client)
        cluster.remove_node(nodes[victim], allow_graceful=False)
        watch.await_checkpoint()
        recovery = watch.recovery("a node with a slot" + (" and a master" if victim in masters else ""))
        client.result(timeout=120)
    finally:
        if client is not None:
            client.close()
        ray.shutdown()
        cluster.shutdown()  # type: ignore[no-untyped-call]
    job.check()
    return recovery


if __name__ == "__main__":
    print(run_losing_a_node(RecoveryJob(Path(sys.argv[1]), int(sys.argv[2]))))
