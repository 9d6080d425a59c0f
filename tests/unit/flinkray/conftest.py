"""An environment whose jobs go to a stand-in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import flinkray.streams.environment
from flinkray.plugins import EXECUTORS, load_plugin
from flinkray.streams.data_stream import DataStream
from flinkray.streams.environment import StreamExecutionEnvironment
from tests.support.api import FakeExecutor


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> FakeExecutor:
    """Takes the place of every execution target."""
    fake = FakeExecutor()

    def load(group: str, name: str) -> Callable[..., Any]:
        return fake if group == EXECUTORS else load_plugin(group, name)

    monkeypatch.setattr(flinkray.streams.environment, "load_plugin", load)
    return fake


@pytest.fixture
def env(executor: FakeExecutor, monkeypatch: pytest.MonkeyPatch) -> StreamExecutionEnvironment:
    assert executor is not None  # its plug-in is in place
    monkeypatch.delenv("FLINKRAY_CONF_DIR", raising=False)
    return StreamExecutionEnvironment.get_execution_environment()


@pytest.fixture
def rows(env: StreamExecutionEnvironment) -> DataStream:
    """Columns word: string, n: int64, price: double."""
    return env.from_arrow(pa.table({"word": ["a"], "n": [1], "price": [1.5]}))
