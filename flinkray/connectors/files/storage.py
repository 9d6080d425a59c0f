"""What errors of disks and stores mean to a user."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from flinkray.errors import ConnectorError
from flinkray.redaction import redacted

_HINTS = {
    errno.ENOSPC: "the disk is full; rows since the last checkpoint are written again once the job has room",
    errno.EDQUOT: "the quota of the user is used up",
    errno.EACCES: "the user of the workers may not do that; change who owns it, or its mode",
    errno.EPERM: "the user of the workers may not do that",
    errno.EROFS: "it can only be read there",
    errno.ENOENT: "it is not there (any more)",
    errno.ENOTDIR: "a part of the path is a file",
    errno.ENAMETOOLONG: "the name is too long for the disk",
}
_TEXTS = {
    "allow_bucket_creation": "there is no such bucket; create it",
    "NO_SUCH_BUCKET": "there is no such bucket; create it",
    "NoSuchBucket": "there is no such bucket; create it",
    "ACCESS_DENIED": "the keys do not allow that",
    "AccessDenied": "the keys do not allow that",
    "INVALID_ACCESS_KEY_ID": "the store does not know the key",
    "SIGNATURE": "the secret is not that of the key",
    "NETWORK_CONNECTION": "the store does not answer; does it run, and is it reachable from here?",
    "No space left": _HINTS[errno.ENOSPC],
    "Permission denied": _HINTS[errno.EACCES],
}
"""What stores and packages say, which have no numbers."""


def explained(error: BaseException) -> str:
    """An error of a disk or store in one line, with what can be done about it."""
    text = redacted(" ".join(str(error).split())) or type(error).__name__
    hint = _HINTS.get(getattr(error, "errno", None) or 0)
    if hint is None:
        hint = next((each for part, each in _TEXTS.items() if part in text), None)
    return text if hint is None else f"{text}: {hint}"


@contextlib.contextmanager
def storing(what: str) -> Iterator[None]:
    """Turns what disks and stores raise into errors that say what could not be done.

    Args:
        what: begins with the operator and its subtask.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, ConnectorError):
            raise
        raise ConnectorError(f"{what}: {explained(error)}") from error
