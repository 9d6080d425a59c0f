"""The REST server of a cluster, as its client starts it; and one that is attached to what runs on Ray."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from actors.client.cluster import is_job_cluster
from actors.protocol.client_requests import GetRestUrl
from actors.protocol.ports import Address, EndpointSpec, Host
from flinkray.config.configuration import Configuration
from flinkray.config.rest_options import REST_BIND_PORT, REST_PORT
from flinkray.errors import FlinkrayError

if TYPE_CHECKING:  # a job without a server starts sooner without it
    from actors.rest.asking.masters import Clusters
    from actors.rest.programs.running import ProgramHost

# Its process is started first.
_START_TIMEOUT_MS = 120_000.0


def _nothing() -> None:
    pass


class Rest(Struct, frozen=True):
    """The server of a cluster."""

    url: str = ""
    """Empty: there is none."""
    close: Callable[[], None] = _nothing
    """Ends one that is in this process."""


def is_wanted(configuration: Configuration) -> bool:
    """Whether a server is to run: nothing listens that nobody has asked for."""
    return configuration.is_set(REST_PORT) or configuration.is_set(REST_BIND_PORT)


def start_rest(host: Host, cluster_id: str, configuration: Configuration, *, in_process: bool) -> Rest:
    """Starts the server that the options ask for, and returns when it listens.

    Args:
        in_process: in this process; else as an endpoint beside the Dispatcher, which is on Ray.

    Raises:
        MissingDependencyError, ConfigurationError: as `start_server`.
    """
    if not is_wanted(configuration):
        return Rest()
    if in_process:
        from actors.rest.asking.masters import OneCluster

        return _in_this_process(configuration, OneCluster(cluster_id, host))
    address = Address(f"{cluster_id}/rest")
    host.spawn(
        EndpointSpec(
            address,
            "actors.hosts.ray.rest:RestEndpoint",
            (cluster_id, configuration, not is_job_cluster(cluster_id)),
            display_name=f"RestServer({cluster_id})",
            restarts=True,
        )
    )
    return Rest(host.ask(address, GetRestUrl(), _START_TIMEOUT_MS))


class RayClusters:
    """All clusters of the connected Ray, or one of them (a `Clusters`)."""

    def __init__(self, cluster_id: str | None = None) -> None:
        self._only = cluster_id
        self._hosts: dict[str, Host] = {}

    def hosts(self) -> Mapping[str, Host]:
        from actors.hosts.ray.host import RayHost
        from actors.hosts.ray.sessions import cluster_ids

        try:
            names = cluster_ids() if self._only is None else {self._only}
        except Exception as error:  # Ray has many, and any of them means this
            raise FlinkrayError(f"the Ray cluster does not say what runs on it: {error}") from error
        self._hosts = {name: self._hosts.get(name) or RayHost(name, is_detached=True) for name in names}
        return self._hosts


def attach(configuration: Configuration, cluster_id: str | None) -> Rest:
    """Starts a server in this process over what runs on Ray.

    Args:
        cluster_id: only that cluster; None: all, also those that are started later.

    Raises:
        ConfigurationError: no Ray cluster is running; and as `start_server`.
        MissingDependencyError: as `start_server`.
    """
    from actors.hosts.ray.sessions import connect_to_running_ray

    connect_to_running_ray()
    return _in_this_process(configuration, RayClusters(cluster_id), _program_host(cluster_id))


def _program_host(cluster_id: str | None) -> ProgramHost | None:
    """What runs uploaded programs where such a server looks; None: nothing, as it looks at a single job."""
    from actors.hosts.ray.jobs.submission import RayJobHost, own_cluster_settings, session_settings

    if cluster_id is None:
        return RayJobHost(own_cluster_settings())
    return None if is_job_cluster(cluster_id) else RayJobHost(session_settings(cluster_id))


def _in_this_process(configuration: Configuration, clusters: Clusters, program_host: ProgramHost | None = None) -> Rest:
    from actors.checkpoints.storage.disposal import dispose_savepoint
    from actors.rest.starting import start_server, url_of

    server = start_server(configuration, clusters, dispose_savepoint, program_host)
    return Rest(url_of(server, configuration), server.close)
