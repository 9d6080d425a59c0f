"""Each option and metadata column that Flink's connector of Kafka documents does what it says, or is refused with a
sentence."""

from __future__ import annotations

from typing import Any

import pytest

from flinkray import DeliveryGuarantee, InvalidProgramError, KafkaOffsets, StreamExecutionEnvironment
from flinkray.connectors.kafka.partitioners import FixedPartitioner, KafkaPartitioner
from flinkray.tables.connectors import options as options_module
from flinkray.tables.connectors.connectors import scan, sink_of
from flinkray.tables.plans.expressions import columns_of
from flinkray.tables.plans.tables import Table
from graphs.runtime_mode import batch_factory

SERVER = "'properties.bootstrap.servers'='h:1'"
KAFKA = f"'connector'='kafka',{SERVER},'topic'='t','format'='json','scan.startup.mode'='earliest-offset'"
MANY = f"'connector'='kafka',{SERVER},'topic'='t ;u;','format'='json','scan.startup.mode'='earliest-offset'"
MATCHING = MANY.replace("'topic'='t ;u;'", "'topic-pattern'='t.*'")
UPSERT = f"'connector'='upsert-kafka',{SERVER},'topic'='t','key.format'='csv','value.format'='json'"
OFFSETS = "partition:0,offset:4;partition:1,offset:3"
GROUP = "'properties.group.id'='g'"
BY_KEY = "k_b STRING, k_a BIGINT, a INT, PRIMARY KEY (k_b, k_a) NOT ENFORCED"
PREFIXED = "'key.fields-prefix'='k_','value.fields-include'='EXCEPT_KEY'"
BUFFER = "'sink.buffer-flush.max-rows'='7','sink.buffer-flush.interval'='2 s'"


class ByLength(KafkaPartitioner):
    def partition(self, row: Any, key: Any, value: Any, topic: str, partitions: Any) -> int:
        return len(value) % len(partitions)


class Tables:
    def __init__(self) -> None:
        environment = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local"})
        self.environment = environment
        self._tables = environment.tables

    def table(self, columns: str, options: str) -> Table:
        self._tables.execute_sql(f"CREATE OR REPLACE TABLE t ({columns}) WITH ({options})")
        found = self._tables.catalog.get(("t",))
        assert isinstance(found, Table)
        return found

    def run(self, statement: str) -> None:
        self._tables.execute_sql(statement)

    def stream(self, query: str) -> Any:
        """The last transformation of a query."""
        return self._tables.to_data_stream(self._tables.sql_query(query))._transformation

    def plan(self, *inserts: str) -> str:
        """The operators of one program with these statements, and what they read."""
        statements = self._tables.create_statement_set()
        for insert in inserts:
            statements.add_insert_sql(insert)
        statements.attach_as_datastream()
        return self.environment.get_execution_plan()

    def read(self, options: str, columns: str = "n INT") -> Any:
        """The settings of the source."""
        read: Any = scan(self.table(columns, options))
        while read.input_transformations:
            read = read.input_transformations[0]
        return read.factory.source._settings

    def sink(self, options: str, columns: str = "n INT") -> Any:
        return sink_of(self.table(columns, options))[0]


