"""Clients of redis-py, and what their errors mean to a user."""

from __future__ import annotations

from typing import Any, NoReturn
from urllib.parse import urlsplit

from flinkray.errors import ConnectorError, InvalidProgramError
from flinkray.extras import import_package

TIMEOUT_S = 15.0
"""How long one answer of the server may take."""
_OF_CLUSTER = "the server is of a Redis Cluster, which has keys on several; name one that has all of them"
_SCHEMES = ("redis", "rediss", "unix")


class RedisError(ConnectorError):
    """The server cannot do what it is asked for; says what, and the way out."""


def redis() -> Any:
    """The package; a MissingDependencyError says what brings it."""
    return import_package("redis", "Redis")


def checked_url(url: str, name: str) -> str:
    """The address of a server.

    Raises:
        InvalidProgramError: it is none.
    """
    if urlsplit(url).scheme not in _SCHEMES:
        raise InvalidProgramError(f"{name}(url=...) is like 'redis://host:6379/0', or rediss:// for TLS")
    return url


def shown(url: str) -> str:
    """The address without user and password."""
    parts = urlsplit(url)
    place = parts.path if parts.scheme == "unix" else f"{parts.hostname}:{parts.port or 6379}{parts.path}"
    return f"{parts.scheme}://{place}"


def client(url: str) -> Any:
    """A client that connects when it is first used."""
    return redis().Redis.from_url(url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S)


def is_transient(error: BaseException) -> bool:
    """Whether the same may succeed in a moment: the server is away, starts, or is a replica that turns master."""
    errors = import_package("redis.exceptions", "Redis")
    if isinstance(error, errors.AuthenticationError):
        return False
    later = errors.ConnectionError | errors.TimeoutError | errors.BusyLoadingError | errors.ReadOnlyError
    return isinstance(error, later | errors.TryAgainError | errors.ClusterDownError)


def refuse(error: BaseException, where: str, what: str) -> NoReturn:
    """Raises the client's error as one that says what was to be done, and the way out where it is known."""
    raise RedisError(f"{where}: {what}: {explained(error)}") from error


def explained(error: BaseException) -> str:
    """The server's words, with what can be done about them."""
    text = str(error) or type(error).__name__
    hints = {
        "WRONGTYPE": "another kind of value has that key; give it another name",
        "maxmemory": "the server's memory is full (maxmemory); let streams have a max_length=, or give it more",
        "NOAUTH": "the server wants a password: redis://user:password@host:6379",
        "WRONGPASS": "the server refuses user or password",
        "permission": "the user may not do that (ACL SETUSER)",
        "read only replica": "the server is a replica; name the one that it follows",
        "MISCONF": "the server cannot write to its disk, which may be full",
        "non local key": _OF_CLUSTER,
        "CROSSSLOT": _OF_CLUSTER,
        "Hash slot not served": _OF_CLUSTER,
    }
    errors = import_package("redis.exceptions", "Redis")
    if isinstance(error, errors.AuthenticationError):
        return f"{text}: the server refuses user or password, or wants them: redis://user:password@host:6379"
    hint = next((hint for code, hint in hints.items() if code in text), None)
    if isinstance(error, errors.AskError):  # its text is a number and an address
        text, hint = f"the key is elsewhere ({text})", _OF_CLUSTER
    if hint is None and isinstance(error, errors.ConnectionError | errors.TimeoutError):
        hint = "no server answers there; does it run, and is it reachable from here?"
    return text if hint is None else f"{text}: {hint}"
