"""Requests to commit, as a sink's operator makes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flinkray.connectors.committer import CommitRequest


def requests_of(committables: Sequence[Any], checkpoint_id: int = 1) -> list[CommitRequest[Any]]:
    """The first attempt to commit these."""
    return [CommitRequest(each, checkpoint_id) for each in committables]
