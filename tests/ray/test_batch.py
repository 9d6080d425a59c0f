"""Batch mode on a real Ray cluster: results outlive their tasks, and a slot that dies with some has them made again."""

from __future__ import annotations

import pytest

from flinkray import StreamExecutionEnvironment
from tests.support.jobs import environment

pytestmark = pytest.mark.ray

OPTIONS = {
    "execution.runtime-mode": "batch",
    "flinkray.batch.result-memory": 100_000,
    "flinkray.batch.sort-memory": 100_000,
}


def totals(env: StreamExecutionEnvironment) -> dict[int, int]:
    numbers = env.from_sequence(1, 100_000).map(lambda n: (n % 50, n))
    with numbers.key_by(lambda pair: pair[0]).sum(1).execute_and_collect() as rows:
        return dict(rows)


@pytest.mark.usefixtures("ray_cluster")
def test_two_stages_give_one_result_per_key() -> None:
    expected = {key: sum(range(key or 50, 100_001, 50)) for key in range(50)}
    assert totals(environment(OPTIONS, target="ray")) == expected
