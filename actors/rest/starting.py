"""A REST server over one or several clusters, as options say."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from actors.rest.access import Access, is_loopback
from actors.rest.asking.disposals import Disposals
from actors.rest.asking.masters import Clusters, Masters
from actors.rest.handlers.clusters import ClusterHandlers
from actors.rest.handlers.flame_graphs import FlameGraphHandlers
from actors.rest.handlers.jobs import JobHandlers
from actors.rest.handlers.logs import LogHandlers
from actors.rest.handlers.operations import OperationHandlers
from actors.rest.handlers.programs import ProgramHandlers
from actors.rest.handlers.task_managers import TaskManagerHandlers
from actors.rest.handlers.vertices import VertexHandlers
from actors.rest.kept_answers import KeptAnswers
from actors.rest.programs.running import ProgramHost, Running
from actors.rest.programs.uploads import Uploads
from actors.rest.server import RestServer
from actors.rest.service import Service
from actors.rest.tls import tls_of
from flinkray.config.configuration import Configuration
from flinkray.config.rest_options import (
    REST_ADDRESS,
    REST_BIND_ADDRESS,
    REST_BIND_PORT,
    REST_MAX_CONTENT_LENGTH,
    REST_PORT,
    WEB_REFRESH_INTERVAL,
    WEB_SUBMIT_ENABLE,
    WEB_UPLOAD_DIR,
    ports_of,
)
from flinkray.errors import ConfigurationError

Dispose = Callable[[str], object]
"""Deletes the savepoint of a path or URI."""


def start_server(
    configuration: Configuration, clusters: Clusters, dispose: Dispose, program_host: ProgramHost | None = None
) -> RestServer:
    """Starts a server; it listens when this returns.

    Args:
        program_host: what runs uploaded programs, where options allow them; None: they cannot be run here.

    Raises:
        MissingDependencyError: aiohttp is not installed.
        ConfigurationError: it cannot listen where it is to, or may not without a token; or cannot speak TLS.
    """
    address = configuration.get(REST_BIND_ADDRESS)
    access, tls = access_of(configuration, os.environ), tls_of(configuration)
    ports = ports_of(configuration.get(REST_BIND_PORT)) or (configuration.get(REST_PORT),)
    refresh_ms = configuration.get(WEB_REFRESH_INTERVAL)
    masters = Masters(clusters, _monotonic_ms, refresh_ms)
    programs = _programs(configuration, program_host)
    handlers = (
        ClusterHandlers(masters, _now_ms, version("flinkray"), refresh_ms, programs.can_run),
        programs,
        JobHandlers(masters, _now_ms),
        OperationHandlers(masters, Disposals(dispose, _monotonic_ms)),
        VertexHandlers(masters, _now_ms),
        FlameGraphHandlers(masters),
        TaskManagerHandlers(masters),
        LogHandlers(masters),
    )

    def close() -> None:
        masters.close()
        programs.close()

    largest_upload = configuration.get(REST_MAX_CONTENT_LENGTH) if programs.can_run else 0
    try:
        # What masters say counts for the interval; what is made of it for a part of that, as it has times in it.
        kept = KeptAnswers(_monotonic_ms, refresh_ms / 4)
        return RestServer(Service(handlers, access, largest_upload, kept), address, ports, close, tls)
    except BaseException:
        close()
        raise


def _programs(configuration: Configuration, host: ProgramHost | None) -> ProgramHandlers:
    if not configuration.get(WEB_SUBMIT_ENABLE):
        return ProgramHandlers(None, None, f"programs can be uploaded and run where {WEB_SUBMIT_ENABLE.key} is set")
    if host is None:
        why_not = (
            "programs are run by Ray's job API, and never in the server's process: the servers of a session and of "
            "`flinkray ui` do that, and this one is of a single job"
        )
        return ProgramHandlers(None, None, why_not)
    return ProgramHandlers(Uploads(configuration.get(WEB_UPLOAD_DIR)), Running(host, _monotonic_ms))


def access_of(configuration: Configuration, environment: Mapping[str, str]) -> Access:
    """Who may ask: only this machine's users, or whoever has Ray's token, where Ray asks for one or others could
    connect.

    Raises:
        ConfigurationError: a token is needed, and there is none.
    """
    address, name = configuration.get(REST_BIND_ADDRESS), configuration.get(REST_ADDRESS)
    is_on = environment.get("RAY_AUTH_MODE", "").lower() == "token"
    if not is_on and is_loopback(address):
        return Access(names=frozenset({name}) if name else frozenset())
    token = ray_token(environment)
    if not token:
        why = "RAY_AUTH_MODE=token is set" if is_on else f"others reach {REST_BIND_ADDRESS.key} {address!r}"
        raise ConfigurationError(
            f"the REST server needs Ray's token, as {why}, and there is none: `ray get-auth-token --generate` makes "
            "one, for ~/.ray/auth_token, RAY_AUTH_TOKEN, or the file that RAY_AUTH_TOKEN_PATH names"
        )
    return Access(token)


def ray_token(environment: Mapping[str, str]) -> str:
    """The token where Ray looks for it, in its order; empty: there is none."""
    named = environment.get("RAY_AUTH_TOKEN", "").strip()
    if named:
        return named
    path = environment.get("RAY_AUTH_TOKEN_PATH")
    file = Path(path) if path else Path(environment.get("HOME") or "~").expanduser() / ".ray" / "auth_token"
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def url_of(server: RestServer, configuration: Configuration) -> str:
    """Where the server is reached."""
    name = configuration.get(REST_ADDRESS)
    if not name:
        return server.url
    return urlunsplit(urlsplit(server.url)._replace(netloc=f"{name}:{server.port}"))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _monotonic_ms() -> float:
    return time.monotonic() * 1000
