"""Subjects, and which of them sources and sinks take, without a server."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from flinkray import (
    AvroFormat,
    ConnectorError,
    DebeziumJsonFormat,
    DeliveryGuarantee,
    InvalidProgramError,
    JsonFormat,
    NatsSink,
    NatsSource,
    SchemaRegistry,
)
from flinkray.connectors.fetcher import Patience
from flinkray.connectors.nats.enumerator import NatsSplit
from flinkray.connectors.nats.exactly_once import MarkedStream
from flinkray.connectors.nats.reader import NatsFetcher
from flinkray.connectors.nats.subjects import covers, overlap

FORMAT = JsonFormat({"n": int})


def test_filters_cover_and_overlap_as_the_server_matches_them() -> None:
    # filter, subject or filter, whether all of it passes, whether something of it does
    cases = [
        (">", "a", True, True),
        ("a.*", "a.b", True, True),
        ("a.*", "a", False, False),
        ("a.*", "a.b.c", False, False),
        ("a.>", "a", False, False),
        ("a.>", "a.b.c", True, True),
        ("a.>", "a.*.c", True, True),
        ("a.*", "a.>", False, True),
        ("*.b", "a.*", False, True),
        ("a", "b", False, False),
    ]
    for pattern, subject, is_covered, overlaps in cases:
        assert covers([pattern], subject) == is_covered, (pattern, subject)
        assert overlap(pattern, subject) == overlap(subject, pattern) == overlaps, (pattern, subject)


def source(**given: Any) -> NatsSource:
    return NatsSource(**{"servers": "nats://h", "stream": "s", "value_format": FORMAT, **given})


def sink(**given: Any) -> NatsSink:
    return NatsSink(**{"servers": "nats://h", "subject": "s.a", "value_format": FORMAT, **given})


def test_what_cannot_be_read_or_written_is_refused_by_name() -> None:
    exact = {"delivery_guarantee": DeliveryGuarantee.EXACTLY_ONCE}
    cases: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
        (source, {"servers": "host:4222"}, "are like 'nats://host:4222'"),
        (source, {"servers": ()}, "are like 'nats://host:4222'"),
        (source, {"stream": "a.b"}, "'a.b' is no name of a stream"),
        (source, {"subjects": "a..b"}, "'a..b' is no subject"),
        (source, {"subjects": ()}, "names no subject"),
        (source, {"subjects": ["a.*", "a.b"]}, r"'a.\*' and 'a.b' let the same messages through"),
        (source, {"start": 0}, "a sequence from 1 on or a datetime, not 0"),
        (source, {"start": datetime(2026, 1, 1)}, "a time without a time zone"),
        (source, {"stop": "earliest"}, "'latest', a sequence from 1 on or None"),
        (source, {"gone": "ignore"}, "'fail' or 'skip'"),
        (source, {"metadata": ["offset"]}, "knows subject, sequence, timestamp, headers, not 'offset'"),
        (source, {"metadata": ["subject", "subject"]}, "names a column twice: subject, subject"),
        (
            source,
            {"metadata": ["subject"], "value_format": JsonFormat({"subject": str})},
            "two columns named 'subject'",
        ),
        (sink, {"subject": "a.*"}, "stands for many subjects"),
        (sink, {"subject": None}, "either subject= or subject_column="),
        (sink, {"delivery_guarantee": DeliveryGuarantee.NONE}, "AT_LEAST_ONCE or EXACTLY_ONCE"),
        (sink, exact, "exactly once needs stream= and marks="),
        (sink, {"stream": "s", "marks": "m"}, "are for DeliveryGuarantee.EXACTLY_ONCE"),
        (sink, {**exact, "stream": "s", "marks": "m", "message_id": "n"}, "exactly once needs no ids"),
    ]
    for make, given, message in cases:
        with pytest.raises(InvalidProgramError, match=message):
            make(**given)


def test_streams_that_cannot_hold_exactly_once_are_told_apart() -> None:
    holds = {"allow_atomic": True, "allow_msg_ttl": True, "retention": "limits", "subjects": ["orders.>"]}
    day = 86_400
    cases: list[tuple[int | None, dict[str, Any], str | None]] = [
        (day, {}, None),
        (day, {"max_age": day * 10**9}, None),
        (None, {"allow_msg_ttl": False}, None),
        (day, {"allow_atomic": False}, "takes no atomic batches"),
        (day, {"allow_msg_ttl": False}, "set allow_msg_ttl"),
        (day, {"retention": "workqueue"}, "retention is 'workqueue'"),
        (day, {"max_age": 60 * 10**9}, "after 60 s .*marks for 86400 s must be kept"),
        (None, {"max_age": 60 * 10**9}, "all marks must be kept"),
        (day, {"subjects": ["orders.*"]}, "no place for marks, 'orders.marks"),
    ]
    for kept, config, message in cases:
        problem = MarkedStream("s", "orders.marks", kept)._problem({**holds, **config})
        if message is None:
            assert problem is None
        else:
            with pytest.raises(ValueError, match=message):
                raise ValueError(problem)


def test_messages_are_rows_with_kinds_and_what_is_known_of_them() -> None:
    changelog = source(value_format=DebeziumJsonFormat({"i": int}), metadata=["subject", "sequence", "headers"])
    assert changelog.is_changelog
    assert not source().is_changelog
    update = b'{"op":"u","before":{"i":1},"after":{"i":2}}'
    fetcher = NatsFetcher(changelog._settings, changelog.output_type, "operator 'source'", Patience(print))
    batch = fetcher._rows([(7, 5_000_000, "a.b", update, {"k": "v"}), (9, 6_999_999, "a.c", update, None)])
    assert batch.data.to_pylist()[1:3] == [
        {"subject": "a.b", "sequence": 7, "headers": [("k", "v")], "i": 2},
        {"subject": "a.c", "sequence": 9, "headers": [], "i": 1},
    ]
    assert batch.row_kinds.to_pylist() == [1, 2, 1, 2]
    assert batch.timestamps is not None
    assert batch.timestamps.to_pylist() == [5, 5, 6, 6]


def test_secrets_are_not_shown() -> None:
    for made in (source(servers="nats://ann:hidden@host:4222"), sink(servers=["nats://hidden@host", "nats://b"])):
        assert "hidden" not in repr(made)
        assert "nats://host:4222" in repr(made)


def test_messages_that_a_registry_cannot_explain_are_read_again_and_not_passed_over() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    avro = source(value_format=AvroFormat(schema, registry=SchemaRegistry("http://127.0.0.1:1")))
    fetcher = NatsFetcher(avro._settings, avro.output_type, "operator 'source'", Patience(print))
    split = NatsSplit("s", ">", 3)
    list(fetcher.add_splits([split]))
    with pytest.raises(ConnectorError, match="did not answer"):
        list(fetcher._fetched(split, [(4, 0, "a", b"\0\0\0\0\1\2", None)]))
    assert fetcher._splits == {split.split_id: split}
