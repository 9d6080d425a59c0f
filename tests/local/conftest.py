"""What whole jobs in one process share."""

from __future__ import annotations

import pytest

from flinkray import StreamExecutionEnvironment
from tests.support.jobs import environment


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    """An environment that runs its program in this process, two subtasks per operator."""
    return environment()
