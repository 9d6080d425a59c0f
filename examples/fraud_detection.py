"""Watches card payments as they happen, and raises an alert where a tiny one is followed by a large one.

    python examples/fraud_detection.py [--target ray|local] [--hours N]

Input: payments that a source of our own makes up, always the same ones: 1,000 cards, about 10 payments a second.
Output: one line per alert on the terminal, with its time of day, card and amount.

The source shows what every source has: splits (here groups of cards, with how far each has been read), an enumerator
that hands them out, and readers that turn them into batches. The rule is a function with state and timers per card.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from flinkray import (
    Batch,
    Boundedness,
    DataStream,
    KeyedProcessFunction,
    Kind,
    ReaderStatus,
    RecordType,
    Row,
    RuntimeContext,
    Source,
    SourceBatch,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from flinkray.functions.interfaces import OnTimerContext, ProcessContext

MINUTE_MS = 60_000
START_MS = 1_700_006_400_000  # midnight of 15 November 2023, UTC
SEED = 7
GROUPS = 4  # of cards: no more than so many subtasks have payments to read
PAYMENTS_PER_CARD_AND_MINUTE = 0.6

PAYMENT = pa.schema([("card", pa.int64()), ("time", pa.int64()), ("amount", pa.float64())])
ALERT = pa.schema([("card", pa.int64()), ("time", pa.int64()), ("amount", pa.float64())])


# -- the source --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cards:
    """A split: the payments of every `GROUPS`-th card from `group` on; those before `minute` have been read."""

    group: int
    minute: int = 0

    @property
    def split_id(self) -> str:
        return f"group {self.group}"


def payments(split: Cards, cards: int) -> pa.RecordBatch:
    """The payments of one minute in order of time: the same ones whenever they are asked for."""
    random = np.random.default_rng((SEED, split.group, split.minute))
    own = np.arange(split.group, cards, GROUPS)
    count = random.poisson(len(own) * PAYMENTS_PER_CARD_AND_MINUTE)
    minute_start = START_MS + split.minute * MINUTE_MS
    return pa.record_batch(
        {
            "card": random.choice(own, count),
            "time": minute_start + np.sort(random.integers(0, MINUTE_MS, count)),
            "amount": np.round(random.lognormal(3.0, 1.6, count), 2),
        },
        schema=PAYMENT,
    )


class PaymentSource(Source):
    """The description that is shipped; the job makes one enumerator of it, and a reader per subtask."""

    def __init__(self, cards: int, minutes: int) -> None:
        self.cards = cards
        self.minutes = minutes

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def output_type(self) -> RecordType:
        return RecordType(Kind.ROW, PAYMENT)

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        return PaymentEnumerator(context, [Cards(group) for group in range(GROUPS)] if restored is None else restored)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return PaymentReader(context, self)


class PaymentEnumerator(SplitEnumerator):
    """Gives each reader its share of the splits at once, so that all of them proceed through time side by side."""

    def __init__(self, context: SplitEnumeratorContext, splits: Sequence[Cards]) -> None:
        self.context = context
        self.left = list(splits)

    def start(self) -> None: ...

    def add_reader(self, subtask_index: int) -> None: ...

    def handle_split_request(self, subtask_index: int) -> None:
        share = [split for split in self.left if split.group % self.context.parallelism == subtask_index]
        if share:
            self.left = [split for split in self.left if split not in share]
            self.context.assign_splits(share, subtask_index)
        self.context.signal_no_more_splits(subtask_index)

    def add_splits_back(self, splits: Sequence[Cards], subtask_index: int) -> None:
        self.left.extend(splits)

    def snapshot_state(self, checkpoint_id: int) -> list[Cards]:
        return list(self.left)


class PaymentReader(SourceReader):
    """Gives a minute of a split per batch, always of the split that is furthest behind."""

    def __init__(self, context: SourceReaderContext, source: PaymentSource) -> None:
        self.context = context
        self.source = source
        self.splits: list[Cards] = []
        self.has_all_splits = False

    def start(self) -> None:
        self.context.send_split_request()

    def add_splits(self, splits: Sequence[Cards]) -> None:
        self.splits.extend(splits)
        self.context.notify_available()

    def notify_no_more_splits(self) -> None:
        self.has_all_splits = True
        self.context.notify_available()

    def poll(self) -> SourceBatch | ReaderStatus:
        while self.splits:
            split = min(self.splits, key=lambda split: split.minute)
            self.splits.remove(split)
            if split.minute == self.source.minutes:
                self.context.split_finished(split.split_id)
                continue
            self.splits.append(replace(split, minute=split.minute + 1))
            batch = payments(split, self.source.cards)
            if batch.num_rows:
                return SourceBatch(Batch(batch, Kind.ROW), split.split_id)
        return ReaderStatus.END_OF_INPUT if self.has_all_splits else ReaderStatus.NOTHING_AVAILABLE

    def snapshot_state(self, checkpoint_id: int) -> list[Cards]:
        return list(self.splits)

    def close(self) -> None: ...


# -- the rule ----------------------------------------------------------------------------------------------------


class TinyThenLarge(KeyedProcessFunction):
    """A payment above 500 is suspicious when the card's last one was below 1, at most a minute before."""

    TINY, LARGE = 1.0, 500.0

    def open(self, runtime_context: RuntimeContext) -> None:
        self.tiny = runtime_context.get_state(ValueStateDescriptor("time of the tiny payment", pa.int64()))

    def process_element(self, value: Row, ctx: ProcessContext) -> Iterator[dict[str, Any]]:
        tiny = self.tiny.value()
        if value.amount > self.LARGE and tiny is not None and value.time <= tiny + MINUTE_MS:
            yield {"card": value.card, "time": value.time, "amount": value.amount}
        if value.amount < self.TINY:
            self.tiny.update(value.time)
            ctx.timer_service().register_event_time_timer(value.time + MINUTE_MS)
        elif tiny is not None:
            self.tiny.clear()

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> None:
        """Forgets the tiny payment, so that cards that are not used take no memory."""
        if self.tiny.value() == timestamp - MINUTE_MS:
            self.tiny.clear()


def alerts(env: StreamExecutionEnvironment, cards: int, minutes: int) -> DataStream:
    return (
        env.from_source(
            PaymentSource(cards, minutes),
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("time"),
            "payments",
        )
        .key_by("card")
        .process(TinyThenLarge(), output_type=ALERT)
        .name("tiny, then large")
        .uid("tiny-then-large")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", choices=("ray", "local"), default="ray", help="where the job runs")
    parser.add_argument("--hours", type=int, default=4, help="hours of payments")
    arguments = parser.parse_args()

    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": arguments.target, "parallelism.default": 2}
    )
    with alerts(env, cards=1000, minutes=60 * arguments.hours).execute_and_collect("fraud detection") as found:
        for alert in found:
            at = datetime.fromtimestamp(alert.time / 1000, UTC)
            print(f"{at:%H:%M:%S}  card {alert.card:4}  {alert.amount:9.2f}")


if __name__ == "__main__":
    main()
