"""The options of the REST server. Keys are Flink's."""

from __future__ import annotations

import re

from flinkray.config.option import at_least, option
from flinkray.config.parsers import duration, text, truth, whole_number
from flinkray.types.records import Millis

_LAST_PORT = 65_535
_RANGE = re.compile(r"(\d{1,5})(?:\s*-\s*(\d{1,5}))?")


def _port(raw: object) -> int:
    port = whole_number(raw)
    if not 0 <= port <= _LAST_PORT:
        raise ValueError(f"a port is from 0 to {_LAST_PORT}")
    return port


def ports_of(bind_ports: str) -> tuple[int, ...]:
    """The ports of text such as `8081,8090-8099`, in that order.

    Raises:
        ValueError: it is no such text.
    """
    found: list[int] = []
    for part in filter(None, map(str.strip, bind_ports.split(","))):
        bounds = _RANGE.fullmatch(part)
        if bounds is None:
            raise ValueError(f"expected ports and ranges such as 8081,8090-8099, found {part!r}")
        first, last = _port(bounds[1]), _port(bounds[2] or bounds[1])
        if first > last:
            raise ValueError(f"the range {part!r} has no port")
        found.extend(range(first, last + 1))
    return tuple(found)


def _ports(raw: object) -> str:
    bind_ports = str(raw) if isinstance(raw, int) else text(raw)
    ports_of(bind_ports)
    return bind_ports


REST_PORT = option(
    "rest.port",
    _port,
    8081,
    "The port of the REST server, which runs where this or rest.bind-port is set; 0: any free one.",
)
REST_BIND_PORT = option(
    "rest.bind-port",
    _ports,
    "",
    "Ports for the REST server, such as `8081,8090-8099`, of which the first free one is taken; empty: rest.port.",
)
REST_BIND_ADDRESS = option(
    "rest.bind-address",
    text,
    "127.0.0.1",
    "The address that the REST server listens on. On any that other machines reach, it asks everybody for Ray's token.",
)
REST_ADDRESS = option(
    "rest.address",
    text,
    "",
    "The name under which the REST server is reached, for its URL; empty: the address that it listens on.",
)
REST_SSL_CERTIFICATE = option(
    "rest.ssl.certificate",
    text,
    "",
    "A PEM file with the certificate of the REST server, and those between it and its root, on the machine where the "
    "server runs; empty: it speaks plain HTTP.",
)
REST_SSL_KEY = option(
    "rest.ssl.key",
    text,
    "",
    "A PEM file with the key of that certificate, without a password; empty: it is in the same file.",
)
WEB_REFRESH_INTERVAL = option(
    "web.refresh-interval",
    duration,
    Millis(3_000),
    "How often pages ask again, and for how long the REST server remembers what masters have said.",
    valid=at_least(1, "ms"),
    unit="ms",
)
WEB_SUBMIT_ENABLE = option(
    "web.submit.enable",
    truth,
    False,
    "Whether programs can be uploaded, run and deleted over REST, at the server of a session or of `flinkray ui`: "
    "whoever may ask there can then run code in the Ray cluster.",
)
WEB_UPLOAD_DIR = option(
    "web.upload.dir",
    text,
    "",
    "The directory, on the machine of the REST server, below which uploaded programs are kept; empty: a new one, which "
    "is deleted when the server ends, unless its process was killed.",
)
REST_MAX_CONTENT_LENGTH = option(
    "rest.server.max-content-length",
    whole_number,
    100 * 1024 * 1024,
    "How large a program may be that is uploaded.",
    valid=at_least(1, "bytes"),
    unit="bytes",
)
ARCHIVE_DIRECTORY = option(
    "jobmanager.archive.fs.dir",
    text,
    "",
    "The directory (path or URI) in which what REST tells of each job is kept when it has ended, for "
    "`flinkray history-server`; empty: it is not kept.",
)
