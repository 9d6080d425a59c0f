"""What listens for TCP, as Linux tells it, and a port at which nothing does."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

_LISTEN = "0A"


@contextlib.contextmanager
def deserted_port() -> Iterator[int]:
    """A port of this machine that refuses connections as long as the block lasts: nobody else can get it."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        yield silent.getsockname()[1]


def addresses_of_this_process() -> set[str]:
    """`address:port` of each socket of this process that listens."""
    return {place for place, inode in _listening() if inode in set(_own_sockets())}


def addresses_of_port(port: int) -> set[str]:
    """The addresses at which any process of this machine listens on that port."""
    places = (place.rpartition(":") for place, _ in _listening())
    return {address for address, _, found in places if int(found) == port}


def _listening() -> Iterator[tuple[str, str]]:
    """(address:port, inode)"""
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError):
            for line in Path("/proc/net", name).read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTEN:
                    address, _, port = words[1].partition(":")
                    yield f"{_address(address)}:{int(port, 16)}", words[9]


def _address(text: str) -> str:
    """The words of 32 bits are in the machine's order."""
    raw = b"".join(bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8))
    return str(ipaddress.ip_address(raw))


def _own_sockets() -> Iterator[str]:
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/self/fd/{descriptor}"))
            if found:
                yield found[1]