READ: dict[str, tuple[str, Any]] = {
    "'properties.fetch.min.bytes'='7'": ("client_options", {"fetch.min.bytes": "7"}),
    "'properties.enable.auto.commit'='false'": ("client_options", {}),
    "'properties.max.request.size'='7'": ("client_options", {"message.max.bytes": "7"}),
    "'properties.enable.auto.commit'='true'": ("client_options", {}),
    "'properties.sasl.jaas.config'='a.b.PlainLoginModule required username=\"u\" password=\"p\";'": (
        "client_options",
        {"sasl.username": "u", "sasl.password": "p"},
    ),
    GROUP: ("group_id", "g"),
    "'scan.topic-partition-discovery.interval'='3 s'": ("discovery_interval_ms", 3_000),
    "'scan.topic-partition-discovery.interval'='0'": ("discovery_interval_ms", None),
    "'scan.bounded.mode'='unbounded'": ("stop", None),
    "'scan.bounded.mode'='latest-offset','scan.bounded.timestamp-millis'='5'": ("stop", KafkaOffsets.latest()),
    f"'scan.bounded.mode'='group-offsets',{GROUP}": ("stop", KafkaOffsets.committed()),
    "'scan.bounded.mode'='timestamp','scan.bounded.timestamp-millis'='5'": ("stop", KafkaOffsets.timestamp(5)),
    "'scan.bounded.mode'='specific-offsets','scan.bounded.specific-offsets'='partition:0,offset:42'": (
        "stop",
        KafkaOffsets.at({("t", 0): 42}),
    ),
    f"'scan.startup.mode'='specific-offsets','scan.startup.specific-offsets'='{OFFSETS}'": (
        "start",
        KafkaOffsets.at({("t", 0): 4, ("t", 1): 3}),
    ),
    "'scan.startup.mode'='timestamp','scan.startup.timestamp-millis'='5'": ("start", KafkaOffsets.timestamp(5)),
}
WRITTEN: dict[str, tuple[str, Any]] = {
    "'sink.partitioner'='default'": ("parts.partitioner", None),
    "'sink.partitioner'='round-robin'": ("parts.partitioner", None),
    "'sink.delivery-guarantee'='exactly-once','sink.transactional-id-prefix'='p'": ("transactional_id_prefix", "p"),
    "'sink.delivery-guarantee'='exactly-once'": ("delivery_guarantee", DeliveryGuarantee.EXACTLY_ONCE),
    "'sink.delivery-guarantee'='none'": ("delivery_guarantee", DeliveryGuarantee.AT_LEAST_ONCE),
    f"{GROUP},'properties.auto.offset.reset'='latest','properties.linger.ms'='7'": (
        "client_options",
        {"linger.ms": "7"},
    ),
}


def test_properties_that_flinks_connector_overrides_are_named_and_change_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    options_module._say_once.cache_clear()  # another test may have said it
    tables = Tables()
    reset = "'properties.auto.offset.reset'"
    for options, start in (
        (f"{KAFKA},{reset}='latest'", KafkaOffsets.earliest()),
        (f"{KAFKA.replace('earliest-offset', 'latest-offset')},{reset}='earliest'", KafkaOffsets.latest()),
    ):
        source = tables.read(f"{options},'properties.value.deserializer'='org.example.OfTexts'")
        assert source.start == start
        assert source.client_options == {}
    assert tables.read(f"{UPSERT},{reset}='latest'", BY_KEY).start == KafkaOffsets.earliest()
    assert (
        "option 'properties.auto.offset.reset' of 'connector' = 'kafka' has no effect here: it says where"
        in caplog.text
    )
    assert "option 'properties.value.deserializer' of 'connector' = 'kafka' has no effect here" in caplog.text


def test_options_of_flinks_connector_do_what_they_say() -> None:
    tables = Tables()
    for options, (name, value) in READ.items():
        start = "'scan.startup.mode'='earliest-offset'"
        base = KAFKA.replace(f",{start}", "") if "scan.startup" in options else KAFKA
        assert getattr(tables.read(f"{base},{options}"), name) == value, options
    for options, (path, value) in WRITTEN.items():
        found = tables.sink(f"{KAFKA},{options}")
        for name in path.split("."):
            found = getattr(found, name)
        assert found == value, options
    assert sink_of(tables.table("n INT", f"{KAFKA},'sink.parallelism'='3'"))[1] == 3
    assert tables.read(MANY).topics == ("t", "u")
    assert tables.read(MATCHING).topics == "t.*"
    for options, allowed in ((MANY, ("t", "u")), (MATCHING, "t.*")):
        parts = tables.sink(options, "n INT, place STRING METADATA FROM 'topic'").parts
        assert (parts.topic, parts.topic_column, parts.allowed_topics) == (None, "place", allowed)
    partitioner = f"{__name__}.{ByLength.__name__}"
    assert isinstance(tables.sink(f"{KAFKA},'sink.partitioner'='fixed'").parts.partitioner, FixedPartitioner)
    assert isinstance(tables.sink(f"{KAFKA},'sink.partitioner'='{partitioner}'").parts.partitioner, ByLength)
    assert tables.sink(f"{UPSERT},{BUFFER}", BY_KEY).parts.buffer_rows == 7
    assert tables.sink(f"{UPSERT},{BUFFER}", BY_KEY).parts.buffer_interval_ms == 2_000


