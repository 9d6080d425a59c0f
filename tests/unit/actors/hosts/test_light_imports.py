"""What the processes of a job load before they answer: each is started anew for every job."""

from __future__ import annotations

import subprocess
import sys

import pytest

from actors.protocol.serialized_value import SerializedValue
from actors.protocol.task_messages import AcknowledgeCheckpoint

ARROW = ("pyarrow", "numpy")
API = ("graphs.job_graph", "flinkray.transformations.operator_factories", "flinkray.functions.interfaces")


def loaded_by(module: str, names: tuple[str, ...]) -> list[str]:
    """Which of these modules a process has that has imported that one alone."""
    code = f"import sys, {module}; print(*[name for name in {names!r} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return answer.stdout.split()


@pytest.mark.parametrize("module", ["actors.dispatcher", "actors.resource_manager", "actors.task_executor"])
def test_what_touches_no_rows_loads_neither_arrow_nor_the_api(module: str) -> None:
    others = ("actors.job_master", "actors.task_slot")
    assert loaded_by(module, ARROW + API + others) == []


def test_who_starts_a_cluster_does_not_load_its_components() -> None:
    components = ("actors.dispatcher", "actors.resource_manager", "actors.job_master", "actors.task_slot")
    assert loaded_by("actors.client.executors", components) == []


def test_a_job_without_a_rest_server_loads_none() -> None:
    assert loaded_by("actors.client.executors", ("aiohttp", "actors.rest.server", "flinkray.rest.routes")) == []


def test_what_is_serialized_is_unpickled_where_somebody_asks_for_it_and_nowhere_before() -> None:
    code = (
        "import pickle, sys; from actors.protocol.serialized_value import SerializedValue; import decimal as first\n"
        "content = pickle.dumps(SerializedValue(first.Decimal(7))); sys.modules.pop('decimal')\n"
        "there = pickle.loads(pickle.dumps(pickle.loads(content)))\n"
        "print('decimal' in sys.modules, repr(there).startswith('<serialized'), there.deserialize(), "
        "'decimal' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout.split() == ["False", "True", "7", "True"]


def test_a_serialized_value_is_itself_within_one_process() -> None:
    value = AcknowledgeCheckpoint
    assert SerializedValue(value).deserialize() is value
