"""Changelogs from and to a real broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flinkray import (
    DebeziumJsonFormat,
    DeliveryGuarantee,
    JsonFormat,
    KafkaSink,
    KafkaSource,
    Row,
    RowKind,
    WatermarkStrategy,
)
from tests.servers.test_kafka_source import environment, stream
from tests.support.servers.kafka import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

COLUMNS = {"id": int, "cents": int}


def captured(op: str, before: dict[str, int] | None, after: dict[str, int] | None) -> bytes:
    return json.dumps({"op": op, "before": before, "after": after, "source": {"table": "orders"}}).encode()


def table(rows: list[Row]) -> dict[int, Row]:
    """What a changelog by `id` leaves."""
    found: dict[int, Row] = {}
    for row in rows:
        found.pop(row.id, None)
        if row.get_row_kind() is not RowKind.DELETE:
            found[row.id] = row
    return found


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_captured_changes_become_a_table_that_is_read_again(
    kafka: KafkaBroker, tmp_path: Path, guarantee: DeliveryGuarantee
) -> None:
    changes, orders = kafka.create_topic(2), kafka.create_topic(2, **{"cleanup.policy": "compact"})
    for number in range(20):
        row, later = {"id": number, "cents": 1}, {"id": number, "cents": 2}
        each = [captured("c", None, row), captured("u", row, later)]
        if number % 2:
            each += [captured("d", later, None), None]
        kafka.write(changes, each, number % 2, timestamp=1_000 + number)

    env = environment(**{"execution.checkpointing.dir": str(tmp_path)})
    env.enable_checkpointing(50)
    source = KafkaSource(kafka.servers, [changes], DebeziumJsonFormat(COLUMNS), stop="latest")
    sink = KafkaSink(
        kafka.servers,
        orders,
        JsonFormat(),
        key="id",
        key_format=JsonFormat(),
        key_in_value=False,
        upsert=True,
        delivery_guarantee=guarantee,
    )
    env.from_source(source, WatermarkStrategy.no_watermarks(), "changes").sink_to(sink)
    env.execute("table")

    last = {message.key(): (message.value(), message.timestamp()[1]) for message in kafka.read(orders, 20)}
    assert last == {
        f'{{"id":{number}}}'.encode(): (None if number % 2 else b'{"cents":2}', 1_000 + number) for number in range(20)
    }
    keys: dict[str, Any] = {"key": "id", "key_format": JsonFormat({"id": int})}
    again = KafkaSource(kafka.servers, [orders], JsonFormat({"cents": int}), stop="latest", upsert=True, **keys)
    rows = list(stream(again).execute_and_collect())
    assert {row.get_row_kind() for row in rows} <= {RowKind.UPDATE_AFTER, RowKind.DELETE}
    assert {row.id for row in rows} == set(range(20))
    assert {number: row.cents for number, row in table(rows).items()} == dict.fromkeys(range(0, 20, 2), 2)


def test_rows_have_the_columns_of_their_keys(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic()
    kafka.write(topic, [b'{"cents": 1}', None], key=b"ann")
    kafka.write(topic, [b'{"cents": 2}'])
    rows = stream(KafkaSource(kafka.servers, [topic], JsonFormat({"cents": int}), key="user", stop="latest"))
    assert sorted((row.cents, row.user) for row in rows.execute_and_collect()) == [(1, "ann"), (2, None)]
