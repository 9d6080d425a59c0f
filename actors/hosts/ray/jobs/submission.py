"""Commands of `flinkray` as jobs of Ray, which its job API starts: each in a process on the cluster's head."""

from __future__ import annotations

import shlex
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import ray

from actors.rest.programs.running import CommandState
from flinkray.config.options import CLUSTER_ID, TARGET
from flinkray.errors import FlinkrayError

if TYPE_CHECKING:  # where it cannot be imported, nothing is submitted
    from ray.job_submission import JobSubmissionClient

_Found = TypeVar("_Found")

# What starts commands is up some time after the cluster is. Ray itself waits ten seconds for it, and then says that
# there is none, which is too early on a machine that does much else.
_AGENT_STARTS_S = 60.0
_STARTS_YET = "No available agent"


class RayJobHost:
    """Runs commands in the connected Ray cluster (a ProgramHost).

    Args:
        settings: the options with which jobs run where they are looked for.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._client: JobSubmissionClient | None = None

    @property
    def settings(self) -> Mapping[str, str]:
        return self._settings

    def start(self, arguments: list[str], files: Path) -> str:
        """The id is that of the Ray job, which `ray job logs` takes."""
        entrypoint = shlex.join([_command(), *arguments])
        runtime_env = {"working_dir": str(files)}
        deadline = time.monotonic() + _AGENT_STARTS_S
        while True:
            try:
                return str(
                    self._asked(lambda client: client.submit_job(entrypoint=entrypoint, runtime_env=runtime_env))
                )
            except FlinkrayError as error:
                if _STARTS_YET not in str(error) or time.monotonic() > deadline:
                    raise

    def state(self, command_id: str) -> CommandState:
        # First the status: what was printed before the end is then all there.
        status = self._asked(lambda client: client.get_job_status(command_id))
        return CommandState(status.is_terminal(), self._asked(lambda client: client.get_job_logs(command_id)))

    def stop(self, command_id: str) -> None:
        self._asked(lambda client: client.stop_job(command_id))

    def _asked(self, question: Callable[[Any], _Found]) -> _Found:
        try:
            return question(self._connected())
        except Exception as error:  # Ray has many, and any of them means this
            raise FlinkrayError(
                "Ray's job API, which runs uploaded programs, does not do it; it is a part of Ray's dashboard, which "
                f'has to run on the cluster\'s head (pip install "flinkray[dashboard]"): {error}'
            ) from error

    def _connected(self) -> JobSubmissionClient:
        with self._lock:
            if self._client is None:
                from ray.job_submission import JobSubmissionClient

                self._client = JobSubmissionClient(ray.get_runtime_context().gcs_address)
            return self._client


def _command() -> str:
    """`flinkray` of this process's Python, which has the same place on all nodes; else whichever is found there."""
    return shutil.which("flinkray", path=str(Path(sys.executable).parent)) or "flinkray"


def session_settings(cluster_id: str) -> Mapping[str, str]:
    """The options with which jobs run in a session."""
    return {TARGET.key: "ray-session", CLUSTER_ID.key: cluster_id}


def own_cluster_settings() -> Mapping[str, str]:
    """The options with which each job runs in a cluster of its own."""
    return {TARGET.key: "ray"}
