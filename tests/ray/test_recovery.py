"""Processes and nodes that die while a job runs on a real Ray cluster: it goes on soon, and commits every row once.

A few cases always run, over fewer rows; all of them with `--recovery`; `make recovery` shows how long each took.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.recovery import RecoveryJob, run_with_kills, stop_killing_the_job_master

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]

MAX_RECOVERY_S = 10.0
# Most of a recovery is starting processes, which takes its time while a machine does other things too: what always runs
# is not to fail for that.
MAX_RECOVERY_BESIDE_OTHER_WORK_S = 45.0
# Ray gives a process that is to end, and does not hear that, five seconds.
MAX_RECOVERY_AFTER_SILENCE_S = 15.0
HEARTBEAT_TIMEOUT_S = 5.0
SHORT_HEARTBEATS = {"heartbeat.interval": "500 ms", "heartbeat.timeout": f"{HEARTBEAT_TIMEOUT_S:g} s"}
FEW_ROWS = 480_000
MANY_ROWS = 2_000_000
STOPPED_ROWS = 320_000

DELAYS_MS = [round(each * 100 / 29) for each in range(30)]
"""How long after a savepoint has appeared that stops the job its JobMaster dies: sinks commit, and the job ends."""

KINDS = ("TaskSlot", "TaskExecutor", "JobMaster", "Dispatcher", "ResourceManager")
UNNOTICED = ("Dispatcher", "ResourceManager")
"""Without them, tasks go on as if nothing had happened."""
SEVERAL = {
    "three slots": ("TaskSlot", "TaskSlot", "TaskSlot"),
    "a worker of each kind": ("TaskSlot", "TaskExecutor", "TaskSlot"),
    "masters after workers": ("TaskSlot", "JobMaster", "TaskExecutor"),
    "all masters": ("Dispatcher", "ResourceManager", "JobMaster"),
}


def run(
    directory: Path,
    rows: int,
    *victims: str,
    sent: signal.Signals = signal.SIGKILL,
    max_s: float = MAX_RECOVERY_S,
    **options: object,
) -> None:
    recoveries = run_with_kills(RecoveryJob(directory, rows, options=options), victims, sent)
    print("", *recoveries, sep="\n  ")
    for each in recoveries:
        assert each.has_restored == (each.killed not in UNNOTICED), each
    slow = [str(each) for each in recoveries if each.seconds > max_s]
    assert not slow, f"recoveries of more than {max_s} s: {slow}"


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("victim", ["TaskSlot", "TaskExecutor", "JobMaster"])
def test_a_short_job_goes_on_soon_after_a_kill_and_commits_every_row_once(tmp_path: Path, victim: str) -> None:
    run(tmp_path, FEW_ROWS, victim, max_s=MAX_RECOVERY_BESIDE_OTHER_WORK_S)


@pytest.mark.usefixtures("ray_cluster")
def test_a_short_job_goes_on_soon_after_sigterm_and_commits_every_row_once(tmp_path: Path) -> None:
    victims = ("TaskSlot", "JobMaster")
    run(tmp_path, FEW_ROWS, *victims, sent=signal.SIGTERM, max_s=MAX_RECOVERY_BESIDE_OTHER_WORK_S)


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("victim", ["TaskSlot", "JobMaster"])
def test_a_short_job_goes_on_some_time_after_a_process_hangs_and_commits_every_row_once(
    tmp_path: Path, victim: str
) -> None:
    max_s = HEARTBEAT_TIMEOUT_S + MAX_RECOVERY_BESIDE_OTHER_WORK_S
    run(tmp_path, FEW_ROWS, victim, sent=signal.SIGSTOP, max_s=max_s, **SHORT_HEARTBEATS)


@pytest.mark.recovery
@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("victim", KINDS)
def test_a_job_goes_on_some_time_after_a_process_hangs_and_commits_every_row_once(tmp_path: Path, victim: str) -> None:
    max_s = HEARTBEAT_TIMEOUT_S + MAX_RECOVERY_AFTER_SILENCE_S
    run(tmp_path, MANY_ROWS, victim, sent=signal.SIGSTOP, max_s=max_s, **SHORT_HEARTBEATS)


@pytest.mark.recovery
@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("victim", KINDS)
def test_a_job_goes_on_soon_after_sigterm_and_commits_every_row_once(tmp_path: Path, victim: str) -> None:
    run(tmp_path, MANY_ROWS, victim, sent=signal.SIGTERM)


@pytest.mark.recovery
@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("victim", KINDS)
def test_a_job_goes_on_soon_after_a_kill_and_commits_every_row_once(tmp_path: Path, victim: str) -> None:
    run(tmp_path, MANY_ROWS, victim)


@pytest.mark.recovery
@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("victims", SEVERAL.values(), ids=SEVERAL)
def test_a_job_goes_on_after_three_kills_and_commits_every_row_once(tmp_path: Path, victims: tuple[str, ...]) -> None:
    run(tmp_path, MANY_ROWS, *victims)


@pytest.mark.recovery
@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("delay_ms", DELAYS_MS)
def test_a_job_that_is_stopped_while_its_job_master_dies_has_committed_every_row_once(
    tmp_path: Path, delay_ms: int
) -> None:
    """Those of the job that goes on from the savepoint included."""
    print("", stop_killing_the_job_master(RecoveryJob(tmp_path, STOPPED_ROWS), delay_ms / 1000), sep="\n  ")


@pytest.mark.recovery
def test_a_job_goes_on_soon_after_the_loss_of_a_node_and_commits_every_row_once(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    # A cluster of several nodes cannot be had beside the one that other tests share in this process.
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.recovery", str(tmp_path), str(MANY_ROWS)],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert done.returncode == 0, done.stderr[-5000:]
    recovered = re.search(r".*recovered after ([\d.]+) s.*", done.stdout)
    assert recovered is not None, done.stdout
    print("", recovered[0], sep="\n  ")
    assert float(recovered[1]) < MAX_RECOVERY_S
