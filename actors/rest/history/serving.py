"""A server over the archives of ended jobs, as options say."""

from __future__ import annotations

import os
import time
from importlib.metadata import version

from actors.rest.history.archives import Archives
from actors.rest.history.history_service import HistoryService
from actors.rest.server import RestServer
from actors.rest.starting import access_of
from actors.rest.tls import tls_of
from flinkray.config.configuration import Configuration
from flinkray.config.rest_options import (
    REST_BIND_ADDRESS,
    REST_BIND_PORT,
    REST_PORT,
    WEB_REFRESH_INTERVAL,
    ports_of,
)


def start_history_server(configuration: Configuration, directory: str) -> RestServer:
    """Starts a server; it listens when this returns.

    Args:
        directory: path or URI; it need not be there yet.

    Raises:
        MissingDependencyError: aiohttp is not installed.
        ConfigurationError: it cannot listen where it is to, or may not without a token; or cannot speak TLS.
        InvalidProgramError: no file system has that URI.
    """
    refresh_ms = configuration.get(WEB_REFRESH_INTERVAL)
    archives = Archives(directory, lambda: time.monotonic() * 1000, refresh_ms)
    service = HistoryService(archives, access_of(configuration, os.environ), version("flinkray"), refresh_ms)
    ports = ports_of(configuration.get(REST_BIND_PORT)) or (configuration.get(REST_PORT),)
    return RestServer(service, configuration.get(REST_BIND_ADDRESS), ports, tls=tls_of(configuration))
