"""What Ray's own table of actors says of one: how often it was started again, and whether it lives."""

from __future__ import annotations

import socket
from typing import Any

import ray
from msgspec import Struct

# Not public, but what RuntimeContext.was_current_actor_reconstructed reads; `ray.util.state` needs the dashboard.
from ray._private.state import actors


class ActorEntry(Struct, frozen=True):
    """An actor as Ray knew it a moment ago: a few milliseconds after a process has died, Ray knows it."""

    life: int
    """How often it was started again. It grows at the death, not when the new process is there."""
    state: str
    """Ray's word for it."""
    alive_since_ms: float
    """When its last process was ready; until a new one is, that of the one before. 0: it never was."""
    process: tuple[str, int] | None = None
    """Host and port at which its last process listens, or did."""

    @property
    def is_waiting(self) -> bool:
        """It was never alive, as its process is being started or there is no room for it."""
        return self.state in ("DEPENDENCIES_UNREADY", "PENDING_CREATION")

    @property
    def is_alive(self) -> bool:
        return self.state == "ALIVE"

    @property
    def is_dead(self) -> bool:
        """It does not come back."""
        return self.state == "DEAD"


def is_refused(process: tuple[str, int]) -> bool:
    """Nobody listens there any more, though the machine answers: then the process is dead.

    Where a node ends abruptly, Ray does not know that for a quarter of a minute. Blocks up to a second; False also
    where the machine does not answer, which may be the network's fault.
    """
    try:
        socket.create_connection(process, timeout=1.0).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def read_entry(handle: Any) -> ActorEntry:
    """Asks Ray, which takes about a millisecond; not from a callback of Ray's, which would wait for itself."""
    return _read(handle._actor_id.hex())


def read_own_entry() -> ActorEntry:
    """That of the actor that calls this."""
    return _read(ray.get_runtime_context().get_actor_id() or "")


def _read(actor_id: str) -> ActorEntry:
    # Once this process has left Ray, the question would start a new cluster. Of the dead, Ray knows nothing some day.
    known: dict[str, Any] = actors(actor_id) if ray.is_initialized() else {}
    if not known:
        return ActorEntry(0, "DEAD", 0.0)
    address = known["Address"]
    process = (address["IPAddress"], address["Port"]) if address.get("Port") else None
    return ActorEntry(known["NumRestarts"], known["State"], known["Timestamp"], process)
