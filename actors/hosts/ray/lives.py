"""What Ray's own table of actors says about an actor: how often it was started again, and whether it is alive."""

from __future__ import annotations

import socket
from typing import Any

import ray
from msgspec import Struct

# This is not public, but RuntimeContext.was_current_actor_reconstructed reads it; `ray.util.state` needs the dashboard.
from ray._private.state import actors


class ActorEntry(Struct, frozen=True):
    """An actor as Ray's table had it a moment ago; Ray learns of a process's death within a few milliseconds."""

    life: int
    """How often it was started again. It grows when a process dies, not when the new process is ready."""
    state: str
    """The actor's state, in Ray's words."""
    alive_since_ms: float
    """When the process became ready; until a new one is, when the former one did. 0: no process ever was ready."""
    process: tuple[str, int] | None = None
    """Host and port at which the last process listens, or used to."""

    @property
    def is_waiting(self) -> bool:
        """Whether it has never been alive, as its process is being started or there is no room for it."""
        return self.state in ("DEPENDENCIES_UNREADY", "PENDING_CREATION")

    @property
    def is_alive(self) -> bool:
        return self.state == "ALIVE"

    @property
    def is_dead(self) -> bool:
        """Whether it is dead for good."""
        return self.state == "DEAD"


def is_refused(process: tuple[str, int]) -> bool:
    """Whether nobody listens at a process's host and port, though the machine answers: then the process is dead.

    Ray needs a quarter of a minute to notice that a node has ended abruptly. Blocks up to a second; False also if the
    machine does not answer, which may be the network's fault.
    """
    try:
        socket.create_connection(process, timeout=1.0).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def read_entry(handle: Any) -> ActorEntry:
    """Asks Ray about an actor, which takes about a millisecond. Not for callbacks of Ray's, which would wait for
    themselves."""
    return _read(handle._actor_id.hex())


def read_own_entry() -> ActorEntry:
    """Asks Ray about the actor that calls this."""
    return _read(ray.get_runtime_context().get_actor_id() or "")


def _read(actor_id: str) -> ActorEntry:
    # Once this process has left Ray, asking would start a new cluster. Ray forgets dead actors at some time.
    known: dict[str, Any] = actors(actor_id) if ray.is_initialized() else {}
    if not known:
        return ActorEntry(0, "DEAD", 0.0)
    address = known["Address"]
    process = (address["IPAddress"], address["Port"]) if address.get("Port") else None
    return ActorEntry(known["NumRestarts"], known["State"], known["Timestamp"], process)
