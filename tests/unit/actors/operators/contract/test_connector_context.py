"""What readers and writers may do with their subtask."""

from __future__ import annotations

from actors.operators.contract.connector_context import ConnectorContext
from tests.support.operators import FakeContext


def test_what_a_connector_counts_is_a_figure_of_its_operator() -> None:
    context = FakeContext()
    for increase in (1, 2):
        ConnectorContext(context).count("reads_retried", increase)
    assert context.metrics.counters["reads_retried"] == 3
