"""Endpoints whose processes die, on a real Ray cluster: what comes back, what ends, and who hears of it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from actors.protocol.ports import Address, EndpointGone, EndpointSpec
from tests.support.restarts import Closing, Stillborn, deaths, mortal
from tests.support.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.timeout(240)]

TIMEOUT_MS = 60_000.0
DEADLINE_S = 60.0
# For what takes no time beside that of a machine that does much else, and ten minutes or for ever where it is broken.
SOON_S = 30.0


class RayCluster:
    """A host of a cluster of its own, with short names."""

    def __init__(self, is_detached: bool = False) -> None:
        from actors.hosts.ray.host import RayHost

        self.id = f"restarts-{uuid.uuid4().hex[:6]}"
        self.host = RayHost(self.id, is_detached)

    def name(self, short: str) -> Address:
        return Address(f"{self.id}/{short}")

    def ask(self, short: str, request: Any) -> Any:
        return self.host.ask(self.name(short), request, TIMEOUT_MS)

    def pid(self, short: str) -> int:
        pid: int = self.ask(short, "pid")
        return pid

    def tell(self, short: str, message: Any) -> None:
        self.host.tell(self.name(short), message)

    def spawn(self, short: str, **options: Any) -> None:
        self.host.spawn(mortal(self.name(short), **options))

    def kill_process(self, short: str) -> None:
        os.kill(self.pid(short), signal.SIGKILL)

    def deaths(self, watcher: str, short: str) -> int:
        return deaths(self.ask(watcher, "seen"), self.name(short))

    def hears(self, watcher: str, short: str, count: int) -> None:
        eventually(lambda: self.deaths(watcher, short), lambda heard: heard >= count, DEADLINE_S)

    def watch(self, watcher: str, *shorts: str) -> None:
        """Returns when they are watched."""
        for short in shorts:
            self.tell(watcher, ("watch", self.name(short)))
        self.tell(watcher, ("watching", shorts))
        eventually(lambda: self.ask(watcher, "seen"), lambda seen: ("watching", shorts) in seen, DEADLINE_S)


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[RayCluster]:
    request.getfixturevalue("ray_cluster")
    cluster = RayCluster()
    yield cluster
    cluster.host.shutdown()
    assert cluster.host.addresses() == frozenset()


def test_each_kill_of_a_process_is_heard_of_once_by_every_watcher(cluster: RayCluster) -> None:
    cluster.spawn("master", restarts=True)
    for watcher in ("one", "two"):
        cluster.spawn(watcher)
        cluster.watch(watcher, "master")
    pids = [cluster.pid("master")]
    for round_ in (1, 2):
        cluster.kill_process("master")
        cluster.hears("one", "master", round_)
        cluster.hears("two", "master", round_)
        pids.append(cluster.pid("master"))
    assert len(set(pids)) == 3
    cluster.host.kill(cluster.name("master"))
    cluster.hears("one", "master", 3)
    cluster.hears("two", "master", 3)
    with pytest.raises(EndpointGone):
        cluster.ask("master", "pid")
    assert cluster.deaths("one", "master") == cluster.deaths("two", "master") == 3


@pytest.mark.parametrize("restarts", [False, True])
def test_sigterm_ends_a_process_within_seconds_which_is_then_dead_like_any_other(
    cluster: RayCluster, restarts: bool
) -> None:
    cluster.spawn("watched", restarts=restarts)
    cluster.spawn("watcher")
    cluster.watch("watcher", "watched")
    pid = cluster.pid("watched")
    os.kill(pid, signal.SIGTERM)
    eventually(lambda: not Path(f"/proc/{pid}").exists(), deadline_s=SOON_S)
    cluster.hears("watcher", "watched", 1)
    if restarts:
        assert cluster.pid("watched") != pid
    else:
        with pytest.raises(EndpointGone):
            cluster.pid("watched")


@pytest.mark.parametrize("takes_s", [0.0, 600.0])
def test_an_endpoint_that_gets_sigterm_ends_what_it_has_and_says_nothing_more(
    cluster: RayCluster, tmp_path: Path, takes_s: float
) -> None:
    path = tmp_path / "stopped"
    cluster.spawn("journal")
    arguments = (cluster.name("journal"), str(path), takes_s)
    cluster.host.spawn(EndpointSpec(cluster.name("closing"), Closing, arguments))
    cluster.watch("journal", "closing")
    pid = cluster.pid("closing")
    os.kill(pid, signal.SIGTERM)
    eventually(lambda: not Path(f"/proc/{pid}").exists(), deadline_s=SOON_S)
    cluster.hears("journal", "closing", 1)
    assert path.read_text() == "stopped"
    assert "it ends" not in cluster.ask("journal", "seen")


FORKING = """
import os, signal, threading
from actors.hosts.ray.termination import on_sigterm
on_sigterm(lambda: print("ends", flush=True))
child = os.fork()
if not child:
    threading.Event().wait()
