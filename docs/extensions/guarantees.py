"""What sinks promise, as a table made from the sinks themselves."""

from __future__ import annotations

from flinkray import (
    DeliveryGuarantee,
    DeltaSink,
    DiscardSink,
    FileSink,
    HttpSink,
    IcebergSink,
    JsonFormat,
    KafkaSink,
    NatsSink,
    PostgresSink,
    PrintSink,
    RedisSink,
    ServerSentEventsSink,
    Sink,
)

SINKS: tuple[tuple[str, Sink], ...] = (
    ("FileSink", FileSink("rows")),
    ("DeltaSink", DeltaSink("table")),
    ("IcebergSink", IcebergSink("shop.orders")),
    ("KafkaSink", KafkaSink("host:9092", "topic")),
    (
        "KafkaSink, exactly once",
        KafkaSink("host:9092", "topic", delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE),
    ),
    ("PostgresSink", PostgresSink("host=server", "table")),
    (
        "PostgresSink, at least once",
        PostgresSink("host=server", "table", delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE),
    ),
    ("RedisSink", RedisSink("redis://host", "stream")),
    ("NatsSink", NatsSink("nats://host", "subject", JsonFormat())),
    (
        "NatsSink, exactly once",
        NatsSink(
            "nats://host",
            "subject",
            JsonFormat(),
            stream="stream",
            marks="marks",
            delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
        ),
    ),
    ("HttpSink", HttpSink("https://host/rows")),
    ("ServerSentEventsSink", ServerSentEventsSink(8080)),
    ("PrintSink, `print()`", PrintSink()),
    ("DiscardSink", DiscardSink()),
)


def guarantee_table() -> str:
    """A row for each sink: what it guarantees, and who makes its rows visible."""
    rows = [f"| {name} | {_words(sink.delivery_guarantee)} | {_commits(sink)} |" for name, sink in SINKS]
    return "\n".join(["| sink | with checkpoints | rows are visible |", "|---|---|---|", *rows]) + "\n"


def _words(guarantee: DeliveryGuarantee) -> str:
    return guarantee.value.replace("-", " ")


def _commits(sink: Sink) -> str:
    if sink.commits_globally:
        return "when one committer for all subtasks has committed a complete checkpoint"
    if sink.create_committer() is not None:
        return "when a complete checkpoint is committed"
    return "at once"