def test_a_key_has_its_columns_in_its_order_and_without_their_prefix() -> None:
    tables = Tables()
    of_key = f"{KAFKA.replace(chr(39) + 'format', chr(39) + 'value.format')},'key.format'='csv'"
    for options, columns in (
        (f"{UPSERT},{PREFIXED}", "k_a BIGINT, k_b STRING, a INT, PRIMARY KEY (k_b, k_a) NOT ENFORCED"),
        (f"{of_key},'key.fields'='k_b; k_a',{PREFIXED}", "k_a BIGINT, k_b STRING, a INT"),
    ):
        read, parts = tables.read(options, columns), tables.sink(options, columns).parts
        for found in (read, parts):
            assert (found.key, found.key_prefix) == (("k_b", "k_a"), "k_")
            assert found.key_format.record_type.schema.names == ["b", "a"]
            assert found.value_format.record_type.schema.names == ["a"]


def test_errors_of_keys_and_of_values_are_ignored_where_the_format_of_each_says_so() -> None:
    tables = Tables()
    of_key = f"{KAFKA.replace(chr(39) + 'format', chr(39) + 'value.format')},'key.format'='csv','key.fields'='k'"
    for option, expected in (
        ("'key.csv.ignore-parse-errors'='true'", ("fail", "skip")),
        ("'value.json.ignore-parse-errors'='true'", ("skip", "fail")),
    ):
        settings = tables.read(f"{of_key},{option}", "k INT, n INT")
        assert (settings.bad_messages, settings.bad_keys) == expected


def test_metadata_is_read_beside_columns_of_the_same_names_and_some_is_written() -> None:
    tables = Tables()
    columns = (
        "topic INT, partition_of INT METADATA FROM 'partition' VIRTUAL, e INT METADATA FROM 'leader-epoch' VIRTUAL, "
        "t STRING METADATA FROM 'topic' VIRTUAL, kind STRING METADATA FROM 'timestamp-type' VIRTUAL, "
        "`offset` BIGINT METADATA VIRTUAL, sent TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', "
        "again TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL, h MAP<STRING, BYTES> METADATA FROM 'headers'"
    )
    settings = tables.read(KAFKA, columns)
    assert dict(zip(settings.metadata_columns, settings.metadata, strict=True)) == {
        "partition_of": "partition",
        "e": "leader_epoch",
        "t": "topic",
        "kind": "timestamp_type",
        "offset": "offset",
        "sent": "timestamp",
        "again": "timestamp",
        "h": "header_map",
    }
    parts = tables.sink(KAFKA, columns).parts
    assert (parts.timestamp_column, parts.headers_column, parts.topic) == ("sent", "h", "t")
    pairs = "n INT, headers ARRAY<ROW<name STRING, `value` BYTES>> METADATA"
    assert tables.read(KAFKA, pairs).metadata == ("headers",)


