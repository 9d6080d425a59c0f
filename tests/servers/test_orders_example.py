"""The example with all connectors at once, on servers and for a few seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.orders import report, run
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.postgres import PostgresServer

pytestmark = [pytest.mark.kafka, pytest.mark.postgres, pytest.mark.usefixtures("postgres")]


def test_orders_are_computed_exactly_once_and_the_report_sees_what_differs(
    kafka: KafkaBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with PostgresServer.running() as own:  # whose names of tables nobody else has
        assert run(kafka, own, "local", 3, tmp_path, 2)
        assert int(capsys.readouterr().out.split("alerts in Kafka")[1].split()[0]) > 0
        own.execute("UPDATE totals SET cents = cents + 1 WHERE customer = 0")
        assert not report(kafka, own, tmp_path / "orders")
