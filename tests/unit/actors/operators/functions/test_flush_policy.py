"""When the rows of a function that makes many of one go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from actors.operators.registry import create_operator
from flinkray.batches.batch import Batch
from flinkray.testing.clock import ManualClock
from flinkray.transformations.operator_factories import FlatMapFactory, OperatorFactory, ProcessFactory, WindowFactory
from flinkray.types.keys import ColumnKey
from flinkray.types.records import OutputTag
from flinkray.windows.assigners import TumblingEventTimeWindows
from tests.support.operators import OperatorHarness, code

KEY = ColumnKey(("key",))
SIDE = OutputTag("side")


def flat_map(make: Callable[[], Iterator[Any]]) -> OperatorFactory:
    return FlatMapFactory(lambda _: make())


def process(make: Callable[[], Iterator[Any]]) -> OperatorFactory:
    return ProcessFactory(lambda _, __: make())


def process_to_side(make: Callable[[], Iterator[Any]]) -> OperatorFactory:
    return ProcessFactory(lambda _, __: ((SIDE, row) for row in make()))


def gone_on(harness: OperatorHarness) -> int:
    """How many rows, to the main output and the side ones."""
    batches = [element[1] if type(element) is tuple else element for element in harness.output.elements]
    return sum(batch.num_rows for batch in batches if isinstance(batch, Batch))


@pytest.fixture(params=[flat_map, process, process_to_side])
def waiting(request: pytest.FixtureRequest) -> Callable[..., list[int]]:
    """Drives a function that makes such rows, and tells how many of them waited as each was made."""

    def drive(rows: Callable[[ManualClock], Iterator[Any]], **settings: Any) -> list[int]:
        waited: list[int] = []

        def make() -> Iterator[Any]:
            for made, row in enumerate(rows(harness.context.clock)):
                waited.append(made - gone_on(harness))
                yield row

        harness = OperatorHarness(create_operator([code(request.param(make))], ["f"]), **settings)
        for _ in range(2):
            harness.push([1])
            assert gone_on(harness) == len(waited)
        return waited

    return drive


def test_what_the_keys_of_one_window_give_goes_on_before_all_have_been_asked() -> None:
    made = [0]

    def process(_key: Any, _context: Any, _elements: Any) -> Iterator[bytes]:
        waited.append(made[0] - gone_on(harness))
        made[0] += 1
        yield b"x" * 1000

    waited: list[int] = []
    factory = WindowFactory(TumblingEventTimeWindows.of(10), process=process)
    operator = create_operator([code(factory, KEY)], ["w"])
    harness = OperatorHarness(operator, keys=(KEY,), batch_bytes=20_000)
    harness.push({"key": range(500)}, [1] * 500)
    harness.watermark(9)
    assert made == [500] == [gone_on(harness)]
    assert max(waited) < 64
    assert max(waited[64:]) < 20


def test_few_large_rows_wait(waiting: Callable[..., list[int]]) -> None:
    waited = waiting(lambda _: (b"x" * 1000 for _ in range(500)), batch_rows=10_000, batch_bytes=20_000)
    assert max(waited) < 64
    assert max(waited[64:500]) < 20


def test_many_small_rows_wait(waiting: Callable[..., list[int]]) -> None:
    waited = waiting(lambda _: iter(range(50_000)), batch_rows=10_000, batch_bytes=1 << 20)
    assert max(waited) == 9_999
    assert waited.count(0) < 15


def test_no_row_waits_long_for_the_next_one(waiting: Callable[..., list[int]]) -> None:
    def slowly(clock: ManualClock) -> Iterator[int]:
        for row in range(50):
            clock.advance(1000)
            yield row

    assert max(waiting(slowly, batch_rows=10_000)) <= 1


@pytest.mark.parametrize(("quick", "wait_for"), [(20, 20), (5_000, 256)])
def test_rows_that_came_quickly_do_not_wait_for_many_that_come_slowly(
    waiting: Callable[..., list[int]], quick: int, wait_for: int
) -> None:
    first_ones = 64 + 512 + 4_096  # which go on in batches of these sizes; then ten thousand wait

    def quickly_first(clock: ManualClock) -> Iterator[int]:
        yield from range(first_ones)
        for row in range(quick + 500):
            clock.advance(0 if row < quick else 1000)
            yield row

    waited = waiting(quickly_first, batch_rows=10_000)[first_ones:]
    went_on = quick + wait_for
    assert max(waited[:went_on]) >= quick
    assert max(waited[went_on : quick + 500]) <= 1
