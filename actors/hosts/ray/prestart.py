"""Processes that start all at once, before the endpoints that will live in them.

Ray starts a process when an actor needs one, and a job's endpoints start each other: three processes would start one
after another.
"""

from __future__ import annotations

import logging
from typing import Any

import ray

from actors.hosts.ray.cluster import take_started

log = logging.getLogger(__name__)

# Ray ends those that no actor has taken by then, if there are more than its node has CPUs.
KEEP_ALIVE_SECONDS = 30

TIMEOUT_SECONDS = 5.0


def prestart(processes: int) -> None:
    """Has the local cluster that this process started begin that many, less those that are there; returns at once.

    It only saves time: where it fails, as Ray has no public way to do it, they start when they are needed.
    """
    missing = processes - take_started(processes)
    if missing <= 0:
        return
    try:
        _ask_for(missing)
    except Exception as error:
        log.debug("no processes are started beforehand: %s", error)


def _ask_for(processes: int) -> None:
    from ray._private import grpc_utils
    from ray.core.generated import node_manager_pb2, node_manager_pb2_grpc

    messages: Any = node_manager_pb2  # generated, without type hints
    services: Any = node_manager_pb2_grpc
    worker: Any = ray._private.worker.global_worker
    address = f"{worker.node.node_ip_address}:{worker.node.node_manager_port}"
    request = messages.PrestartWorkersRequest(
        job_id=worker.current_job_id.binary(), num_workers=processes, keep_alive_duration_secs=KEEP_ALIVE_SECONDS
    )
    with grpc_utils.init_grpc_channel(address) as channel:
        services.NodeManagerServiceStub(channel).PrestartWorkers(request, timeout=TIMEOUT_SECONDS)
