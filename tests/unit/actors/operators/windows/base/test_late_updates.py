"""A window gives its result once more with each late row, however it is run and however rows were cut into batches."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.operators.windows.base.late_updates import parts_by_update
from flinkray import (
    CollectList,
    CountEvictor,
    DataStream,
    EventTimeSessionWindows,
    EventTimeTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from flinkray.testing import OneInputHarness, TwoInputHarness

LATENESS = 1_000
ASSIGNERS: dict[str, WindowAssigner] = {
    "tumbling": TumblingEventTimeWindows.of(10),
    "sliding": SlidingEventTimeWindows.of(20, 5),
    "session": EventTimeSessionWindows.with_gap(4),
}


def lists(key: Any, context: Any, rows: Any) -> Iterator[dict[str, Any]]:
    window = context.window()
    values = [row.v for row in rows]
    yield {"k": key, "window_start": window.start, "window_end": window.end, "values": values}


def appended(left: Any, right: Any) -> Any:
    return {**left.as_dict(), "v": left.v + right.v}


def of_lists(rows: DataStream, assigner: WindowAssigner) -> Any:
    return rows.key_by("k").window(assigner).allowed_lateness(LATENESS)


PATHS: dict[str, Callable[[DataStream, WindowAssigner], DataStream]] = {
    "aggregate": lambda rows, assigner: of_lists(rows, assigner).aggregate(values=CollectList("v")),
    "process": lambda rows, assigner: of_lists(rows, assigner).process(lists),
    "trigger": lambda rows, assigner: (
        of_lists(rows, assigner).trigger(EventTimeTrigger.create()).aggregate(values=CollectList("v"))
    ),
    "evictor": lambda rows, assigner: of_lists(rows, assigner).evictor(CountEvictor.of(1_000)).process(lists),
    "trigger and function": lambda rows, assigner: (
        of_lists(rows, assigner).trigger(EventTimeTrigger.create()).process(lists)
    ),
}

Row = tuple[str, int, int]
"""Key, event time, value."""


def updates(path: str, assigner: str, batches: list[list[Row]], watermark: int) -> dict[str, list[Any]]:
    """What windows give, in order for each key (of aligned windows for each key and window), when `batches[0]` came
    before the watermark and the others after it."""
    results = defaultdict(list)
    with OneInputHarness.of(lambda rows: PATHS[path](rows, ASSIGNERS[assigner])) as harness:
        for number, batch in enumerate(batches):
            keys, times, values = zip(*batch, strict=True)
            harness.process_batch(pa.record_batch({"k": list(keys), "v": list(values)}), times)
            if not number:
                harness.watermark(watermark)
        for row in harness.results():
            key = row.k if assigner == "session" else f"{row.k} {row.window_start}"
            results[key].append((row.window_start, row.window_end, list(row["values"])))
    return dict(results)


def model(assigner: str, batches: list[list[Row]], watermark: int) -> dict[str, list[Any]]:
    """The same, row by row, as Flink's EventTimeTrigger has it; results in no order within a row or a watermark."""
    windows: dict[str, dict[tuple[int, int], list[int]]] = defaultdict(dict)
    results = defaultdict(list)
    for number, batch in enumerate(batches):
        for key, time, value in batch:
            own = windows[key]
            for window in assigned(assigner, time):
                start, end = window
                values = [value]
                if assigner == "session":
                    touched = sorted(each for each in own if each[0] <= end and start <= each[1])
                    merged = [each for window in touched for each in own.pop(window)]
                    start, end = min([start, *(w[0] for w in touched)]), max([end, *(w[1] for w in touched)])
                    values = merged + values
                else:
                    values = own.get(window, []) + values
                own[start, end] = values
                if number and end - 1 <= watermark:
                    results[key].append((start, end, sorted(values)))
        if not number:
            for key, own in windows.items():
                results[key] += [
                    (*window, sorted(values)) for window, values in own.items() if window[1] - 1 <= watermark
                ]
    return dict(results)


def assigned(assigner: str, time: int) -> list[tuple[int, int]]:
    if assigner == "session":
        return [(time, time + 4)]
    if assigner == "tumbling":
        return [(time // 10 * 10, time // 10 * 10 + 10)]
    last = time // 5 * 5
    return [(start, start + 20) for start in range(last, time - 20, -5)]


def rows_of(chance: random.Random, count: int, keys: str, span: int) -> list[Row]:
    return [(chance.choice(keys), chance.randrange(span), chance.randrange(10**6)) for _ in range(count)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("assigner", ASSIGNERS)
@pytest.mark.parametrize("path", PATHS)
def test_each_late_row_updates_its_windows_wherever_batches_are_cut(path: str, assigner: str, seed: int) -> None:
    chance = random.Random(f"{assigner} {seed}")
    batches = [rows_of(chance, 20, "ab", 60), rows_of(chance, 30, "abc", 60), rows_of(chance, 5, "a", 60)]
    singles = [batches[0], *([row] for batch in batches[1:] for row in batch)]
    together, alone = (updates(path, assigner, each, 35) for each in (batches, singles))
    assert together == alone
    expected = model(assigner, batches, 35)
    by_key = defaultdict(list)
    for name, found in together.items():
        by_key[name[0]] += [(*window, sorted(values)) for *window, values in found]
    assert {key: sorted(found) for key, found in by_key.items()} == {k: sorted(f) for k, f in expected.items()}


@pytest.mark.parametrize("size", [1, 7])
def test_a_join_gives_its_pairs_again_with_each_late_row(size: int) -> None:
    def build(left: DataStream, right: DataStream) -> DataStream:
        joined = left.join(right).where("k").equal_to("k").window(TumblingEventTimeWindows.of(10))
        return joined.allowed_lateness(LATENESS).apply(lambda one, other: f"{one.v}{other.v}")

    with TwoInputHarness.of(build) as harness:
        harness.second.process_batch([{"k": 1, "v": "x"}], [3])
        harness.first.watermark(15)
        harness.second.watermark(15)
        late = [{"k": 1, "v": name} for name in "abc"]
        for first in range(0, len(late), size):
            harness.first.process_batch(late[first : first + size], [1] * len(late[first : first + size]))
        assert harness.results() == ["ax", "ax", "bx", "ax", "bx", "cx"]


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=40))
def test_parts_keep_each_keys_order_and_end_with_its_flagged_row(rows: list[tuple[int, bool]]) -> None:
    keys, flags = np.array([key for key, _ in rows]), np.array([flag for _, flag in rows])
    parts = parts_by_update(keys, flags)
    assert [row for part in parts for row in range(part.start, part.stop)] == list(range(len(rows)))
    for number, part in enumerate(parts):
        for key in range(5):
            assert not any(flags[part][keys[part] == key][:-1])
        if number:
            former = parts[number - 1]
            own = flags[former][keys[former] == keys[part.start]]
            assert own.any(), "it could have been one part"
