"""Why an actor's process died, in one line: from what Ray says of it, and from what is left in the process's log."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import ray
from ray.exceptions import RayTaskError, RuntimeEnvSetupError

from actors.protocol.ports import ENVIRONMENT_FAILED

_PID = re.compile(r"\bpid(?:: |=)(\d+)")
_NODE = re.compile(r"\b(?:ip|IP): ([^\s,)]+)")
_EXIT_CODE = re.compile(r"\bexit code (-?\d+)")
_CRASH = re.compile(r"\*\*\* (SIG[A-Z]+) received at ")
"""What Ray's handler of fatal signals writes into the log of a process."""
_UNKNOWN = "exits with a connection error"
"""Ray has only seen that the process is gone; what follows are guesses."""
_LOW_ON_MEMORY = re.compile(r"low on memory|NODE_OUT_OF_MEMORY|memory usage threshold", re.IGNORECASE)
_WAYS_OUT = (
    "keep state on disk (state.backend.type: rocksdb), spread it over more subtasks (parallelism.default), or have "
    "fewer slots on a node (taskmanager.numberOfTaskSlots)"
)
_TAIL_BYTES = 64 << 10


def cause_of_death(error: BaseException | None) -> str:
    """Why a process died, where that can be told, with the place of its log.

    Any thread, also Ray's own: Ray is asked nothing. Reads the process's log if it is on this node.

    Args:
        error: with which a call of the actor ended; None: it returned.
    """
    if isinstance(error, RuntimeEnvSetupError):
        return f"{ENVIRONMENT_FAILED}: {setup_failure(str(error))}; python.requirements and python.runtime-env name it"
    # The text of a RayTaskError has a process id too, of one that may live on.
    died = "" if isinstance(error, RayTaskError) else death_in(str(error), _logs_directory(), _tail_of_log)
    return died or first_line(error)


def setup_failure(text: str) -> str:
    """Why a runtime environment was not set up: what pip and its like call an error, else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return "; ".join(dict.fromkeys(errors)) or (lines[-1] if lines else "Ray does not say why")


def first_line(error: BaseException | None) -> str:
    """The first line of an error of Ray's, without the place where it was raised."""
    if isinstance(error, RayTaskError):
        error = error.cause  # the text of a RayTaskError begins with that place
    text = str(error).strip() if error is not None else ""
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else "the endpoint ended"


def death_in(text: str, logs: str, tail: Callable[[str, str], str]) -> str:
    """Why a process died, and where its log is; empty where the text is not of a process's death.

    Args:
        text: of Ray's error.
        logs: the directory of the logs on each node; empty: not known.
        tail: gives the end of the log of a process, by node and process id; empty: it is not here.
    """
    pid, node = (found[1] if (found := pattern.search(text)) else "" for pattern in (_PID, _NODE))
    if not pid:
        return ""
    crash, code = _CRASH.search(tail(node, pid)), _EXIT_CODE.search(text)
    if _UNKNOWN not in text and _LOW_ON_MEMORY.search(text):
        cause = f"was ended by Ray, as the node ran low on memory: {_WAYS_OUT}"
    elif crash is not None:
        cause = f"crashed with {crash[1]}"
    elif code is not None:
        cause = f"ended with exit code {code[1]}"
    elif _UNKNOWN not in text:
        cause = f"has ended: {text.splitlines()[-1].strip()}"
    else:
        cause = (
            "was killed by a signal, or ended itself by os._exit: Ray does not tell which. Where the system ran out of "
            f"memory it was SIGKILL (dmesg says so); then {_WAYS_OUT}"
        )
    log = f"; its log is {logs}/worker-*-{pid}.err" if logs else ""
    return f"process {pid} on node {node} {cause}{log}"


def _logs_directory() -> str:
    node = ray._private.worker._global_node
    return "" if node is None else str(node.get_logs_dir_path())


def _tail_of_log(node: str, pid: str) -> str:
    if node != ray.util.get_node_ip_address():  # type: ignore[no-untyped-call]
        return ""
    found = next(Path(_logs_directory()).glob(f"worker-*-{pid}.err"), None)
    if found is None:
        return ""
    with found.open("rb") as log:
        log.seek(max(0, found.stat().st_size - _TAIL_BYTES))
        return log.read().decode(errors="replace")
