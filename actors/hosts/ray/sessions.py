"""Clusters of flinkray that outlive the process that started them: finding their Ray cluster, and them in it."""

from __future__ import annotations

import os

import ray
from ray.util import list_named_actors

from actors.hosts.ray.cluster import NAMESPACE, connect
from flinkray.errors import ConfigurationError


def connect_to_running_ray() -> None:
    """Connects this process to a running Ray cluster; one that this process started would end with it.

    Raises:
        ConfigurationError: no Ray cluster is running, or it refuses this process.
    """
    if ray.is_initialized():
        return
    try:
        connect()
    except ConnectionError as error:
        named = os.environ.get("RAY_ADDRESS", "local")
        what = (
            "no Ray cluster is running here" if named == "local" else f"no Ray cluster answers at RAY_ADDRESS={named}"
        )
        raise ConfigurationError(
            f"{what}, and one that this process starts would end with it: start one with `ray start --head`, or name "
            "one in RAY_ADDRESS. A job of execution.target=local is a part of its program, which prints the address to "
            "watch it at where rest.port or rest.bind-port is set"
        ) from error


def cluster_ids() -> frozenset[str]:
    """The flinkray clusters in the connected Ray cluster whose Dispatcher is alive."""
    suffix = "/dispatcher"
    named = list_named_actors(all_namespaces=True)
    names = {actor["name"] for actor in named if actor["namespace"] == NAMESPACE}
    return frozenset(name.removesuffix(suffix) for name in names if name.endswith(suffix))
