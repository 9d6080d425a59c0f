"""Tables as sources and sinks: options are typed and known, and what is missing is named."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from msgspec import structs

from flinkray import FileCompaction, InvalidProgramError, PartitionCommit, RequestLimits, StreamExecutionEnvironment
from flinkray.connectors.delivery_guarantee import DeliveryGuarantee
from flinkray.connectors.lake.enumerator import LATEST
from flinkray.connectors.lookup import LookupCache
from flinkray.tables.connectors.connectors import changes_of, lookup_of, scan, sink_of
from flinkray.tables.connectors.lake import ICEBERG
from flinkray.tables.connectors.options import ConnectorOptions
from flinkray.tables.plans.tables import Table
from flinkray.transformations.transformation import PhysicalTransformation


def sink(found: Table) -> Any:
    return sink_of(found)[0]


PARQUET = "'connector'='filesystem','path'='x','format'='parquet'"
CSV = "'connector'='filesystem','path'='x','format'='csv'"
KAFKA = "'connector'='kafka','topic'='t','properties.bootstrap.servers'='h:1'"
UPSERT = "'connector'='upsert-kafka','topic'='t','properties.bootstrap.servers'='h:1'"
CDC = "'connector'='postgres-cdc','hostname'='h','username'='m','password'='p@','database-name'='d','table-name'='T'"
WEBHOOK = "'connector'='webhook','port'='1','format'='json'"
HTTP = "'connector'='http','url'='http://h/','format'='json'"
LAKE = "'connector'='iceberg','catalog-type'='sql','uri'='sqlite://'"
JDBC = "'connector'='jdbc','table-name'='x','url'='jdbc:postgresql://h:1/d'"


WITHOUT_KEY = "'value.fields-include'='EXCEPT_KEY'"
RESET = "'properties.auto.offset.reset'"


def table(columns: str, options: str) -> Table:
    tables = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local"}).tables
    tables.execute_sql(f"CREATE TABLE t ({columns}) WITH ({options})")
    found = tables.catalog.get(("t",))
    assert isinstance(found, Table)
    return found


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("n INT", "'conector'='print'", "has no option 'connector'"),
        ("n INT", "'connector'='kafkaa'", "no connector 'kafkaa'; did you mean 'kafka'?"),
        ("n INT", "'connector'='datagen','number-of-row'='2'", "no option 'number-of-row'; did you mean"),
        ("n INT", "'connector'='datagen','fields.m.min'='2'", "no option 'fields.m.min'; did you mean 'fields.n.min'?"),
        ("n INT", "'connector'='datagen','number-of-rows'='two'", "cannot take 'two': expected a whole number"),
        ("n INT", "'connector'='datagen','fields.n.kind'='sequense'", "did you mean 'sequence'"),
        ("n INT", "'connector'='datagen','fields.n.kind'='sequence'", "option 'fields.n.start' is missing"),
        ("n BOOLEAN", "'connector'='datagen','fields.n.kind'='sequence'", "which is not counted"),
        ("n INT METADATA", "'connector'='datagen'", "column 'n' is METADATA 'n', and the connector reads none"),
        ("n INT", "'connector'='print'", "written, not read"),
        ("n INT", "'connector'='filesystem','path'='x'", "option 'format' is missing"),
        ("n INT", "'connector'='filesystem','format'='csv'", "option 'path' is missing"),
        ("n INT", "'connector'='filesystem','pth'='x','format'='csv'", "'path' is missing; is 'pth' meant to be it?"),
        ("n INT", "'connector'='filesystem','path'='x','format'='ork'", "did you mean 'orc'"),
        ("n INT", "'connector'='filesystem','path'='x','format'='raw'", "one column, which is STRING"),
        ("n INT", f"{CSV},'source.monitor-interval'='soon'", "'source.monitor-interval' cannot take 'soon'"),
        ("n INT", f"{CSV},'source.monitor-interval'='0'", "is at least 1 ms"),
        ("n INT", f"{CSV},'source.path.regex-pattern'='('", "cannot take '(': expected a regular expression"),
        ("n INT", f"{PARQUET},'parquet.utc-timezone'='false'", "'parquet.utc-timezone' cannot be false: times are"),
        ("n INT, s INT METADATA FROM 'file.sise'", CSV, "did you mean 'file.size'?"),
        ("n INT", f"{CSV},'csv.header'='true','csv.null-literal'='x'", "option 'csv.null-literal': with 'csv.header'"),
        ("n INT", f"{KAFKA}", "option 'format' is missing"),
        ("n INT", f"{KAFKA},'format'='json'", "'group-offsets', which needs 'properties.group.id'"),
        ("n INT", f"{KAFKA},'format'='jso'", "did you mean 'json'"),
        ("n INT", f"{KAFKA},'format'='json','scan.startup.mode'='earliest'", "did you mean 'earliest-offset'"),
        ("n INT, o INT METADATA FROM 'offsett'", f"{KAFKA},'format'='json'", "did you mean 'offset'?"),
        (
            "n INT",
            f"{KAFKA},'format'='json','json.fail-on-missing-field'='true','json.ignore-parse-errors'='true'",
            "only one of 'json.fail-on-missing-field' and 'json.ignore-parse-errors'",
        ),
        ("n INT", f"{KAFKA},'format'='json','json.timestamp-format.standard'='ISO'", "it is one of ISO-8601, SQL"),
        ("n INT", f"{KAFKA},'format'='json','json.map-null-key.mode'='DROP'", "it is one of FAIL"),
        ("n INT", f"{KAFKA},'format'='canal-json','canal-json.table.include'='('", "is no regular expression"),
        ("n INT", f"{KAFKA},'format'='protobuf'", "option 'protobuf.message-class-name' is missing"),
        (
            "n INT",
            f"{KAFKA},'format'='protobuf','protobuf.message-class-name'='google.protobuf.timestamp_pb2.Timestamp'",
            "format = 'protobuf': message google.protobuf.Timestamp has no field 'n'; fields: seconds, nanos",
        ),
        ("n INT", f"{UPSERT},'key.format'='json','value.format'='json'", "PRIMARY KEY (...) NOT ENFORCED is missing"),
        ("n INT", "'connector'='jdbc','table-name'='x','url'='jdbc:mysql://h/d'", "address of a PostgreSQL server"),
        (
            "n INT",
            "'connector'='jdbc','table-name'='x','url'='jdbc:mysql://h/d?useSSL=no'",
            "databases are asked by",
        ),
        (
            "n INT",
            f"{JDBC[:-1]}?loadBalanceHosts=true'",
            "'loadBalanceHosts' of 'url' is one of JDBC's driver",
        ),
        (
            "n INT",
            f"{KAFKA},'format'='json','key.format'='json','key.fields'='n',{WITHOUT_KEY}",
            "leaves no column for",
        ),
        ("n INT", f"{KAFKA},'format'='json','properties.group.id'='g',{RESET}='soon'", "earliest, latest, none, not"),
        ("n INT", "'connector'='values','data-id'='x'", "no rows are registered as 'x'"),
        ("n INT", CDC, "option 'slot.name' is missing"),
        ("n INT", "'connector'='webhook','format'='json'", "option 'port' is missing"),
        ("n INT", f"{WEBHOOK},'answer'='later'", "it is one of checkpoint, received"),
        ("n INT", f"{WEBHOOK},'json.ignore-parse-errors'='true'", "gets the answer 400"),
        ("n INT", f"{WEBHOOK},'max-body-size'='large'", "expected a size such as '128MB'"),
        ("n INT", "'connector'='http','url'='http://h/','format'='csv'", "it is one of json"),
        ("n INT", f"{CDC},'slot.name'='s','decoding.plugin.name'='wal2json'", "it is one of pgoutput"),
    ],
)
def test_what_is_wrong_with_a_table_names_it_and_the_option(columns: str, options: str, words: str) -> None:
    with pytest.raises(InvalidProgramError, match=re.escape(words)) as raised:
        scan(table(columns, options))
    assert "table 't'" in str(raised.value)


def test_a_table_of_iceberg_is_read_from_where_its_strategy_says() -> None:
    at, read = "'start-snapshot-id'='7'", ICEBERG.source
    assert read is not None
    cases: dict[str, tuple[Any, ...]] = {
        "": (None, None, None),
        at: (None, 7, None),
        "'start-snapshot-timestamp'='1000'": (None, None, datetime.fromtimestamp(1, UTC)),
        "'starting-strategy'='TABLE_SCAN_THEN_INCREMENTAL'": (None, None, None),
        "'starting-strategy'='INCREMENTAL_FROM_LATEST_SNAPSHOT'": (None, None, "latest"),
        "'starting-strategy'='INCREMENTAL_FROM_LATEST_SNAPSHOT_EXCLUSIVE'": (None, LATEST, None),
        "'starting-strategy'='INCREMENTAL_FROM_EARLIEST_SNAPSHOT'": (None, None, "earliest"),
        f"'starting-strategy'='INCREMENTAL_FROM_SNAPSHOT_ID',{at}": (None, None, 7),
    }
    for options, expected in cases.items():
        found = table("n BIGINT", ",".join(filter(None, (LAKE, options))))
        source: Any = read(found, ConnectorOptions("t", found.options)).source
        assert (source._start.timestamp, source._start.after, source._start.since) == expected, options
    for options, words in {
        "'starting-strategy'='FROM_LATEST'": "it is one of TABLE_SCAN_THEN_INCREMENTAL",
        "'starting-strategy'='INCREMENTAL_FROM_SNAPSHOT_ID'": "'start-snapshot-id' goes with",
        f"'starting-strategy'='INCREMENTAL_FROM_EARLIEST_SNAPSHOT',{at}": "'start-snapshot-id' goes with",
        f"{at},'start-snapshot-timestamp'='1'": "one of snapshot_id=, timestamp=, after= and since=",
    }.items():
        found = table("n BIGINT", f"{LAKE},{options}")
        with pytest.raises(InvalidProgramError, match=re.escape(words)):
            read(found, ConnectorOptions("t", found.options))


def test_the_columns_of_a_topic_are_those_of_the_table() -> None:
    columns = "ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', id BIGINT, part BIGINT METADATA FROM 'partition' VIRTUAL"
    start = "'scan.startup.mode'='earliest-offset','scan.bounded.mode'='latest-offset'"
    read = scan(table(columns, f"{KAFKA},'format'='json',{start},'properties.fetch.min.bytes'='7'"))
    assert isinstance(read, PhysicalTransformation)
    assert [name for name, _ in read.factory.projections] == ["ts", "id", "part"]  # type: ignore[attr-defined]


def test_a_topic_by_key_is_read_and_written_as_a_changelog() -> None:
    found = table(
        "id BIGINT, n INT, PRIMARY KEY (id) NOT ENFORCED", f"{UPSERT},'key.format'='json','value.format'='json'"
    )
    assert str(changes_of(found)) == "I,UA,D"
    made = sink(found)
    assert (made.parts.key, made.parts.upsert) == (("id",), True)
    for format in ("debezium", "canal", "maxwell", "ogg"):
        assert str(changes_of(table("n INT", f"{KAFKA},'format'='{format}-json'"))) == "I,UB,UA,D"
    assert changes_of(table("n INT", f"{KAFKA},'format'='json'")).is_insert_only


def test_changes_of_a_table_come_whole_or_by_key() -> None:
    assert str(changes_of(table("n INT", CDC))) == "I,UB,UA,D"
    by_key = f"{CDC},'changelog-mode'='upsert'"
    assert str(changes_of(table("n INT, PRIMARY KEY (n) NOT ENFORCED", by_key))) == "I,UA,D"
    with pytest.raises(InvalidProgramError, match="PRIMARY KEY"):
        changes_of(table("n INT", by_key))


def test_a_sink_has_the_guarantee_and_key_that_the_table_says() -> None:
    made = sink(table("n INT", f"{KAFKA},'format'='json','sink.delivery-guarantee'='exactly-once'"))
    assert made.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
    found = table("id BIGINT, PRIMARY KEY (id) NOT ENFORCED", f"{JDBC},'username'='me','password'='p@ss'")
    made = sink(found)
    assert made._key == ("id",)
    assert made._uri == "postgresql://me:p%40ss@h:1/d"
    address = f"{JDBC[:-1]}?ssl=true&ApplicationName=a&currentSchema=s,t'"
    expected = "postgresql://h:1/d?sslmode=verify-full&application_name=a&options=-csearch_path%3Ds%2Ct"
    assert sink(table("id BIGINT", address))._uri == expected
    address = f"{JDBC[:-1]}?reWriteBatchedInserts=true&stringtype=unspecified'"
    assert sink(table("id BIGINT", address))._uri == "postgresql://h:1/d"
    address = f"{JDBC[:-1]}?currentSchema=s&options=-cx%3D1'"
    assert sink(table("id BIGINT", address))._uri == "postgresql://h:1/d?options=-csearch_path%3Ds%20-cx%3D1"
    own = "'connector'='jdbc','table-name'='x','url'='postgresql://h/d?sslmode=require'"
    assert sink(table("id BIGINT", own))._uri == "postgresql://h/d?sslmode=require"


def test_rows_of_requests_are_gathered_as_the_options_of_asynchronous_sinks_say() -> None:
    gathered = "'sink.batch.max-size'='7','sink.flush-buffer.size'='2kb','sink.flush-buffer.timeout'='5 ms'"
    under_way = "'sink.requests.max-inflight'='3','sink.requests.max-buffered'='9','sink.max-attempts'='2'"
    made = sink(table("n INT", f"{HTTP},{gathered},{under_way},'header.X'='y','sink.body'='array','sink.method'='PUT'"))
    assert made._limits == RequestLimits(
        max_rows=7,
        max_bytes=2048,
        max_in_flight=3,
        max_buffered_rows=9,
        max_time_in_buffer_ms=5,
        max_attempts=2,
    )
    assert (made._target.headers, made._target.body, made._target.method) == ((("X", "y"),), "array", "PUT")
    for options, words in (
        (f"{HTTP},'sink.body'='lists'", "it is one of lines, array, row"),
        (f"{HTTP},'sink.methodd'='PUT'", "did you mean 'sink.method'"),
        (HTTP.replace("'json'", "'debezium-json'"), "rows are only added"),
    ):
        with pytest.raises(InvalidProgramError, match=words):
            sink(table("n INT", options))
    source = scan(table("n INT", f"{WEBHOOK},'token'='x','host'='0.0.0.0','path'='/a','answer.timeout'='1 s'"))
    assert isinstance(source, PhysicalTransformation)
    assert source.parallelism == 1


def test_options_about_how_others_work_have_no_effect_which_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    of_jdbc = "'driver'='org.postgresql.Driver','scan.fetch-size'='100','lookup.max-retries'='3'"
    read = "'scan.partition.column'='n','scan.partition.num'='4','scan.partition.lower-bound'='0'"
    written = "'sink.buffer-flush.max-rows'='1','sink.buffer-flush.interval'='1 s','sink.max-retries'='3'"
    for _ in range(2):
        sink(table("n INT", f"{JDBC},{of_jdbc},{read},{written}"))
        lookup_of(table("n INT", f"{JDBC},{of_jdbc},{read},{written}"))
        scan(table("n INT", f"{PARQUET},'source.report-statistics'='NONE'"))
        sink(table("n INT", f"{CSV},'sink.rolling-policy.check-interval'='1 min'"))
        sink(table("n INT", f"{KAFKA},'format'='json','sink.transaction-naming-strategy'='POOLING'"))
    assert len(caplog.messages) == len(set(caplog.messages)) == 11
    assert "option 'driver' of 'connector' = 'jdbc' has no effect here: the server is asked without" in caplog.text
    assert "'sink.rolling-policy.check-interval' of 'connector' = 'filesystem' has no effect here" in caplog.text


def test_a_table_that_is_looked_up_keeps_what_it_found_as_its_options_say() -> None:
    cached = "'lookup.cache'='PARTIAL','lookup.partial-cache.expire-after-write'='2 s'"
    found = lookup_of(table("n INT", f"{JDBC},{cached},'lookup.partial-cache.max-rows'='7'"))
    assert found is not None
    assert found.cache == LookupCache(2_000, 7)
    more = "'lookup.partial-cache.expire-after-access'='1 s','lookup.partial-cache.cache-missing-key'='false'"
    found = lookup_of(table("n INT", f"{JDBC},{cached},{more}"))
    assert found is not None
    assert (found.cache.idle_millis, found.cache.keeps_missing) == (1_000, False)
    assert getattr(lookup_of(table("n INT", JDBC)), "cache", None) == LookupCache(0, 2**62)
    assert lookup_of(table("n INT", f"{KAFKA},'format'='json'")) is None
    with pytest.raises(InvalidProgramError, match="did you mean 'lookup.cache'".replace(".", r"\.")):
        lookup_of(table("n INT", f"{JDBC},'lookup.cach'='NONE'"))


def test_options_of_the_other_direction_are_left_to_it() -> None:
    both = f"{KAFKA},'format'='json','scan.startup.mode'='earliest-offset','sink.delivery-guarantee'='at-least-once'"
    assert sink(table("n INT", both)).parts.topic == "t"
    assert scan(table("n INT", both)).name == "Source: t"
    with pytest.raises(InvalidProgramError, match="written with commas"):
        sink(table("n INT", f"{CSV},'csv.header'='true','csv.field-delimiter'=';'"))


def test_files_of_avro_are_read_with_either_mapping_of_times_and_written_with_the_one_that_they_have() -> None:
    avro = "'connector'='filesystem','path'='x','format'='avro','avro.timestamp_mapping.legacy'="
    for mapping in ("true", "false"):
        assert scan(table("n INT", f"{avro}'{mapping}'")).name == "Source: t"
    assert sink(table("n INT", f"{avro}'false'")) is not None
    with pytest.raises(InvalidProgramError, match="cannot be true: times without a zone are written as Avro's local"):
        sink(table("n INT", f"{avro}'true'"))


def test_a_format_of_a_table_has_the_options_of_flink() -> None:
    start, columns = "'scan.startup.mode'='earliest-offset'", "seconds BIGINT, nanos INT"
    protobuf = (
        "'format'='protobuf','protobuf.message-class-name'='google.protobuf.timestamp_pb2.Timestamp',"
        "'protobuf.read-default-values'='true','protobuf.ignore-parse-errors'='true'"
    )
    canal = (
        "'format'='canal-json','canal-json.database.include'='shop','canal-json.ignore-parse-errors'='true',"
        "'canal-json.timestamp-format.standard'='ISO-8601','canal-json.encode.ignore-null-fields'='true'"
    )
    for options in (protobuf, canal):
        found = table(columns, f"{KAFKA},{start},{options}")
        assert scan(found).name == "Source: t"
        message_format = sink(found).parts.value_format
        assert message_format.record_type.schema.names == ["seconds", "nanos"]
        row = pa.record_batch({"seconds": pa.array([1]), "nanos": pa.array([None], pa.int32())})
        written = message_format.encode(row).to_pylist()
        assert written == [b"\x08\x01" if options == protobuf else b'{"data":[{"seconds":1}],"type":"INSERT"}']


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        ("", (128 << 20, 1_800_000, 1_800_000)),
        (",'sink.rolling-policy.file-size'='1 g'", (1 << 30, 1_800_000, 1_800_000)),
        (
            ",'sink.rolling-policy.file-size'='2KB','sink.rolling-policy.rollover-interval'='1 h'",
            (2048, 3_600_000, 1_800_000),
        ),
        (
            ",'sink.rolling-policy.file-size'='7 b','sink.rolling-policy.inactivity-interval'='5 s'",
            (7, 1_800_000, 5_000),
        ),
    ],
)
def test_files_of_a_table_end_as_its_rolling_policy_says(options: str, limits: tuple[int, int, int]) -> None:
    rolling = sink(table("n INT", CSV + options))._rolling
    assert (rolling.part_size, rolling.rollover_ms, rolling.inactivity_ms) == limits


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("'sink.rolling-policy.file-size'='7 bits'", "expected a size such as '128MB'"),
    ],
)
def test_what_is_wrong_with_a_rolling_policy_is_said(options: str, words: str) -> None:
    with pytest.raises(InvalidProgramError, match=words):
        sink(table("n INT", f"{CSV},{options}"))


def test_partitions_and_small_files_of_a_table_are_committed_as_its_options_say() -> None:
    commit = "sink.partition-commit"
    partitioned = f"{CSV},'{commit}.policy.kind'='success-file','auto-compaction'='true'"
    options = (
        f"'{commit}.trigger'='partition-time','{commit}.delay'='1 h','{commit}.watermark-time-zone'='Asia/Shanghai',"
        f"'{commit}.success-file.name'='_done','partition.time-extractor.timestamp-pattern'='$d',"
        "'partition.time-extractor.timestamp-formatter'='yyyyMMdd','compaction.file-size'='1mb'"
    )
    made = sink(partitioned_table(f"{partitioned},{options}"))
    assert made._partition_commit == PartitionCommit(
        "partition-time", 3_600_000, "_done", [], "$d", "yyyyMMdd", "Asia/Shanghai"
    )
    assert made._compaction == FileCompaction(1 << 20)
    assert scan(partitioned_table(f"{partitioned},{options}")).name == "Source: t", "these are for writing"
    plain = sink(partitioned_table(f"{CSV},'{commit}.delay'='1 h'"))
    assert (plain._partition_commit, plain._compaction) == (None, None)
    for wrong, words in (
        (f"'{commit}.policy.kind'='metastore'", "is for Hive's tables"),
        (f"'{commit}.policy.kind'='succes'", "is of success-file and custom, not 'succes'"),
        (f"'{commit}.policy.kind'='custom'", f"option '{commit}.policy.class' is missing"),
        (f"'{commit}.policy.kind'='custom','{commit}.policy.class'='no.Such'", "names no Python class"),
        (f"'{commit}.trigger'='partition-tim'", "did you mean 'partition-time'"),
        ("'partition.time-extractor.kind'='custom'", "option 'partition.time-extractor.class' is missing"),
    ):
        with pytest.raises(InvalidProgramError, match=re.escape(words)):
            sink(partitioned_table(f"{CSV},{wrong}"))
    with pytest.raises(InvalidProgramError, match="tables of this connector cannot be overwritten"):
        sink_of(table("n INT", f"{KAFKA},'format'='json'"), {})


def partitioned_table(options: str) -> Table:
    found = table("n INT, d STRING", options)
    return structs.replace(found, partitioned_by=("d",))