def test_the_source_makes_the_watermark_of_each_partition_also_of_computed_columns() -> None:
    tables = Tables()
    tables.table("a STRING, t AS CAST(a AS TIMESTAMP(3)), n INT, WATERMARK FOR t AS t - INTERVAL '1' SECOND", KAFKA)
    rows: Any = tables.stream("SELECT n, t FROM t")
    names = []
    while rows.input_transformations:
        names.append(rows.name)
        rows = rows.input_transformations[0]
    assert "Rowtime" in names
    assert "WatermarkAssigner" not in names
    made = rows.factory.watermark
    read = {made.columns[number][0] for number in columns_of(made.watermark)}
    assert (made.column, read) == ("t", {"a"})
    in_batch: Any = batch_factory(rows.factory)
    assert in_batch.watermark is None, "in batch mode there is none but the last"


@pytest.mark.parametrize("query", ["SELECT id, t FROM t", "SELECT t FROM t", "SELECT b, t FROM t"])
def test_the_source_makes_the_watermark_of_each_partition_also_before_changes_are_made_whole(query: str) -> None:
    tables = Tables()
    key = "PRIMARY KEY (id) NOT ENFORCED"
    tables.table(f"id INT, b INT, a INT, t AS TO_TIMESTAMP_LTZ(a, 3), {key}, WATERMARK FOR t AS t", UPSERT)
    names, rows = [], tables.stream(query)
    while rows.inputs:
        names.append(rows.name)
        rows = rows.inputs[0]
    assert {"Rowtime", "ChangelogNormalize"} <= set(names)
    assert "WatermarkAssigner" not in names
    made = rows.factory.watermark
    assert {made.columns[number][0] for number in columns_of(made.watermark)} == {"a"}


def test_queries_that_read_other_columns_of_a_table_read_it_together() -> None:
    tables = Tables()
    tables.table("a INT, b INT, c AS b + 1, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND", KAFKA)
    tables.run("CREATE TABLE x (a INT, ts TIMESTAMP(3)) WITH ('connector'='blackhole')")
    tables.run("CREATE TABLE y (c INT, ts TIMESTAMP(3)) WITH ('connector'='blackhole')")
    plan = tables.plan("INSERT INTO x SELECT a, ts FROM t", "INSERT INTO y SELECT c, ts FROM t WHERE c > 1")
    assert plan.count("operator 1: Source: t") == plan.count(": Source: t,") == 1
    assert "WatermarkAssigner" not in plan


