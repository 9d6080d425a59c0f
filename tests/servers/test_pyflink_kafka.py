"""PyFlink's builders of Kafka sources and sinks, in programs as its users write them, against a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flinkray.errors import InvalidProgramError
from flinkray.pyflink.common import Types, WatermarkStrategy
from flinkray.pyflink.common.serialization import ByteArraySchema, RowFieldExtractorSchema, SimpleStringSchema
from flinkray.pyflink.datastream import StreamExecutionEnvironment
from flinkray.pyflink.datastream.connectors.base import DeliveryGuarantee
from flinkray.pyflink.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    FlinkKafkaProducer,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaTopicPartition,
)
from flinkray.pyflink.datastream.connectors.kafka_properties import client_properties
from flinkray.pyflink.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema
from flinkray.pyflink.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from flinkray.pyflink.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from tests.support.pyflink_wheel import DEADLINE, QUIETLY, environ, first_lines, loaded_examples
from tests.support.servers.kafka import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

TYPE = Types.ROW([Types.INT(), Types.STRING()])
ROWS = [(1, "hi"), (2, "hello"), (3, "hi")]
AVRO = json.dumps(
    {
        "type": "record",
        "name": "TestRecord",
        "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}],
    }
)


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch) -> StreamExecutionEnvironment:
    monkeypatch.setenv("FLINKRAY_EXECUTION_TARGET", "local")
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.set_parallelism(1)
    environment.add_jars("file:///path/to/flink-sql-connector-kafka-1.15.0.jar")
    return environment


def sink(kafka: KafkaBroker, schema: KafkaRecordSerializationSchema, **settings: Any) -> Any:
    builder = KafkaSink.builder().set_record_serializer(schema).set_bootstrap_servers(kafka.servers)
    if "guarantee" in settings:
        builder = builder.set_delivery_guarantee(settings["guarantee"]).set_transactional_id_prefix("mine")
    return builder.build()


SCHEMAS = {
    "json": (
        lambda: JsonRowSerializationSchema.Builder().with_type_info(TYPE).build(),
        lambda: JsonRowDeserializationSchema.Builder().type_info(TYPE).build(),
        b'{"f0":1,"f1":"hi"}',
    ),
    "csv": (
        lambda: CsvRowSerializationSchema.Builder(TYPE).build(),
        lambda: CsvRowDeserializationSchema.Builder(TYPE).build(),
        None,
    ),
    "avro": (
        lambda: AvroRowSerializationSchema(avro_schema_string=AVRO),
        lambda: AvroRowDeserializationSchema(avro_schema_string=AVRO),
        b"\x02\x04hi",
    ),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_rows_are_written_and_read_by_the_schemas_of_pyflink(
    kafka: KafkaBroker, env: StreamExecutionEnvironment, name: str
) -> None:
    serializer, deserializer, first = SCHEMAS[name]
    topic = kafka.create_topic()
    schema = (
        KafkaRecordSerializationSchema.builder().set_topic(topic).set_value_serialization_schema(serializer()).build()
    )
    env.from_collection(ROWS, type_info=TYPE).sink_to(sink(kafka, schema))
    env.execute()
    if first is not None:
        assert kafka.read(topic, 3)[0].value() == first
    source = (
        KafkaSource.builder()
        .set_topics(topic)
        .set_value_only_deserializer(deserializer())
        .set_properties({"bootstrap.servers": kafka.servers, "group.id": "test_group_1"})
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .build()
    )
    stream = env.from_source(source, watermark_strategy=WatermarkStrategy.no_watermarks(), source_name="kafka source")
    assert [tuple(row) for row in stream.execute_and_collect()] == ROWS


def test_functions_of_older_programs_read_and_write(kafka: KafkaBroker, env: StreamExecutionEnvironment) -> None:
    topic, other = kafka.create_topic(), kafka.create_topic()
    kafka.write(topic, [b"a", b"b", b"c"])
    properties = {"bootstrap.servers": kafka.servers, "group.id": "test_group_2", "auto.offset.reset": "earliest"}
    consumer = FlinkKafkaConsumer(topic, SimpleStringSchema(), properties)
    words = env.add_source(consumer).map(str.upper, output_type=Types.STRING())
    words.add_sink(FlinkKafkaProducer(other, SimpleStringSchema(), {"bootstrap.servers": kafka.servers}))
    client = env.execute_async()
    try:
        assert [message.value() for message in kafka.read(other, 3)] == [b"A", b"B", b"C"]
    finally:
        client.cancel().result()


def test_topics_and_keys_are_made_of_whole_values(kafka: KafkaBroker, env: StreamExecutionEnvironment) -> None:
    one, other = kafka.create_topic(), kafka.create_topic()
    schema = (
        KafkaRecordSerializationSchema.builder()
        .set_topic_selector(lambda row: one if row[1] == b"1" else other)
        .set_key_serialization_schema(RowFieldExtractorSchema(0))
        .set_value_serialization_schema(RowFieldExtractorSchema(1))
        .build()
    )
    types = Types.ROW([Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.PRIMITIVE_ARRAY(Types.BYTE())])
    env.from_collection([(b"a", b"1"), (b"b", b"2")], type_info=types).sink_to(
        sink(kafka, schema, guarantee=DeliveryGuarantee.EXACTLY_ONCE)
    )
    env.execute()
    (first,), (second,) = kafka.read(one, 1), kafka.read(other, 1)
    assert (first.key(), first.value(), second.key(), second.value()) == (b"a", b"1", b"b", b"2")


def test_texts_bytes_and_places(kafka: KafkaBroker, env: StreamExecutionEnvironment) -> None:
    topic = kafka.create_topic()
    kafka.write(topic, [b"a", b"b", b"c"])
    for schema, expected in ((SimpleStringSchema(), ["b", "c"]), (ByteArraySchema(), [b"b", b"c"])):
        source = (
            KafkaSource.builder()
            .set_bootstrap_servers(kafka.servers)
            .set_topic_pattern(topic)
            .set_starting_offsets(KafkaOffsetsInitializer.offsets({KafkaTopicPartition(topic, 0): 1}))
            .set_unbounded(KafkaOffsetsInitializer.latest())
            .set_value_only_deserializer(schema)
            .build()
        )
        found = env.from_source(source, WatermarkStrategy.no_watermarks(), "texts").execute_and_collect()
        assert list(found) == expected


def test_what_cannot_be_read_is_left_out_where_the_schema_says_so(
    kafka: KafkaBroker, env: StreamExecutionEnvironment
) -> None:
    topic = kafka.create_topic()
    kafka.write(topic, [b'{"f0": 1, "f1": "x"}', b"no json", b'{"f0": 2, "f1": "y"}'])
    schema = JsonRowDeserializationSchema.Builder().type_info(TYPE).ignore_parse_errors().build()
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(kafka.servers)
        .set_topics(topic)
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(schema)
        .build()
    )
    found = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows").execute_and_collect()
    assert [tuple(row) for row in found] == [(1, "x"), (2, "y")]


def test_properties_of_java_are_said_to_the_client() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="s3;cret";'
    properties = client_properties(
        {
            "bootstrap.servers": "host:1",
            "group.id": "g",
            "sasl.jaas.config": jaas,
            "security.protocol": "SASL_SSL",
            "key.deserializer": "x",
            "partition.discovery.interval.ms": "-1",
            "isolation.level": "read_committed",
            "max.request.size": "2000000",
            "send.buffer.bytes": "-1",
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert (properties.servers, properties.group_id, properties.isolation) == ("host:1", "g", "read_committed")
    assert properties.discovery_interval_ms is None
    expected = {"security.protocol": "SASL_SSL", "sasl.username": "ann", "sasl.password": "s3;cret"}
    expected |= {"message.max.bytes": "2000000", "socket.send.buffer.bytes": "0"}
    expected |= {"ssl.endpoint.identification.algorithm": "none"}
    assert properties.others == expected


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: KafkaSource.builder().build(), "a deserializer is needed"),
        (lambda: KafkaSource.builder().set_value_only_deserializer(SimpleStringSchema()).build(), "servers are needed"),
        (lambda: KafkaSink.builder().build(), "a serializer is needed"),
        (lambda: KafkaRecordSerializationSchema.builder().build(), "a topic is needed"),
        (lambda: KafkaSource.builder().set_partitions(set()), "reads all partitions"),
        (lambda: AvroRowSerializationSchema(record_class="a.B"), "a class of Java's"),
    ],
)
def test_what_is_missing_is_said_when_it_is_built(build: Any, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        build()


EXAMPLES_OF_THE_WHEEL = {
    "kafka_avro_format": ("test_avro_topic", 7, "+I[1,hi]"),
    "kafka_bytearray_format": ("test_bytearray_topic", 3, '{"id": 1, "country": "USA"}'),
    "kafka_csv_format": ("test_csv_topic", 7, "+I[1,hi]"),
    "kafka_json_format": ("test_json_topic", 7, "+I[1,hi]"),
}
"""Programs of pyflink/examples/datastream/connectors that write a topic and then read it for ever: topic, number of
rows, and the first of them."""


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    loaded = loaded_examples(tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("examples"))
    return loaded / "connectors"


def at(kafka: KafkaBroker, program: Path) -> Path:
    """The program with the address of this broker."""
    text = program.read_text(encoding="utf-8").replace("localhost:9092", kafka.servers)
    program.write_text(text, encoding="utf-8")
    return program


@pytest.mark.pyflink
@pytest.mark.parametrize("name", EXAMPLES_OF_THE_WHEEL)
def test_an_example_of_pyflink_reads_what_it_has_written(kafka: KafkaBroker, examples: Path, name: str) -> None:
    topic, count, first = EXAMPLES_OF_THE_WHEEL[name]
    kafka.add_topic(topic)
    lines = first_lines(at(kafka, examples / f"{name}.py"), count)
    assert len(lines) == count
    assert any(line.endswith(f"> {first}") for line in lines), lines


@pytest.mark.pyflink
def test_the_example_of_fields_writes_keys_and_values(kafka: KafkaBroker, examples: Path) -> None:
    kafka.add_topic("row-extractor-example", 3)
    program = at(kafka, examples / "kafka_row_field_extractor_example.py")
    done = subprocess.run(
        [sys.executable, "-c", QUIETLY, str(program)], env=environ(), capture_output=True, text=True, timeout=DEADLINE
    )
    assert done.returncode == 0, done.stderr
    found = {(each.key(), json.loads(each.value())["item"]) for each in kafka.read("row-extractor-example", 4)}
    assert found == {(b"user-001", "laptop"), (b"user-002", "phone"), (b"user-001", "mouse"), (b"user-003", "keyboard")}
