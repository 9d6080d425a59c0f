"""Variances, against those of Python's statistics, which are exact."""

from __future__ import annotations

import random
import statistics

import numpy as np
import pyarrow as pa
import pytest

from actors.operators.tables.aggregates.aggregates import GROUPS, Aggregates
from actors.operators.tables.aggregates.group_aggregate import GroupAggregateOperator
from actors.operators.tables.aggregates.local_aggregate import LocalAggregateOperator
from actors.operators.tables.aggregates.states.grouped_rows import Grouper
from flinkray.batches.batch import Batch
from flinkray.errors import IncompatibleStateError
from flinkray.tables.plans.expressions import AggregateCall, Column
from flinkray.tables.types.arrow import stored_schema
from flinkray.tables.types.logical import DOUBLE, ROW, RowField, RowType
from flinkray.transformations.table_factories import GroupAggregateFactory, LocalAggregateFactory
from flinkray.types.changelogs import INSERTS, Changes
from tests.support.operators import OperatorHarness
from tests.support.tables import changes_as_batch

ROWS = ROW(("x", DOUBLE))
ALL = Changes(updates=True, deletes=True)
CALLS = tuple(AggregateCall(name, (Column(DOUBLE, 0),), DOUBLE) for name in ("VAR_POP", "STDDEV_SAMP"))
INSERT, DELETE = 0, 3


def last_row(batches: list[Batch], takes: Changes, *, two_phases: bool) -> dict[str, float]:
    rows = RowType(tuple(RowField(f"r{place}", DOUBLE) for place in range(len(CALLS))))
    one = GroupAggregateFactory(
        input_rows=(ROWS,), rows=rows, takes=(takes,), gives=ALL, keys=(), calls=CALLS, text="", merges=two_phases
    )
    if two_phases:
        local = LocalAggregateFactory(input_rows=(ROWS,), rows=RowType(()), takes=(takes,), keys=(), calls=CALLS)
        with OperatorHarness(LocalAggregateOperator(local)) as first:
            for batch in batches:
                first.push(batch)
            batches = first.output.batches
    with OperatorHarness(GroupAggregateOperator(one)) as operator:
        for batch in batches:
            operator.push(batch)
        found: dict[str, float] = operator.output.dicts[-1]
        return found


@pytest.mark.parametrize("two_phases", [False, True])
@pytest.mark.parametrize("takes", [INSERTS, ALL])
def test_variances_of_numbers_far_from_zero_keep_their_digits(takes: Changes, two_phases: bool) -> None:
    generator = random.Random(3)
    numbers = [1e9 + generator.choice([0.0, 0.25, 0.5, 1.75]) for _ in range(100)]
    changes = [(INSERT, (number,)) for number in numbers]
    if takes is ALL:  # in one of the batches as many rows go as come
        changes[60:60] = [(DELETE, (number,)) for number in numbers[:20]]
        numbers = numbers[20:]
    batches = [changes_as_batch(changes[start : start + 20], stored_schema(ROWS)) for start in range(0, 120, 20)]
    batches[2:4] = [changes_as_batch(changes[40:80], stored_schema(ROWS))]
    found = last_row([batch for batch in batches if batch.num_rows], takes, two_phases=two_phases)
    variances = [statistics.pvariance(numbers), statistics.stdev(numbers)]
    assert list(found.values()) == pytest.approx(variances, rel=1e-6)


@pytest.mark.parametrize("two_phases", [False, True])
def test_numbers_that_are_all_the_same_have_no_variance(two_phases: bool) -> None:
    batches = [changes_as_batch([(INSERT, (0.1,))] * size, stored_schema(ROWS)) for size in (3, 1, 7)]
    assert last_row(batches, INSERTS, two_phases=two_phases) == {"r0": 0.0, "r1": 0.0}


def test_sums_of_squares_of_former_versions_are_read() -> None:
    numbers = [1.5, 2.0, 4.0]
    former = {"0:count": [3], "1:count": [3], "2:sum": [sum(numbers)], "3:sum": [sum(each * each for each in numbers)]}
    aggregates = Aggregates(CALLS[:1], is_insert_only=True)
    groups = np.zeros(1, np.int64)
    aggregates.grow(1)
    aggregates.restore(GROUPS, groups, {name: pa.array(values) for name, values in former.items()})
    assert aggregates.results(groups)[0].to_pylist() == pytest.approx([statistics.pvariance(numbers)])


def test_rounding_that_former_versions_kept_of_no_numbers_is_left_out() -> None:
    former = {"0:count": [0], "1:count": [0], "2:sum": [1e-9], "3:sum": [0.5]}
    aggregates = Aggregates(CALLS[:1], is_insert_only=True)
    groups = np.zeros(1, np.int64)
    aggregates.grow(1)
    aggregates.restore(GROUPS, groups, {name: pa.array(values) for name, values in former.items()})
    batch = changes_as_batch([(INSERT, (each,)) for each in (2.0, 4.0)], stored_schema(ROWS)).data
    aggregates.add(batch, Grouper().group(np.zeros(2, np.int64), None, 1)[0])
    assert aggregates.results(groups)[0].to_pylist() == [1.0]


def test_partial_aggregates_of_former_versions_are_refused_with_a_way_out() -> None:
    aggregates = Aggregates(CALLS[:1], is_insert_only=True)
    with pytest.raises(IncompatibleStateError, match="Go on from a savepoint"):
        aggregates.merge([pa.array([1])] * 4, Grouper().group(np.zeros(1, np.int64), None, 1)[0])
