"""RedisSource and RedisSink against a real server."""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest

from flinkray import (
    CommitRequest,
    DeliveryGuarantee,
    InvalidProgramError,
    JobExecutionError,
    JobStatus,
    JsonFormat,
    KeyedProcessFunction,
    RedisSink,
    RedisSource,
    RestartStrategies,
    SourceBatch,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from flinkray.connectors.redis.clients import RedisError
from flinkray.connectors.redis.splits import RedisSplit
from flinkray.testing import Crash, ScriptedSource
from tests.servers.test_kafka_source import environment
from tests.support.api import FakeSubtaskContext
from tests.support.gated_source import TARGET_ROWS, GatedSource
from tests.support.operators import as_batch
from tests.support.servers.redis import RedisServer
from tests.support.waiting import eventually

pytestmark = [pytest.mark.redis, pytest.mark.timeout(180)]

_names = itertools.count()


@pytest.fixture
def stream() -> str:
    return f"stream-{next(_names)}"


def read(redis: RedisServer, stream: str, field: bytes = b"n") -> list[int]:
    return [int(fields[field]) for _, fields in redis.client.xrange(stream)]


def write(sink: RedisSink, rows: list[Any], **options: Any) -> None:
    env = environment(**options)
    env.from_collection(rows).sink_to(sink)
    env.execute("write")


def fill(redis: RedisServer, stream: str, numbers: range) -> None:
    for number in numbers:
        redis.client.xadd(stream, {"n": number, "text": f"t{number}"}, id=f"{1_000 + number}-0")


# -- sinks


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE])
def test_rows_are_entries_with_a_field_for_each_column_that_is_not_null(
    redis: RedisServer, stream: str, guarantee: DeliveryGuarantee
) -> None:
    rows = [{"n": 1, "text": "ä", "flag": True}, {"n": 2, "text": None, "flag": False}]
    write(RedisSink(redis.url, stream, delivery_guarantee=guarantee), rows, parallelism=1)
    assert [fields for _, fields in redis.client.xrange(stream)] == [
        {b"n": b"1", b"text": "ä".encode(), b"flag": b"true"},
        {b"n": b"2", b"flag": b"false"},
    ]


def test_rows_are_hashes_by_key_of_which_the_last_one_counts(redis: RedisServer) -> None:
    rows = [{"user": "ann", "n": 1}, {"user": "bob", "n": 2}, {"user": "ann", "n": 3}]
    write(RedisSink(redis.url, key_prefix="user:", key="user"), rows, parallelism=1)
    assert redis.client.hgetall("user:ann") == {b"user": b"ann", b"n": b"3"}
    assert redis.client.hgetall("user:bob") == {b"user": b"bob", b"n": b"2"}


def test_a_format_writes_one_field_and_a_stream_keeps_its_length(redis: RedisServer, stream: str) -> None:
    sink = RedisSink(redis.url, stream, value_format=JsonFormat({"n": int}), max_length=100)
    write(sink, [{"n": number} for number in range(1_000)], parallelism=1)
    entries = redis.client.xrange(stream)
    assert entries[-1][1] == {b"value": b'{"n":999}'}
    assert 100 <= len(entries) < 300


def test_a_second_commit_writes_nothing(redis: RedisServer, stream: str) -> None:
    sink = RedisSink(redis.url, stream)
    writer, committer = sink.create_writer(FakeSubtaskContext()), sink.create_committer()
    assert committer is not None
    writer.write(as_batch({"n": [1, 2]}))
    (rows,) = writer.prepare_commit(1)
    assert read(redis, stream) == []
    first, second = CommitRequest(rows), CommitRequest(rows)
    committer.commit([first])
    committer.commit([second])
    committer.close()
    assert read(redis, stream) == [1, 2]
    assert (first.outcome.value, second.outcome.value) == ("committed", "already committed")
    assert 0 < redis.client.ttl(rows.mark) <= 7 * 86_400


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_job_that_fails_and_starts_again_writes_each_row_once(
    redis: RedisServer, stream: str, tmp_path: Path, parallelism: int
) -> None:
    env = environment(parallelism, **{"execution.checkpointing.dir": str(tmp_path)})
    env.enable_checkpointing(20)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(9, 10))
    steps: list[Any] = [{"n": number} for number in range(300)]
    for place in (250, 120, 60):
        steps.insert(place, Crash)
    rows = env.from_source(ScriptedSource(steps), WatermarkStrategy.no_watermarks(), "steps").set_parallelism(1)
    rows.rebalance().map(lambda row: row).sink_to(RedisSink(redis.url, stream))
    env.execute("write")
    assert Counter(read(redis, stream)) == Counter(range(300))