os.kill(child, signal.SIGTERM)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
print("goes on", flush=True)
os.kill(os.getpid(), signal.SIGTERM)
threading.Event().wait()
"""


def test_sigterm_to_a_process_that_a_function_has_forked_ends_that_one_alone() -> None:
    done = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.stdout.split("\n") == ["goes on", "ends", ""], done.stderr
    assert done.returncode == 128 + signal.SIGTERM


def test_nothing_of_a_new_life_is_heard_before_the_notice_of_the_old_ones_death(cluster: RayCluster) -> None:
    cluster.spawn("master", restarts=True)
    cluster.spawn("watcher")
    cluster.watch("watcher", "master")
    for _ in range(3):
        cluster.kill_process("master")
        pid = cluster.pid("master")  # it is there again, mostly long before Ray says that it had died
        cluster.tell("master", ("greet", cluster.name("watcher")))
        eventually(lambda pid=pid: ("greeting", pid) in cluster.ask("watcher", "seen"), deadline_s=DEADLINE_S)  # type: ignore[misc]
    heard = [what for what in cluster.ask("watcher", "seen") if what[0] in ("died", "greeting")]
    assert [what[0] for what in heard] == ["died", "greeting"] * 3


@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_sent_between_kills_arrives_in_order_within_a_life_or_comes_back(
    cluster: RayCluster, seed: int
) -> None:
    chance = random.Random(seed)
    cluster.spawn("journal")
    cluster.spawn("sender")
    cluster.host.spawn(mortal(cluster.name("master"), cluster.name("journal"), restarts=True))
    cluster.watch("sender", "master")
    pause = threading.Event()
    sent, must_arrive = 0, set()
    for round_ in range(1, 4):
        for _ in range(chance.randint(1, 30)):
            cluster.tell("sender", ("forward", cluster.name("master"), ("number", sent)))
            sent += 1
        pause.wait(chance.random() * 0.05)
        cluster.kill_process("master")
        for _ in range(chance.randint(1, 30)):
            cluster.tell("sender", ("forward", cluster.name("master"), ("number", sent)))
            must_arrive.add(sent)  # its receiver is dead: only the next life can get it
            sent += 1
            pause.wait(chance.random() * 0.1)
        cluster.hears("sender", "master", round_)
        cluster.pid("master")

    def known() -> set[int]:
        back = {what[2][1] for what in cluster.ask("sender", "seen") if what[0] == "undelivered"}
        return back | {what[2] for what in cluster.ask("journal", "seen")}

    eventually(known, lambda numbers: must_arrive <= numbers, DEADLINE_S)
    came = [what[1:] for what in cluster.ask("journal", "seen")]
    for pid, of_life in groupby(came, lambda entry: entry[0]):
        numbers = [number for _, number in of_life]
        assert numbers == sorted(numbers), f"out of order in the life {pid}"


def test_an_endpoint_that_is_killed_while_it_is_started_again_does_not_come_back(cluster: RayCluster) -> None:
    cluster.spawn("master", restarts=True)
    cluster.spawn("watcher")
    cluster.watch("watcher", "master")
    cluster.kill_process("master")
    cluster.host.kill(cluster.name("master"))
    with pytest.raises(EndpointGone):
        eventually(lambda: cluster.ask("master", "pid"), lambda _: False, DEADLINE_S)
    cluster.hears("watcher", "master", 1)


def test_an_endpoint_that_cannot_be_constructed_is_not_tried_without_a_pause(
    cluster: RayCluster, tmp_path: Path
) -> None:
    from actors.hosts.runtime import RESTART_INTERVAL_S

    path = tmp_path / "starts"
    cluster.host.spawn(EndpointSpec(cluster.name("stillborn"), Stillborn, (str(path),), restarts=True))

    def starts() -> list[float]:
        return [float(line) for line in path.read_text().splitlines()] if path.exists() else []

    times = eventually(starts, lambda times: len(times) >= 5, DEADLINE_S)
    assert times[2] - times[0] >= 0.9 * RESTART_INTERVAL_S
    assert times[4] - times[2] >= 0.9 * RESTART_INTERVAL_S
    cluster.host.kill(cluster.name("stillborn"))


def spawn_workers(cluster: RayCluster) -> None:
    """`master` with a worker, whose slot dies with it; `watcher` watches all of them."""
    cluster.spawn("master", restarts=True)
    cluster.spawn("watcher")
    cluster.tell("master", ("spawn", mortal(cluster.name("worker"))))
    cluster.tell("master", ("forward", cluster.name("worker"), "hello"))
    eventually(lambda: cluster.host.addresses(), lambda names: cluster.name("worker") in names, DEADLINE_S)
    slot = mortal(cluster.name("slot"), dies_with_spawner=True, node_of=cluster.name("worker"))
    cluster.tell("worker", ("spawn", slot))
    eventually(lambda: cluster.host.addresses(), lambda names: cluster.name("slot") in names, DEADLINE_S)
    cluster.pid("slot")
    cluster.watch("watcher", "master", "worker", "slot")


def test_workers_outlive_the_process_of_their_master_and_slots_do_not_outlive_their_worker(cluster: RayCluster) -> None:
    spawn_workers(cluster)
    worker, slot = cluster.pid("worker"), cluster.pid("slot")
    cluster.kill_process("master")
    cluster.hears("watcher", "master", 1)
    cluster.pid("master")
    assert (cluster.pid("worker"), cluster.pid("slot")) == (worker, slot)
    assert cluster.deaths("watcher", "worker") == cluster.deaths("watcher", "slot") == 0
    cluster.kill_process("worker")
    cluster.hears("watcher", "slot", 1)
    cluster.hears("watcher", "worker", 1)


def test_workers_end_when_their_master_is_gone_for_good(cluster: RayCluster) -> None:
    spawn_workers(cluster)
    cluster.host.kill(cluster.name("master"))
    eventually(cluster.host.addresses, lambda names: names == {cluster.name("watcher")}, DEADLINE_S)


DRIVER = """
import sys
import ray
ray.init(address=sys.argv[1], namespace="flinkray", logging_level="ERROR", log_to_driver=False)
from actors.hosts.ray.host import RayHost
from tests.support.restarts import mortal
from tests.support.waiting import eventually

