"""The REST server of a cluster on Ray: an endpoint beside the Dispatcher, with a process of its own."""

from __future__ import annotations

import logging
from typing import Any

from actors.checkpoints.storage.disposal import dispose_savepoint
from actors.hosts.ray.host import RayHost
from actors.hosts.ray.jobs.submission import RayJobHost, session_settings
from actors.logs.setting_up import LogSettings
from actors.protocol.client_requests import GetRestUrl, ListJobs
from actors.protocol.main_thread import MainThread, RunAsync
from actors.protocol.ports import Address, Endpoint, EndpointContext, EndpointDied, EndpointGone, Payloads
from actors.rest.asking.masters import OneCluster
from actors.rest.server import RestServer
from actors.rest.starting import start_server, url_of
from flinkray.config.configuration import Configuration

log = logging.getLogger(__name__)

# A Dispatcher that is started again is back by then.
_RETURN_TIMEOUT_MS = 60_000.0


class RestEndpoint(Endpoint):
    """Serves as long as the cluster has a Dispatcher; it ends with that."""

    def __init__(
        self, context: EndpointContext, cluster_id: str, configuration: Configuration, is_session: bool
    ) -> None:
        super().__init__(context, LogSettings.of(configuration))
        self._dispatcher = Address(f"{cluster_id}/dispatcher")
        self._configuration = configuration
        self._host = RayHost(cluster_id, is_detached=True)
        self._clusters = OneCluster(cluster_id, self._host)
        self._main_thread = MainThread(context)
        self._program_host = RayJobHost(session_settings(cluster_id)) if is_session else None
        self._server: RestServer | None = None
        self._failure: Exception | None = None
        """Why there is no server: whoever asks for it is told, and another process would not fare better."""

    def on_start(self) -> None:
        self.context.watch(self._dispatcher)
        try:
            self._server = start_server(self._configuration, self._clusters, dispose_savepoint, self._program_host)
        except Exception as error:
            log.warning("there is no REST server: %s", error)
            self._failure = error

    def on_request(self, request: Any) -> Any:
        if not isinstance(request, GetRestUrl):
            return super().on_request(request)
        if self._server is None:
            assert self._failure is not None
            raise self._failure
        return url_of(self._server, self._configuration)

    def on_message(self, message: Any, payloads: Payloads) -> None:
        match message:
            case EndpointDied():
                self._main_thread.run_blocking(self._is_dispatcher_gone, self._on_looked)
            case RunAsync():
                message.callback()
            case _:
                raise TypeError(f"a REST server does not understand {message!r}")

    def on_stop(self) -> None:
        if self._server is not None:
            self._server.close()

    def _is_dispatcher_gone(self) -> bool:
        try:
            self._host.ask(self._dispatcher, ListJobs(), _RETURN_TIMEOUT_MS)
        except EndpointGone:
            return True
        except Exception:
            log.debug("%s is not back yet", self._dispatcher, exc_info=True)
        return False

    def _on_looked(self, is_gone: Any, error: BaseException | None) -> None:
        if error is None and is_gone:
            self.on_stop()  # it deletes what was uploaded, and nothing is called in a process that is killed
            self.context.kill(self.context.address)