def test_a_server_that_dies_is_waited_for_and_each_row_comes_once(
    redis: RedisServer, stream: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "actors.operators.sinks.commits")
    env = environment(1, **{"execution.checkpointing.dir": str(tmp_path), **TARGET_ROWS})
    env.enable_checkpointing(50)
    source = GatedSource([{"n": number} for number in range(200)], tmp_path / "gate")
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows")
    rows.sink_to(RedisSink(redis.url, stream))
    client = env.execute_async("write")
    eventually(lambda: redis.client.xlen(stream) > 0)
    redis.stop()
    (tmp_path / "gate").touch()
    eventually(lambda: "a commit is put off" in caplog.text)
    redis.restart()
    client.result(90)
    assert Counter(read(redis, stream)) == Counter(range(200))


# -- sources


def test_a_stream_is_read_to_its_end_with_event_times(redis: RedisServer, stream: str) -> None:
    fill(redis, stream, range(3))
    redis.client.xadd(stream, {"text": "no number"}, id="2000-0")
    source = RedisSource(redis.url, stream, {"n": int, "text": str}, metadata=["stream", "id"], stop="latest")
    rows = environment(2).from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "entries")
    found = sorted(tuple(row) for row in rows.execute_and_collect())
    assert found[:2] == [(stream, "1000-0", 0, "t0"), (stream, "1001-0", 1, "t1")]
    assert (stream, "2000-0", None, "no number") in found
    assert len(found) == 4


@pytest.mark.parametrize(("start", "expected"), [("1001-0", [2, 3]), ("latest", []), ("earliest", [0, 1, 2, 3])])
def test_reading_begins_where_it_is_told(redis: RedisServer, stream: str, start: str, expected: list[int]) -> None:
    fill(redis, stream, range(4))
    source = RedisSource(redis.url, stream, {"n": int}, start=start, stop="latest")
    rows = environment(1).from_source(source, WatermarkStrategy.no_watermarks(), "entries")
    assert [row.n for row in rows.execute_and_collect()] == expected


def test_several_streams_and_one_that_is_not_there_yet(redis: RedisServer, stream: str) -> None:
    other, missing = f"{stream}-other", f"{stream}-missing"
    fill(redis, stream, range(2))
    redis.client.xadd(other, {"value": b'{"n": 7}'})
    json = JsonFormat({"n": int})
    source = RedisSource(redis.url, [other, missing], value_format=json, stop="latest")
    rows = environment(2).from_source(source, WatermarkStrategy.no_watermarks(), "entries")
    assert [row.n for row in rows.execute_and_collect()] == [7]


