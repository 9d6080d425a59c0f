"""Timers of a keyed function against a model: both domains, while rows, timers and restores happen at random."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from actors.operators.contract.operator import Operator
from actors.operators.functions.process import ProcessOperator
from actors.state.keyed.options import StateOptions
from flinkray.functions.interfaces import (
    KeyedProcessFunction,
    OnTimerContext,
    ProcessContext,
    RuntimeContext,
    TimeDomain,
)
from flinkray.state.descriptors import ValueStateDescriptor
from flinkray.transformations.operator_factories import ProcessFactory
from flinkray.types.keys import ColumnKey
from flinkray.types.records import MIN_TIMESTAMP
from tests.support.operators import ManualClock, code
from tests.support.rescaling import Subtasks

KEY = ColumnKey(("key",))
EVENT, PROCESSING = TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME


def follow_ups(timestamp: int) -> tuple[int | None, int | None]:
    """What a timer of that time registers, and what it deletes."""
    registers = timestamp + 3 if timestamp % 5 == 0 else timestamp + 40 if timestamp % 7 == 0 else None
    return registers, timestamp + 4 if timestamp % 3 == 0 else None


class Timers(KeyedProcessFunction):
    """Registers and deletes what the rows say; its timers do what `follow_ups` says, and count."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.fired = runtime_context.get_state(ValueStateDescriptor("fired", pa.int64()))

    def process_element(self, value: Any, ctx: ProcessContext) -> None:
        self.change(ctx, value.domain, value.registers, value.at)

    def change(self, ctx: ProcessContext, domain: str, registers: bool, timestamp: int) -> None:
        timers = ctx.timer_service()
        if domain == EVENT:
            change = timers.register_event_time_timer if registers else timers.delete_event_time_timer
        else:
            change = timers.register_processing_time_timer if registers else timers.delete_processing_time_timer
        change(timestamp)

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[Any]:
        self.fired.update((self.fired.value() or 0) + 1)
        for registers, at in zip((True, False), follow_ups(timestamp), strict=True):
            if at is not None:
                self.change(ctx, ctx.time_domain(), registers, at)
        timers = ctx.timer_service()
        now = timers.current_watermark() if ctx.time_domain() == EVENT else 0
        assert ctx.timestamp() == timestamp
        yield ctx.time_domain(), timestamp, ctx.get_current_key(), self.fired.value(), now


class Model:
    """A set of timers."""

    def __init__(self) -> None:
        self.timers: dict[str, set[tuple[int, str]]] = {EVENT: set(), PROCESSING: set()}
        self.fired: dict[str, int] = {}
        self.rows: list[Any] = []

    def change(self, key: str, domain: str, registers: bool, timestamp: int) -> None:
        if registers:
            self.timers[domain].add((timestamp, key))
        else:
            self.timers[domain].discard((timestamp, key))

    def advance(self, domain: str, now: int) -> None:
        while due := [timer for timer in self.timers[domain] if timer[0] <= now]:
            timestamp, key = min(due)
            self.timers[domain].remove((timestamp, key))
            self.fired[key] = self.fired.get(key, 0) + 1
            for registers, at in zip((True, False), follow_ups(timestamp), strict=True):
                if at is not None:
                    self.change(key, domain, registers, at)
            self.rows.append((domain, timestamp, key, self.fired[key], now if domain == EVENT else 0))


@pytest.mark.parametrize(
    ("backend", "seed", "steps"), [*(("hashmap", seed, 120) for seed in range(8)), ("rocksdb", 8, 40)]
)
def test_timers_of_both_domains_agree_with_a_set_through_restores_at_any_parallelism(
    backend: str, seed: int, steps: int
) -> None:
    rng, model, clock = random.Random(seed), Model(), ManualClock()
    watermark = int(MIN_TIMESTAMP)

    def make() -> Operator:
        return ProcessOperator(code(ProcessFactory(Timers()), KEY))

    subtasks = Subtasks(make, (KEY,), 2, clock=clock, state_options=StateOptions(backend))
    rows: list[Any] = []
    for step in range(steps):
        match rng.randrange(8):
            case 0 | 1 | 2 | 3:
                base = {EVENT: max(watermark, 0), PROCESSING: clock.now}
                changes = []
                for _ in range(rng.randrange(1, 12)):
                    domain = rng.choice((EVENT, PROCESSING))
                    at = base[domain] + rng.randrange(-20, 60)  # some of them for the past
                    changes.append((rng.choice("abcdefgh"), domain, rng.random() < 0.7, at))
                subtasks.push(dict(zip(("key", "domain", "registers", "at"), zip(*changes, strict=True), strict=True)))
                for change in changes:
                    model.change(*change)
            case 4 | 5:
                watermark = max(watermark, 0) + rng.randrange(1, 40)
                subtasks.watermark(watermark)
                model.advance(EVENT, watermark)
            case 6:
                now = clock.now + rng.randrange(40)
                for harness in subtasks.harnesses:  # one clock for all of them
                    harness.advance(now - clock.now)
                model.advance(PROCESSING, now)
            case 7:
                subtasks = subtasks.rescaled(rng.randrange(1, 5))
        for harness in subtasks.harnesses:
            fired = harness.output.rows
            times = [row[1] for row in fired]
            assert times == sorted(times), f"seed {seed}, step {step}: timers fire in the order of their times"
            rows += fired
            harness.output.clear()
            harness.operator._timers.check()  # type: ignore[attr-defined]
        assert sorted(rows) == sorted(model.rows), f"seed {seed}, step {step}"
    assert {row[0] for row in rows} == {EVENT, PROCESSING}
    for harness in subtasks.harnesses:
        harness.operator.close()