REFUSED: dict[str, tuple[str, str, str]] = {
    "topic and topic-pattern": ("n INT", f"{KAFKA},'topic-pattern'='t'", "both say which topics there are"),
    "no topic": ("n INT", KAFKA.replace("'topic'='t',", ""), "option 'topic' is missing, or 'topic-pattern'"),
    "topic-pattern": ("n INT", MATCHING.replace("t.*", "t["), "'t[' is no regular expression"),
    "offsets of many": (
        "n INT",
        f"{MANY},'scan.bounded.mode'='specific-offsets','scan.bounded.specific-offsets'='partition:0,offset:4'",
        "has offsets of one topic, and this table reads several",
    ),
    "specific-offsets": (
        "n INT",
        f"{KAFKA},'scan.bounded.mode'='specific-offsets','scan.bounded.specific-offsets'=''",
        "is written as partition:0,offset:42;",
    ),
    "no specific-offsets": ("n INT", f"{KAFKA},'scan.bounded.mode'='specific-offsets'", "which 'scan.bounded.mode' ="),
    "no timestamp-millis": ("n INT", f"{KAFKA},'scan.bounded.mode'='timestamp'", "timestamp-millis' is missing"),
    "timestamp-millis": (
        "n INT",
        f"{KAFKA},'scan.bounded.mode'='timestamp','scan.bounded.timestamp-millis'='soon'",
        "expected a whole number",
    ),
    "scan.bounded.mode": ("n INT", f"{KAFKA},'scan.bounded.mode'='earliest-offset'", "one of unbounded, latest-offset"),
    "group-offsets": ("n INT", f"{KAFKA},'scan.bounded.mode'='group-offsets'", "or set it to 'unbounded'"),
    "format twice": ("n INT", f"{KAFKA},'value.format'='json'", "'format' and 'value.format' mean the same"),
    "key.format": ("n INT", f"{KAFKA},'key.format'='json'", "'key.fields' does not say which columns are of the key"),
    "key.fields": ("n INT", f"{KAFKA},'key.fields'='m'", "names 'm', which is no column that is stored"),
    "key.fields without key.format": ("n INT", f"{KAFKA},'key.fields'='n'", "option 'key.format' is missing"),
    "prefix in values": (
        "n INT, m INT",
        f"{KAFKA},'key.format'='json','key.fields'='n','key.fields-prefix'='n'",
        "set 'value.fields-include' to 'EXCEPT_KEY'",
    ),
    "no prefix": (
        "n INT, m INT",
        f"{KAFKA},'key.format'='json','key.fields'='n',{PREFIXED}",
        "column 'n' is of the key, and has no name behind 'k_'",
    ),
    "serializer": ("n INT", f"{KAFKA},'properties.key.serializer'='a'", "the table's formats write messages"),
    "Amazon's login": (
        "n INT",
        f"{KAFKA},'properties.sasl.jaas.config'='software.amazon.msk.auth.iam.IAMLoginModule required;'",
        "option 'properties.*': sasl.mechanism AWS_MSK_IAM is a class of Java's client",
    ),
    "jaas": ("n INT", f"{KAFKA},'properties.sasl.jaas.config'='Krb5LoginModule required;'", "username and password"),
    "primary key": ("n INT, PRIMARY KEY (n) NOT ENFORCED", KAFKA, "of which no PRIMARY KEY (n) can be true"),
    "partition": ("n INT, p INT METADATA FROM 'partition'", KAFKA, "connector writes topic, headers, timestamp"),
    "one topic": ("n INT, topic STRING METADATA", KAFKA, "all rows go to one topic; make it VIRTUAL"),
    "many topics": ("n INT", MANY, "no column METADATA FROM 'topic' says to which"),
    "sink.partitioner": ("n INT", f"{KAFKA},'sink.partitioner'='fixd'", "did you mean 'fixed'?; it is one of default"),
    "a class of Java": ("n INT", f"{KAFKA},'sink.partitioner'='org.shop.MyPartitioner'", "names no Python class"),
    "another class": ("n INT", f"{KAFKA},'sink.partitioner'='builtins.dict'", "which is no KafkaPartitioner"),
    "round-robin": (
        "n INT, m INT",
        f"{KAFKA},'key.format'='json','key.fields'='n','sink.partitioner'='round-robin'",
        "is for messages without a key",
    ),
    "sink.semantic": ("n INT", f"{KAFKA},'sink.semantic'='exactly-once'", "it is 'sink.delivery-guarantee' now"),
    "upsert partitioner": (BY_KEY, f"{UPSERT},'sink.partitioner'='fixed'", "which their key says"),
    "half a buffer": (BY_KEY, f"{UPSERT},'sink.buffer-flush.max-rows'='7'", "are both above 0, or both 0"),
    "upsert key.fields": (BY_KEY, f"{UPSERT},'key.fields'='k_a'", "there is no option 'key.fields'"),
}
ONLY_WRITTEN = frozenset(
    {
        *("partition", "one topic", "many topics", "sink.partitioner", "a class of Java", "another class"),
        *("round-robin", "sink.semantic", "upsert partitioner", "half a buffer"),
    }
)


def test_what_a_table_of_kafka_cannot_do_is_refused_with_a_sentence() -> None:
    tables = Tables()
    for name, (columns, options, words) in REFUSED.items():
        found = tables.table(columns, options)
        with pytest.raises(InvalidProgramError) as caught:
            sink_of(found) if name in ONLY_WRITTEN else scan(found)
        assert words in str(caught.value), name
        if name in ONLY_WRITTEN:
            assert scan(found).name == "Source: t"