cluster_id, is_detached = sys.argv[2], sys.argv[3] == "detached"
host = RayHost(cluster_id, is_detached)
host.spawn(mortal(f"{cluster_id}/master", restarts=True))
host.spawn(mortal(f"{cluster_id}/other"))
for child, options in {"worker": {}, "leader": {"restarts": True}, "waiting": {"cpus": 1000.0}}.items():
    host.tell(f"{cluster_id}/master", ("spawn", mortal(f"{cluster_id}/{child}", **options)))
eventually(host.addresses, lambda names: len(names) == 5, 60)
host.tell(f"{cluster_id}/worker", ("spawn", mortal(f"{cluster_id}/slot", dies_with_spawner=True)))
eventually(host.addresses, lambda names: len(names) == 6, 60)
for child in ("worker", "leader", "slot"):
    host.ask(f"{cluster_id}/{child}", "pid", 60_000.0)
print("ready", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def driver(request: pytest.FixtureRequest) -> Iterator[Any]:
    request.getfixturevalue("ray_cluster")
    import ray

    started: list[subprocess.Popen[str]] = []

    def start(cluster: RayCluster, mode: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", DRIVER, ray.get_runtime_context().gcs_address, cluster.id, mode]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert len(cluster.host.addresses()) == 6
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("end", ["killed", "exits"])
def test_nothing_outlives_its_driver(cluster: RayCluster, driver: Any, end: str) -> None:
    process = driver(cluster, "attached")
    if end == "killed":
        process.kill()
    else:
        process.communicate("\n", timeout=DEADLINE_S)
    eventually(cluster.host.addresses, lambda names: not names, deadline_s=SOON_S)


def test_a_detached_cluster_outlives_its_driver_and_goes_on_restarting(cluster: RayCluster, driver: Any) -> None:
    process = driver(cluster, "detached")
    worker, master = cluster.pid("worker"), cluster.pid("master")
    process.kill()
    process.communicate()
    cluster.kill_process("master")
    assert cluster.pid("master") != master
    assert cluster.pid("worker") == worker
    assert len(cluster.host.addresses()) == 6
