"""What is computed over the rows of each key at once is what going row by row gives, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.operators.aggregates.running import create_running
from actors.operators.aggregates.segments import Segments
from actors.operators.aggregates.value_rules import AggregateTypeError
from flinkray.windows.aggregates import Avg, Count, Sum

FUNCTIONS = {"add": np.add, "min": np.fmin, "max": np.maximum}
SHAPES = ("each its own", "one", "two", "few", "many", "skewed", "harmonic", "more than 16 bits", "more than 24 bits")


def random_ids(shape: str, chosen: np.random.Generator) -> tuple[Any, int]:
    """The group of each row, and how many groups there are."""
    rows = int(chosen.integers(1, 700))
    if shape == "each its own":
        return chosen.permutation(rows), rows
    if shape == "skewed":
        return np.where(chosen.random(rows) < 0.5, 3, chosen.integers(0, 60, rows)), 60
    if shape == "harmonic":
        weights = 1 / np.arange(1, 301)
        return chosen.choice(300, rows, p=weights / weights.sum()), 300
    groups = {"one": 1, "two": 2, "few": 5, "many": 300, "more than 16 bits": 70_000, "more than 24 bits": 17_000_000}
    base = chosen.integers(0, groups[shape], 40)  # so that groups that far apart have several rows, too
    return chosen.choice(base, rows), groups[shape]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("seed", range(6))
def test_a_scan_folds_each_group_in_order_of_arrival(shape: str, name: str, seed: int) -> None:
    chosen = np.random.default_rng(seed)
    ids, groups = random_ids(shape, chosen)
    values = chosen.normal(size=len(ids)) * 10.0 ** chosen.integers(-9, 9, len(ids))
    values[chosen.random(len(ids)) < 0.02] = [np.nan, np.inf, -0.0][seed % 3]
    start = {group: chosen.normal() for group in set(ids.tolist())}
    segments, current, expected = Segments(ids, groups), dict(start), []
    for group, value in zip(ids.tolist(), values, strict=True):
        current[group] = FUNCTIONS[name](current[group], value)
        expected.append(current[group])
    carried = np.array([start[group] for group in segments.groups.tolist()])
    found = segments.unsort(segments.scan(FUNCTIONS[name], segments.sort(values), carried))
    assert found.tobytes() == np.array(expected).tobytes()


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_numbered_within_their_group_from_what_is_carried(shape: str) -> None:
    ids, groups = random_ids(shape, np.random.default_rng(7))
    segments, seen, expected = Segments(ids, groups), {group: group % 5 for group in ids.tolist()}, []
    for group in ids.tolist():
        seen[group] += 1
        expected.append(seen[group])
    carried = segments.groups % 5
    assert segments.unsort(segments.count_rows(carried)).tolist() == expected
    assert segments.unsort(segments.count(np.ones(len(ids), np.bool_), carried)).tolist() == expected


@pytest.mark.parametrize("seed", range(30))
def test_sums_counts_and_means_of_batches_with_and_without_nulls(seed: int) -> None:
    chosen = np.random.default_rng(seed)
    is_integer = seed % 2 == 0
    arrow_type = pa.int64() if is_integer else pa.float64()
    running = [create_running(aggregate("v"), arrow_type) for aggregate in (Sum, Count, Avg)]
    groups, rows_of = 7, dict[int, list[Any]]()
    for _ in range(5):
        rows = int(chosen.integers(1, 30))
        ids = chosen.integers(0, groups, rows)
        values = [int(v) if is_integer else float(v) for v in chosen.integers(-50, 50, rows)]
        if chosen.random() < 0.5:
            values = [None if chosen.random() < 0.4 else value for value in values]  # type: ignore[misc]
        segments = Segments(ids, groups)
        found = [each.add(segments, pa.array(values, arrow_type), groups).to_pylist() for each in running]
        expected: list[list[Any]] = [[], [], []]
        for group, value in zip(ids.tolist(), values, strict=True):
            kept = rows_of.setdefault(group, [])
            kept += [] if value is None else [value]
            expected[0].append(sum(kept) if kept else None)
            expected[1].append(len(kept))
            expected[2].append(sum(kept) / len(kept) if kept else None)
        assert found == expected


LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("values", "fits"),
    [
        ([LARGEST, -1, 1], True),
        ([LARGEST, 1], False),
        ([-LARGEST, -1], True),
        ([-LARGEST, -1, -1], False),
        ([-LARGEST - 1], True),
        ([2**62, 2**62 - 1], True),
        ([2**62, 2**62], False),
        ([LARGEST, 1, -1], False),
        ([2**61] * 3, True),
        ([2**61] * 4, False),
    ],
)
@pytest.mark.parametrize("batch_rows", [1, 2, 9])
def test_an_integer_sum_overflows_where_one_of_its_rows_does_and_nowhere_else(
    values: list[int], fits: bool, batch_rows: int
) -> None:
    """Another key's large values lie beside: the sum over all keys overflows, which nobody sees."""
    rows = [row for value in values for row in ((0, value), (1, LARGEST if value > 0 else 0), (1, -LARGEST))]
    rows = [row for position, row in enumerate(rows) if position % 3 == 0 or rows[3 * (position // 3)][1] > 0]
    running, totals, found = create_running(Sum("v"), pa.int64()), {0: 0, 1: 0}, list[int]()

    def run() -> None:
        for start in range(0, len(rows), batch_rows):
            part = rows[start : start + batch_rows]
            segments = Segments(np.array([group for group, _ in part]), 2)
            found.extend(running.add(segments, pa.array([value for _, value in part]), 2).to_pylist())

    if not fits:
        with pytest.raises(AggregateTypeError, match="overflows"):
            run()
        return
    run()
    for (group, value), result in zip(rows, found, strict=True):
        totals[group] += value
        assert result == totals[group]
