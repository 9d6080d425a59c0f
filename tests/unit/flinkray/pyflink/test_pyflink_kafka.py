"""Sources and sinks of Kafka under PyFlink's names, without a broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from flinkray.connectors.delivery_guarantee import DeliveryGuarantee
from flinkray.connectors.kafka.offsets import KafkaOffsets
from flinkray.errors import InvalidProgramError
from flinkray.pyflink.common import Types, WatermarkStrategy
from flinkray.pyflink.common.serialization import SimpleStringSchema
from flinkray.pyflink.datastream import StreamExecutionEnvironment
from flinkray.pyflink.datastream.connectors.hybrid_source import HybridSource
from flinkray.pyflink.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    FlinkKafkaProducer,
    KafkaOffsetsInitializer,
    KafkaSource,
    Semantic,
)

GROUP = {"bootstrap.servers": "host:9092", "group.id": "mine"}
SERVERS = {"bootstrap.servers": "host:9092"}


def consumer(properties: dict[str, str] = GROUP) -> FlinkKafkaConsumer:
    return FlinkKafkaConsumer(["orders"], SimpleStringSchema(), properties)


@pytest.mark.parametrize(
    ("given", "start", "group"),
    [
        (consumer(), KafkaOffsets.committed("latest"), "mine"),
        (consumer({**GROUP, "auto.offset.reset": "earliest"}), KafkaOffsets.committed("earliest"), "mine"),
        (consumer().set_start_from_latest().set_start_from_group_offsets(), KafkaOffsets.committed("latest"), "mine"),
        (consumer().set_start_from_earliest(), KafkaOffsets.earliest(), "mine"),
        (consumer(SERVERS).set_start_from_timestamp(17), KafkaOffsets.timestamp(17), None),
        (
            consumer().set_start_from_latest().set_commit_offsets_on_checkpoints(False),
            KafkaOffsets.latest(),
            None,
        ),
    ],
)
def test_a_consumer_begins_where_it_says_and_commits_for_its_group(
    given: FlinkKafkaConsumer, start: KafkaOffsets, group: str | None
) -> None:
    settings = given.to_source()._settings
    assert (settings.start, settings.group_id, settings.discovery_interval_ms) == (start, group, None)


def test_producers_are_sinks_of_the_guarantee_that_they_name() -> None:
    def guarantee(*semantic: Semantic) -> DeliveryGuarantee:
        named = {"semantic": semantic[0]} if semantic else {}
        producer = FlinkKafkaProducer("orders", SimpleStringSchema(), SERVERS, **named)
        return producer.set_log_failures_only(False).set_flush_on_checkpoint(True).to_sink().delivery_guarantee

    assert [guarantee(), guarantee(Semantic.NONE), guarantee(Semantic.EXACTLY_ONCE)] == [
        DeliveryGuarantee.AT_LEAST_ONCE,
        DeliveryGuarantee.AT_LEAST_ONCE,
        DeliveryGuarantee.EXACTLY_ONCE,
    ]


def producer() -> FlinkKafkaProducer:
    return FlinkKafkaProducer("orders", SimpleStringSchema(), SERVERS)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: consumer(SERVERS).to_source(), "group.id"),
        (lambda: consumer({"group.id": "mine"}).to_source(), "servers are needed"),
        (
            lambda: consumer({**GROUP, "auto.offset.reset": "first"}).to_source(),
            "none, not 'first'",
        ),
        (lambda: consumer().set_commit_offsets_on_checkpoints(False).to_source(), "say another"),
        (lambda: consumer().disable_filter_restored_partitions_with_subscribed_topics(), "name these topics, too"),
        (
            lambda: consumer({**GROUP, "sasl.mechanism": "AWS_MSK_IAM"}).to_source(),
            "AWS_MSK_IAM is a class of Java's client.*SCRAM-SHA-512.*'OAUTHBEARER', 'oauth_cb'",
        ),
        (
            lambda: FlinkKafkaConsumer("orders", lambda value: value, GROUP).to_source(),  # type: ignore[arg-type]
            "a schema says how .* such as SimpleStringSchema.*lambda.* is none",
        ),
        (lambda: producer().set_log_failures_only(True), "fail the job"),
        (lambda: producer().set_write_timestamp_to_kafka(True), "put the time into the value"),
        (lambda: producer().ignore_failures_after_transaction_timeout(), "raise transaction.timeout.ms"),
    ],
)
def test_what_would_lose_rows_or_is_not_there_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        call()


def test_functions_of_kafka_are_added_to_programs() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.add_source(consumer().set_start_from_earliest(), "orders")
    assert stream.get_type() == Types.STRING()
    assert consumer().get_produced_type() == Types.STRING()
    stream.add_sink(producer()).name("out")
    assert [node["type"] for node in json.loads(env.get_execution_plan())["nodes"]] == ["Source: orders", "Sink: out"]


def test_a_hybrid_source_is_built_of_sources_of_which_all_but_the_last_end() -> None:
    def kafka() -> Any:
        builder = KafkaSource.builder().set_bootstrap_servers("host:9092").set_topics("orders")
        return builder.set_value_only_deserializer(SimpleStringSchema())

    past, live = kafka().set_bounded(KafkaOffsetsInitializer.latest()).build(), kafka().build()
    source = HybridSource.builder(past).add_source(live).build()
    env = StreamExecutionEnvironment.get_execution_environment()
    assert env.from_source(source, WatermarkStrategy.no_watermarks(), "both").get_name() == "both"
    with pytest.raises(InvalidProgramError, match="never ends"):
        HybridSource.builder(live).add_source(past).build()
