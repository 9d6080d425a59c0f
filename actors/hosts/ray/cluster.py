"""Connects this process to Ray: to the cluster that is running, else to a local one that is started for the driver."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import secrets
import socket
from pathlib import Path

import ray
from ray._private.node import Node
from ray.util.client import ray as ray_client

from actors.hosts.java import prepare_java
from flinkray.errors import ConfigurationError, MissingDependencyError

log = logging.getLogger(__name__)

NAMESPACE = "flinkray"

# A local cluster declares at least this many logical CPUs: slots and Spark executors each take one from Ray's pool,
# and they mostly wait for each other, so a small machine may hold more of them than it has cores.
LOCAL_CPUS = 8

# Ray frees objects that nobody refers to once a second; a stream makes hundreds of megabytes of them in that time.
# Freed at once, their memory is used again while it is warm, and the store stays a third smaller.
_FREE_AT_ONCE = ("RAY_free_objects_period_milliseconds", "0")

# Systems give connections the ports from 32768 on, Ray its workers those from 10002 to 19999.
_QUIET_PORTS = range(20_000, 32_000)

_own_address: str | None = None
"""The address of the cluster that this process started last."""


def ensure_ray(extra_cpus: float = 0.0) -> None:
    """Connects this process to the cluster of RAY_ADDRESS, else to the one on this machine, else to a fresh local one.

    Args:
        extra_cpus: logical CPUs that a fresh local cluster declares in addition. A running cluster stays as it is.
    """
    if ray.is_initialized():
        return
    if os.environ.get("RAY_ADDRESS") == "local":
        start_local_cluster(extra_cpus)
        return
    try:
        connect()
    except ConnectionError:
        if os.environ.get("RAY_ADDRESS"):
            raise
        start_local_cluster(extra_cpus)


def connect() -> None:
    """Connects this process to the cluster of RAY_ADDRESS, else to the one on this machine.

    Raises:
        ConnectionError: there is no such cluster.
        ConfigurationError: it wants a token that this process does not show, or cannot be used for another reason, such
            as an address that is none, or a Ray or Python of another version.
    """
    address = os.environ.get("RAY_ADDRESS") or "auto"
    if address == "local":
        raise ConnectionError("RAY_ADDRESS=local asks for a cluster of this process's own")
    _prepare_java()
    try:
        ray.init(address=address, namespace=NAMESPACE, logging_level=logging.WARNING)
    except ConnectionError as error:
        if not _is_about_token(error):
            raise
        raise ConfigurationError(_wrong_token(address)) from error
    except Exception as error:  # Ray has many: of the address, of versions that differ, of what it finds there
        reason = _wrong_token(address) if _is_about_token(error) else _unusable(address, error)
        raise ConfigurationError(reason) from error
    log.info("connected to the Ray cluster %s", address)


def _is_about_token(error: BaseException) -> bool:
    """Whether the cluster has refused this process; some versions of Ray have a class for that, in some cases."""
    return type(error).__name__ == "AuthenticationError" or "InvalidAuthToken" in f"{error} {error.__cause__}"


def _unusable(address: str, error: Exception) -> str:
    return f"the Ray cluster {_named(address)} cannot be connected to: {' '.join(str(error).split())}"


def _named(address: str) -> str:
    return "on this machine" if address == "auto" else address


def _wrong_token(address: str) -> str:
    shows_one = os.environ.get("RAY_AUTH_MODE") == "token"
    problem = "this process shows none that it takes" if shows_one else "RAY_AUTH_MODE=token is not set here"
    return (
        f"the Ray cluster {_named(address)} wants a token, and {problem}: set RAY_AUTH_MODE=token, and put the token "
        "that `ray get-auth-token` prints there into ~/.ray/auth_token, into RAY_AUTH_TOKEN, or into the file that "
        "RAY_AUTH_TOKEN_PATH names"
    )


def start_local_cluster(extra_cpus: float = 0.0) -> None:
    """Starts a Ray cluster of this process's own, which ends with it."""
    _prepare_java()
    os.environ.setdefault(*_FREE_AT_ONCE)
    cpus = max(LOCAL_CPUS, os.cpu_count() or 1) + math.ceil(extra_cpus)
    ray.init(
        address="local",
        num_cpus=cpus,
        namespace=NAMESPACE,
        logging_level=logging.WARNING,
        _metrics_export_port=_metrics_port(),
    )
    global _own_address
    _own_address = ray.get_runtime_context().gcs_address
    log.info("started a local Ray cluster with %d logical CPUs", cpus)


def _metrics_port() -> int | None:
    """Where the node's agent serves its metrics; None: at one that it takes itself, as newer versions of Ray have it.

    Older ones choose a port that is free among those of connections, and as the agent starts, seconds later, one of the
    others that start meanwhile may have connected from there: that node would serve no metrics, without a word.
    """
    if not hasattr(Node, "_get_cached_port"):
        return None
    while True:
        port = secrets.choice(_QUIET_PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            return port


def _prepare_java() -> None:
    """Puts Java on PATH, without which Spark could not be started later in this Ray; other jobs need none."""
    try:
        prepare_java()
    except MissingDependencyError as error:
        log.info("no Java for Spark: %s", error)


def dashboard_hint() -> str:
    """Where the dashboard of the connected cluster is, and how to find the token it may ask for; "" without
    dashboard."""
    if not ray.is_initialized():
        return ""
    # Initialising again changes nothing, and is the public way to the context of the running connection.
    url = ray.init(ignore_reinit_error=True, logging_level=logging.ERROR).dashboard_url
    if not url:
        return ""
    text = f"http://{url}"
    token = os.environ.get("RAY_AUTH_TOKEN_PATH") or str(Path.home() / ".ray" / "auth_token")
    if os.environ.get("RAY_AUTH_MODE") == "token" or Path(token).exists():
        text += f" (if it asks for a token: `ray get-auth-token` prints it, or see {token})"
    return text


def require_driver() -> None:
    """Checks that this process is a driver of Ray itself.

    Raises:
        ConfigurationError: it is connected through Ray Client, which does not say what a cluster of a job's own needs.
    """
    if not ray_client.is_connected():  # type: ignore[no-untyped-call]
        return
    raise ConfigurationError(
        "a cluster of the job's own (execution.target: ray) cannot be started through Ray Client (ray://…): run the "
        "program with `ray job submit`, or on a node of the Ray cluster with RAY_ADDRESS=auto, or submit it to a "
        "session (execution.target: ray-session)"
    )


def is_own_cluster() -> bool:
    """Whether this process started the Ray cluster that it is connected to, which then ends with this process."""
    return ray.is_initialized() and ray.get_runtime_context().gcs_address == _own_address
