"""The watermark and status of an operator with several inputs."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from actors.operators.contract.operator import Operator
from actors.protocol.elements import ACTIVE, IDLE, Watermark
from flinkray.types.records import MAX_TIMESTAMP
from tests.support.operators import OperatorHarness


class TwoInputs(Operator):
    number_of_inputs = 2


@pytest.fixture
def harness() -> OperatorHarness:
    harness = OperatorHarness(TwoInputs())
    harness.watermark(5, 0)
    harness.watermark(8, 1)
    harness.output.clear()
    return harness


def events(harness: OperatorHarness) -> list[Any]:
    found = list(harness.output.elements)
    harness.output.clear()
    return found


@pytest.mark.parametrize("order", list(itertools.permutations(range(2))))
def test_when_all_inputs_are_idle_the_highest_promise_counts_whichever_was_the_last(
    harness: OperatorHarness, order: tuple[int, ...]
) -> None:
    for index in order:
        harness.status(True, index)
    assert events(harness) == [Watermark(8), IDLE]


@pytest.mark.parametrize("is_idle_first", [True, False])
def test_an_idle_input_beside_a_finished_one_does_not_end_event_time(
    harness: OperatorHarness, is_idle_first: bool
) -> None:
    if is_idle_first:
        harness.status(True, 1)
    harness.watermark(MAX_TIMESTAMP, 0)
    harness.status(True, 1)
    assert events(harness) == [Watermark(8), IDLE]
    harness.status(False, 1)
    harness.watermark(9, 1)
    assert events(harness) == [ACTIVE, Watermark(9)], "its rows are not late"
    harness.watermark(MAX_TIMESTAMP, 1)
    assert events(harness) == [Watermark(MAX_TIMESTAMP)]