class Summed(KeyedProcessFunction):
    """Fails once, when it has seen half of the rows."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.attempt = runtime_context.get_attempt_number()

    def process_element(self, value: Any, ctx: Any) -> Any:
        if value.n == 500 and self.attempt == 0:
            raise ValueError("half of them")
        total = (self.total.value() or 0) + value.n
        self.total.update(total)
        if value.n == 999:
            yield total


def test_after_a_failure_no_entry_is_lost_or_read_twice_into_state(
    redis: RedisServer, stream: str, tmp_path: Path
) -> None:
    with redis.client.pipeline() as pipeline:
        for number in range(1_000):
            pipeline.xadd(stream, {"n": number})
        pipeline.execute()
    env = environment(1, **{"execution.checkpointing.dir": str(tmp_path), "flinkray.batch.target-rows": 50})
    env.enable_checkpointing(10)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 10))
    source = RedisSource(redis.url, stream, {"n": int}, stop="latest")
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "entries")
    sums = rows.key_by(lambda _: 0, Types.INT()).process(Summed(), Types.LONG())
    assert list(sums.execute_and_collect()) == [sum(range(1_000))]


def test_a_job_reads_on_where_a_savepoint_was(redis: RedisServer, stream: str, tmp_path: Path) -> None:
    fill(redis, stream, range(10))

    def job(restored: str | None) -> Any:
        options = {} if restored is None else {"execution.state-recovery.path": restored}
        env = environment(1, **{"execution.checkpointing.dir": str(tmp_path / "c"), **options})
        env.enable_checkpointing(50)
        source = RedisSource(redis.url, stream, {"n": int})
        rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "entries").uid("entries")
        rows.sink_to(RedisSink(redis.url, f"{stream}-copy")).uid("copy")
        return env.execute_async("copy")

    client = job(None)
    eventually(client.status, lambda status: status is JobStatus.RUNNING)
    eventually(lambda: redis.client.xlen(f"{stream}-copy") == 10)
    saved = client.stop_with_savepoint(str(tmp_path / "s"), timeout=30)
    fill(redis, stream, range(10, 15))
    client = job(saved)
    eventually(lambda: redis.client.xlen(f"{stream}-copy") == 15)
    client.cancel()
    assert read(redis, f"{stream}-copy") == list(range(15))


@pytest.mark.parametrize("trimmed", ["fail", "skip"])
def test_entries_that_may_be_missing_are_an_error_or_left_out(
    redis: RedisServer, stream: str, trimmed: Literal["fail", "skip"]
) -> None:
    fill(redis, stream, range(10))
    redis.client.xtrim(stream, minid="1005-0", approximate=False)
    source = RedisSource(redis.url, stream, {"n": int}, stop="latest", trimmed=trimmed)
    reader = source.create_reader(FakeSubtaskContext())
    reader.add_splits([RedisSplit(stream, "1002-0", "1009-0", is_begun=True)])
    reader.start()
    try:
        if trimmed == "fail":
            with pytest.raises(RedisError, match=rf"entry 1002-0 of stream '{stream}'.*not there any more"):
                eventually(reader.poll, lambda polled: isinstance(polled, SourceBatch))
        else:
            found = eventually(reader.poll, lambda polled: isinstance(polled, SourceBatch))
            assert isinstance(found, SourceBatch)
            assert found.batch.data.column("n").to_pylist() == [5, 6, 7, 8, 9]
    finally:
        reader.close()


def polled_rows(reader: Any) -> list[int]:
    found = eventually(reader.poll, lambda polled: isinstance(polled, SourceBatch))
    return [] if found.batch is None else list(found.batch.data.column("n").to_pylist())


@pytest.mark.parametrize("trimmed", ["fail", "skip"])
def test_entries_that_are_trimmed_faster_than_they_are_read_are_an_error_or_said_in_the_log(
    redis: RedisServer, stream: str, trimmed: Literal["fail", "skip"], caplog: pytest.LogCaptureFixture
) -> None:
    fill(redis, stream, range(10))
    source = RedisSource(redis.url, stream, {"n": int}, trimmed=trimmed)
    reader = source.create_reader(FakeSubtaskContext())
    reader.add_splits([RedisSplit(stream, "0-0")])
    reader.start()
    try:
        assert polled_rows(reader) == list(range(10))
        with redis.client.pipeline(transaction=True) as added:
            for number in range(10, 30):
                added.xadd(stream, {"n": number}, id=f"{1_000 + number}-0")
            added.xtrim(stream, maxlen=5, approximate=False)
            added.execute()
        missing = f"15 entries of stream '{stream}' behind 1009-0 were removed before they were read"
        if trimmed == "fail":
            with pytest.raises(RedisError, match=rf"{missing}.*MAXLEN.*trimmed='skip'"):
                polled_rows(reader)
        else:
            assert polled_rows(reader) == list(range(25, 30))
            assert missing in caplog.text
    finally:
        reader.close()


def test_entries_that_were_read_may_be_removed_while_a_job_runs_and_while_it_stands_still(
    redis: RedisServer, stream: str
) -> None:
    source = RedisSource(redis.url, stream, {"n": int})
    split = RedisSplit(stream, "0-0")
    for round_ in range(3):
        reader = source.create_reader(FakeSubtaskContext())
        reader.add_splits([split])
        reader.start()
        try:
            for number in range(10 * round_, 10 * round_ + 10):
                redis.client.xadd(stream, {"n": number}, id=f"{1_000 + number}-0", maxlen=1, approximate=False)
                assert polled_rows(reader) == [number]
            (split,) = reader.snapshot_state(1)
        finally:
            reader.close()
        redis.client.xdel(stream, split.last_id)
    assert split == RedisSplit(stream, "1029-0", is_begun=True, number=30)


@pytest.mark.parametrize("left", [0, 3])
def test_a_bounded_source_ends_though_its_last_entries_were_removed(redis: RedisServer, stream: str, left: int) -> None:
    fill(redis, stream, range(5))
    redis.client.xdel(stream, *(f"{1_000 + number}-0" for number in range(left, 5)))
    source = RedisSource(redis.url, stream, {"n": int}, stop="latest")
    rows = environment(1).from_source(source, WatermarkStrategy.no_watermarks(), "entries").execute_and_collect()
    assert [row["n"] for row in rows] == list(range(left))


def test_a_user_who_may_not_ask_what_the_server_counts_reads_all_the_same(redis: RedisServer, stream: str) -> None:
    fill(redis, stream, range(5))
    redis.client.acl_setuser("reader", enabled=True, passwords=["+word"], keys=["*"], commands=["+xread", "+xrange"])
    url = redis.url.replace("redis://", "redis://reader:word@")
    reader = RedisSource(url, stream, {"n": int}, start="1001-0").create_reader(FakeSubtaskContext())
    reader.add_splits([RedisSplit(stream, "1001-0")])
    reader.start()
    try:
        assert polled_rows(reader) == [2, 3, 4]
    finally:
        reader.close()


@pytest.mark.parametrize("is_there", [False, True])
def test_a_job_that_goes_on_where_nothing_is_counted_any_more_looks_for_the_entry_read_last(
    redis: RedisServer, stream: str, is_there: bool
) -> None:
    fill(redis, stream, range(5))
    if not is_there:
        redis.client.xtrim(stream, maxlen=2, approximate=False)
    redis.client.acl_setuser("reader", enabled=True, passwords=["+word"], keys=["*"], commands=["+xread", "+xrange"])
    url = redis.url.replace("redis://", "redis://reader:word@")
    reader = RedisSource(url, stream, {"n": int}).create_reader(FakeSubtaskContext())
    reader.add_splits([RedisSplit(stream, "1001-0", is_begun=True, number=2)])
    reader.start()
    try:
        if is_there:
            assert polled_rows(reader) == [2, 3, 4]
            assert reader.snapshot_state(1) == [RedisSplit(stream, "1004-0", is_begun=True)]
        else:
            with pytest.raises(RedisError, match=r"entry 1001-0 of stream .* is not there any more"):
                polled_rows(reader)
    finally:
        reader.close()


# -- errors


def test_what_cannot_be_read_or_written_names_stream_field_and_the_way_out(redis: RedisServer, stream: str) -> None:
    redis.client.xadd(stream, {"n": "many"}, id="5-0")
    source = RedisSource(redis.url, stream, {"n": int}, stop="latest")
    with pytest.raises(JobExecutionError, match=rf"entry 5-0 of stream '{stream}' cannot be read: field 'n'"):
        list(environment(1).from_source(source, WatermarkStrategy.no_watermarks(), "e").execute_and_collect())
    redis.client.set(f"{stream}-text", "x")
    with pytest.raises(JobExecutionError, match="another kind of value has that key"):
        write(RedisSink(redis.url, f"{stream}-text"), [{"n": 1}])
    with pytest.raises(JobExecutionError, match=r"column 'n' is list.*give a value_format"):
        write(RedisSink(redis.url, f"{stream}-list"), [{"n": [1]}])
    with pytest.raises(JobExecutionError, match="no column 'user'"):
        write(RedisSink(redis.url, key_prefix="u", key="user"), [{"n": 1}])
    with pytest.raises(JobExecutionError, match="a row has no key"):
        write(RedisSink(redis.url, key_prefix="u", key="user"), [{"n": 1, "user": None}, {"n": 1, "user": "a"}])


def test_a_server_that_wants_a_password_or_is_not_there_says_so(redis: RedisServer, stream: str) -> None:
    wrong = redis.url.replace("redis://", "redis://nobody:hidden@")
    with pytest.raises(JobExecutionError, match="refuses user or password") as failed:
        write(RedisSink(wrong, stream), [{"n": 1}])
    assert "hidden" not in str(failed.value)
    options = {"sink.committer.retries": 1}
    with pytest.raises(JobExecutionError, match=r"put off 2 times.*redis://127.0.0.1:1/0"):
        write(RedisSink("redis://127.0.0.1:1/0", stream), [{"n": 1}], **options)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"url": "host:6379"}, "is like 'redis://host:6379/0'"),
        ({"stream": None}, "either stream= or key_prefix="),
        ({"key": "n"}, "key_prefix= and key= go together"),
        ({"max_length": 0}, "at least 1"),
    ],
)
def test_a_sink_that_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        RedisSink(**{"url": "redis://h", "stream": "s", **given})


def test_secrets_are_not_shown() -> None:
    url = "redis://ann:hidden@host:6379/0"
    for shown in (repr(RedisSink(url, "s")), repr(RedisSource(url, "s", {"n": int}))):
        assert "hidden" not in shown
        assert "host" in shown
