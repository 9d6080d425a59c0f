"""Why a request is not answered, as a status and a sentence."""

from __future__ import annotations

from actors.protocol.dispatcher_errors import DispatcherNotReadyError, UnknownJobError
from actors.protocol.ports import EndpointGone
from flinkray.errors import CheckpointError, FlinkrayError, InvalidProgramError, RescaleError
from flinkray.redaction import redacted


class Refusal(Exception):
    """The request is wrong, or asks for what is not there.

    Args:
        status: of the answer: from 400 to 499, or 503.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def refusal_of(error: Exception) -> Refusal | None:
    """The answer to an error of those who were asked; None: it is none that a request can lead to."""
    match error:
        case Refusal():
            return error
        case UnknownJobError():
            return Refusal(404, str(error))
        case EndpointGone():
            return Refusal(503, f"{error} is not there: it has ended, or is being started; ask again")
        case TimeoutError() | DispatcherNotReadyError():
            return Refusal(503, redacted(str(error)))
        case CheckpointError() | RescaleError():
            return Refusal(409, redacted(str(error)))
        case InvalidProgramError():
            return Refusal(400, redacted(str(error)))
        case FlinkrayError():
            return Refusal(503, redacted(str(error)))
    return None
