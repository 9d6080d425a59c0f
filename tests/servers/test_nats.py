"""NatsSource and NatsSink against a real server."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flinkray import (
    CommitRequest,
    DeliveryGuarantee,
    JobExecutionError,
    JobStatus,
    JsonFormat,
    NatsSink,
    NatsSource,
    RestartStrategies,
    Types,
    WatermarkStrategy,
)
from flinkray.connectors.fetcher import Patience
from flinkray.connectors.nats.clients import NatsError
from flinkray.connectors.nats.commits import NatsMessage
from flinkray.connectors.nats.enumerator import NatsEnumerator, NatsSplit
from flinkray.connectors.nats.reader import NatsFetcher
from flinkray.testing import Crash, ScriptedSource
from tests.servers.test_kafka_source import environment
from tests.servers.test_redis import Summed
from tests.support.api import Assignments, FakeSubtaskContext
from tests.support.gated_source import TARGET_ROWS, GatedSource
from tests.support.operators import as_batch
from tests.support.servers.nats import NatsTestServer, nats_server
from tests.support.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.timeout(180)]

JSON = JsonFormat({"n": int})
EXACTLY_ONCE, AT_LEAST_ONCE = DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE


@pytest.fixture
def stream(nats: NatsTestServer) -> str:
    return nats.create_stream()


def payloads(numbers: Iterable[int]) -> list[bytes]:
    return [b'{"n":%d}' % number for number in numbers]


def read(nats: NatsTestServer, stream: str) -> list[int]:
    return [int(each[5:-1]) for each in nats.read(stream, f"{stream}.rows")]


def sink_into(
    nats: NatsTestServer, stream: str, guarantee: DeliveryGuarantee = EXACTLY_ONCE, /, **given: Any
) -> NatsSink:
    if guarantee is EXACTLY_ONCE:
        given = {"stream": stream, "marks": f"{stream}.marks", **given}
    return NatsSink(nats.url, f"{stream}.rows", JSON, delivery_guarantee=guarantee, **given)


def write(sink: NatsSink, rows: list[Any], **options: Any) -> None:
    env = environment(1, **options)
    env.from_collection(rows).sink_to(sink)
    env.execute("write")


def numbers(source: NatsSource, parallelism: int = 1) -> list[int]:
    rows = environment(parallelism).from_source(source, WatermarkStrategy.no_watermarks(), "messages")
    return [row.n for row in rows.execute_and_collect()]


# -- sinks


@pytest.mark.parametrize("guarantee", [EXACTLY_ONCE, AT_LEAST_ONCE])
def test_rows_are_messages_in_order(nats: NatsTestServer, stream: str, guarantee: DeliveryGuarantee) -> None:
    write(sink_into(nats, stream, guarantee), [{"n": number} for number in range(2_500)])
    assert read(nats, stream) == list(range(2_500))


def test_a_second_commit_writes_nothing_and_one_that_broke_off_writes_the_rest(
    nats: NatsTestServer, stream: str
) -> None:
    sink = sink_into(nats, stream)
    writer, committer = sink.create_writer(FakeSubtaskContext()), sink.create_committer()
    assert committer is not None
    writer.write(as_batch({"n": list(range(2_500))}))
    (rows,) = writer.prepare_commit(1)
    assert nats.count(stream) == 0
    first = [NatsMessage(f"{stream}.rows", payload) for payload in payloads(range(999))]
    nats.connection.run(lambda client: committer._write_batch(client, first, f"{rows.mark}.0"))  # type: ignore[attr-defined]
    requests = [CommitRequest(rows), CommitRequest(rows)]
    for request in requests:
        committer.commit([request])
    committer.close()
    assert read(nats, stream) == list(range(2_500))
    assert [request.outcome.value for request in requests] == ["committed", "already committed"]


def test_a_row_with_the_id_of_one_before_it_is_dropped_and_columns_say_subjects(
    nats: NatsTestServer, stream: str
) -> None:
    sink = NatsSink(nats.url, None, JSON, subject_column="to", message_id="n")
    write(sink, [{"n": 1, "to": f"{stream}.a"}, {"n": 1, "to": f"{stream}.a"}, {"n": 2, "to": f"{stream}.b"}])
    assert [nats.read(stream, f"{stream}.{each}") for each in "ab"] == [[b'{"n":1}'], [b'{"n":2}']]


@pytest.mark.parametrize("guarantee", [EXACTLY_ONCE, AT_LEAST_ONCE])
def test_headers_are_written_and_read(nats: NatsTestServer, stream: str, guarantee: DeliveryGuarantee) -> None:
    given = [{"Trace": "7", "what": "größer"}, {}]
    env = environment(1)
    types = Types.ROW_NAMED(["n", "h"], [Types.INT(), Types.MAP(Types.STRING(), Types.STRING())])
    rows = env.from_collection(list(enumerate(given)), types)
    rows.sink_to(sink_into(nats, stream, guarantee, headers_column="h"))
    env.execute("write")
    source = NatsSource(nats.url, stream, JSON, f"{stream}.rows", metadata=["headers"], stop="latest")
    found = environment(1).from_source(source, WatermarkStrategy.no_watermarks(), "messages").execute_and_collect()
    own = [{name: value for name, value in dict(row.headers).items() if not name.startswith("Nats-")} for row in found]
    assert own == given


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_job_that_fails_and_starts_again_writes_each_row_once(
    nats: NatsTestServer, stream: str, tmp_path: Path, parallelism: int
) -> None:
    env = environment(parallelism, **{"execution.checkpointing.dir": str(tmp_path)})
    env.enable_checkpointing(20)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(9, 10))
    steps: list[Any] = [{"n": number} for number in range(300)]
    for place in (250, 120, 60):
        steps.insert(place, Crash)
    rows = env.from_source(ScriptedSource(steps), WatermarkStrategy.no_watermarks(), "steps").set_parallelism(1)
    rows.rebalance().map(lambda row: row).sink_to(sink_into(nats, stream))
    env.execute("write")
    assert Counter(read(nats, stream)) == Counter(range(300))


@pytest.mark.parametrize("guarantee", [EXACTLY_ONCE, AT_LEAST_ONCE])
def test_a_server_that_dies_is_waited_for(
    nats: NatsTestServer, stream: str, tmp_path: Path, guarantee: DeliveryGuarantee
) -> None:
    env = environment(1, **{"execution.checkpointing.dir": str(tmp_path), **TARGET_ROWS})
    env.enable_checkpointing(50)
    source = GatedSource([{"n": number} for number in range(200)], tmp_path / "gate")
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows")
    rows.sink_to(sink_into(nats, stream, guarantee))
    client = env.execute_async("write")
    eventually(lambda: nats.count(stream) > 0)
    nats.stop()
    (tmp_path / "gate").touch()
    nats.restart()
    client.result(90)
    found = Counter(read(nats, stream))
    assert found.keys() == set(range(200))
    assert guarantee is AT_LEAST_ONCE or found.total() == 200


# -- sources


def test_a_stream_is_read_to_its_end_by_filters_with_what_is_known_of_messages(
    nats: NatsTestServer, stream: str
) -> None:
    for number, subject in enumerate("aba"):
        nats.write(f"{stream}.{subject}", payloads([number]), kind=subject)
    filters = [f"{stream}.a", f"{stream}.b", f"{stream}.c"]  # nothing has the last one
    metadata = ["subject", "sequence", "timestamp", "headers"]
    source = NatsSource(nats.url, stream, JSON, filters, metadata, stop="latest")
    rows = environment(2).from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "messages")
    found = sorted((row.n, row.subject, row.sequence, dict(row.headers)) for row in rows.execute_and_collect())
    assert found == [(number, f"{stream}.{each}", number + 1, {"kind": each}) for number, each in enumerate("aba")]


def test_reading_begins_and_ends_where_it_is_told(nats: NatsTestServer, stream: str) -> None:
    nats.write(f"{stream}.a", payloads(range(4)))
    hour = timedelta(hours=1)
    cases: list[tuple[Any, Any, list[int]]] = [
        ("earliest", "latest", [0, 1, 2, 3]),
        ("latest", "latest", []),
        (2, "latest", [1, 2, 3]),
        (2, 3, [1, 2]),
        (datetime.now(UTC) - hour, "latest", [0, 1, 2, 3]),
        (datetime.now(UTC) + hour, "latest", []),
    ]
    for start, stop, expected in cases:
        assert numbers(NatsSource(nats.url, stream, JSON, start=start, stop=stop)) == expected, (start, stop)


def test_more_messages_than_are_asked_for_at_a_time_come_in_order(nats: NatsTestServer, stream: str) -> None:
    nats.write(f"{stream}.a", payloads(range(12_000)))
    assert numbers(NatsSource(nats.url, stream, JSON, stop="latest")) == list(range(12_000))


def test_after_a_failure_no_message_is_lost_or_read_twice_into_state(
    nats: NatsTestServer, stream: str, tmp_path: Path
) -> None:
    nats.write(f"{stream}.a", payloads(range(1_000)))
    env = environment(1, **{"execution.checkpointing.dir": str(tmp_path), "flinkray.batch.target-rows": 50})
    env.enable_checkpointing(10)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 10))
    source = NatsSource(nats.url, stream, JSON, stop="latest")
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "messages")
    sums = rows.key_by(lambda _: 0, Types.INT()).process(Summed(), Types.LONG())
    assert list(sums.execute_and_collect()) == [sum(range(1_000))]


def test_a_job_reads_on_where_a_savepoint_was_and_after_a_server_died(
    nats: NatsTestServer, stream: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "flinkray.connectors.nats.reader")
    copy = nats.create_stream()

    def job(restored: str | None) -> Any:
        options = {} if restored is None else {"execution.state-recovery.path": restored}
        env = environment(1, **{"execution.checkpointing.dir": str(tmp_path / "c"), **options})
        env.enable_checkpointing(50)
        rows = env.from_source(NatsSource(nats.url, stream, JSON), WatermarkStrategy.no_watermarks(), "m").uid("m")
        rows.sink_to(sink_into(nats, copy)).uid("copy")
        return env.execute_async("copy")

    nats.write(f"{stream}.a", payloads(range(10)))
    client = job(None)
    eventually(client.status, lambda status: status is JobStatus.RUNNING)
    eventually(lambda: len(read(nats, copy)) == 10)
    saved = client.stop_with_savepoint(str(tmp_path / "s"), timeout=30)
    nats.write(f"{stream}.a", payloads(range(10, 15)))
    client = job(saved)
    eventually(lambda: len(read(nats, copy)) == 15)
    nats.stop()
    eventually(lambda: "trying again" in caplog.text)
    nats.restart()
    nats.write(f"{stream}.a", payloads(range(15, 20)))
    eventually(lambda: len(read(nats, copy)) == 20)
    client.cancel()
    assert read(nats, copy) == list(range(20))


def test_messages_that_were_deleted_unread_are_an_error_or_left_out(nats: NatsTestServer, stream: str) -> None:
    nats.write(f"{stream}.a", payloads(range(10)))
    nats.connection.run(lambda client: client.jetstream().purge_stream(stream, seq=6))
    for gone, expected in (("fail", None), ("skip", [5, 6, 7, 8, 9])):
        source = NatsSource(nats.url, stream, JSON, gone=gone)  # type: ignore[arg-type]
        with opened(source) as fetcher:
            list(fetcher.add_splits([NatsSplit(stream, ">", 3, is_begun=True)]))
            if expected is None:
                with pytest.raises(NatsError, match=rf"messages 4 to 5 of stream '{stream}' are not there"):
                    list(fetcher.fetch())
            else:
                (fetched,) = eventually(lambda: list(fetcher.fetch()))
                assert fetched.batch is not None
                assert fetched.batch.data.column("n").to_pylist() == expected


@pytest.mark.parametrize("start", ["earliest", "latest"])
@pytest.mark.parametrize("count", [2, 9])
def test_a_stream_that_was_made_anew_is_an_error_or_read_from_its_first_message(
    nats: NatsTestServer, stream: str, count: int, start: Any
) -> None:
    """Behind the last message of the former one nothing would come, or what came before it would be left out."""
    nats.write(f"{stream}.a", payloads(range(3)))
    source = NatsSource(nats.url, stream, JSON, start=start)
    (former,) = NatsEnumerator(Assignments(), source._settings, None).first_splits()
    with opened(source) as fetcher:
        list(fetcher.add_splits([former]))
        if start == "earliest":  # else nothing comes that would bring another split
            former = eventually(lambda: list(fetcher.fetch()))[0].split
    assert former.last == 3
    nats.delete_stream(stream)
    nats.create_stream(stream)
    nats.write(f"{stream}.a", payloads(range(10, 10 + count)))
    with opened(source) as fetcher:
        list(fetcher.add_splits([former]))
        with pytest.raises(NatsError, match=rf"stream '{stream}' was deleted and made anew"):
            list(fetcher.fetch())
    with opened(NatsSource(nats.url, stream, JSON, gone="skip")) as fetcher:
        list(fetcher.add_splits([former]))
        (fetched,) = eventually(lambda: list(fetcher.fetch()))
    assert fetched.batch is not None
    assert fetched.batch.data.column("n").to_pylist() == list(range(10, 10 + count))


@contextlib.contextmanager
def opened(source: NatsSource) -> Iterator[NatsFetcher]:
    fetcher = NatsFetcher(source._settings, source.output_type, "operator 'm'", Patience(print))
    fetcher.open()
    try:
        yield fetcher
    finally:
        fetcher.close()


# -- errors


def test_what_cannot_be_read_or_written_says_why(nats: NatsTestServer, stream: str) -> None:
    row = [{"n": 1}]
    nats.write(f"{stream}.a", [b"many"])
    queue = nats.create_stream(retention="workqueue", allow_atomic=False, allow_msg_ttl=False)
    other = nats.create_stream()
    few = {"sink.committer.retries": 1}
    cases: list[tuple[Any, str]] = [
        (
            lambda: numbers(NatsSource(nats.url, stream, JSON, stop=9)),
            f"message 1 of stream '{stream}' .*cannot be read",
        ),
        (lambda: numbers(NatsSource(nats.url, "nowhere", JSON)), "stream 'nowhere'.*stream not found.*make it first"),
        (lambda: numbers(NatsSource(nats.url, queue, JSON)), "deletes messages when they are read.*workqueue"),
        (lambda: numbers(NatsSource("nats://127.0.0.1:1", stream, JSON)), "cannot read stream .*nats://127.0.0.1:1"),
        (lambda: write(sink_into(nats, queue), row), "cannot be written exactly once: it takes no atomic batches"),
        (lambda: write(sink_into(nats, stream, marks="other"), row), "no place for marks"),
        (lambda: write(sink_into(nats, stream, stream="nowhere"), row), "stream not found.*make it first"),
        (
            lambda: write(sink_into(nats, stream, stream=other, marks=f"{other}.marks"), row),
            f"'{other}' has no subject '{stream}.rows'",
        ),
        (lambda: write(NatsSink(nats.url, f"{stream}.a", JsonFormat({"m": int})), row), "no column 'm'"),
        (
            lambda: write(
                NatsSink("nats://127.0.0.1:1", "s", JSON, stream="s", marks="m", delivery_guarantee=EXACTLY_ONCE),
                row,
                **few,
            ),
            "put off 2 times.*nats://127.0.0.1:1",
        ),
    ]
    for run, message in cases:
        with pytest.raises(JobExecutionError, match=message):
            run()


def test_a_row_that_is_too_large_and_a_subject_without_a_stream_are_errors(nats: NatsTestServer, stream: str) -> None:
    large = NatsSink(nats.url, f"{stream}.a", JsonFormat({"t": str}))
    with pytest.raises(JobExecutionError, match=r"maximum payload.*write smaller rows"):
        write(large, [{"t": "x" * (2 << 20)}])
    nowhere = NatsSink(nats.url, "nowhere", JSON)
    with pytest.raises(JobExecutionError, match="no stream has the subject 'nowhere'"):
        write(nowhere, [{"n": 1}])


def test_a_server_that_wants_a_password_says_so() -> None:
    with nats_server("ann", "secret") as server:
        wrong = f"nats://nobody:hidden@127.0.0.1:{server.port}"
        for run in (
            lambda: numbers(NatsSource(wrong, "s", JSON, stop="latest")),
            lambda: write(NatsSink(wrong, "s.a", JSON), [{"n": 1}]),
        ):
            with pytest.raises(JobExecutionError, match="refuses user, password or token") as failed:
                run()
            assert "hidden" not in str(failed.value)
